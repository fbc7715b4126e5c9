"""The key lab: what another key would have swallowed or let through, counted against what happened."""

from __future__ import annotations

from decimal import Decimal

import pytest

from app.domain.alert import AlertRules, read_alert
from app.domain.keylab import USUAL, Composition, Seen, Verdict, merge, told, try_out
from app.domain.times import MINUTE, SECOND

BAR = {"interval": "15", "exchange": "NASDAQ", "strategy": "breakout"}


class Tape:
    """Deliveries as they came in; `signal` names what each was taken for."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def add(self, signal: int, at: int, *, header: str | None = None, **fields: object) -> Tape:
        base: dict[str, object] = {"symbol": "AAPL", "action": "buy", "quantity": Decimal(1), **fields}
        self.seen.append(
            Seen(
                delivery=len(self.seen) + 1,
                signal_id=signal,
                at=at,
                alert=read_alert(base, AlertRules()),
                header_key=header,
            )
        )
        return self

    def tried(self, **composition: object) -> Verdict:
        return try_out("tv-id", self.seen, Composition(**composition))  # type: ignore[arg-type]


def counts(found: Verdict) -> tuple[int, int, int, int]:
    return found.signals, found.caught, found.swallowed, found.let_through


def two_fills_of_one_bar() -> Tape:
    """Two partial exits on one bar, told apart by the position alone, and a resend of each."""
    tape = Tape()
    for number, (before, after) in enumerate([("3", "2"), ("2", "1")], 1):
        fields = {
            **BAR,
            "action": "sell",
            "bar_time": "2026-03-02T15:15:00Z",
            "order_id": "TP",
            "market_position": "long",
            "market_position_size": after,
            "prev_market_position": "long",
            "prev_market_position_size": before,
        }
        tape.add(number, number * SECOND, **fields).add(number, number * SECOND + 5 * SECOND, **fields)
    return tape


def test_the_programs_own_composition_does_what_was_done() -> None:
    assert counts(two_fills_of_one_bar().tried()) == (2, 2, 0, 0)


def test_without_the_position_two_partial_exits_are_one_and_it_is_shown_as_a_conflict() -> None:
    found = two_fills_of_one_bar().tried(fields=USUAL - {"position"})
    assert found.conflicts >= 1
    assert found.swallowed == 0
    (example, *_) = found.conflict_examples
    assert example.one is not None
    assert (example.one.signal_id, example.other.signal_id) == (1, 2)


def test_signals_that_differ_in_the_order_id_alone_are_swallowed_without_it() -> None:
    tape = Tape()
    for number, name in enumerate(["Long 1", "Long 2"], 1):
        tape.add(number, number * SECOND, **BAR, bar_time="2026-03-02T15:15:00Z", order_id=name)
    assert counts(tape.tried()) == (2, 0, 0, 0)
    found = tape.tried(fields=USUAL - {"order_id"})
    assert counts(found) == (2, 0, 1, 0)
    assert found.swallowed_examples[0].other.delivery == 2


def test_with_the_fire_time_in_it_a_second_copy_of_an_alert_gets_in() -> None:
    tape = Tape()
    for second in (0, 2):
        fired = f"2026-03-02T15:30:0{second}Z"
        tape.add(1, second * SECOND, **BAR, bar_time="2026-03-02T15:15:00Z", fired_at=fired)
    assert counts(tape.tried()) == (1, 1, 0, 0)
    found = tape.tried(fields=USUAL | {"fired_at"})
    assert counts(found) == (1, 0, 0, 1)
    assert found.let_through_examples[0].one is not None


@pytest.mark.parametrize(
    ("window", "expected"),
    [(45 * SECOND, (2, 1, 0, 0)), (10 * SECOND, (2, 0, 0, 1)), (5 * MINUTE, (2, 1, 1, 0))],
)
def test_without_a_time_the_window_decides(window: int, expected: tuple[int, int, int, int]) -> None:
    tape = Tape().add(1, 0).add(1, 20 * SECOND).add(2, 3 * MINUTE)
    assert counts(tape.tried(timeless_window=window)) == expected


def test_a_window_for_all_keys_lets_a_late_copy_through() -> None:
    tape = Tape().add(1, 0, key="k-1").add(1, 60 * SECOND, key="k-1")
    assert counts(tape.tried()) == (1, 1, 0, 0)
    assert counts(tape.tried(window=30 * SECOND)) == (1, 0, 0, 1)


@pytest.mark.parametrize(
    ("body_key", "expected"), [("identity", (2, 1, 0, 0)), ("label", (2, 1, 0, 0)), ("ignore", (2, 1, 1, 0))]
)
def test_a_key_of_the_message_as_identity_as_label_or_not_at_all(
    body_key: str, expected: tuple[int, int, int, int]
) -> None:
    tape = Tape()
    for signal, at in ((1, 0), (1, 5), (2, 9)):
        tape.add(signal, at * SECOND, key=f"k-{signal}")
    assert counts(tape.tried(body_key=body_key)) == expected


def test_one_key_for_two_orders_is_a_conflict_and_no_silent_loss() -> None:
    tape = Tape().add(1, 0, key="k-1").add(2, 5 * SECOND, key="k-2", quantity="2")
    found = tape.tried(body_key="ignore")
    assert (found.swallowed, found.conflicts) == (0, 1)


def test_a_key_in_a_header_stays_what_it_is() -> None:
    tape = Tape().add(1, 0, header="h-1").add(1, SECOND, header="h-1").add(2, 2 * SECOND, header="h-2")
    assert counts(tape.tried(fields=frozenset())) == (2, 1, 0, 0)


def test_verdicts_of_sources_add_up_and_a_composition_is_told_in_words() -> None:
    one = two_fills_of_one_bar().tried()
    assert counts(merge([one, one])) == (4, 4, 0, 0)
    assert told(Composition(fields=frozenset({"symbol", "bar_time"}), body_key="label")) == (
        "symbol, bar time; a key in the message is only a label"
    )
