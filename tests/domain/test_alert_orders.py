"""The contract's paragraph 'Body', second half: prices, positions, flags, times, the secret."""

from decimal import Decimal
from typing import Any

import pytest

from app.domain.alert import AlertRules, body_secret
from app.domain.exit_hint import seems_an_exit
from app.domain.signal import OrderType
from app.domain.times import MINUTE, read_time
from tests.domain.alert_kit import LIVE, PAPER, read, refusal, signal, told

# ------------------------------------------------------------------------------------------ type and prices


@pytest.mark.parametrize(
    "fields", [{"close": True}, {"close": " True "}, {"strategy": {"close": "yes"}}, {"Close": True}]
)
@pytest.mark.parametrize("rules", [PAPER, LIVE])
def test_h9_close_with_a_flag_makes_the_order_an_exit(fields: dict[str, object], rules: AlertRules) -> None:
    got = signal({**fields, "price": "189"}, rules)
    assert (got.reduce_only, got.price) == (True, Decimal(189))
    assert seems_an_exit({**fields, "symbol": "AAPL"})


def test_close_off_asks_for_nothing_and_close_with_a_number_is_a_price() -> None:
    assert signal(close=False) == signal()
    assert signal(close="1").price == 1
    assert refusal({"action": "reverse", "close": True}).reason == "contradictory"


@pytest.mark.parametrize("value", ["all", "long", {"a": "b"}, ["x"]])
def test_h9_close_that_is_neither_price_nor_flag_is_refused_beside_a_price(value: object) -> None:
    assert told(refusal({"price": "189", "close": value})) == ("invalid_number", ("close",))


@pytest.mark.parametrize("fields", [{"order_price": "abc"}, {"close": "NaN"}, {"order_price": "-1"}])
def test_a_second_reference_price_that_is_none_is_ignored_with_a_warning(fields: dict[str, object]) -> None:
    alert = read({**fields, "price": "189"}, LIVE)
    assert alert.signal.price == 189
    (name,) = fields
    assert [w for w in alert.warnings if w.startswith(f"reference_price_ignored: {name}")]


def test_a_limit_price_without_a_type_asks_for_a_limit_order() -> None:
    got = signal(limit_price="189")
    assert (got.type, got.limit_price) == (OrderType.LIMIT, Decimal(189))


def test_price_is_the_limit_only_of_a_limit_order_that_has_no_other() -> None:
    got = signal(type="limit", price="189", close="190")
    assert (got.limit_price, got.price) == (Decimal(189), Decimal(190))
    got = signal(type="stop_limit", price="189", stop_price="188")
    assert (got.limit_price, got.price) == (Decimal(189), None)
    got = signal(type="limit", price="189", limit_price="188")
    assert (got.limit_price, got.price) == (Decimal(188), Decimal(189))
    got = signal(price="189")
    assert (got.type, got.limit_price, got.price) == (OrderType.MARKET, None, Decimal(189))


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"type": "limit"}, "limit_price"),
        ({"type": "limit", "close": "189"}, "limit_price"),
        ({"type": "limit", "order_price": "189"}, "limit_price"),
        ({"type": "stop"}, "stop_price"),
        ({"type": "stop", "price": "189"}, "stop_price"),
        ({"type": "stop_limit", "stop_price": "189"}, "limit_price"),
        ({"type": "stop_limit", "limit_price": "189"}, "stop_price"),
        ({"stop_price": "189"}, "type"),
        ({"stop_price": "189", "limit_price": "190"}, "type"),
    ],
)
def test_a_type_without_its_price_is_refused(fields: dict[str, object], missing: str) -> None:
    assert told(refusal(fields)) == ("missing_field", (missing,))


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "market", "limit_price": "1"},
        {"orderType": "market", "stopPrice": "1"},
        {"type": "stop", "limit_price": "1", "stop_price": "1"},
        {"type": "limit", "limit_price": "1", "stop_price": "1"},
    ],
)
def test_a_price_that_its_type_does_not_have_is_contradictory(fields: dict[str, object]) -> None:
    error = refusal(fields)
    assert error.reason == "contradictory"
    assert len(error.fields) == 2


# ---------------------------------------------------------------------------------------- positions, flags


def after(side: str, size: int | None = None) -> dict[str, object]:
    sized = {} if size is None else {"market_position_size": Decimal(size)}
    return {"market_position": side, **sized}


def before(side: str, size: int) -> dict[str, object]:
    return {"prev_market_position": side, "prev_market_position_size": Decimal(size)}


AFTER, BEFORE = tuple(after("long", 1)), tuple(before("long", 1))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (after("flat", 1), AFTER),
        (after("long", 0), AFTER),
        (before("flat", 1), BEFORE),
        ({"sentiment": "flat", **after("long")}, ("sentiment", "market_position")),
        ({"sentiment": "short", **after("long")}, ("sentiment", "market_position")),
        ({"action": "reverse", "sentiment": "flat"}, ("action", "sentiment")),
        ({"action": "reverse", "reduce_only": True}, ("action", "reduce_only")),
        (after("long", 5) | before("long", 9), ("action", *AFTER, *BEFORE)),
        ({"action": "sell"} | after("flat") | before("short", 9), ("action", "market_position", *BEFORE)),
        ({"action": "sell"} | after("long", 2) | before("short", 1), ("action", *AFTER, *BEFORE)),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_fields(
    fields: dict[str, object], named: tuple[str, ...]
) -> None:
    assert told(refusal(fields)) == ("contradictory", named)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"sentiment": "short"} | after("short", 5) | before("short", 9), id="a short partly covered"
        ),
        pytest.param(after("flat") | before("short", 9), id="a short covered"),
        pytest.param({"action": "exit", "sentiment": "long"} | after("long", 5), id="a partial exit"),
        pytest.param({"action": "exit", "sentiment": "long"} | after("flat"), id="an exit of the long"),
        pytest.param({"action": "sell"} | after("flat", 0) | before("flat", 0), id="flat before and after"),
        pytest.param({"action": "cancel"} | after("flat"), id="a cancel while flat"),
    ],
)
def test_what_only_looks_contradictory_is_read(fields: dict[str, object]) -> None:
    assert signal(fields).symbol == "AAPL"


def test_a_size_needs_its_side_and_no_sign() -> None:
    assert told(refusal(market_position_size="5")) == ("missing_field", ("market_position",))
    error = refusal(market_position="short", market_position_size="-5")
    assert told(error) == ("negative_size", ("market_position_size",))


def test_the_signed_position_size_counts_in_the_strategy_object() -> None:
    assert signal(action="sell", strategy={"position_size": Decimal(-5)}).target == Decimal(-5)
    assert signal(action="sell", strategy={"position_size": Decimal(0)}).target == Decimal(0)
    assert signal(market_position="long", position_size="5").market_position_size == Decimal(5)


def test_the_signed_position_size_is_never_taken_for_something_else() -> None:
    assert told(refusal(position_size="100")) == ("unsupported_field", ("position_size",))
    error = refusal(market_position="long", market_position_size="4", position_size="5")
    assert told(error) == ("contradictory", ("position_size", "market_position", "market_position_size"))
    assert refusal(market_position="short", position_size="5").reason == "contradictory"


@pytest.mark.parametrize("name", ["reduceOnly", "reduce_only", "closePosition", "close_position"])
@pytest.mark.parametrize(
    ("value", "on"), [(True, True), ("true", True), (Decimal(1), True), (False, False), ("0", False)]
)
def test_reduce_only_makes_an_exit(name: str, value: object, on: bool) -> None:
    assert signal({name: value}).reduce_only is on


def test_reduce_only_must_be_understood() -> None:
    assert told(refusal(reduceOnly="maybe")) == ("invalid_value", ("reduceOnly",))


@pytest.mark.parametrize("name", ["test", "paper", "dry_run", "dryRun", "sandbox"])
@pytest.mark.parametrize("value", [True, "true", "yes", Decimal(1), "whatever"])
def test_a_test_alert_is_for_paper_or_refused(name: str, value: object) -> None:
    assert signal({name: value}).paper_only
    assert told(refusal({name: value}, LIVE)) == ("unsupported_field", (name,))


@pytest.mark.parametrize("value", [False, "false", "no", Decimal(0), None, ""])
def test_a_test_flag_that_is_off_says_nothing(value: object) -> None:
    assert not signal({"test": value}, LIVE).paper_only


# --------------------------------------------------------------------------------------- times and secrets


def times(**fields: object) -> tuple[Any, Any, Any, tuple[str, ...]]:
    alert = read(dict(fields))
    got = alert.signal
    return got.interval, got.bar_time, got.fired_at, tuple(w.partition(":")[0] for w in alert.warnings)


BAR, FIRED = read_time("2026-03-02T15:30:00Z"), read_time("2026-03-02T15:31:07Z")


def test_h15_a_bar_time_with_seconds_is_a_fire_time() -> None:
    warned = ("fire_time_as_bar_time",)
    assert times(time="2026-03-02T15:31:07Z", interval="240") == ("240", None, FIRED, warned)
    assert times(time="2026-03-02T15:31:07Z") == (None, None, FIRED, warned)
    assert times(time="2026-03-02T15:31:07Z", interval="60S")[1:3] == (None, FIRED)
    assert times(time=Decimal("1772465400.25"))[1:3] == (None, BAR + 250_000)


def test_h15_a_fire_time_that_is_there_stays() -> None:
    fired = "2026-03-02T15:31:09Z"
    assert times(time="2026-03-02T15:31:07Z", interval="1", timenow=fired)[1:3] == (None, read_time(fired))


def test_h15_seconds_belong_to_bars_of_seconds() -> None:
    assert times(time="2026-03-02T15:31:07Z", interval="30S") == ("30S", FIRED, None, ())


def test_a_bar_time_stays_a_bar_time() -> None:
    assert times(time="2026-03-02T15:30:00Z", interval="15") == ("15", BAR, None, ())
    assert BAR % MINUTE == 0


def test_an_unknown_age_is_a_warning() -> None:
    assert times(time="2026-03-02T15:30:00Z") == (None, BAR, None, ("age_unknown",))
    assert times(interval="15") == ("15", None, None, ("age_unknown",))
    assert times() == (None, None, None, ("age_unknown",))
    assert times(timenow="2026-03-02T15:31:07Z") == (None, None, FIRED, ())


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("time", "2026-03-02T15:30:00", "naive_time"),
        ("time", "2026-03-02", "naive_time"),
        ("timenow", "yesterday", "invalid_time"),
        ("timenow", Decimal(15), "invalid_time"),
        ("timenow", True, "invalid_time"),
        ("interval", "1x", "invalid_interval"),
    ],
)
def test_times_that_are_none(field: str, value: object, reason: str) -> None:
    assert told(refusal({field: value})) == (reason, (field,))


@pytest.mark.parametrize("interval", ["D", "1D", "3D", "W", "1W", "M", "1M", "1d"])
def test_a_live_entry_on_long_bars_needs_its_fire_time(interval: str) -> None:
    fields: dict[str, object] = {"interval": interval, "time": "2026-03-02T00:00:00Z"}
    assert told(refusal(fields, LIVE)) == ("missing_field", ("fired_at",))
    assert signal({**fields, "timenow": "2026-03-02T20:00:01Z"}, LIVE).fired_at is not None
    for accepted, rules in (({"action": "exit"}, LIVE), ({"interval": "240"}, LIVE), ({}, PAPER)):
        assert signal({**fields, **accepted}, rules).fired_at is None


@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"secret": "s"}, "s"),
        ({"passphrase": " s "}, "s"),
        ({"Secret": "s", "strategy": {"passphrase": "s"}}, "s"),
        ({"strategy": {"secret": Decimal(1234)}}, "1234"),
        ({"secret": "s", "passphrase": "t"}, None),
        ({"secret": {"a": "s"}}, None),
        ({"secret": ""}, None),
        ({"token": "s", "password": "s"}, None),
        ({}, None),
    ],
)
def test_the_secret_of_a_body(fields: dict[str, object], secret: str | None) -> None:
    assert body_secret(fields) == secret
    assert read(fields).secret == secret


@pytest.mark.parametrize(
    ("fields", "is_exit"),
    [
        ({"action": " Close ", "leverage": "5"}, True),
        ({"side": "cancel"}, True),
        ({"action": "sell", "strategy": {"market_position": "flat"}, "quantity": "0,25"}, True),
        ({"sentiment": "FLAT"}, True),
        ({"reduceOnly": "maybe"}, True),
        ({"action": "sell", "reduceOnly": False}, False),
        ({"action": "buy", "market_position": "long"}, False),
        ({"action": {"a": "exit"}, "comment": "exit"}, False),
        ({}, False),
    ],
)
def test_an_exit_is_recognised_in_what_was_refused(fields: dict[str, object], is_exit: bool) -> None:
    assert seems_an_exit(fields) is is_exit
