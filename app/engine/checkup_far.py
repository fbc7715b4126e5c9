"""The part of the setup check that asks others: the door, the brokers, and a signal the whole way.

Where an app runs it is asked, since it holds the sessions; else the brokers are logged in to for a moment.
Nothing is sent to a broker; the signal goes to a paper account in a throw-away home.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from app.brokers.base import Broker, LookupFailed
from app.clock import SECOND
from app.engine.checkup import NEAR, Check, Level, Patient
from app.engine.parts import Brokers
from app.engine.selftest import try_whole_way
from app.settings import Account

PROBE = 5.0
"""Seconds for the door to answer its own machine."""

Seen = Iterator[tuple[Level, str]]


def listener(patient: Patient) -> Seen:
    """Asks the door of a running app from this machine, as a tunnel does."""
    if patient.running is None or patient.settings is None:
        return
    port = patient.running.get("port")
    if not isinstance(port, int):
        yield "error", "the door is not open: see the line of the app"
        return
    host = patient.settings.listener.host
    connection = http.client.HTTPConnection(host, port, timeout=PROBE)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        said = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        yield "error", f"port {port} does not answer on this machine ({error!r}): restart Onefill"
        return
    finally:
        connection.close()
    word = said.get("status") if isinstance(said, dict) else None
    level: Level = "ok" if word == "ok" else "warning"
    yield level, f"answers on port {port}: {word}"


def login(patient: Patient) -> Seen:
    """Whose account each broker says it is, and whether that is money. Paper of our own needs no login."""
    if patient.settings is None or patient.unreachable:
        return
    for account in patient.settings.accounts:
        if account.broker == "paper":
            yield "ok", f"{account.name}: the built-in paper exchange, no money"
        else:
            yield _login(patient, account)


def _login(patient: Patient, account: Account) -> tuple[Level, str]:
    try:
        identity = _asked(patient, account) if patient.ask else _logged_in(patient, account)
    except LookupFailed as error:
        return "error", f"{account.name}: {error}"
    mode = "LIVE: real money" if account.live else "paper, no money"
    return "ok", f"{account.name}: logged in to account {identity} at {account.broker} ({mode})"


def _asked(patient: Patient, account: Account) -> str:
    assert patient.ask is not None
    return str(patient.ask("test account", {"account": account.name})["identity"])


def _logged_in(patient: Patient, account: Account) -> str:
    assert patient.settings is not None
    brokers = Brokers(patient.home, patient.settings, patient.clock, patient.secrets)
    timeout = patient.settings.execution.request_timeout / SECOND
    return asyncio.run(_identity(brokers.setups[account.name].broker, timeout))


async def _identity(broker: Broker, patience: float) -> str:
    try:
        async with asyncio.timeout(patience):
            return (await broker.connect()).identity
    except TimeoutError:
        raise LookupFailed(f"no answer within {patience:g} s: is the network up?") from None
    finally:
        await broker.close()


PROGRAMS = {
    "cloudflared-quick": "cloudflared",
    "cloudflared-named": "cloudflared",
    "ngrok": "ngrok",
    "tailscale": "tailscale",
    "ssh": "ssh",
}
"""What a tunnel of that kind starts; Onefill downloads none."""


def tunnel(patient: Patient) -> Seen:
    """Both probes by the running app's own word; else whether its program is there at all."""
    if patient.settings is None:
        return
    kind = patient.settings.tunnel.kind
    if kind == "none":
        yield "ok", "none: alerts from outside need one ([tunnel] in config.toml), this computer's own do not"
        return
    program = patient.settings.tunnel.program or PROGRAMS.get(kind)
    if program is not None and shutil.which(Path(program).expanduser()) is None:
        yield "error", f"{program} is not there: install it, or say where it is with [tunnel] program"
    if patient.running is None:
        yield "ok", f"{kind}: it starts with Onefill, and is tried then"
        return
    for fact in patient.running["facts"]:
        if fact["name"] == "tunnel":
            yield fact["level"], f"{kind}: {fact['word']}: {fact['reason']}"


def signal(_patient: Patient) -> Seen:
    failed: list[str] = []
    seen: list[str] = []

    def say(check: str, ok: bool, what: str) -> None:
        seen.append(what)
        if not ok:
            failed.append(f"{check}: {what}")

    try_whole_way(say)
    if failed:
        yield "error", f"a test signal did not go the whole way in a throw-away home: {'; '.join(failed)}"
    else:
        yield (
            "ok",
            "a test signal went the whole way in a throw-away home: accepted once, one paper order filled",
        )


FAR: tuple[Check, ...] = (("listener", listener), ("tunnel", tunnel), ("login", login), ("signal", signal))

ALL: tuple[Check, ...] = (*NEAR, *FAR)
