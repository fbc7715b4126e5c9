"""Two equal signals through the real door of a real engine, in a throw-away home.

What `onefill selftest` prints, and the setup check's proof that a signal goes the whole way on this machine.
Nothing of the user's is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import structlog

from app.brokers.paper import FILE_NAME
from app.engine.engine import Engine
from app.engine.sample import sample_body
from app.engine.status import StartRefused
from app.ledger import queries
from app.ledger.reader import open_read_only, read
from app.secrets import Secrets

PATIENCE = 20.0
"""Seconds until the order must have filled."""

Say = Callable[[str, bool, str], None]
"""Told of each check: its name, whether it held, and what was seen."""


def try_whole_way(say: Say) -> None:
    """Runs it and throws the home away. Blocking, with a loop of its own: call it on a thread without one."""
    with tempfile.TemporaryDirectory(prefix="onefill-selftest-") as folder, _quiet():
        asyncio.run(_run(Path(folder) / "home", say))
    if Path(folder).exists():
        say("cleaning", False, f"{folder} is still there")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The log of a home that is thrown away; what went wrong is in the checks."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def _run(home: Path, say: Say) -> None:
    # No keyring and no environment: nothing of this home may be found or left anywhere else.
    engine = Engine(home, port=0, secrets=lambda: Secrets(home, {}, keyring=None))
    try:
        await engine.start()
    except StartRefused as error:
        say("start", False, str(error))
        return
    try:
        say("door", True, f"open on port {engine.status().port}")
        await _send_twice(engine, say)
        await _one_order(engine, say)
    finally:
        await engine.stop()
    say("exchange", *await asyncio.get_running_loop().run_in_executor(None, _at_the_exchange, home))


async def _send_twice(engine: Engine, say: Say) -> None:
    body = sample_body(engine.clock.now())
    for expected in ("accepted", "duplicate"):
        answer = await engine.send_sample(body)
        word = answer.body.get("status")
        say(
            expected,
            (answer.status, word) == (200, expected),
            f"{answer.status} {word} {answer.body.get('signal')}",
        )


async def _one_order(engine: Engine, say: Say) -> None:
    changed = asyncio.Event()
    ignore = engine.listen(lambda _: changed.set())
    try:
        async with asyncio.timeout(PATIENCE):
            while not (rows := await _orders(engine)) or rows[0]["state"] in (
                "PENDING",
                "SUBMITTING",
                "WORKING",
            ):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        rows = await _orders(engine)
    finally:
        ignore()
    filled = len(rows) == 1 and (rows[0]["state"], rows[0]["ord_status"]) == ("DONE", "Filled")
    seen = ", ".join(
        f"{row['id']} {row['side']} {row['quantity']} {row['symbol']} {row['ord_status'] or row['state']}"
        f" @ {row['average_price']} {row['reason'] or ''}".rstrip()
        for row in rows
    )
    say("order", filled, seen or "none")


async def _orders(engine: Engine) -> list[dict[str, Any]]:
    return await engine.reader.call(lambda connection: queries.select(connection, "orders"))


def _at_the_exchange(home: Path) -> tuple[bool, str]:
    connection = open_read_only(home / FILE_NAME)
    try:
        rows = read(connection, "SELECT symbol, quantity, status FROM orders")
    finally:
        connection.close()
    seen = f"{len(rows)} orders" if len(rows) != 1 else f"1 order, {rows[0]['status']}"
    return len(rows) == 1 and rows[0]["status"] == "Filled", seen
