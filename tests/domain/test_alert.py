"""The contract's paragraph 'Body', first half: names, vocabularies, symbols, numbers."""

from decimal import Decimal

import pytest

from app.domain.alert import AlertRules
from app.domain.signal import Action, Direction, OrderType, TimeInForce
from tests.domain.alert_kit import LIVE, read, refusal, signal, told

# ------------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "value", "field", "read_as"),
    [
        ("strategy", " EMA ", "strategy", "EMA"),
        ("exchange", "nasdaq", "exchange", "NASDAQ"),
        ("tv_exchange", "BYBIT", "exchange", "BYBIT"),
        ("interval", "15", "interval", "15"),
        ("timeframe", "1h", "interval", "60"),
        ("bar_time", "2026-03-02T15:30:00Z", "bar_time", 1_772_465_400_000_000),
        ("time", "2026-03-02T15:30:00Z", "bar_time", 1_772_465_400_000_000),
        ("fired_at", "2026-03-02T15:30:01Z", "fired_at", 1_772_465_401_000_000),
        ("timenow", "2026-03-02T15:30:01Z", "fired_at", 1_772_465_401_000_000),
        ("timestamp", Decimal(1_772_465_401), "fired_at", 1_772_465_401_000_000),
        ("fired_at_ms", Decimal(1_772_465_401_500), "fired_at", 1_772_465_401_500_000),
        ("price", "189.25", "price", Decimal("189.25")),
        ("order_price", Decimal("189.25"), "price", Decimal("189.25")),
        ("close", Decimal("189.25"), "price", Decimal("189.25")),
        ("tif", "GTC", "tif", TimeInForce.GTC),
        ("timeInForce", "ioc", "tif", TimeInForce.IOC),
        ("order_id", "Long 1", "order_id", "Long 1"),
        ("market_position", "Long", "market_position", Direction.LONG),
        ("prev_market_position", "flat", "prev_market_position", Direction.FLAT),
        ("prev_market_position_size", "0", "prev_market_position_size", Decimal(0)),
        ("sentiment", "short", "sentiment", Direction.SHORT),
        ("comment", "two\nlines", "comment", "two\nlines"),
    ],
)
def test_a_field_by_each_of_its_names(name: str, value: object, field: str, read_as: object) -> None:
    assert getattr(signal({name: value}), field) == read_as


@pytest.mark.parametrize("name", ["symbol", "ticker", "instrument", "tv_instrument", "Ticker", "TICKER"])
def test_the_symbol_by_each_of_its_names(name: str) -> None:
    assert signal({"symbol": None, name: "msft"}).symbol == "MSFT"


@pytest.mark.parametrize("name", ["action", "side", "order_action", "Side"])
def test_the_action_by_each_of_its_names(name: str) -> None:
    assert signal({"action": None, name: "SELL"}).action is Action.SELL


@pytest.mark.parametrize("name", ["quantity", "qty", "contracts", "order_contracts", "Quantity"])
def test_the_quantity_by_each_of_its_names(name: str) -> None:
    assert signal({"quantity": None, name: "0.5"}).quantity == Decimal("0.5")


@pytest.mark.parametrize("limit", ["limit_price", "limitPrice", "LimitPrice"])
@pytest.mark.parametrize("stop", ["stop_price", "stopPrice"])
@pytest.mark.parametrize("kind", ["type", "order_type", "orderType"])
def test_order_type_and_prices_by_each_of_their_names(kind: str, limit: str, stop: str) -> None:
    got = signal({kind: "stop_limit", limit: "10", stop: Decimal(9)})
    assert (got.type, got.limit_price, got.stop_price) == (OrderType.STOP_LIMIT, Decimal(10), Decimal(9))


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("buy", Action.BUY), ("long", Action.BUY), ("sell", Action.SELL), ("short", Action.SELL),
        ("exit", Action.EXIT), ("close", Action.EXIT), ("flat", Action.EXIT), ("flatten", Action.EXIT),
        ("reverse", Action.REVERSE), ("cancel", Action.CANCEL), (" BUY ", Action.BUY), ("Flat", Action.EXIT),
    ],
)  # fmt: skip
def test_the_words_of_action(word: str, action: Action) -> None:
    assert signal(action=word).action is action


@pytest.mark.parametrize(
    "word", ["market", "limit", "stop", "stop_limit", "LIMIT", "Stop Limit", "stop-limit"]
)
def test_the_words_of_type(word: str) -> None:
    prices = {"limit_price": "10"} if "limit" in word.lower() else {}
    prices |= {"stop_price": "9"} if "stop" in word.lower() else {}
    assert signal({"type": word, **prices}).type == word.lower().replace(" ", "_").replace("-", "_")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "hold"),
        ("type", "trailing_stop"),
        ("tif", "opg"),
        ("sentiment", "bullish"),
        ("market_position", "up"),
    ],
)
def test_any_other_word_is_refused_with_the_words_there_are(field: str, value: str) -> None:
    error = refusal({field: value})
    assert told(error) == ("invalid_value", (field,))
    assert "not one of" in error.detail


def test_the_nested_strategy_object_gives_the_same_names() -> None:
    got = signal(
        {
            "action": None,
            "quantity": None,
            "strategy": {
                "name": "EMA",
                "order_action": "buy",
                "order_contracts": Decimal(5),
                "order_price": Decimal("410.12"),
                "order_id": "Long",
                "market_position": "long",
                "market_position_size": Decimal(5),
                "prev_market_position": "flat",
                "prev_market_position_size": Decimal(0),
                "position_size": Decimal(5),
                "id": "constant",
            },
            "bar": {"open": Decimal(1), "close": Decimal(2)},
        }
    )
    assert (got.strategy, got.action, got.quantity) == ("EMA", Action.BUY, Decimal(5))
    assert (got.price, got.order_id) == (Decimal("410.12"), "Long")
    assert (got.previous, got.target) == (Decimal(0), Decimal(5))


def test_what_describes_the_strategy_is_no_key_of_the_signal() -> None:
    alert = read(strategy={"id": "x-1", "key": "x-2", "trace_id": "x-3", "alert_id": "x-4"})
    assert (alert.keys.key, alert.keys.id, alert.keys.trace_id, alert.keys.alert_id) == (None,) * 4


def test_null_and_empty_are_absent() -> None:
    assert (
        signal(strategy=None, tif="", order_id="  ", take_profit=None, leverage="", whatever=None).tif is None
    )
    assert told(refusal(symbol="")) == ("missing_field", ("symbol",))
    assert read({}, LIVE, whatever="  ").signal.symbol == "AAPL"


def test_missing_fields_are_all_named() -> None:
    assert told(refusal(symbol=None, action=None)) == ("missing_field", ("symbol", "action"))


def test_two_names_of_one_field_may_agree() -> None:
    got = signal(ticker="nasdaq:aapl", side="LONG", qty="10.0", contracts=Decimal("1e1"), exchange="NASDAQ")
    assert (got.symbol, got.exchange, got.quantity) == ("AAPL", "NASDAQ", Decimal(10))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"qty": "11"}, ("quantity", "qty")),
        ({"side": "sell"}, ("action", "side")),
        ({"Ticker": "MSFT"}, ("symbol", "Ticker")),
        ({"limit_price": "1", "limitPrice": "2"}, ("limit_price", "limitPrice")),
        ({"tif": "day", "timeInForce": "gtc"}, ("tif", "timeInForce")),
        ({"strategy": {"order_action": "sell"}}, ("action", "strategy.order_action")),
        ({"exchange": "NYSE", "ticker": "NASDAQ:AAPL"}, ("symbol", "ticker", "exchange")),
    ],
)
def test_two_names_of_one_field_that_disagree_are_refused_as_they_were_sent(
    fields: dict[str, object], named: tuple[str, ...]
) -> None:
    assert told(refusal(fields)) == ("contradictory", named)


def test_h44_reference_prices_and_times_may_differ() -> None:
    got = signal(
        price="189.2", order_price="189.3", close="189.4", fired_at=Decimal(1_772_465_401), timestamp="soon"
    )
    assert got.price == Decimal("189.2")
    assert got.fired_at == 1_772_465_401_000_000


# ----------------------------------------------------------------------------------------- symbols, numbers


@pytest.mark.parametrize(
    ("sent", "exchange", "symbol"),
    [
        ("aapl", None, "AAPL"),
        ("NASDAQ:AAPL", "NASDAQ", "AAPL"),
        ("binance:btcusdt.p", "BINANCE", "BTCUSDT.P"),
        ("BTC/USDT:USDT", None, "BTC/USDT:USDT"),
        ("MNQ 06-26", None, "MNQ 06-26"),
        (" es1! ", None, "ES1!"),
        (Decimal(600519), None, "600519"),
    ],
)
def test_symbols(sent: object, exchange: str | None, symbol: str) -> None:
    got = signal(symbol=sent)
    assert (got.exchange, got.symbol) == (exchange, symbol)


@pytest.mark.parametrize("sent", ["NASDAQ:", "***", '={"session":"extended"}', "A" * 65, "AA\nPL"])
def test_what_is_no_symbol(sent: str) -> None:
    assert refusal(symbol=sent).reason in ("invalid_symbol", "control_character")


@pytest.mark.parametrize("fields", [{"exchange": "NASDAQ_DLY"}, {"symbol": "NASDAQ_DL:AAPL"}])
def test_delayed_data_is_a_warning_on_paper_and_refused_on_live(fields: dict[str, object]) -> None:
    alert = read(fields)
    assert alert.signal.exchange == "NASDAQ"
    assert alert.warnings[0].startswith("delayed_data:")
    assert told(refusal(fields, LIVE)) == ("delayed_data", tuple(fields))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("0,25", "invalid_number"),
        ("1_000", "invalid_number"),
        ("١٢", "invalid_number"),
        ("ten", "invalid_number"),
        ("1 000", "invalid_number"),
        (True, "invalid_number"),
        ({"x": Decimal(1)}, "invalid_number"),
        ("NaN", "non_finite_number"),
        ("-inf", "non_finite_number"),
        ("Infinity", "non_finite_number"),
        ("0", "non_positive_quantity"),
        (Decimal(-1), "non_positive_quantity"),
        ("-0.0", "non_positive_quantity"),
        ("1" * 41, "number_too_long"),
        ("1e19", "number_out_of_range"),
    ],
)
def test_what_is_no_quantity(sent: object, reason: str) -> None:
    assert told(refusal(quantity=sent)) == (reason, ("quantity",))


@pytest.mark.parametrize("sent", ["2.5e6", "+2500000", " 2500000.00 ", Decimal("2500000")])
def test_numbers_are_plain_decimals(sent: object) -> None:
    quantity = signal(quantity=sent).quantity
    assert quantity == Decimal(2500000)
    assert "E" not in str(quantity)


@pytest.mark.parametrize(("sent", "reason"), [("0", "non_positive_price"), ("x", "invalid_number")])
def test_prices_are_above_zero(sent: str, reason: str) -> None:
    assert refusal(price=sent).reason == reason


def test_an_entry_needs_a_quantity_where_no_account_sizes_it() -> None:
    assert told(refusal(quantity=None)) == ("missing_quantity", ("quantity",))
    assert told(refusal(quantity=None, action="reverse")) == ("missing_quantity", ("quantity",))
    assert told(refusal(quantity=None, market_position="long")) == ("missing_quantity", ("quantity",))
    assert signal(quantity=None, market_position="long", market_position_size="5").target == Decimal(5)
    assert signal({"quantity": None}, AlertRules(needs_quantity=False)).quantity is None


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "exit"}, {"action": "cancel"}, {"sentiment": "flat"}, {"market_position": "flat"},
        {"action": "sell", "reduceOnly": True},
        {"action": "sell", "market_position": "long", "market_position_size": "1",
         "prev_market_position": "long", "prev_market_position_size": "2"},
    ],
)  # fmt: skip
def test_an_exit_needs_none(fields: dict[str, object]) -> None:
    assert signal({"quantity": None, **fields}).quantity is None
