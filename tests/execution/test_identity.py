"""Who an account is: one number, one name, money only by a typed word, never from the hook (HOLES H13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.clock import ManualClock
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, FAST, TWO_ACCOUNTS, Desk, desk
from tests.execution.operator_kit import Hand

LIVE = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["paper"]
without_time = "refuse"

[[accounts]]
name = "paper"
broker = "alpaca"
live = true
symbols = "all"
"""
NUMBERED = "123456789"


def answers_as(identity: str) -> Callable[[FaultyBroker], None]:
    def prepare(broker: FaultyBroker) -> None:
        broker.identity = identity

    return prepare


async def blocked(d: Desk, word: str = "blocked", account: str = "paper") -> str:
    """Waits until the account's word is that one, and returns the reason."""
    async with asyncio.timeout(30):
        while True:
            fact = next(fact for fact in d.trading.facts() if fact.name == account)
            if fact.word == word:
                return fact.reason
            await asyncio.sleep(FAST)


async def test_h13_two_names_of_one_account_the_second_fails_and_the_first_goes_on(tmp_path: Path) -> None:
    faults = Faults(answers_as(NUMBERED))
    async with desk(tmp_path, TWO_ACCOUNTS, wrap=faults.wrap) as d:
        await d.until("SELECT count(*) FROM accounts WHERE same_as IS NOT NULL", 1)
        (row,) = await d.reader.rows("SELECT name, same_as FROM accounts WHERE same_as IS NOT NULL")
        second, first = row["name"], row["same_as"]
        assert {first, second} == {"paper", "second"}
        reason = await blocked(d, "failing", second)
        assert f"{NUMBERED} is the account of {first} already" in reason
        await d.deliver(action="buy", quantity="10")
        await d.until("SELECT state FROM orders WHERE account = ?", "DONE", first)
        await d.until("SELECT reason FROM orders WHERE account = ?", "WAITING_FOR_BROKER", second)
        assert faults.brokers[second].calls["submit"] == 0
        hand = Hand(d)
        assert ("critical", "account_named_twice", second) in await hand.kinds()
        why = await hand.refused("acknowledge", account=second, identity=NUMBERED)
        assert why.startswith(f"{NUMBERED} is the account of {first} already")
        assert [event["subject"] for event in await d.events("account named twice")] == [second]


async def test_h13_another_number_blocks_until_it_is_typed_and_asks_a_person_about_what_is_open(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    faults = Faults()
    async with desk(tmp_path, clock=clock, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
    faults = Faults(answers_as("another"))
    async with desk(tmp_path, clock=clock, wrap=faults.wrap) as d:
        reason = await blocked(d)
        assert "onefill acknowledge paper --identity another --why TEXT" in reason
        assert (await d.state(1, "NEEDS_OPERATOR"))["reason"].startswith("OTHER_ACCOUNT")
        await d.deliver(key="second-1", symbol="MSFT", action="buy", quantity="1")
        await d.waits(2, "WAITING_FOR_BROKER")
        (report,) = await d.trading.reconcile("paper", "button")
        assert (report.result, report.findings) == ("FAILED", [])
        assert faults.paper.calls["snapshot"] == faults.paper.calls["submit"] == 0
        hand = Hand(d)
        need = next(need for need in await hand.needs() if need.kind == "account_changed")
        assert need.severity == "critical"
        why = await hand.refused("acknowledge", account="paper", identity="123")
        assert why == "the account that answers is another, not '123': type its own number"
        assert "needs a reason" in await hand.refused(
            "acknowledge", account="paper", identity="another", why=""
        )
        answer = await hand.thrice("acknowledge", **need.actions[0].arguments)
        assert (answer["identity"], answer["live"]) == ("another", False)
        await d.state(2, "DONE")
        assert "account_changed" not in [kind for _, kind, _ in await hand.kinds()]
        assert "nothing to acknowledge" in await hand.refused(
            "acknowledge", account="paper", identity="another"
        )


async def test_h13_the_old_number_again_is_another_number_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with desk(tmp_path, clock=clock, wrap=Faults(answers_as("one")).wrap) as d:
        await d.ready()
    async with desk(tmp_path, clock=clock, wrap=Faults(answers_as("two")).wrap) as d:
        await blocked(d)
        await Hand(d).do("acknowledge", account="paper", identity="two")
        await d.ready()
    async with desk(tmp_path, clock=clock, wrap=Faults(answers_as("one")).wrap) as d:
        await blocked(d)
        assert not d.trading._sessions["paper"].ready.is_set()


async def test_h13_an_account_that_trades_money_reads_and_sends_nothing_before_its_number_is_typed(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    faults = Faults(answers_as(NUMBERED))
    async with desk(tmp_path, LIVE, clock=clock, wrap=faults.wrap) as d:
        reason = await blocked(d)
        assert f"account {NUMBERED} trades money and is not acknowledged yet" in reason
        await d.until("SELECT count(*) > 0 FROM reconciliations WHERE result = 'OK'", 1)
        await d.deliver(action="buy", quantity="10", fired_at=str(clock.now() // 1_000_000))
        await d.waits(1, "WAITING_FOR_BROKER")
        hand = Hand(d)
        (need,) = [need for need in await hand.needs() if need.kind == "account_unacknowledged"]
        assert need.actions[0].arguments == {"account": "paper", "identity": NUMBERED}
        assert faults.paper.calls["submit"] == 0
        await hand.do("acknowledge", account="paper", identity=f" {NUMBERED} ")
        await d.state(1, "DONE")
        rows = await d.reader.rows("SELECT account, identity, live, actor, why FROM acknowledgements")
        assert [tuple(row.values()) for row in rows] == [("paper", NUMBERED, 1, "person", "I looked")]
    # Once for that number: the next start asks nobody.
    async with desk(tmp_path, LIVE, clock=clock, wrap=Faults(answers_as(NUMBERED)).wrap) as d:
        await d.ready()
    async with desk(tmp_path, LIVE, clock=clock, wrap=Faults(answers_as("987")).wrap) as d:
        assert "another account answers than before" in await blocked(d)


@pytest.mark.parametrize("config", [CONFIG])
async def test_h13_a_paper_account_needs_no_word_at_first_sight(tmp_path: Path, config: str) -> None:
    async with desk(tmp_path, config, wrap=Faults(answers_as("P-1")).wrap) as d:
        await d.ready()
        assert await d.reader.rows("SELECT identity, answering FROM accounts") == [
            {"identity": "P-1", "answering": None}
        ]
        assert await d.reader.rows("SELECT 1 FROM acknowledgements") == []


async def test_a_dry_run_acknowledges_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with desk(tmp_path, clock=clock, wrap=Faults(answers_as("one")).wrap) as d:
        await d.ready()
    async with desk(tmp_path, clock=clock, wrap=Faults(answers_as("two")).wrap) as d:
        await blocked(d)
        answer = await Hand(d).do("acknowledge", account="paper", identity="two", dry_run=True)
        assert (answer["dry_run"], answer["was"]) == (True, "one")
        assert await d.reader.rows("SELECT identity FROM accounts") == [{"identity": "one"}]
