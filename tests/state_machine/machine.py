"""Rules: what a sender, the exchange, a person, the clock and the power can do, in any order.

What a rule draws never depends on how far the program is; `which` names one of what there is by then. After
each step everything is looked at (look.py) and held against the model (model.py).
"""

from __future__ import annotations

import asyncio
import uuid
from decimal import Decimal
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from structlog.testing import capture_logs

from app.engine.at_rest import restore
from app.ledger.reader import read
from tests.state_machine import look
from tests.state_machine.history import History
from tests.state_machine.model import SECOND, Intent, Signal

T = TypeVar("T")
JUMP = 30
"""Seconds of a jump from which on the engine opens its sessions anew."""
STRATEGIES = st.sampled_from(["A", "B"])
WHICH = st.integers(0, 99)
"""Names one of what there is, counted from the newest."""
JOBS = st.integers(1, 80)
"""Pieces of work of the program's threads: an order needs some twenty from its delivery to its fill."""
PRESS = 20
"""The same of what a person presses."""

BUYS = st.builds(Intent, STRATEGIES, st.just("buy"), st.integers(1, 9), st.sampled_from([False, False, True]))
EXITS = st.builds(Intent, STRATEGIES, st.sampled_from(["exit", "sell"]), st.integers(1, 9))
ALL_OUT = st.builds(Intent, STRATEGIES, st.just("exit"), st.none())
DOUBTS = st.sampled_from(["lost_before", "lost_after", "crash_before", "crash_after", "lag:2", "lag:40"])
FAULTS = st.just("") | DOUBTS
SAYS = st.sampled_from(["look_again", "not_placed", "placed"])
CALLS = st.sampled_from([("find",), ("snapshot", "fills"), ("find", "snapshot", "account"), ("cancel",)])


def newest(found: list[T], which: int) -> T:
    return found[-1 - which % len(found)]


class Onefill(History):
    @rule(intent=BUYS | EXITS | ALL_OUT, ago=st.sampled_from([0, 0, 0, 91, 901]))
    def deliver(self, intent: Intent, ago: int) -> None:
        self.deliver_now(self.new(intent, ago))

    @rule(intent=BUYS | BUYS | EXITS | ALL_OUT, fault=FAULTS, jobs=JOBS)
    def trade(self, intent: Intent, fault: str, jobs: int) -> None:
        """Something goes wrong with the next send, and the program gets some way with it."""
        self.w.broker.plan.append(fault)
        self.deliver_now(self.new(intent))
        self.w.progress(jobs)

    @rule(intent=BUYS | ALL_OUT, copies=st.integers(2, 4), differs=st.booleans())
    def deliver_at_once(self, intent: Intent, copies: int, differs: bool) -> None:
        signal = self.new(intent)
        other = Signal(signal.key, Intent(intent.strategy, "buy", 7 + (intent.quantity or 0)), signal.fired)
        self.deliver_now(*[signal] * copies, *[other] * differs)

    @precondition(lambda self: self.sent)
    @rule(which=WHICH)
    def duplicate(self, which: int) -> None:
        self.deliver_now(newest(self.sent, which))

    @rule()
    def resend_all(self) -> None:
        for signal in self.sent[-12:]:
            self.deliver_now(signal)

    @precondition(lambda self: self.model.ledger.known)
    @rule(which=WHICH)
    def conflict(self, which: int) -> None:
        known = newest(list(self.model.ledger.known.values()), which).signal
        other = Intent(known.intent.strategy, known.intent.action, (known.intent.quantity or 0) + 10)
        assert self.deliver_now(Signal(known.key, other, known.fired)) in ([], ["conflict"])

    # ------------------------------------------------------------------------------------------ the exchange

    @rule(jobs=JOBS)
    def get_on(self, jobs: int) -> None:
        self.w.progress(jobs)

    @rule(seconds=st.sampled_from([1, 5, 20, 70]))
    def wait(self, seconds: int) -> None:
        self.w.run(asyncio.sleep(seconds))

    @rule()
    def settle(self) -> None:
        self.quiet()

    @rule()
    def market_falls(self) -> None:
        """What rests at 90 is filled, in one piece or several."""
        for price in ("80", "100"):
            self.w.run(self.w.broker.real.observe_price("AAPL", Decimal(price)))

    @rule(calls=CALLS, seconds=st.sampled_from([3, 25]))
    def lookups_fail(self, calls: tuple[str, ...], seconds: int) -> None:
        async def look_away() -> None:
            self.w.broker.look_away(calls, seconds)

        self.w.run(look_away())

    @rule(quantity=st.integers(1, 20))
    def trade_by_hand(self, quantity: int) -> None:
        """A person buys for himself, past Onefill."""
        self.w.run(self.w.desk.by_hand("buy", str(quantity)))

    # -------------------------------------------------------------------------------------- ends and starts

    @rule()
    def restart(self) -> None:
        self.w.stop()
        self.w.start()

    @rule(
        intent=BUYS | EXITS | ALL_OUT,
        does=st.sampled_from(["deliver", "deliver", "close", "flatten", "purge", "purge", "back_up"]),
        jobs=JOBS,
        again=st.none() | st.integers(1, 40),
    )
    def crash(self, intent: Intent, does: str, jobs: int, again: int | None) -> None:
        """The power goes while something is done, or after it; perhaps again while the program starts."""
        cutoff, few = None, 1 + jobs % PRESS
        match does:
            case "deliver":
                signal = self.new(intent)
                now = self.w.clock.now()
                answer = self.w.run_until_cut(self.claim(signal), jobs)
                if answer is not None:
                    assert (answer.kind, answer.reason) in self.model.expect(signal, now), "told otherwise"
                    self.model.told(signal, answer.kind, f"D{answer.delivery_id}", now)
                elif self._is_in(signal.key):
                    self.model.accept(signal, now)
            case "purge":
                self._before_purge(intent)
                cutoff = self.w.clock.now()
                self.w.run_until_cut(self.pressed("purge", bodies_older_than=0, keys_older_than=0), few)
            case "back_up":
                path, model = self.new_backup(), self.model.ledger
                self.w.run_until_cut(self.pressed("backup", file=str(path)), few)
                assert model is self.model.ledger
                if path.exists():
                    self.backed_up(path)
            case "close":
                self.w.run_until_cut(self.pressed("close", account="paper", symbol="AAPL"), few)
            case "flatten":
                self.w.run_until_cut(self.pressed("flatten", account=self.accounts[-1]), few)
        if again is not None:
            self.w.start_and_cut(again)
        self.w.start()
        with self.w.ledger() as ledger:
            self.model.purged(look.keys(ledger), cutoff, look.watermark(ledger))

    def _is_in(self, key: str) -> bool:
        """Whether the dead program had claimed it: nobody was told."""
        with self.w.ledger() as ledger:
            return key in look.keys(ledger)

    @rule(seconds=st.sampled_from([20, 61, 600, 3_600, -40, -600, -3_600]), sleeps=st.booleans())
    def clock_jumps(self, seconds: int, sleeps: bool) -> None:
        if sleeps:
            self.w.pass_by(abs(seconds))
        else:
            self.w.clock.step(seconds * SECOND)
            self.w.newest_wall = max(self.w.newest_wall, self.w.clock.now())

        async def noticed() -> None:
            self.w.desk.trading.begin_anew()

        if abs(seconds) > JUMP:
            self.w.run(noticed())

    # ---------------------------------------------------------------------------------------------- a person

    @rule(to=st.sampled_from(["halted", "exits_only", "active", "active"]), intent=BUYS | EXITS)
    def brake(self, to: str, intent: Intent) -> None:
        arguments = {} if to == "active" else {"exits_only": to == "exits_only"}
        assert self.press("resume" if to == "active" else "halt", **arguments) is not None
        self.model.state = to
        # What had left before the brake may arrive; from here on nothing leaves.
        self.w.run(self.w.until(look.nothing_is_submitting, "what is on its way has arrived"))
        self.frozen = self.at_exchange()
        self.deliver_now(self.new(intent))

    @precondition(lambda self: self.seen.orders)
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        self.press("cancel", order=newest(self.seen.orders, which))

    @rule(
        intent=BUYS | ALL_OUT,
        fault=DOUBTS,
        calls=st.just(()) | CALLS,
        seconds=st.sampled_from([0, 2, 20, 60]),
        says=SAYS,
        lies=st.booleans(),
    )
    def doubt(
        self, intent: Intent, fault: str, calls: tuple[str, ...], seconds: int, says: str, lies: bool
    ) -> None:
        """An order of which nobody knows, a person who says what he thinks, and who wants it all the same."""
        self.w.broker.plan.clear()
        self.w.broker.plan.append(fault)
        self.lookups_fail(calls, seconds)
        self.deliver_now(self.new(intent))
        self.w.progress(40)
        self.wait(seconds)
        self.nothing_is_broken()
        self.resolve(0, says, lies)
        self.replay(0)

    @rule(which=WHICH)
    def replay(self, which: int) -> None:
        """What is not at the exchange before what was refused here, and that before anything else."""
        with self.w.ledger() as ledger:
            sql = "SELECT 'O' || id AS name FROM orders ORDER BY state = 'NOT_PLACED', state = 'DENIED', id"
            found = [row["name"] for row in read(ledger, sql)]
        if not found:
            return
        answer = self.press("replay", order=newest(found, which))
        for one in answer["replayed"] if answer else ():
            with self.w.ledger() as ledger:
                sql = "SELECT claim_id FROM orders WHERE id = ?"
                (row,) = read(ledger, sql, (int(one["as"][1:]),))
                self.model.replays[self.seen.key_of(ledger, row["claim_id"])] += 1

    @rule(which=WHICH, says=SAYS, lies=st.booleans())
    def resolve(self, which: int, says: str, lies: bool) -> None:
        with self.w.ledger() as ledger:
            sql = "SELECT * FROM orders WHERE state IN ('AMBIGUOUS', 'NEEDS_OPERATOR') ORDER BY id"
            found = read(ledger, sql)
        if not found:
            return
        order = newest(found, which)
        there = look.paper_orders(self.w.home)
        mine = [row["id"] for row in there if row["client_order_id"] == order["client_order_id"]]
        arguments: dict[str, Any] = {"order": f"O{order['id']}", "answer": says}
        if says == "placed":
            # A person who errs names the exchange's first order; the terms say that it is another.
            named = [row["id"] for row in there][:1] if lies else mine
            arguments["broker_order_id"] = str(named[0]) if named else "none"
        answer = self.press("resolve", **arguments)
        if answer and says == "placed":
            assert arguments["broker_order_id"] in map(str, mine), "another order taken for this one"
        if answer and says == "not_placed":
            hidden = order["client_order_id"] in self.w.broker.hidden
            assert not mine or hidden, "not placed, and it is there"
            if mine:
                self.model.doubtful.add(order["strategy"])

    @precondition(lambda self: self.model.ledger.conflicts)
    @rule(which=WHICH)
    def admit(self, which: int) -> None:
        name = newest(list(self.model.ledger.conflicts), which)
        answer = self.press("admit", delivery=name)
        if answer is not None:
            with self.w.ledger() as ledger:
                key = self.seen.key_of(ledger, int(answer["signal"][1:]))
            self.model.admitted(name, key, is_new=not answer["collapsed"])
            assert self.press("admit", delivery=name) is None, "admitted once"

    @rule(which=WHICH)
    def close(self, which: int) -> None:
        self.press("close", account=newest(self.accounts, which), symbol="AAPL")

    @rule(which=WHICH)
    def flatten(self, which: int) -> None:
        assert self.press("flatten", account=newest(self.accounts, which)) is not None

    @rule(which=WHICH, strategy=STRATEGIES, quantity=st.integers(0, 9))
    def book(self, which: int, strategy: str, quantity: int) -> None:
        answer = self.press(
            "book",
            account=newest(self.accounts, which),
            symbol="AAPL",
            quantity=str(quantity),
            source="tv",
            strategy=strategy,
        )
        if answer is not None:
            self.model.corrected(strategy, int(answer["was"]), quantity)

    @rule(which=WHICH)
    def reconcile(self, which: int) -> None:
        self.w.run(self.w.desk.trading.reconcile(newest(self.accounts, which), "button"))

    @rule(bodies=st.sampled_from([0, 60]), keys=st.sampled_from([None, 0, 0, 60]), intent=BUYS | ALL_OUT)
    def purge(self, bodies: int, keys: int | None, intent: Intent) -> None:
        self._before_purge(intent)
        cutoff = None if keys is None else self.w.clock.now() - keys * SECOND
        ages = {} if keys is None else {"keys_older_than": keys * SECOND}
        answer = self.press("purge", bodies_older_than=bodies * SECOND, **ages)
        assert answer is not None
        with self.w.ledger() as ledger:
            assert answer["keys"] == self.model.purged(look.keys(ledger), cutoff, look.watermark(ledger))
        self.resend_all()

    def _before_purge(self, intent: Intent) -> None:
        """There is something to forget; nothing goes unseen, for its key says whose an order is."""
        self.deliver_now(self.new(intent))
        self.quiet()
        self.nothing_is_broken()
        self.w.pass_by(31)

    @precondition(lambda self: self.model.backup != self.model.ledger)
    @rule()
    def back_up(self) -> None:
        self.make_backup()

    @rule(by_kill=st.booleans(), resumes=st.sampled_from([True, True, False]), intent=BUYS)
    def go_back(self, by_kill: bool, resumes: bool, intent: Intent) -> None:
        """What was lost comes again, and something new, before or after a person has looked.

        The clock is right by then (README, what is assumed): the watermark is what it says.
        """
        (self.w.kill if by_kill else self.w.stop)()
        with self.w.ledger() as ledger:
            self.seen.check_ledger(ledger, self.model)
        self.w.clock.step(self.w.newest_wall - self.w.clock.now())
        self.w.pass_by(1)
        now, request = self.w.clock.now(), uuid.uuid4().hex
        with capture_logs():
            restore(self.w.home, self.backup, why="it broke", actor="person", request_id=request, now=now)
        self.model.restored(now)
        self.frozen = self.at_exchange()
        self.w.start()
        self.nothing_is_broken()
        if resumes:
            assert self.press("resume") is not None
            self.model.state = "active"
        self.resend_all()
        self.deliver_now(self.new(intent))
