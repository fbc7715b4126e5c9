"""What needs a broker's word while no app runs: an engine without door and lanes, for one command.

Nothing comes in and nothing is sent; the instance lock is held as by any engine. Blocking; for the command
line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.clock import Clock
from app.engine.at_rest import has_ledger
from app.engine.commands import Answer
from app.engine.engine import Engine
from app.engine.status import CommandRefused
from app.secrets import Secrets

NAMES = frozenset({"reconcile", "resolve"})


def ask_the_broker(
    home: Path,
    name: str,
    arguments: Mapping[str, Any],
    *,
    actor: str,
    request_id: str,
    clock: Clock,
    make_secrets: Callable[[], Secrets],
) -> Answer:
    """`reconcile` or `resolve` with no app running. Raises CommandRefused, StartRefused."""
    if name not in NAMES:
        raise CommandRefused(f"no app is running on {home}: {name} needs one")
    if not has_ledger(home):
        raise CommandRefused(f"there is no ledger in {home} yet: start Onefill first")
    engine = Engine(home, clock, secrets=make_secrets, sends=False)
    return asyncio.run(_ask(engine, name, arguments, actor, request_id))


async def _ask(
    engine: Engine, name: str, arguments: Mapping[str, Any], actor: str, request_id: str
) -> Answer:
    await engine.start()
    try:
        return await engine.command(name, arguments, actor=actor, request_id=request_id)
    finally:
        await engine.stop()
