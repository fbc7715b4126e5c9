"""Needs you: everything that must be told, worst first, and gone when it is settled (HOLES H1, H5, H10)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from app.brokers.base import DuplicateId, Refused
from app.clock import SECOND
from app.engine.operator_commands import COMMANDS
from app.ledger.transaction import Transaction
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, Desk, desk
from tests.execution.operator_kit import Hand, arrive

TWO_SOURCES = (
    CONFIG
    + """
[[sources]]
name = "other"
id = "other-id"
accounts = ["paper"]
"""
)


async def doings(hand: Hand) -> list[list[str]]:
    """The commands that each item offers; every one is a command that there is."""
    found = [[action.command for action in need.actions] for need in await hand.needs()]
    assert {name for names in found for name in names} <= {*COMMANDS, "reconcile"}
    return found


async def test_h1_a_waiting_exit_and_what_it_waits_for_are_there_at_once(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_O1")
        hand = Hand(d)
        assert await hand.kinds() == [("critical", "exit_waits", "O2"), ("warning", "ambiguous", "O1")]
        waits, doubt = await hand.needs()
        assert waits.text == "The exit O2 (exit AAPL from tv) waits for O1."
        assert doubt.text == (
            "Nobody knows whether the broker has O1 (buy 10 AAPL from tv); it is not sent again. "
            "The broker is being asked."
        )
        assert await doings(hand) == [["cancel"], ["resolve", "resolve", "resolve"]]
        faults.paper.slow_proof = False
        await d.settled()
        assert await hand.needs() == []


async def test_an_order_that_only_a_person_can_decide_is_critical(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(DuplicateId("seen"))
        await d.trade(action="buy", quantity="10")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.severity, need.kind, need.subject) == ("critical", "needs_operator", "O1")
        assert need.reason == "COLLISION the broker knows this id already seen"
        # Each of its buttons works as it stands, or with the broker's id added.
        look = need.actions[0]
        await hand.do(look.command, **look.arguments)
        assert await hand.kinds() == [("warning", "entry_lost", "O1")]


async def test_h5_a_refused_exit_stands_first_until_a_later_one_has_done_its_work(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.plan.append(Refused("403", "held for orders"))
        await d.trade(action="exit")
        await d.trade(action="buy", quantity="1", symbol="MSFT", key="k-77")
        await d.deliver(action="buy", quantity="2", symbol="MSFT", key="k-77")
        hand = Hand(d)
        assert await hand.kinds() == [("critical", "exit_lost", "O2"), ("warning", "conflict", "D4")]
        (lost, _) = await hand.needs()
        assert lost.text == "The exit O2 (sell 10 AAPL from tv) was not done; its book still holds 10."
        assert lost.reason == "REFUSED 403 held for orders"
        assert await doings(hand) == [["replay", "close", "dismiss"], ["admit", "dismiss"]]
        await d.trade(action="exit")
        assert await hand.kinds() == [("warning", "conflict", "D4")]


async def test_h5_a_lost_exit_of_a_book_that_is_flat_now_stays_until_it_was_seen(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.halt("halted")
        await d.trade(action="exit")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.severity, need.kind) == ("warning", "exit_lost")
        assert need.text == "The exit O1 (exit AAPL from tv) was not done; its book is flat now."
        assert await doings(hand) == [["replay", "dismiss"]]
        await hand.thrice("dismiss", ids=["O1"])
        assert await hand.needs() == []


async def test_a_lost_exit_that_was_sent_again_is_lost_no_more(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.halt("halted")
        await d.trade(action="exit")
        await d.halt("active")
        hand = Hand(d)
        (need,) = await hand.needs()
        replay = need.actions[0]
        await hand.do(replay.command, **replay.arguments)
        await d.state(3, "DONE")
        assert await hand.needs() == []
        assert await d.book() == 0


async def test_what_was_put_away_and_sent_again_and_lost_again_is_back(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.plan.extend([Refused("403"), Refused("403")])
        await d.trade(action="exit")
        hand = Hand(d)
        await hand.do("dismiss", ids=["O2"])
        assert await hand.needs() == []
        await hand.do("replay", order="O2")
        await d.state(2, "NOT_PLACED")
        await d.until("SELECT count(*) FROM attempts WHERE order_id = 2 AND ended_at IS NOT NULL", 2)
        assert await hand.kinds() == [("critical", "exit_lost", "O2")]


async def test_exits_that_were_cancelled_or_overtaken_are_not_lost(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        for price in ("110", "120"):
            await d.deliver(action="exit", quantity="5", type="limit", limit_price=price)
        await d.state(2, "WORKING")
        await d.state(3, "WORKING")
        hand = Hand(d)
        await hand.do("cancel", order="O2")
        await d.state(2, "DONE")
        assert await hand.needs() == []
        await d.trade(action="exit")
        assert await hand.needs() == []


async def test_an_exit_of_an_empty_book_beside_an_open_one_is_first(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_SOURCES) as d:
        await d.trade(action="buy", quantity="10")
        order = await d.trade(source="other", action="exit")
        assert order["reason"].startswith("OTHER_BOOK_OPEN")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.severity, need.kind, need.subject) == ("critical", "other_book_open", "O2")
        await hand.do("dismiss", ids=["O2"])
        assert await hand.needs() == []


async def test_a_conflict_that_reads_as_an_exit_is_critical(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", key="k-1")
        await d.deliver(action="exit", key="k-1")
        (need,) = await Hand(d).needs()
        assert (need.severity, need.kind, need.subject) == ("critical", "conflict", "D2")
        assert need.text == (
            "An alert that reads as an exit from tv bears the key of S1 and asks for something else; "
            "nothing was placed."
        )


async def test_an_exit_that_came_too_late_is_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        verdict = await d.deliver(action="exit", fired_at="2026-03-02T15:00:00Z")
        assert verdict.kind == "stale"
        await d.deliver(action="buy", quantity="1", fired_at="2026-03-02T15:00:00Z")
        hand = Hand(d)
        assert await hand.kinds() == [("critical", "exit_refused", "D1")]
        assert await doings(hand) == [["dismiss"]]
        await hand.do("dismiss", ids=["D1"])
        assert await hand.needs() == []


async def lost_at_the_door(d: Desk, key: str, *, is_exit: bool = True) -> None:
    """A delivery that was answered 503 and of which nothing is on disk but its row."""
    from app.claims.base import Delivery, Refusal
    from app.claims.rows import EXIT_NOT_PLACED

    warnings = (EXIT_NOT_PLACED,) if is_exit else ()
    delivery = Delivery("tv-id", d.clock.now(), d.clock.boot(), "{}", b"", warnings)
    d.store.unanswered(delivery, Refusal(503, "not_accepted", "locked"), key)
    await d.until("SELECT count(*) FROM deliveries WHERE key = ?", 1, key)


async def test_h10_an_exit_that_was_told_503_is_there_after_60_s_unless_it_came_again(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await lost_at_the_door(d, "k-1")
        await lost_at_the_door(d, "k-2")
        await lost_at_the_door(d, "k-3", is_exit=False)
        hand = Hand(d)
        d.clock.advance(60 * SECOND)
        assert await hand.needs() == []
        await d.trade(action="exit", key="k-2")
        d.clock.advance(1)
        assert await hand.kinds() == [("critical", "exit_not_accepted", "D1")]
        (need,) = await hand.needs()
        assert need.text == (
            "An alert that reads as an exit from tv was answered 503 (locked) and has not come again; "
            "nothing was placed."
        )
        # It comes after all.
        await d.trade(action="exit", key="k-1")
        assert await hand.needs() == []


async def test_h10_a_window_key_that_came_again_is_claimed_under_its_own_epoch(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        verdict = await d.deliver(action="exit", key=None)
        await d.settled(verdict)
        assert verdict.key is not None
        d.clock.advance(3_600 * SECOND)
        sql = "SELECT count(*) FROM deliveries WHERE key = ? AND verdict = 'not_accepted'"
        from app.claims.base import Delivery, Refusal
        from app.claims.rows import EXIT_NOT_PLACED

        delivery = Delivery("tv-id", d.clock.now(), d.clock.boot(), "{}", b"", (EXIT_NOT_PLACED,))
        d.store.unanswered(delivery, Refusal(503, "not_accepted", "locked"), verdict.key)
        await d.until(sql, 1, verdict.key)
        hand = Hand(d)
        d.clock.advance(61 * SECOND)
        # The one of an hour ago is another signal.
        assert await hand.kinds() == [("critical", "exit_not_accepted", "D2")]
        await d.trade(action="exit", key=None)
        assert await hand.needs() == []


async def test_a_signal_whose_sender_never_came_again_is_told(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.failing.add("account")
        for action in ("buy", "exit"):
            verdict = await d.deliver(action=action, quantity="1", symbol=action.upper())
            sql = "UPDATE claims SET unanswered = 1 WHERE id = ?"
            await d.writer.run(
                partial(Transaction.change, table="claims", sql=sql, bindings=(verdict.claim_id,))
            )
        d.clock.advance(61 * SECOND)
        await d.state(1, "DENIED")
        await d.state(2, "DENIED")
        hand = Hand(d)
        assert await hand.kinds() == [("critical", "unanswered", "O2"), ("warning", "unanswered", "O1")]
        (exit_, _) = await hand.needs()
        assert exit_.text == (
            "O2 (exit EXIT from tv): its sender was told 503 and has not sent it again; nothing was placed."
        )
        # A person takes it over.
        faults.paper.failing.clear()
        d.clock.advance(15 * SECOND)
        await hand.do(exit_.actions[0].command, **exit_.actions[0].arguments)
        await d.state(3, "DONE")
        assert await hand.kinds() == [("warning", "unanswered", "O1")]


async def test_h27_a_ghost_is_critical_until_it_was_seen(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_before")
        await d.trade(action="buy", quantity="10", type="limit", limit_price="90")
        order = await d.order(1)
        await arrive(d, order["client_order_id"], limit="90")
        await d.trading.reconcile("paper", "button")
        await d.state(1, "WORKING")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.severity, need.kind, need.subject) == ("critical", "ghost", "O1")
        assert await doings(hand) == [["cancel", "dismiss"]]
        await d.trading.reconcile("paper", "button")
        assert await hand.kinds() == [("critical", "ghost", "O1")]
        cancel, dismiss = need.actions
        await hand.do(cancel.command, **cancel.arguments)
        await d.state(1, "DONE")
        assert await hand.kinds() == [("critical", "ghost", "O1")]
        await hand.do(dismiss.command, **dismiss.arguments)
        assert await hand.needs() == []


async def test_an_order_that_is_not_over_cannot_be_put_away(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(DuplicateId("seen"))
        await d.trade(action="buy", quantity="10")
        why = await Hand(d).refused("dismiss", ids=["O1"])
        assert why == "O1 is NEEDS_OPERATOR: it cannot be put away before it is over"


async def test_drift_is_told_until_the_next_reconciliation_finds_none(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "4")
        await d.trading.reconcile("paper", "button")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.severity, need.kind, need.subject) == ("warning", "drift", "paper AAPL")
        at = datetime.fromtimestamp(d.clock.now() // SECOND, UTC)
        assert need.text == f"At {at:%H:%M} UTC our books held 10 AAPL in paper, the broker 6."
        assert need.actions[0].arguments["quantity"] == "6"
        await d.by_hand("buy", "4")
        await d.trading.reconcile("paper", "button")
        assert await hand.needs() == []


async def test_drift_over_several_books_leaves_it_to_the_person_which_is_meant(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", strategy="A")
        await d.trade(action="buy", quantity="5", strategy="B")
        await d.by_hand("sell", "4")
        await d.trading.reconcile("paper", "button")
        (need,) = await Hand(d).needs()
        assert need.actions[0].arguments == {"account": "paper", "symbol": "AAPL"}


def _shows_no_others(broker: FaultyBroker) -> None:
    broker.shows_others = False


async def test_drift_stays_although_our_book_comes_to_hold_what_the_broker_held_then(tmp_path: Path) -> None:
    faults = Faults(_shows_no_others)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("buy", "5")
        await d.trading.reconcile("paper", "button")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert [action.command for action in need.actions] == ["book", "reconcile", "acknowledge"]
        await d.trade(symbol="MSFT", action="buy", quantity="1")
        (need,) = await hand.needs()
        assert [action.command for action in need.actions] == ["book", "reconcile", "acknowledge"]
        await d.trade(action="buy", quantity="5")
        (need,) = await hand.needs()
        assert (need.kind, [action.command for action in need.actions]) == ("drift", ["reconcile"])
        assert "our books held 10 AAPL in paper, the broker 15; we have traded it since" in need.text
        await d.trading.reconcile("paper", "button")
        (need,) = await hand.needs()
        assert "our books held 15 AAPL in paper, the broker 20." in need.text
        await hand.do("book", **need.actions[0].arguments)
        assert await hand.needs() == []
        await d.trading.reconcile("paper", "button")
        assert await hand.needs() == []


async def test_h37_a_run_that_says_nothing_of_a_symbol_does_not_settle_its_drift(tmp_path: Path) -> None:
    faults = Faults(_shows_no_others)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("buy", "5")
        await d.trading.reconcile("paper", "button")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="1")
        await d.state(2, "AMBIGUOUS")
        (report,) = await d.trading.reconcile("paper", "button")
        assert report.active == ["AAPL"]
        hand = Hand(d)
        assert ("warning", "drift", "paper AAPL") in await hand.kinds()
        await d.by_hand("sell", "5")
        await d.trading.reconcile("paper", "button")
        assert "drift" not in [kind for _, kind, _ in await hand.kinds()]
