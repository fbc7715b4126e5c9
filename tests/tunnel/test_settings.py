"""[tunnel]: what is read, what contradicts what, and no way to slip an option to a program."""

from __future__ import annotations

import pytest

from app.settings import ConfigError, read_settings

OWN_SERVER = """kind = "ssh"
ssh_target = "me@vps.example"
ssh_remote = "127.0.0.1:18080"
public_url = "https://hooks.example.com"
ssh_port = 2222
ssh_key = "~/.ssh/key"
"""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('kind = "bore"', 2, "must be"),
        ('public_url = "https://a.example"', 2, 'kind = "own"'),
        ('kind = "own"', 2, "public_url"),
        ('kind = "cloudflared-named"', 2, "public_url"),
        ('kind = "cloudflared-quick"\npublic_url = "https://a.example"', 3, "its own address"),
        ('kind = "tailscale"\npublic_url = "https://a.example"', 3, "its own address"),
        ('kind = "own"\npublic_url = "http://a.example"', 3, "https://"),
        ('kind = "own"\npublic_url = "https://me:pw@a.example"', 3, "no user, password"),
        ('kind = "ssh"', 2, "ssh_target"),
        ('kind = "ssh"\nssh_target = "me@vps.example"', 3, "ssh_remote"),
        ('kind = "ssh"\nssh_target = "me@vps.example"\nssh_remote = "127.0.0.1:18080"', 2, "public_url"),
        ('kind = "ssh"\nssh_target = "-oProxyCommand=evil"', 3, "me@vps"),
        ('kind = "ssh"\nssh_target = "me@vps.example; evil"', 3, "me@vps"),
        ('kind = "ssh"\nssh_target = "nokey@localhost.run"\nssh_remote = "-1"', 4, "a port of the server"),
        ('kind = "ssh"\nssh_target = "nokey@localhost.run"\nssh_port = "22"', 4, "without quotes"),
        ('kind = "ngrok"\ntoken = "2abc"', 3, "secret set"),
        ('kind = "ngrok"\nprotocol = "tcp"', 3, "must be"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings(f"[tunnel]\n{text}\n")
    assert refused.value.line == line
    assert words in refused.value.message
    assert "pw" not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        'kind = "cloudflared-quick"\nprotocol = "http2"',
        'kind = "cloudflared-named"\npublic_url = "https://hooks.example.com"',
        'kind = "ngrok"',
        'kind = "ngrok"\npublic_url = "https://mine.ngrok-free.dev"',
        'kind = "tailscale"\nprogram = "/opt/tailscale"',
        'kind = "ssh"\nssh_target = "nokey@localhost.run"',
        OWN_SERVER,
        'kind = "own"\npublic_url = "https://hooks.example.com/"',
    ],
)
def test_what_is_enough(text: str) -> None:
    tunnel = read_settings(f"[tunnel]\n{text}\n").tunnel
    assert tunnel.kind == text.split('"')[1]
    assert tunnel.fixed_url in (None, "https://hooks.example.com", "https://mine.ngrok-free.dev")


def test_nothing_said_opens_nothing() -> None:
    tunnel = read_settings("").tunnel
    assert (tunnel.kind, tunnel.public_url, tunnel.fixed_url) == ("none", None, None)
