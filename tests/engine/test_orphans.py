"""An account that the settings name no more: its books and orders are not left behind in silence (H13)."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.engine import StartRefused
from tests.engine.kit import make_engine, rows, running, send, settled, until


def _rename(home: Path, old: str, new: str) -> None:
    config = home / "config.toml"
    text = config.read_text(encoding="utf-8")
    for before, after in ((f'name = "{old}"', f'name = "{new}"'), (f'["{old}"]', f'["{new}"]')):
        assert before in text
        text = text.replace(before, after)
    config.write_text(text, encoding="utf-8")


async def _refused(home: Path) -> str:
    with pytest.raises(StartRefused) as refused:
        await make_engine(home).start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_h13_an_account_renamed_with_an_open_book_and_order_stops_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "book")
        await settled(engine, 1)
        await send(engine, "rests", symbol="MSFT", type="limit", limit_price=9, price=10)

        async def works() -> bool:
            return "WORKING" in [row["state"] for row in await rows(engine, "orders")]

        await until(engine, works)
    _rename(home, "paper", "zwei")
    why = await _refused(home)
    assert 'no [[accounts]] "paper" any more' in why
    assert "1 AAPL, order O2 MSFT WORKING" in why
    assert 'cannot be renamed to "zwei" while something is open' in why
    assert "onefill book paper SYMBOL --set 0" in why
    # The lock is free again, and the name put back is the remedy.
    _rename(home, "zwei", "paper")
    async with running(home) as engine:
        (held,) = await rows(engine, "positions")
        assert (held["account"], held["symbol"]) == ("paper", "AAPL")


async def test_h13_one_that_is_the_same_at_the_broker_is_said_to_be_renamed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "book")
        await settled(engine, 1)
        await engine._writer.run(  # type: ignore[union-attr]
            lambda tx: tx.execute(
                "INSERT INTO accounts (name, broker, identity, endpoint) "
                "SELECT 'zwei', broker, identity, endpoint FROM accounts WHERE name = 'paper'"
            )
        )
    _rename(home, "paper", "zwei")
    assert '"zwei" is the same account at the broker, renamed.' in await _refused(home)


async def test_an_account_that_is_gone_with_nothing_open_is_a_line_in_the_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home):
        pass
    _rename(home, "paper", "zwei")
    engine = make_engine(home)
    with capture_logs() as logged:
        await engine.start()
    await engine.stop()
    (line,) = [line for line in logged if line["event"].startswith("an account is not in config.toml")]
    assert line["account"] == "paper"
