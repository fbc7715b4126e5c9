"""What several kinds share: finding a program, asking its local port, running it for an answer.

Answers or None: a program that does not answer is a fact, not an error.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

from app.tunnel.base import CannotStart, Launch
from app.tunnel.child import environment

PATIENCE = 2.0
"""Seconds for an answer of a program on this machine."""
MISSING = 60_000_000
"""Microseconds until a program that is not installed is looked for again."""


async def find_program(name: str, configured: str | None, where: str) -> str:
    """Its path. Raises CannotStart with `where` it can be had."""
    found = await asyncio.to_thread(_which, configured or name)
    if found is not None:
        return found
    if configured:
        raise CannotStart(f"[tunnel] program = {configured} is not there or may not be run", MISSING)
    raise CannotStart(f"{name} is not installed: {where}, or name its path as program in [tunnel]", MISSING)


def _which(name: str) -> str | None:
    found = shutil.which(os.path.expanduser(name))
    return None if found is None else os.path.abspath(found)


def free_port() -> int:
    """One that nobody listens on just now. Blocks for microseconds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def ask(url: str) -> tuple[int, Any] | None:
    """Status and JSON of a local port (None where it is no JSON); None where nothing answers."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            content = await response.content.read(262_144)
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError):
        return None
    try:
        return status, msgspec.json.decode(content)
    except msgspec.DecodeError:
        return status, None


async def run_for_json(argv: Sequence[str], ours: Mapping[str, str]) -> Any:
    """What a short run prints, as JSON; None where it fails or takes longer than some seconds."""
    return await asyncio.to_thread(_run, argv, ours)


def _run(argv: Sequence[str], ours: Mapping[str, str]) -> Any:
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=2 * PATIENCE,
            env=environment(ours, Launch(tuple(argv))),
        )
        return msgspec.json.decode(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError):
        return None


def dig(found: Any, *way: str) -> Any:
    """A value inside nested objects; None where the way ends."""
    for name in way:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found
