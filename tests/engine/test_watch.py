"""The pulse: the loop's lag, what the clock did, the ledger's word, each as a fact for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from app.clock import SECOND, ManualClock
from app.domain.risk import TradingState
from app.engine import Fact, Status, facts, sample
from app.engine.lag import LoopLag
from app.engine.watch import Watch
from app.execution.session import AccountFact
from app.ledger.reader import Reader
from app.ledger.standing import OTHER_ACCOUNT, Trouble
from app.ledger.store import open_ledger
from app.ledger.writer import Health, Writer
from app.listener.server import DoorFacts
from tests.engine.kit import make_engine, running, send, settled, until, word


def test_lag_is_kept_for_now_for_a_minute_and_since_the_start() -> None:
    lag = LoopLag()
    lag.note(10.0, 400.0)
    lag.note(10.5, 20.0)
    assert (lag.now_ms, lag.max_ms, lag.max_since_start_ms) == (20.0, 400.0, 400.0)
    lag.note(69.9, 30.0)
    assert lag.max_ms == 400.0
    lag.note(70.0, 10.0)
    assert (lag.max_ms, lag.max_since_start_ms) == (30.0, 400.0)
    lag.note(71.0, -5.0)
    assert lag.now_ms == 0.0


@pytest.mark.parametrize(("largest", "level"), [(250.0, "ok"), (251.0, "warning"), (1001.0, "error")])
def test_a_late_loop_is_a_fact(largest: float, level: str) -> None:
    lag = LoopLag()
    lag.note(1.0, largest)
    assert facts.loop(lag).level == level


async def test_a_stalled_loop_is_measured(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        assert engine._watch is not None
        engine._watch.lag.note(1e12, 700.0)
        await until(engine, lambda: word(engine.status(), "loop") == "slow")
        status = engine.status()
        assert status.loop_lag_max_since_start_ms >= 700.0
        assert status.level == "warning"


OPEN = DoorFacts("open", "", 8787, deliveries=0, connections=0, rebuilt=0, last_probe=None)
DRIFT = Trouble("drift", "our books hold 5 AAPL in paper, the broker 0")


def _health(word: str = "ok", wal: int = 0, detail: str = "") -> Health:
    return Health(word=word, detail=detail, wal_bytes=wal, commits=0, operations=0)


@pytest.mark.parametrize(
    ("fact", "word", "level"),
    [
        (facts.ledger(None, None), "starting", "warning"),
        (facts.ledger(_health(), None), "ok", "ok"),
        (facts.ledger(_health("full"), None), "full", "error"),
        (facts.ledger(_health("locked"), 7), "locked", "error"),
        (facts.ledger(_health(), 7), "altered", "error"),
        (facts.ledger(_health(wal=16 * 1024**2), None), "ok", "ok"),
        (facts.ledger(_health(wal=16 * 1024**2 + 1), None), "growing", "warning"),
        (facts.ledger(_health(wal=64 * 1024**2 + 1), None), "growing", "error"),
        (facts.listener(None), "starting", "warning"),
        (facts.listener(OPEN), "open", "ok"),
        (facts.listener(OPEN, {"source_or_token": 3}), "open", "warning"),
        (facts.listener(OPEN, {}, ("tradingview",)), "open", "warning"),
        (facts.clock(0, 0), "ok", "ok"),
        (facts.clock(SECOND, 0), "behind", "error"),
        (facts.clock(0, -3600 * SECOND), "stepped", "warning"),
        (facts.clock(0, 0, 3600 * SECOND), "stepped", "warning"),
        (facts.trading(TradingState.EXITS_ONLY), "exits_only", "warning"),
        (facts.account(AccountFact("paper", "ready", "")), "ready", "ok"),
        (facts.account(AccountFact("paper", "ready", ""), None, DRIFT), "drift", "warning"),
        (facts.account(AccountFact("paper", "connecting", ""), None, DRIFT), "connecting", "warning"),
        (facts.account(AccountFact("paper", "failing", ""), None, DRIFT), "failing", "error"),
        (facts.account(AccountFact("paper", "connecting", "")), "connecting", "warning"),
        (facts.account(AccountFact("paper", "failing", "no answer")), "failing", "error"),
    ],
)
def test_h24_each_part_has_a_word_a_level_and_a_sentence(
    fact: Fact, word: str, level: Literal["ok", "warning", "error"]
) -> None:
    assert (fact.word, fact.level) == (word, level)
    assert fact.reason or fact.name == "account:paper"


def test_who_was_turned_away_and_a_new_token_are_said_in_words() -> None:
    assert "3 requests with a wrong token" in facts.listener(OPEN, {"source_or_token": 3}).reason
    assert "the token of tradingview was nowhere" in facts.listener(OPEN, {}, ("tradingview",)).reason


async def test_a_wrong_token_is_seen_by_a_person(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        address = engine.hook_addresses()[0].local
        assert (await sample.post(address[:-4] + "XXXX", b"{}")).status == 404
        await until(engine, lambda: engine.status().counts.get("turned_away") == 1)
        (fact,) = [fact for fact in engine.status().facts if fact.name == "listener"]
        assert (fact.word, fact.level) == ("open", "warning")
        assert "1 request with a wrong token or an unknown source" in fact.reason


async def test_h13_a_paper_exchange_made_anew_is_another_account_and_drift(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "bought")
        await settled(engine, 1)
    for file in home.glob("paper.sqlite3*"):
        file.unlink()
    engine = make_engine(home)
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "account:paper") == "blocked")
        assert "onefill acknowledge paper --identity " in _reason(engine.status(), "account:paper")
        (row,) = await engine.reader.rows("SELECT answering FROM accounts")
        arguments = {"account": "paper", "identity": row["answering"], "why": "a new exchange"}
        await engine.command("acknowledge", arguments, actor="person", request_id="r-1")
        await until(engine, lambda: word(engine.status(), "account:paper") == OTHER_ACCOUNT)
        await until(engine, lambda: "1 AAPL" in _reason(engine.status(), "account:paper"))
        assert "onefill book paper" in _reason(engine.status(), "account:paper")
    finally:
        await engine.stop()


async def test_a_token_made_anew_for_a_source_with_deliveries_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        assert engine.status().level == "ok"
        await send(engine, "before")
        await settled(engine, 1)
    (home / "secrets.toml").unlink()
    async with running(home) as engine:
        reason = _reason(engine.status(), "listener")
    assert "the token of test was nowhere and was made anew" in reason
    assert "tradingview" not in reason


def _reason(status: Status, name: str) -> str:
    return next(fact.reason for fact in status.facts if fact.name == name)


@pytest.mark.parametrize(
    ("door", "level"), [("open", "ok"), ("deaf", "error"), ("closed", "error"), ("stopping", "warning")]
)
def test_the_doors_own_word_is_shown(door: str, level: str) -> None:
    seen = DoorFacts(door, "", 8787, deliveries=0, connections=0, rebuilt=0, last_probe=None)
    fact = facts.listener(seen)
    assert (fact.word, fact.level) == (door, level)


def test_what_should_never_be_is_a_fact_only_when_it_is() -> None:
    assert facts.program([], 0, None) == []
    (dead,) = facts.program(["lane paper:AAPL"], 3, None)
    assert dead.level == "error"
    assert "lane paper:AAPL" in dead.reason
    assert facts.program([], 3, None)[0].word == "waiting"
    assert facts.program(["x"], 3, "the disk is gone")[0].reason == "the disk is gone"


async def test_h34_a_dead_task_is_an_error_fact(tmp_path: Path) -> None:
    async def die() -> None:
        raise KeyError("gone")

    async with running(tmp_path / "home") as engine:
        engine._note_death("lane paper:AAPL", KeyError("gone"))
        await until(engine, lambda: word(engine.status(), "program") == "broken")
        assert engine.status().level == "error"


async def _watch(tmp_path: Path, clock: ManualClock, mark: int = 0) -> tuple[Watch, Writer, Reader]:
    connection = open_ledger(tmp_path, clock.now())
    writer, reader = Writer(connection, clock, lambda _: None), Reader(tmp_path / "ledger.sqlite3")
    return Watch(writer, reader, clock, mark, lambda: None), writer, reader


@pytest.mark.blocking_allowed("the ledger is opened here")
async def test_h31_a_step_of_the_wall_clock_is_seen_and_shown_for_ten_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    watch, writer, reader = await _watch(tmp_path, clock)
    clock.step(29 * SECOND)
    watch._look_at_clock()
    assert watch.jump == 0
    clock.step(-31 * SECOND)
    watch._look_at_clock()
    assert watch.jump == -31 * SECOND
    for _ in range(20):
        clock.advance(30 * SECOND)
        watch._look_at_clock()
    assert watch.jump
    assert watch.stood_still == 0
    clock.advance(SECOND)
    watch._look_at_clock()
    assert watch.jump == 0
    await writer.close()
    await reader.close()


@pytest.mark.blocking_allowed("the ledger is opened here")
async def test_h32_a_clock_before_an_earlier_run_is_behind_until_it_catches_up(tmp_path: Path) -> None:
    clock = ManualClock()
    watch, writer, reader = await _watch(tmp_path, clock, clock.now() + 10 * SECOND)
    assert watch.behind == 10 * SECOND
    await watch.mark()
    clock.advance(11 * SECOND)
    assert watch.behind == 0
    await writer.close()
    await reader.close()
