"""One history of a home: what was sent, what the program was told to do, and what must hold after each step.

The rules are in machine.py; here is what they are made of, and the end that every history comes to.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path
from typing import Any

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from app.claims.base import Verdict
from app.domain.key import HeaderKeys
from app.engine import CommandRefused
from app.ledger.reader import read
from tests.execution.kit import CONFIG, TWO_ACCOUNTS
from tests.state_machine import look
from tests.state_machine.model import SECOND, SKEW, Intent, Model, Signal
from tests.state_machine.world import World

RULES = """
[risk]
position_divisor = 1
max_orders_per_minute = 0

[reconciliation]
absent_min_age = "5s"
arrival_bound = "4s"
resolve_deadline = "30s"
"""
SHOWN_AFTER = 41
"""Seconds after which every fault is over."""


class History(RuleBasedStateMachine):
    """One home over several runs of the program."""

    home_made_once: Path

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.sent: list[Signal] = []
        self.seen = look.Seen()
        self.frozen: set[str] = set()
        """Client order ids that the exchange had when trading was last halted or restricted."""
        self.world: World | None = None

    @initialize(
        seed=st.integers(0, 2**16),
        fills=st.sampled_from(["async", "partial", "instant"]),
        behind_a_wire=st.booleans(),
        config=st.sampled_from([CONFIG, CONFIG, TWO_ACCOUNTS]),
    )
    def begin(self, seed: int, fills: str, behind_a_wire: bool, config: str) -> None:
        self.accounts = ["paper", "second"] if config == TWO_ACCOUNTS else ["paper"]
        self.world = self.w = World(self.home_made_once, seed)
        self.w.slow_proof = behind_a_wire
        self.w.config = config.replace('broker = "paper"', f'broker = "paper"\nfills = "{fills}"') + RULES
        self.w.start()
        self.make_backup()

    # -------------------------------------------------------------------------------------------- deliveries

    def deliver_now(self, *signals: Signal) -> list[str]:
        """Delivers, several at the same instant, and holds each answer against the model's."""
        now = self.w.clock.now()
        fit = [signal for signal in signals if signal.fired - now <= SKEW]

        async def at_once() -> list[Verdict]:
            return list(await asyncio.gather(*(self.claim(signal) for signal in fit)))

        told = list(zip(fit, self.w.run(at_once()), strict=True))
        # Of one key it is the ledger that says which came first.
        told.sort(key=lambda each: each[1].kind != "accepted")
        for signal, verdict in told:
            assert (verdict.kind, verdict.reason) in self.model.expect(signal, now), "told otherwise"
            self.model.told(signal, verdict.kind, f"D{verdict.delivery_id}", now)
            if verdict.kind in ("conflict", "stale") and signal.intent.action == "exit":
                with self.w.ledger() as ledger:
                    assert look.is_told(ledger, f"D{verdict.delivery_id}", now), "an exit lost in silence"
        return [verdict.kind for _, verdict in told]

    async def claim(self, signal: Signal) -> Verdict:
        intent = signal.intent
        fields: dict[str, Any] = {"action": intent.action, "strategy": intent.strategy, "key": None}
        if intent.quantity is not None:
            fields["quantity"] = str(intent.quantity)
        if intent.limit:
            fields |= {"order_type": "limit", "limit_price": "90"}
        headers = HeaderKeys(idempotency_key=(signal.key,))
        return await self.w.desk.deliver(headers=headers, fired_at=signal.fired // 1000, **fields)

    def new(self, intent: Intent, ago: int = 0) -> Signal:
        """Time passes between two signals, as it does; what they state is in milliseconds."""
        self.w.pass_by(0.01)
        fired = self.w.clock.now() // 1000 * 1000 - ago * SECOND
        signal = Signal(f"key-{len(self.sent):08}", intent, fired)
        self.sent.append(signal)
        return signal

    # ------------------------------------------------------------------------------ what rules are made of

    def quiet(self, *, resting: bool = True) -> None:
        is_quiet = look.is_quiet_but_for_resting if resting else look.is_quiet
        self.w.run(self.w.until(is_quiet, "everything is at rest"))

    def at_exchange(self) -> set[str]:
        return {row["client_order_id"] for row in look.paper_orders(self.w.home)}

    async def pressed(self, name: str, **arguments: Any) -> dict[str, Any] | None:
        """What is not to be done is refused, and then changes nothing: the invariants say so."""
        if name not in ("halt", "resume", "backup", "cancel"):
            arguments["why"] = "I looked"
        try:
            return await self.w.press(name, **arguments)
        except CommandRefused:
            return None

    def press(self, name: str, **arguments: Any) -> dict[str, Any] | None:
        return self.w.run(self.pressed(name, **arguments))

    def new_backup(self) -> Path:
        return self.w.folder / f"backup-{uuid.uuid4().hex}.sqlite3"

    def make_backup(self) -> None:
        path = self.new_backup()
        assert self.press("backup", file=str(path)) is not None
        self.backed_up(path)

    def backed_up(self, path: Path) -> None:
        self.backup = path
        self.model.backed_up()

    # ---------------------------------------------------------------------------------------- after each step

    @invariant()
    def nothing_is_broken(self) -> None:
        if self.world is None:
            return
        with self.w.ledger() as ledger:
            self.seen.check_ledger(ledger, self.model)
            self._marks_are_kept(ledger)
        paper = look.paper_orders(self.w.home)
        self.seen.check_exchange(paper, self.model)
        self.seen.check_sends(self.w.left, self.model)
        sent = self.seen.sent
        new = [
            row
            for row in paper
            if row["client_order_id"] in sent
            and row["client_order_id"] not in self.frozen
            and not sent[row["client_order_id"]].by_person
        ]
        assert self.model.state != "halted" or new == [], "sent while halted"
        if self.model.state == "exits_only":
            assert {row["side"] for row in new} <= {"sell"}, "an entry sent while only exits may be"
        assert self.w.wrong() == []

    def _marks_are_kept(self, ledger: apsw.Connection) -> None:
        rows = read(ledger, "SELECT value FROM meta WHERE name = 'trading_state'")
        state = rows[0]["value"] if rows else "active"
        assert state == self.model.state, "the trading state is another"
        assert look.watermark(ledger) == self.model.ledger.watermark, "the watermark is another"

    # ------------------------------------------------------------------------------------------------ the end

    def teardown(self) -> None:
        if self.world is None:
            return
        try:
            if sys.exc_info()[0] is None:
                self._end()
        finally:
            self.w.close()

    def _end(self) -> None:
        """Everything comes to rest, and what did not end well stands before a person."""
        self.w.broker.plan.clear()
        if self.w.broker.hidden or self.w.broker.failing:
            self.w.run(asyncio.sleep(SHOWN_AFTER))
        self.quiet()
        with self.w.ledger() as ledger:
            working = read(ledger, "SELECT id FROM orders WHERE state = 'WORKING'")
        for row in working:
            self.press("cancel", order=f"O{row['id']}")
        self.quiet(resting=False)
        for account in self.accounts:
            self.w.run(self.w.desk.trading.reconcile(account, "button"))
        self.quiet(resting=False)
        self.nothing_is_broken()
        assert self.w.desk.trading.unattended == 0
        with self.w.ledger() as ledger:
            look.everything_is_told(ledger, self.w.clock.now())
            look.everything_is_booked(ledger, look.paper_orders(self.w.home))
        self.w.stop()
