"""From settings to a kind of tunnel. A new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.settings import Tunnel
from app.tunnel.base import Kind
from app.tunnel.cloudflared import Cloudflared
from app.tunnel.memory import TunnelMemory
from app.tunnel.ngrok import Ngrok
from app.tunnel.own import Own
from app.tunnel.ssh import Ssh
from app.tunnel.tailscale import Tailscale

TOKEN = "tunnel.token"  # noqa: S105 - its name
"""The name of the secret."""


def make_kind(settings: Tunnel, memory: TunnelMemory, token: Callable[[], Awaitable[str]]) -> Kind | None:
    """None where no tunnel is wanted. `token` raises CannotStart where there is none."""
    program, address = settings.program, settings.public_url
    match settings.kind:
        case "none":
            return None
        case "cloudflared-quick":
            return Cloudflared(memory, program=program, protocol=settings.protocol)
        case "cloudflared-named":
            return Cloudflared(
                memory, program=program, protocol=settings.protocol, address=address, token=token
            )
        case "ngrok":
            return Ngrok(memory, program=program, address=address, token=token)
        case "tailscale":
            return Tailscale(program=program)
        case "ssh":
            assert settings.ssh_target is not None
            return Ssh(
                program=program,
                target=settings.ssh_target,
                port=settings.ssh_port,
                remote=settings.ssh_remote,
                key=settings.ssh_key,
                address=address,
            )
        case "own":
            assert address is not None
            return Own(address)
