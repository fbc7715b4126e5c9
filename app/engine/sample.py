"""A sample alert through the real hook on loopback, as a sender would post it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from app.clock import SECOND
from app.engine.status import HookAddress, SampleAnswer
from app.engine.tunnels import Tunnels
from app.settings import Settings, Source

TIMEOUT = 5.0


def hook_url(host: str, port: int, source: Source, credentials: Mapping[str, str]) -> str:
    """Where the source's sender posts to; the token is in it where the source has one."""
    shown = f"[{host}]" if ":" in host else host
    path = f"/hook/{source.name}"
    if source.auth == "path":
        path += f"/{credentials[source.name]}"
    return f"http://{shown}:{port}{path}"


def hook_addresses(
    settings: Settings, port: int, credentials: Mapping[str, str], tunnels: Tunnels | None
) -> list[HookAddress]:
    """Of every source, tokens inside; the public one too where a tunnel says where senders reach us."""
    public, taken = (tunnels.address, tunnels.taken) if tunnels is not None else (None, None)
    found = []
    for source in settings.all_sources:
        local = hook_url(settings.listener.host, port, source, credentials)
        path = local[local.index("/hook/") :]
        found.append(HookAddress(source.name, local, None if public is None else public + path, taken))
    return found


def sample_body(now: int) -> bytes:
    """One share of a made-up symbol, with a key of its own; `now` in UTC microseconds is when it fires."""
    return msgspec.json.encode(
        {
            "strategy": "sample",
            "symbol": "SAMPLE",
            "action": "buy",
            "quantity": 1,
            "price": 10,
            "fired_at": now // (SECOND // 1000),
            "key": f"sample-{uuid.uuid4()}",
            "comment": "a test signal of Onefill",
        }
    )


async def post(url: str, body: bytes) -> SampleAnswer:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.post(url, data=body, headers={"Content-Type": "application/json"}) as response,
        ):
            return SampleAnswer(response.status, _read(await response.read()))
    except (aiohttp.ClientError, TimeoutError) as error:
        return SampleAnswer(0, {"status": "no answer", "reason": str(error) or type(error).__name__})


def _read(content: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return {"status": "not JSON"}
    return body if isinstance(body, dict) else {"status": "not an object"}
