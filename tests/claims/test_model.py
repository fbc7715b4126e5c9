"""Any sequence of deliveries, clocks, restarts and failed answers against the contract's plain rules.

The model below knows no SQL, no digest and none of the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.clock import SECOND
from tests.claims.kit import MINUTE, Alert, Bench, QuickBench

Name = tuple[Any, ...]

START = 1_772_465_400 * SECOND
BARS = (START - 15 * MINUTE, START)
"""Of fifteen minutes each."""


# -------------------------------------------------------------------------------------------- what can happen


@dataclass(frozen=True)
class Delivery:
    """`fired` is its age in seconds as the sender states it. `answer`: ok, late (503) or undone (503)."""

    key: str | None
    header: bool
    action: str
    quantity: str
    bar: int | None
    fired: int | None
    answer: str


@dataclass(frozen=True)
class Time:
    """Seconds that pass, seconds by which the wall clock is set, and whether the program starts anew."""

    passes: int
    is_set: int
    restarts: bool


@dataclass(frozen=True)
class Watermark:
    """Keys are purged up to so many seconds ago."""

    ago: int


Step = Delivery | Time | Watermark

DELIVERIES = st.builds(
    Delivery,
    key=st.sampled_from(["k1", "k1", "k2", None, None]),
    header=st.booleans(),
    action=st.sampled_from(["buy", "buy", "exit"]),
    quantity=st.sampled_from(["1", "1", "2"]),
    bar=st.sampled_from([None, None, None, *BARS]),
    fired=st.sampled_from([None, None, None, 0, 0, 0, 90, 91, 901]),
    answer=st.sampled_from(["ok", "ok", "ok", "late", "undone"]),
)
TIMES = st.builds(
    Time,
    passes=st.sampled_from([0, 1, 5, 20, 30, 46, 61, 301, 601]),
    is_set=st.sampled_from([0, 0, 0, 0, 60, -60, 3600, -3600]),
    restarts=st.sampled_from([False, False, True]),
)
WATERMARKS = st.builds(Watermark, ago=st.sampled_from([0, 60, 1000, 10_000]))
SEQUENCES = st.lists(st.one_of(*[DELIVERIES] * 12, *[TIMES] * 4, WATERMARKS), min_size=15, max_size=40)
"""Short ones are rare in a list that may be short, and say little."""


# -------------------------------------------------------------------------------------------------- the model


@dataclass
class Claim:
    name: Name
    intent: Name
    bar: int | None
    header: bool
    is_exit: bool
    wall: int
    boot: int
    run: int
    number: int
    counted: int = 1
    unanswered: bool = False


@dataclass(frozen=True)
class Found:
    kind: str
    reason: str | None = None
    claim: Claim | None = None
    counted: int | None = None


@dataclass
class Model:
    admit_exits: bool
    rate: int
    wall: int = START
    boot: int = 1_000 * SECOND
    run: int = 1
    watermark: int | None = None
    claims: list[Claim] = field(default_factory=list)

    def deliver(self, it: Delivery) -> Found:
        intent = (it.action, it.quantity)
        name: Name
        if it.key is not None:
            name = ("sent", it.key)
        elif it.bar is not None:
            name = ("derived", it.bar, it.action)
        else:
            name = ("window", *intent)
        known = self.newest(name)
        if known is not None and name[0] == "window" and not 45 * -SECOND < self.since(known) <= 45 * SECOND:
            known = None
        conflict = None if known is None else self.conflict(known, intent, it)
        if conflict is not None:
            if not (self.admit_exits and it.action == "exit"):
                return Found("conflict", conflict, known)
            name, known = self.of_its_own(name, intent, it.bar)
        if known is not None and not known.unanswered:
            known.counted += 1
            return Found("duplicate", None, known, known.counted)
        refused = self.refusal(it)
        if refused is not None:
            return refused
        return self.admitted(name, intent, it, known)

    def newest(self, name: Name) -> Claim | None:
        return next((claim for claim in reversed(self.claims) if claim.name == name), None)

    def since(self, claim: Claim) -> int:
        return self.boot - claim.boot if claim.run == self.run else self.wall - claim.wall

    def conflict(self, known: Claim, intent: Name, it: Delivery) -> str | None:
        if known.intent != intent:
            return "intent_differs"
        if known.unanswered:
            return None
        if known.bar != it.bar:
            return "key_reused"
        by_header = known.header and it.header and it.key is not None
        ten_minutes_apart = abs(self.since(known)) > 10 * MINUTE
        return "key_reused" if it.bar is None and ten_minutes_apart and not by_header else None

    def of_its_own(self, name: Name, intent: Name, bar: int | None) -> tuple[Name, Claim | None]:
        if bar is not None:
            own: Name = ("own", *name, *intent, "bar", bar)
            return own, self.newest(own)
        epoch = self.wall // (10 * MINUTE)
        own = ("own", *name, *intent, "epoch", epoch)
        before = self.newest(("own", *name, *intent, "epoch", epoch - 1))
        if self.newest(own) is None and before is not None and abs(self.since(before)) <= 10 * MINUTE:
            return before.name, before
        return own, self.newest(own)

    def refusal(self, it: Delivery) -> Found | None:
        is_exit = it.action == "exit"
        fired = None if it.fired is None else self.wall - it.fired * SECOND
        stated = it.bar if fired is None else fired
        if self.watermark is not None and stated is not None and stated <= self.watermark:
            return Found("stale", "before_watermark")
        age = None
        if fired is not None:
            age = self.wall - fired
        elif it.bar is not None:
            age = self.wall - (it.bar + 15 * MINUTE)
        if age is not None and age > (15 * MINUTE if is_exit else 90 * SECOND):
            return Found("stale", "stale")
        entries = [claim for claim in self.claims if not claim.is_exit and not claim.unanswered]
        recent = [claim for claim in entries if 0 <= self.since(claim) < MINUTE]
        if self.rate and not is_exit and len(recent) >= self.rate:
            return Found("not_accepted", "rate")
        return None

    def admitted(self, name: Name, intent: Name, it: Delivery, known: Claim | None) -> Found:
        if known is None:
            by_header = it.header and it.key is not None and name[0] != "own"
            known = Claim(name, intent, it.bar, by_header, it.action == "exit", 0, 0, 0, len(self.claims) + 1)
            self.claims.append(known)
        else:
            known.counted += 1
            known.unanswered = False
            known.bar = it.bar
        known.wall, known.boot, known.run = self.wall, self.boot, self.run
        return Found("accepted", None, known, known.counted)

    def answered_503(self, found: Found) -> None:
        if found.claim is not None and found.kind in ("accepted", "duplicate"):
            found.claim.counted -= 1
            found.claim.unanswered |= found.kind == "accepted"


# ----------------------------------------------------------------------------------------------- side by side


def alert(bench: Bench, it: Delivery) -> Alert:
    fields: dict[str, Any] = {"action": it.action, "quantity": it.quantity}
    if it.bar is not None:
        fields |= {"bar_time": str(it.bar // 1000), "interval": "15"}
    if it.fired is not None:
        fields["fired_at"] = str((bench.clock.now() - it.fired * SECOND) // 1000)
    key, header = (None, it.key) if it.header else (it.key, None)
    return bench.alert(key, header=header, **fields)


def deliver(bench: Bench, model: Model, it: Delivery) -> None:
    """One delivery to both; the verdicts are the same."""
    before = [replace(claim) for claim in model.claims]
    found = model.deliver(it)
    sent = alert(bench, it)
    if it.answer == "undone":
        with bench.undone() as tx:
            verdict = bench.admit(tx, sent)
    else:
        verdict = bench.decide(sent)
    assert (verdict.kind, verdict.reason, verdict.deliveries) == (found.kind, found.reason, found.counted)
    assert verdict.claim_id == (None if found.claim is None else found.claim.number)
    if it.answer == "undone":
        model.claims = before
    if it.answer == "late":
        model.answered_503(found)
    if it.answer != "ok":
        bench.refused(sent, verdict)
        bench.refused(sent, verdict)


def check(bench: Bench, model: Model, sent: int) -> None:
    claims = bench.claims()
    assert [(row["id"], row["deliveries"], bool(row["unanswered"])) for row in claims] == [
        (claim.number, claim.counted, claim.unanswered) for claim in model.claims
    ]
    assert len({row["digest"] for row in claims}) == len(claims)
    rows = bench.deliveries()
    assert len(rows) == len(bench.rows("SELECT * FROM bodies")) == sent
    counted = Counter(row["claim_id"] for row in rows if row["verdict"] in ("accepted", "duplicate"))
    assert counted == {row["id"]: row["deliveries"] for row in claims if row["deliveries"]}
    orders = bench.orders()
    assert [row["claim_id"] for row in orders] == [row["id"] for row in claims], "one order a claim"


@contextmanager
def a_bench(empty: Path) -> Iterator[Bench]:
    bench = QuickBench(empty)
    try:
        yield bench
    finally:
        bench.close()


@settings(max_examples=150, deadline=None)
@given(steps=SEQUENCES, admit_exits=st.booleans(), rate=st.sampled_from([0, 0, 1]))
def test_every_verdict_is_the_contract_s(
    empty: Path, steps: list[Step], admit_exits: bool, rate: int
) -> None:
    with a_bench(empty) as bench:
        bench.set(admit_exits=admit_exits, entries_per_minute=rate)
        run(bench, Model(admit_exits, rate), steps)


def run(bench: Bench, model: Model, steps: list[Step]) -> None:
    sent = 0
    for step in steps:
        if isinstance(step, Delivery):
            deliver(bench, model, step)
            sent += 1
        elif isinstance(step, Watermark):
            model.watermark = bench.clock.now() - step.ago * SECOND
            bench.watermark(model.watermark)
        else:
            bench.later(step.passes)
            bench.clock.step(step.is_set * SECOND)
            model.wall, model.boot = bench.clock.now(), bench.clock.boot()
            if step.restarts:
                assert bench.restart() == 0
                model.run = bench.runs
    check(bench, model, sent)


def test_a_model_that_forgets_a_rule_is_found_out(empty: Path) -> None:
    again = Delivery("k1", False, "buy", "2", None, None, "ok")
    forgetful = Model(admit_exits=False, rate=0)
    forgetful.conflict = lambda *_: None  # type: ignore[method-assign]
    with a_bench(empty) as bench, pytest.raises(AssertionError, match="conflict"):
        run(bench, forgetful, [replace(again, quantity="1"), again])
