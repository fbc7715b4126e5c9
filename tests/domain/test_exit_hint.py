"""What is told of a delivery that was refused: an exit by its words, or by a book of the ledger."""

from decimal import Decimal

import pytest

from app.domain.exit_hint import ExitHint, hint_of, hint_of_signal, seems_an_exit
from app.domain.signal import Side
from tests.domain.alert_kit import signal

BUY, SELL = frozenset({Side.BUY}), frozenset({Side.SELL})
FIVE, TEN = Decimal(5), Decimal(10)


@pytest.mark.parametrize(
    ("fields", "is_exit"),
    [
        ({"market_position": "long", "market_position_size": FIVE, "prev_market_position_size": "10"}, True),
        (
            {
                "strategy": {
                    "market_position": "short",
                    "market_position_size": "5",
                    "prev_market_position": "short",
                    "prev_market_position_size": "10",
                }
            },
            True,
        ),
        ({"position_size": FIVE, "prev_market_position": "long", "prev_market_position_size": TEN}, True),
        ({"market_position_size": FIVE, "prev_market_position_size": TEN}, True),
        ({"market_position_size": Decimal(0)}, True),
        ({"position_size": "-0"}, True),
        # From long 10 to short 5 the sell opens as well: what it closes the book says.
        (
            {
                "market_position": "short",
                "market_position_size": FIVE,
                "prev_market_position": "long",
                "prev_market_position_size": TEN,
            },
            False,
        ),
        ({"market_position_size": TEN, "prev_market_position_size": FIVE}, False),
        ({"market_position_size": TEN, "prev_market_position_size": TEN}, False),
        ({"market_position_size": "NaN", "prev_market_position_size": TEN}, False),
        ({"market_position_size": FIVE, "prev_market_position_size": "{{x}}"}, False),
        ({"market_position_size": FIVE, "prev_market_position": "flat"}, False),
        ({"close": True}, True),
        ({"close": False}, False),
        ({"close": TEN}, False),
    ],
)
def test_a_stated_position_nearer_to_zero_is_an_exit(fields: dict[str, object], is_exit: bool) -> None:
    assert seems_an_exit({"action": "sell", "leverage": FIVE, **fields}) is is_exit


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"action": "Sell", "symbol": "nasdaq:aapl"}, ExitHint(SELL, ("AAPL",), ("NASDAQ",))),
        (
            {"side": "long", "ticker": "AAPL", "exchange": "nasdaq_dly", "strategy": "a"},
            ExitHint(BUY, ("AAPL",), ("NASDAQ",), ("a",)),
        ),
        (
            {"strategy": {"order_action": "sell", "name": "a"}, "symbol": "AAPL"},
            ExitHint(SELL, ("AAPL",), strategies=("a",)),
        ),
        ({"action": "sell", "side": "buy", "symbol": "A"}, ExitHint(BUY | SELL, ("A",))),
        ({"action": "sell", "symbol": "A", "ticker": "B"}, ExitHint(SELL, ("A", "B"))),
        # Which book is meant cannot be read: any may be.
        ({"action": "sell"}, ExitHint(SELL, None)),
        ({"action": "sell", "symbol": "{{ticker}}"}, ExitHint(SELL, None)),
        ({"action": "sell", "symbol": "A", "ticker": "{{ticker}}"}, ExitHint(SELL, None)),
        ({"action": "sell", "symbol": '{"a"}', "strategy": [1]}, ExitHint(SELL, None, strategies=None)),
        ({"action": "sell", "symbol": "A", "strategy": "{{x}}"}, ExitHint(SELL, ("A",), strategies=None)),
        ({"action": "exit", "symbol": "A"}, None),
        ({"action": "{{strategy.order.action}}", "symbol": "A"}, None),
        ({"symbol": "A"}, None),
        ({}, None),
    ],
)
def test_what_is_read_of_refused_fields(fields: dict[str, object], hint: ExitHint | None) -> None:
    assert hint_of(fields) == hint


def test_the_hint_of_a_signal_names_its_one_book() -> None:
    got = signal(symbol="NASDAQ:AAPL", action="sell", strategy="a")
    assert hint_of_signal(got) == ExitHint(SELL, ("AAPL",), ("NASDAQ",), ("a",))
    assert hint_of_signal(signal(action="exit")) is None


@pytest.mark.parametrize(("sides", "long", "short"), [(SELL, True, False), (BUY, False, True)])
def test_a_side_is_against_the_book_of_the_other(sides: frozenset[Side], long: bool, short: bool) -> None:
    hint = ExitHint(sides, None)
    assert [hint.is_against(Decimal(net)) for net in ("0.1", "-0.1", "0")] == [long, short, False]
