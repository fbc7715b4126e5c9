"""A ledger that cannot be written: 503 at the door, a word for a person, and well again without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from app.engine import Engine
from app.engine.commands import LOCK_NAME
from tests.engine.kit import PATIENCE, running, send, settled, until, word

LARGE = ["x" * 1_000] * 50
"""Harmless, kept with the body, and larger than what is free in a full ledger."""


def _locked(_engine: Engine, home: Path) -> Callable[[], None]:
    blocker = apsw.Connection(str(home / "ledger.sqlite3"))
    blocker.execute("BEGIN IMMEDIATE").fetchall()

    def repair() -> None:
        blocker.execute("ROLLBACK").fetchall()
        blocker.close()

    return repair


def _full(engine: Engine, _home: Path) -> Callable[[], None]:
    assert engine._opened is not None
    connection = engine._opened.connection
    pages = connection.execute("PRAGMA page_count").fetchall()[0][0]
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    def repair() -> None:
        connection.execute("PRAGMA max_page_count = 1000000").fetchall()

    return repair


def _read_only(engine: Engine, _home: Path) -> Callable[[], None]:
    assert engine._opened is not None
    connection = engine._opened.connection
    connection.execute("PRAGMA query_only = ON").fetchall()

    def repair() -> None:
        connection.execute("PRAGMA query_only = OFF").fetchall()

    return repair


@pytest.mark.parametrize(
    ("spoil", "expected"), [(_locked, "locked"), (_full, "full"), (_read_only, "read-only")]
)
async def test_a_ledger_that_takes_nothing_is_503_and_a_word_and_heals_by_itself(
    tmp_path: Path, spoil: Callable[[Engine, Path], Callable[[], None]], expected: str
) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        repair = spoil(engine, home)
        status, body = await send(engine, "one", extras=LARGE)
        assert (status, body["status"]) == (503, "not_accepted")
        await until(engine, lambda: word(engine.status(), "ledger") == expected)
        assert engine.status().level == "error"
        assert engine._health_word() == "degraded"
        repair()
        await until(engine, lambda: word(engine.status(), "ledger") == "ok")
        status, body = await send(engine, "one", extras=LARGE)
        assert (status, body["status"]) == (200, "accepted")
        orders = await settled(engine, 1)
        assert [order["state"] for order in orders] == ["DONE"]


async def test_a_lock_that_is_gone_stops_the_engine_with_its_reason(tmp_path: Path) -> None:
    """A second instance could start now: this one cannot know that it is alone."""
    home = tmp_path / "home"
    async with running(home) as engine:
        (home / LOCK_NAME).unlink()
        async with asyncio.timeout(PATIENCE):
            await engine.stop_requested.wait()
        assert "onefill.lock was removed" in engine.stop_reason
        (fact,) = [fact for fact in engine.status().facts if fact.name == "program"]
        assert (fact.level, fact.reason) == ("error", engine.stop_reason)
