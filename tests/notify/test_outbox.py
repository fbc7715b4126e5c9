"""What one receiver is told, and when: once each, a burst as one message, ever rarer tries, bounded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from app.clock import SECOND
from app.notify import Event, Item, Message, Outbox
from app.notify.item import CRITICAL, NOTE, WARNING
from app.notify.outbox import FORGET, LASTING, MOST_TOLD, MOST_WAITING, TOO_OLD
from app.settings import Notice, Quiet
from app.settings.notices import KINDS

NOON, MIDNIGHT = 12 * 60, 0


def outbox(quiet: Quiet | None = None, kinds: tuple[str, ...] = KINDS) -> Outbox:
    return Outbox(Notice(name="phone", to="url", kinds=kinds, quiet=quiet))


def need(key: str = "O1", **more: Any) -> Item:
    return Item(key, more.pop("kind", "needs_you"), more.pop("text", f"{key} needs you."), **more)


def told(box: Outbox, boot: int, minute: int = NOON) -> Message | None:
    """The message that is due, delivered."""
    message = box.due(boot, minute)
    if message is not None:
        box.sent(message, boot)
    return message


class Time:
    def __init__(self) -> None:
        self.at = 1_000 * SECOND

    def after(self, seconds: float) -> int:
        self.at += int(seconds * SECOND)
        return self.at


@pytest.fixture
def time() -> Time:
    return Time()


def test_each_thing_is_told_once_however_long_it_stands(time: Time) -> None:
    box = outbox()
    messages = []
    for _ in range(600):
        box.look([need()], (), time.after(1))
        messages += [message] if (message := told(box, time.at)) else []
    assert [message.keys for message in messages] == [("O1",)]
    assert "O1 needs you." in messages[0].body


def test_a_burst_is_one_message_with_a_count_the_worst_first(time: Time) -> None:
    box = outbox()
    burst = [need(f"O{number}") for number in range(1, 60)]
    box.look([*burst, need("O60", kind="critical", rank=CRITICAL)], (), time.at)
    assert box.due(time.after(1), NOON) is None, "it waits for what else comes"
    message = told(box, time.after(5))
    assert message is not None
    assert message.title == "Onefill: 60 things need you, 1 of them critical"
    assert message.body.splitlines()[0] == "- O60 needs you."
    assert "And 52 more things that need you." in message.body
    assert "onefill needs" in message.body
    box.look(burst, (), time.after(60))
    assert box.due(time.at, NOON) is None


def test_what_comes_after_a_message_waits_for_the_next_one(time: Time) -> None:
    box = outbox()
    sent_at = []
    for number in range(120):
        box.look([need(f"O{each}") for each in range(number + 1)], (), time.after(1))
        if told(box, time.at):
            sent_at.append(number)
    assert len(sent_at) == 4, "one in half a minute"


def test_what_is_over_before_it_was_told_is_not_told(time: Time) -> None:
    box = outbox()
    box.look([need(patience=20 * SECOND)], (), time.at)
    box.look([need(patience=20 * SECOND)], (), time.after(15))
    assert told(box, time.at) is None
    box.look([], (), time.after(1))
    box.look([need(patience=20 * SECOND)], (), time.after(1))
    assert told(box, time.after(6)) is None, "its patience begins anew"
    box.look([need(patience=20 * SECOND)], (), time.after(20))
    assert told(box, time.after(6)) is not None
    box.look([need("O2")], (), time.after(60))
    box.look([], (), time.after(1))
    assert told(box, time.after(6)) is None


def test_what_gets_worse_is_told_again_and_what_gets_milder_is_not(time: Time) -> None:
    box = outbox()
    box.look([need(rank=WARNING)], (), time.at)
    assert told(box, time.after(6)) is not None
    box.look([need(rank=CRITICAL)], (), time.after(60))
    assert told(box, time.after(6)) is not None
    box.look([need(rank=WARNING)], (), time.after(60))
    assert told(box, time.after(6)) is None


def test_what_comes_and_goes_is_told_again_only_after_it_was_away_for_long(time: Time) -> None:
    box = outbox()
    messages = 0
    for number in range(400):
        box.look([need()] if number % 2 else [], (), time.after(24))
        messages += told(box, time.after(6)) is not None
    assert messages == 1
    box.look([], (), time.after(1))
    box.look([], (), time.after(FORGET / SECOND + 1))
    box.look([need()], (), time.after(1))
    assert told(box, time.after(6)) is not None


def test_the_end_of_a_trouble_is_told_and_a_trouble_that_lasts_is_told_again(time: Time) -> None:
    box = outbox()
    down = Item("fact:tunnel", "unwell", "The tunnel is down.", CRITICAL, over="The tunnel is up again.")
    box.look([down], (), time.at)
    first = told(box, time.after(6))
    box.look([], (), time.after(60))
    second = told(box, time.after(6))
    assert first is not None
    assert second is not None
    assert ("is up again" in second.body, second.rank) == (True, NOTE)
    for _ in range(10):
        box.look([down], (), time.after(20))
        assert told(box, time.at) is None, "it may only flap"
        box.look([], (), time.after(20))
        assert told(box, time.at) is None
    box.look([down], (), time.after(20))
    box.look([down], (), time.after(LASTING / SECOND + 1))
    third = told(box, time.after(31))
    assert third is not None, "whoever was told that it is well must hear that it is not"
    assert "is down" in third.body


def test_a_trouble_that_was_never_told_has_no_end_that_is_told(time: Time) -> None:
    box = outbox()
    box.look([need(patience=60 * SECOND, over="over")], (), time.at)
    box.look([], (), time.after(30))
    assert told(box, time.after(60)) is None


def test_a_receiver_that_fails_is_tried_ever_more_rarely_and_then_told_all_of_it(time: Time) -> None:
    box = outbox()
    tries: list[int] = []
    for second in range(10_000):
        box.look([need(), need("O2")] if second > 5_000 else [need()], (), time.after(1))
        message = box.due(time.at, NOON)
        if message is not None:
            tries.append(second)
            box.sent(message, time.at, "it does not answer")
    waits = [later - earlier for earlier, later in pairwise(tries)]
    assert waits == [5, 15, 60, 300, 900, 3_600, 3_600]
    assert (box.failures, box.reason) == (8, "it does not answer")
    box.look([need(), need("O2")], (), time.after(3_600))
    message = told(box, time.at)
    assert message is not None
    assert set(message.keys) == {"O1", "O2"}
    assert (box.failures, box.reason) == (0, "")


def test_in_quiet_hours_only_what_is_critical_is_told_and_the_rest_afterwards(time: Time) -> None:
    box = outbox(Quiet(22 * 60, 7 * 60))
    box.look([need(), need("O2", rank=CRITICAL, kind="critical")], (), time.at)
    message = told(box, time.after(6), MIDNIGHT)
    assert message is not None
    assert message.keys == ("O2",)
    box.look([need(), need("O2", rank=CRITICAL, kind="critical")], (), time.after(60))
    assert told(box, time.at, MIDNIGHT) is None
    assert told(box, time.at, 7 * 60 - 1) is None
    message = told(box, time.at, 7 * 60)
    assert message is not None
    assert message.keys == ("O1",)


def test_quiet_hours_within_one_day(time: Time) -> None:
    box = outbox(Quiet(13 * 60, 14 * 60))
    box.look([need()], (), time.at)
    assert told(box, time.after(6), 13 * 60 + 30) is None
    assert told(box, time.at, 14 * 60) is not None


def test_a_receiver_hears_only_of_its_own_kinds(time: Time) -> None:
    box = outbox(kinds=("drift", "filled"))
    box.look(
        [need(), need("X", kind="drift")], [Event("E", 1, "filled", "f"), Event("E", 2, "refused", "r")], 0
    )
    message = told(box, time.at)
    assert message is not None
    assert set(message.keys) == {"X", "E1"}
    assert box.cursor == {"E": 2}


def test_events_are_told_once_and_what_is_too_much_is_counted(time: Time) -> None:
    box = outbox()
    events = [Event("E", number, "filled", f"O{number} filled.") for number in range(1, 501)]
    box.look([], events, time.at)
    box.look([], events, time.after(6))
    message = told(box, time.at)
    assert message is not None
    assert len(message.keys) == MOST_WAITING
    assert f"And {500 - 8} more orders filled." in message.body
    box.look([], events, time.after(60))
    assert told(box, time.at) is None


def test_an_event_that_could_not_be_told_for_a_day_is_dropped(time: Time) -> None:
    box = outbox()
    box.look([], [Event("E", 1, "filled", "old")], time.at)
    box.look([], [], time.after(TOO_OLD / SECOND + 1))
    assert box.due(time.at, NOON) is None


def test_a_later_run_tells_nothing_again_and_leaves_nothing_out(time: Time) -> None:
    first = outbox()
    first.look([need()], [Event("E", 7, "filled", "seven")], time.at)
    told(first, time.after(6))
    first.look(
        [need(), need("O2")], [Event("E", 8, "filled", "eight"), Event("E", 9, "x", "")], time.after(9)
    )
    kept: Any = first.remembered()
    later = outbox()
    later.remember(kept["told"], kept["cursor"])
    later.look(
        [need(), need("O2")], [Event("E", 7, "filled", "seven"), Event("E", 8, "filled", "eight")], time.at
    )
    message = told(later, time.after(6))
    assert message is not None
    assert set(message.keys) == {"O2", "E8"}


def test_what_was_told_does_not_grow_for_ever(time: Time) -> None:
    box = outbox()
    for number in range(0, MOST_TOLD + 1_000, 100):
        box.look([need(f"O{number + each}") for each in range(100)], (), time.after(60))
        told(box, time.after(6))
    assert len(box.told) <= MOST_TOLD


def test_at_a_stop_what_is_due_is_told_at_once_but_a_failing_receiver_only_of_what_is_critical(
    time: Time,
) -> None:
    box = outbox()
    box.look([need()], (), time.at)
    first = box.due(time.at, NOON, at_once=True)
    assert first is not None
    box.sent(first, time.at, "no")
    assert box.due(time.at, NOON, at_once=True) is None
    box.look([need(), need("S", kind="stopping", rank=CRITICAL)], (), time.at)
    assert box.due(time.at, NOON, at_once=True) is not None
