"""The judge of the drills: small enough to be read, and it names every harm that is done to a sound pair."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import apsw

from app.drill import judge
from app.drill.judge import violations
from app.drill.rules import Rules
from tests.drill.kit import venue

EXCHANGE, LEDGER = "exchange.sqlite3", "home/ledger.sqlite3"
REST = (
    "'api', symbol, side, qty, type, limit_price, stop_price, tif, extended_hours, status, filled_qty, "
    "filled_value, stop_reached, created_ns, updated_ns, ended_at, body_digest FROM orders"
)
ONE_MORE = "INSERT INTO orders SELECT null, 'other', start, account,"
SENT = "SELECT null, at, account, endpoint, client_order_id, outcome, answered FROM requests"

HARMS = {
    "two under one id": (EXCHANGE, f"{ONE_MORE} client_order_id, {REST}", "DOUBLED"),
    "one without a row": (EXCHANGE, f"{ONE_MORE} 'x', {REST}", "UNKNOWN"),
    "sent twice": (EXCHANGE, f"INSERT INTO requests {SENT}", "SENT_AGAIN"),
    "never there": (EXCHANGE, "UPDATE orders SET origin = 'hand'", "MADE_UP"),
    "not over there": (EXCHANGE, "UPDATE orders SET ended_at = NULL", "MADE_UP"),
    "another fill": (EXCHANGE, "UPDATE fills SET qty = '9'", "FILLS"),
    "never ended": (LEDGER, "UPDATE orders SET state = 'AMBIGUOUS'", "OPEN"),
    "called absent": (LEDGER, "UPDATE orders SET state = 'NOT_PLACED'", "UNSEEN"),
    "no fill booked": (LEDGER, "DELETE FROM fills", "FILLS"),
    "no claim": (LEDGER, "DELETE FROM claims", "LOST"),
}


def test_it_is_small_and_knows_nothing_of_the_program() -> None:
    text = Path(judge.__file__).read_text("utf-8")
    assert len(text.splitlines()) < 100
    assert "import app" not in text
    assert "from app" not in text


async def test_each_harm_is_named(tmp_path: Path) -> None:
    sound, harmed = tmp_path / "sound", tmp_path / "harmed"
    sound.mkdir()
    async with venue(sound, Rules(filling="in_reply")) as v:
        await v.filled("10")
    await asyncio.to_thread(_name_each, sound, harmed)


def _name_each(sound: Path, harmed: Path) -> None:
    for harm, (where, sql, word) in HARMS.items():
        shutil.copytree(sound, harmed)
        connection = apsw.Connection(str(harmed / where))
        connection.execute("PRAGMA foreign_keys = OFF").fetchall()
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in triggers:
            connection.execute(f"DROP TRIGGER {trigger}").fetchall()
        connection.execute(sql).fetchall()
        connection.close()
        found = violations(harmed / EXCHANGE, harmed / "home")
        assert word in [line.split()[0] for line in found], (harm, found)
        shutil.rmtree(harmed)
