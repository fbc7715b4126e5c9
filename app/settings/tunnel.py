"""The settings of the tunnel: their rows, how they are read, and what contradicts what.

Nothing here is secret: the token of a tunnel is `tunnel.token`, kept where all secrets are.
"""

from __future__ import annotations

import re

from app.settings import model, words
from app.settings.errors import ConfigFile
from app.settings.table import Key, Table

KINDS = ("none", "cloudflared-quick", "cloudflared-named", "ngrok", "tailscale", "ssh", "own")
SSH_SERVICES = ("localhost.run", "serveo.net", "a.pinggy.io")
"""They say their address and take any port; `app/tunnel/ssh.py` knows how to read them."""

_TARGET = re.compile(r"(?:[A-Za-z0-9_.+-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*")
_REMOTE = re.compile(r"(?:(?:[A-Za-z0-9*][A-Za-z0-9.-]*|\*):)?[0-9]{1,5}")
_NO_PLACE = (
    "cloudflared-quick",
    "tailscale",
)
"""Their address is made, not chosen."""


def public_url(value: object) -> str | None:
    if value is None:
        return None
    try:
        return words.url(value)
    except ValueError as error:
        raise ValueError(str(error).replace("sandbox.example", "hooks.example.com")) from None


def ssh_target(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _TARGET.fullmatch(value) or value.startswith("-"):
        raise ValueError('must be a server as ssh calls it, "me@vps.example.com"')
    return value


def ssh_remote(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _REMOTE.fullmatch(value) or int(value.rpartition(":")[2]) > 65_535:
        raise ValueError('must be a port of the server, "80" or "127.0.0.1:18080"')
    return value


def path(value: object) -> str | None:
    if value is None:
        return None
    text = words.text(value)
    if not text.strip() or not text.isprintable():
        raise ValueError("must be a path")
    return text


def port(value: object) -> int | None:
    return None if value is None else int(words.whole(1, 65_535)(value))


TUNNEL = Table(
    "tunnel",
    model.Tunnel,
    array=False,
    why="The way in from the internet. TradingView reaches ports 80 and 443 of an address with IPv4 only, "
    "and waits 3 s. README, Tunnels, compares the kinds. A token: `onefill secret set tunnel.token`.",
    keys=(
        Key(
            "kind",
            words.choice(*KINDS),
            "none",
            '"none": nothing is opened to the internet unless you say so. Or "cloudflared-quick" (no '
            'account, another address at every start), "cloudflared-named", "ngrok", "tailscale", "ssh", '
            '"own" (an address that leads here by your own means).',
        ),
        Key(
            "public_url",
            public_url,
            None,
            "The address as senders see it. Needed where the tunnel's program does not know it: own, "
            "cloudflared-named, ssh to a server of yours; for ngrok a domain of your account.",
            example="https://hooks.example.com",
        ),
        Key(
            "program",
            path,
            None,
            "Where the tunnel's program is; by default it is found on the PATH. Onefill downloads none.",
            example="/usr/local/bin/cloudflared",
        ),
        Key(
            "protocol",
            words.choice("auto", "quic", "http2"),
            "auto",
            'cloudflared only: auto, quic or http2. "http2" for networks that let no UDP out.',
        ),
        Key(
            "ssh_target",
            ssh_target,
            None,
            "ssh only: who is connected to. Its key must be known: connect once by hand and look at it. "
            f"Known services: {', '.join(SSH_SERVICES)}.",
            example="me@vps.example.com",
        ),
        Key("ssh_port", port, None, "ssh only: the server's port; ssh's own default otherwise.", example=22),
        Key(
            "ssh_remote",
            ssh_remote,
            None,
            "ssh only: which port of the server leads here. A web server there has to serve public_url, with "
            "its certificate, and hand on to it: bound to 127.0.0.1, nobody gets past that.",
            example="127.0.0.1:18080",
        ),
        Key(
            "ssh_key",
            path,
            None,
            "ssh only: the key's file; by default ssh's own.",
            example="~/.ssh/id_ed25519",
        ),
    ),
)


def check_tunnel(tunnel: model.Tunnel, file: ConfigFile) -> None:
    """Raises ConfigError for the first contradiction."""
    kind, service = tunnel.kind, _is_service(tunnel.ssh_target)
    if kind == "none" and tunnel.public_url is not None:
        problem = '[tunnel] public_url is set and kind = "none"'
        raise file.error(("tunnel", "public_url"), f'{problem}: write kind = "own", or remove it')
    if kind in _NO_PLACE and tunnel.public_url is not None:
        raise file.error(
            ("tunnel", "public_url"), f"[tunnel] public_url: {kind} has its own address: remove it"
        )
    if kind == "ssh" and tunnel.ssh_target is None:
        problem = '[tunnel] kind = "ssh" needs to know where to'
        raise file.error(("tunnel", "kind"), f'{problem}: add ssh_target = "me@vps.example.com"')
    if kind == "ssh" and not service and tunnel.ssh_remote is None:
        problem = f"[tunnel] ssh_target = {tunnel.ssh_target} is a server of yours"
        raise file.error(("tunnel", "ssh_target"), f'{problem}: add ssh_remote = "127.0.0.1:18080"')
    if (
        kind in ("own", "cloudflared-named") or (kind == "ssh" and not service)
    ) and tunnel.public_url is None:
        problem = f'[tunnel] kind = "{kind}" cannot know its address'
        raise file.error(("tunnel", "kind"), f'{problem}: add public_url = "https://hooks.example.com"')


def _is_service(target: str | None) -> bool:
    return target is not None and target.rpartition("@")[2].lower() in SSH_SERVICES
