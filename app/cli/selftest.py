"""`onefill selftest`: two equal signals through the real door of a real engine, in a throw-away home."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.cli.front import Failed, Front, front_options

if TYPE_CHECKING:
    from app.engine import Engine

PATIENCE = 20.0
"""Seconds until the order must have filled."""

Say = Callable[[str, bool, str], None]


@click.command()
@front_options
def selftest(front: Front) -> None:
    """Two equal signals to itself in a throw-away home: accepted, duplicate, one paper order."""
    passed = True
    began = time.monotonic()

    def say(check: str, ok: bool, seen: str) -> None:
        nonlocal passed
        passed = passed and ok
        front.emit(
            {"check": check, "ok": ok, "seen": seen}, f"{'ok  ' if ok else 'FAIL'}  {check:<10} {seen}"
        )

    with tempfile.TemporaryDirectory(prefix="onefill-selftest-") as folder, _quiet():
        home = Path(folder) / "home"
        asyncio.run(_run(home, say))
    if Path(folder).exists():
        say("cleaning", False, f"{folder} is still there")
    if not passed:
        raise Failed("the self-test failed")
    if not front.json:
        click.echo(f"passed in {time.monotonic() - began:.1f} s, nothing left behind")


@contextlib.contextmanager
def _quiet() -> Any:
    """The log of a home that is thrown away; what went wrong is in the checks."""
    import structlog

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def _run(home: Path, say: Say) -> None:
    from app.engine import Engine, StartRefused
    from app.secrets import Secrets

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
    from app.engine.sample import sample_body

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
    from app.ledger import queries

    return await engine.reader.call(lambda connection: queries.select(connection, "orders"))


def _at_the_exchange(home: Path) -> tuple[bool, str]:
    from app.brokers.paper import FILE_NAME
    from app.ledger.reader import open_read_only, read

    connection = open_read_only(home / FILE_NAME)
    try:
        rows = read(connection, "SELECT symbol, quantity, status FROM orders")
    finally:
        connection.close()
    seen = f"{len(rows)} orders" if len(rows) != 1 else f"1 order, {rows[0]['status']}"
    return len(rows) == 1 and rows[0]["status"] == "Filled", seen
