"""What is said of a message: the order, the key and the age in words, and where a broken one is wrong."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from app.domain.alert import AlertRules, read_alert
from app.domain.explain import (
    AccountFacts,
    Kind,
    SourceFacts,
    explain_alert,
    explain_refusal,
    headline,
    span,
)
from app.domain.explain_words import HEADS
from app.domain.key import HeaderKeys, KeyPolicy, choose_key
from app.domain.signal import InvalidSignal
from app.domain.times import SECOND, read_time

AT = read_time("2026-03-02T15:30:10Z")
PAPER = SourceFacts(
    name="tv", accounts=(AccountFacts(name="paper"),), max_age=90 * SECOND, max_exit_age=900 * SECOND
)
BASE: dict[str, object] = {"symbol": "AAPL", "action": "buy", "quantity": Decimal(10)}


def told(facts: SourceFacts = PAPER, /, **fields: object) -> tuple[str, str]:
    """Headline, and all sentences as one text."""
    alert = read_alert({**BASE, **fields}, AlertRules(needs_quantity=False))
    key = choose_key("tv-id", alert, HeaderKeys(), KeyPolicy())
    title, said = explain_alert(alert, key, facts, AT)
    return title, "\n".join(each.text for each in said)


def with_account(**changes: object) -> SourceFacts:
    return msgspec.structs.replace(PAPER, accounts=(msgspec.structs.replace(PAPER.accounts[0], **changes),))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Buy 10 AAPL at market on paper"),
        ({"type": "limit", "limit_price": "189.20"}, "Buy 10 AAPL at 189.2 or better (limit) on paper"),
        (
            {"type": "stop", "stop_price": "190", "tif": "gtc"},
            "Buy 10 AAPL at market once the price reaches 190 (stop), gtc on paper",
        ),
        ({"action": "exit", "quantity": None}, "Close all AAPL at market on paper"),
        ({"action": "exit", "quantity": "3"}, "Close 3 of AAPL at market on paper"),
        ({"action": "cancel", "quantity": None}, "Cancel the open AAPL orders of this strategy on paper"),
        ({"action": "sell", "sentiment": "flat"}, "Sell AAPL until nothing is left at market on paper"),
        (
            {"market_position": "long", "market_position_size": "5"},
            "Buy AAPL until the position is long 5, at most 10 at market on paper",
        ),
    ],
)
def test_the_headline_says_the_order_as_a_person_would(fields: dict[str, object], said: str) -> None:
    assert told(**fields)[0] == said


def test_money_is_named_and_so_is_every_account() -> None:
    both = msgspec.structs.replace(
        PAPER, accounts=(AccountFacts(name="one", live=True), AccountFacts(name="two", live=True))
    )
    assert told(both)[0] == "Buy 10 AAPL at market on one (real money) and two (real money)"


def test_an_account_that_sizes_entries_says_so_and_the_quantity_does_not_count() -> None:
    title, text = told(with_account(sizing="1000 in cash worth of"))
    assert title == "Buy 1000 in cash worth of AAPL at market on paper"
    assert "Its quantity does not size the entry" in text


def test_a_sell_is_an_exit_where_its_book_is_long_and_else_a_short_that_is_denied() -> None:
    assert "to Onefill this is an exit" in told(with_account(book=Decimal(10)), action="sell")[1]
    assert "SHORT_NOT_ALLOWED" in told(with_account(book=Decimal(0)), action="sell")[1]
    allowed = with_account(book=Decimal(0), allow_short=True)
    assert "SHORT_NOT_ALLOWED" not in told(allowed, action="sell")[1]
    assert (
        "holds nothing now: there would be nothing to do"
        in told(with_account(book=Decimal(0)), action="exit")[1]
    )


def test_a_key_of_the_message_is_named_and_holds_for_ever() -> None:
    text = told(key="demo-1")[1]
    assert 'Key "demo-1", from the message itself' in text
    assert "is a duplicate, for ever" in text


def test_a_derived_key_names_all_its_parts_and_those_that_are_not() -> None:
    fields = {
        "bar_time": "2026-03-02T15:15:00Z",
        "interval": "15",
        "exchange": "NASDAQ",
        "order_id": "L",
        "market_position": "long",
        "market_position_size": "10",
        "prev_market_position": "flat",
        "prev_market_position_size": "0",
    }
    text = told(**fields)[1]
    for part in (
        "NASDAQ",
        "interval 15",
        "bar time 2026-03-02T15:15:00Z",
        "order id L",
        "from flat 0 to long 10",
    ):
        assert part in text
    assert "price, quantity and fire time are not part of it" in text


def test_without_key_and_time_the_window_is_said() -> None:
    text = told()[1]
    assert "Equal messages within 45 s count as one; a later one is a new signal" in text


def test_keys_that_are_forgotten_are_said_with_their_days() -> None:
    facts = msgspec.structs.replace(PAPER, keys_kept=400 * 86_400 * SECOND)
    assert "is a duplicate for 400 days" in told(facts, key="demo-1")[1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fired_at": "2026-03-02T15:29:50Z"}, "It fired 20 s ago; an entry older than 90 s is refused"),
        (
            {"fired_at": "2026-03-02T15:29:50Z", "action": "exit"},
            "It fired 20 s ago; an exit older than 15 min is refused",
        ),
        ({"bar_time": "2026-03-02T15:15:00Z", "interval": "15"}, "Its bar closed 10 s ago"),
        ({"bar_time": "2026-03-02T15:30:00Z", "interval": "15"}, "Its bar is still open"),
        ({}, "It states no time"),
    ],
)
def test_the_age_is_said_with_its_limit(fields: dict[str, object], said: str) -> None:
    assert said in told(**fields)[1]


def test_a_warning_of_the_door_comes_as_a_sentence_without_its_word() -> None:
    text = told(colour="blue")[1]
    assert "Ignored, a live source would refuse it: colour" in text
    assert "unknown_field" not in text


def test_a_refusal_says_what_where_and_the_remedy() -> None:
    with pytest.raises(InvalidSignal) as caught:
        read_alert({"symbol": "AAPL", "action": "buy"}, AlertRules())
    title, said = explain_refusal(caught.value)
    assert title == "Refused: it does not say how much"
    assert [each.kind for each in said] == [Kind.PROBLEM, Kind.PROBLEM, Kind.REMEDY]
    assert said[1].text == "Field: quantity"
    assert "{{strategy.order.contracts}}" in said[2].text


def test_a_reason_without_words_of_its_own_is_still_readable() -> None:
    assert "some_new_reason" not in HEADS
    assert explain_refusal(InvalidSignal("some_new_reason"))[0] == "Refused: some new reason"


def test_the_headline_of_a_signal_alone_is_the_same() -> None:
    alert = read_alert(dict(BASE), AlertRules())
    assert headline(alert.signal, PAPER) == "Buy 10 AAPL at market on paper"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 days")]
)
def test_spans_are_said_as_a_person_would(seconds: int, said: str) -> None:
    assert span(seconds * SECOND) == said
