"""What an alert means against our own book, sentence by sentence of CONTRACT 3."""

from decimal import Decimal
from typing import Any

import pytest

from app.domain.book import Holdings, Nothing, Plan, Trade, plan, reads_as_exit
from app.domain.risk import Denial
from app.domain.signal import Action, Direction, Side, Signal

D = Decimal
LONG, SHORT, FLAT = Direction.LONG, Direction.SHORT, Direction.FLAT


def signal(action: str, quantity: str | None = None, **fields: Any) -> Signal:
    sizes = ("market_position_size", "prev_market_position_size")
    fields = {name: D(value) if name in sizes else value for name, value in fields.items()}
    return Signal(
        symbol="AAPL", action=Action(action), quantity=None if quantity is None else D(quantity), **fields
    )


def held(
    book: str, broker: str | None = None, *, buys: str = "0", sells: str = "0", others: tuple[str, ...] = ()
) -> Holdings:
    """The broker holds our books and nothing else, unless a test says so."""
    other_books = tuple(D(other) for other in others)
    position = D(book) + sum(other_books, D(0)) if broker is None else D(broker)
    return Holdings(D(book), position, D(buys), D(sells), other_books)


def planned(asked: Signal, holdings: Holdings, size: str | None = None) -> Plan:
    """`size` is what the account's own sizing makes of an entry; without one the signal sizes."""
    if size is None:
        return plan(asked, holdings, asked.quantity or D(0), sized_by_signal=True)
    return plan(asked, holdings, D(size), sized_by_signal=False)


def trade(side: str, *, reduces: str = "0", opens: str = "0") -> Trade:
    return Trade(Side(side), D(reduces), D(opens))


def test_a_buy_opens_and_adds_what_the_signal_says() -> None:
    assert planned(signal("buy", "10"), held("0")) == trade("buy", opens="10")
    assert planned(signal("buy", "10"), held("5")) == trade("buy", opens="10")


def test_a_sell_reduces_the_long_and_what_is_left_of_it_opens_a_short() -> None:
    assert planned(signal("sell", "4"), held("10")) == trade("sell", reduces="4")
    assert planned(signal("sell", "14"), held("10")) == trade("sell", reduces="10", opens="4")
    assert planned(signal("sell", "4"), held("0")) == trade("sell", opens="4")


def test_an_exit_closes_all_of_the_book_or_at_most_its_quantity() -> None:
    assert planned(signal("exit"), held("10")) == trade("sell", reduces="10")
    assert planned(signal("exit"), held("-10")) == trade("buy", reduces="10")
    assert planned(signal("exit", "4"), held("10")) == trade("sell", reduces="4")
    assert planned(signal("exit", "40"), held("10")) == trade("sell", reduces="10")


def test_flat_closes_the_whole_book_whatever_the_quantity_says() -> None:
    assert planned(signal("sell", "4", market_position=FLAT), held("10")) == trade("sell", reduces="10")
    assert planned(signal("sell", "4", sentiment=FLAT), held("10")) == trade("sell", reduces="10")
    assert planned(signal("exit", "4", market_position=FLAT), held("10")) == trade("sell", reduces="10")


def test_a_full_exit_sends_every_digit_of_the_book() -> None:
    """HOLES H2: the exact own quantity, not one rounded to whole units or steps."""
    assert planned(signal("exit"), held("0.1234567891")) == trade("sell", reduces="0.1234567891")


def test_h2_an_exit_is_never_more_than_the_broker_holds_on_that_side() -> None:
    assert planned(signal("exit"), held("10", "110")) == trade("sell", reduces="10")
    assert planned(signal("exit"), held("10", "4")) == trade("sell", reduces="4")
    assert planned(signal("sell", "10"), held("10", "4")) == trade("sell", reduces="4")
    assert planned(signal("exit"), held("-10", "-4")) == trade("buy", reduces="4")


def test_h2_where_broker_and_book_disagree_nothing_is_opened_on_top() -> None:
    assert planned(signal("sell", "20"), held("10", "4")) == trade("sell", reduces="4")
    target = signal("sell", "20", market_position=SHORT, market_position_size="10")
    assert planned(target, held("10", "4")) == trade("sell", reduces="4")


@pytest.mark.parametrize("broker", ["0", "-3"])
def test_h2_an_exit_of_what_the_broker_does_not_hold_is_denied_as_drift(broker: str) -> None:
    denied = planned(signal("exit"), held("10", broker))
    assert denied == Denial("DRIFT", (("book", "10"), ("broker_position", broker)))


def test_an_exit_with_an_empty_book_and_nothing_open_has_nothing_to_do() -> None:
    assert isinstance(planned(signal("exit"), held("0")), Nothing)


@pytest.mark.parametrize(
    "asked",
    [
        signal("exit"),
        signal("sell", "5", market_position=FLAT),
        signal("sell", "5", reduce_only=True),
        signal("reverse"),
        signal("sell", "5", market_position=LONG, market_position_size="5", prev_market_position=LONG,
               prev_market_position_size="10"),
    ],
)  # fmt: skip
def test_an_exit_whose_book_is_empty_while_something_else_is_open_is_denied(asked: Signal) -> None:
    other = planned(asked, held("0", others=("10",)))
    assert other == Denial("OTHER_BOOK_OPEN", (("other_books", "10"),))
    by_hand = planned(asked, held("0", "100"))
    assert by_hand == Denial("OTHER_BOOK_OPEN", (("broker_position", "100"),))


def test_h3_an_exit_closes_only_the_direction_that_it_names() -> None:
    assert isinstance(planned(signal("exit", prev_market_position=LONG), held("-5")), Nothing)
    assert planned(signal("exit", prev_market_position=LONG), held("5")) == trade("sell", reduces="5")
    assert isinstance(planned(signal("sell", "5", market_position=FLAT), held("-5")), Nothing)
    assert isinstance(planned(signal("buy", "5", market_position=FLAT), held("5")), Nothing)
    assert isinstance(planned(signal("sell", "5", reduce_only=True), held("-5")), Nothing)


def test_the_closing_half_of_a_flip_names_what_it_closes_by_what_was_held_before() -> None:
    asked = signal("exit", market_position=SHORT, prev_market_position=LONG)
    assert planned(asked, held("5")) == trade("sell", reduces="5")


def test_a_target_is_reached_from_book_and_orders_in_flight_and_never_passed() -> None:
    """HOLES H6: targets 5 then 10 in one second are 10, not 15."""
    five = signal("buy", "5", market_position=LONG, market_position_size="5")
    ten = signal("buy", "10", market_position=LONG, market_position_size="10")
    assert planned(five, held("0")) == trade("buy", opens="5")
    assert planned(ten, held("0", buys="5")) == trade("buy", opens="5")
    assert planned(ten, held("7", buys="2")) == trade("buy", opens="1")
    assert isinstance(planned(five, held("0", buys="5")), Nothing)


def test_a_target_is_at_most_the_signals_quantity() -> None:
    asked = signal("buy", "3", market_position=LONG, market_position_size="10")
    assert planned(asked, held("0")) == trade("buy", opens="3")


def test_a_target_is_never_reached_against_the_action() -> None:
    asked = signal("buy", "5", market_position=LONG, market_position_size="5")
    assert isinstance(planned(asked, held("9")), Nothing)
    asked = signal("sell", "5", market_position=LONG, market_position_size="5")
    assert isinstance(planned(asked, held("3")), Nothing)


def test_a_target_on_the_other_side_closes_and_opens_in_one_order() -> None:
    asked = signal("sell", "0.4", market_position=SHORT, market_position_size="0.2")
    assert planned(asked, held("0.2")) == trade("sell", reduces="0.2", opens="0.2")


def test_an_exit_that_states_what_is_left_leaves_it() -> None:
    asked = signal("exit", market_position=LONG, market_position_size="4")
    assert planned(asked, held("10")) == trade("sell", reduces="6")


@pytest.mark.parametrize(
    ("action", "book", "stated"), [("sell", "4", LONG), ("buy", "-4", SHORT)], ids=["sell", "buy"]
)
def test_a_stated_direction_is_a_check_the_order_reduces_and_does_not_turn(
    action: str, book: str, stated: Direction
) -> None:
    for field in ("market_position", "sentiment"):
        only = planned(signal(action, "10", **{field: stated}), held(book))
        assert only == trade(action, reduces="4")
        assert isinstance(planned(signal(action, "10", **{field: stated}), held("0")), Nothing)


def test_a_reverse_turns_the_book_and_does_nothing_where_it_is_flat() -> None:
    assert planned(signal("reverse"), held("5")) == trade("sell", reduces="5", opens="5")
    assert planned(signal("reverse"), held("-5")) == trade("buy", reduces="5", opens="5")
    assert planned(signal("reverse", "2"), held("5")) == trade("sell", reduces="5", opens="2")
    assert isinstance(planned(signal("reverse"), held("0")), Nothing)


def test_what_orders_in_flight_close_already_is_not_closed_twice() -> None:
    assert planned(signal("exit"), held("10", sells="4")) == trade("sell", reduces="6")
    assert planned(signal("sell", "10"), held("10", sells="4")) == trade("sell", reduces="6")
    assert isinstance(planned(signal("exit"), held("10", sells="10")), Nothing)


# ------------------------------------------------------------------------------------------- account sizing


def test_the_accounts_sizing_sizes_entries() -> None:
    assert planned(signal("buy", "100"), held("0"), size="7") == trade("buy", opens="7")
    assert planned(signal("buy"), held("3"), size="7") == trade("buy", opens="7")
    asked = signal("buy", "100", market_position=LONG, market_position_size="100")
    assert planned(asked, held("0"), size="7") == trade("buy", opens="7")
    assert planned(asked, held("-3"), size="7") == trade("buy", reduces="3", opens="7")


def test_under_the_accounts_sizing_an_order_against_the_book_closes_the_stated_fraction_else_all() -> None:
    half = signal("sell", "50", prev_market_position=LONG, prev_market_position_size="100")
    assert planned(half, held("7"), size="7") == trade("sell", reduces="3.5")
    assert planned(signal("sell", "50"), held("7"), size="7") == trade("sell", reduces="7")
    third = signal("exit", "2", prev_market_position=LONG, prev_market_position_size="3")
    assert planned(third, held("3"), size="7") == trade("sell", reduces="2")
    assert planned(signal("exit", "2"), held("7"), size="9") == trade("sell", reduces="7")
    assert planned(signal("exit"), held("7"), size="9") == trade("sell", reduces="7")


def test_a_fraction_is_rounded_down_to_a_step() -> None:
    asked = signal("sell", "1", prev_market_position=LONG, prev_market_position_size="3")
    assert planned(asked, held("1"), size="7") == trade("sell", reduces="0.33333333")


def test_under_the_accounts_sizing_targets_count_as_long_flat_or_short() -> None:
    more = signal("buy", "5", market_position=LONG, market_position_size="10", prev_market_position=LONG,
                  prev_market_position_size="5")  # fmt: skip
    assert isinstance(planned(more, held("7"), size="7"), Nothing)
    less = signal("sell", "5", market_position=LONG, market_position_size="5", prev_market_position=LONG,
                  prev_market_position_size="10")  # fmt: skip
    assert planned(less, held("7"), size="7") == trade("sell", reduces="3.5")
    implied = signal("sell", "5", market_position=LONG, market_position_size="5")
    assert planned(implied, held("7"), size="7") == trade("sell", reduces="3.5")
    turned = signal("sell", "20", market_position=SHORT, market_position_size="10")
    assert planned(turned, held("7"), size="4") == trade("sell", reduces="7", opens="4")
    assert planned(signal("sell", "1", market_position=FLAT), held("7"), size="4") == trade(
        "sell", reduces="7"
    )


def test_an_entry_that_rounds_to_nothing_is_an_order_of_zero_for_the_limits_to_deny() -> None:
    asked = signal("buy", "1", market_position=LONG, market_position_size="1")
    assert planned(asked, held("0"), size="0") == trade("buy")
    assert planned(signal("buy", "1"), held("0"), size="0") == trade("buy")


def test_numbers_with_more_digits_than_a_default_context_stay_exact() -> None:
    many = "1234567890123456789012.123456789012345678"
    assert planned(signal("exit"), held(many)) == trade("sell", reduces=many)
    one_more = signal("buy", market_position=LONG, market_position_size="1234567890123456789013")
    assert planned(one_more, held(many)) == trade("buy", opens="0.876543210987654322")


# ------------------------------------------------------------------------------------------- at the door


@pytest.mark.parametrize(
    ("asked", "book", "expected"),
    [
        (signal("exit"), "0", True),
        (signal("cancel"), "0", True),
        (signal("sell", "1", market_position=FLAT), "0", True),
        (signal("buy", "1", reduce_only=True), "0", True),
        (signal("sell", "1"), "5", True),
        (signal("sell", "1"), "0", False),
        (signal("sell", "1"), "-5", False),
        (signal("buy", "1"), "-5", True),
        (signal("buy", "1"), "5", False),
        (signal("reverse"), "5", False),
        (signal("sell", "5", market_position=LONG, market_position_size="5", prev_market_position=LONG,
                prev_market_position_size="10"), "0", True),
        (signal("sell", "20", market_position=SHORT, market_position_size="10", prev_market_position=LONG,
                prev_market_position_size="10"), "0", False),
    ],
)  # fmt: skip
def test_what_reads_as_an_exit(asked: Signal, book: str, expected: bool) -> None:
    assert reads_as_exit(asked, D(book)) is expected
