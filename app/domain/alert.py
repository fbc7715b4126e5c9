"""The fields of a payload -> what they mean (CONTRACT 3, 'Body').

Pure, and without a guess: what is missing, impossible, contradictory or not understood is refused, with the
fields named as they were sent. What an account makes of an alert (size, limits, book) is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from app.domain import values
from app.domain.book import ZERO, reads_as_exit
from app.domain.fields import Fields, each_field
from app.domain.signal import Action, Direction, InvalidSignal, OrderType, Signal
from app.domain.symbols import is_symbol, split_delayed, split_symbol
from app.domain.times import MINUTE, interval_length, is_daily_or_longer
from app.domain.values import Sent
from app.domain.vocabulary import (
    ACTIONS,
    BRACKET_REMEDY,
    CLOSE,
    DIRECTIONS,
    NAMES,
    ORDER_TYPES,
    POSITION_SIZE_REMEDY,
    TIMES_IN_FORCE,
    fold,
)

_ACTION = values.word(ACTIONS)
_DIRECTION = values.word(DIRECTIONS)
_TYPE = values.word(ORDER_TYPES)
_TIF = values.word(TIMES_IN_FORCE)

_LIMITED = frozenset({OrderType.LIMIT, OrderType.STOP_LIMIT})
_STOPPED = frozenset({OrderType.STOP, OrderType.STOP_LIMIT})


class AlertRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the source behind an alert allows.

    `reaches_live`: a live account is behind it, so that nothing may be ignored. `needs_quantity`: no account
    sizes entries itself. `places_brackets`: every account can place take profit and stop loss.
    """

    reaches_live: bool = False
    needs_quantity: bool = True
    places_brackets: bool = False


class SentKey(msgspec.Struct, frozen=True):
    """A candidate for the idempotency key: the field's name as sent, and its text, not yet checked."""

    name: str
    value: str


class BodyKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The body's candidates for the key (key.choose_key). `alert_id` is always a label."""

    key: SentKey | None = None
    id: SentKey | None = None
    trace_id: SentKey | None = None
    alert_id: SentKey | None = None


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A payload that was understood. A warning is `word: sentence`."""

    signal: Signal
    secret: str | None = None
    keys: BodyKeys = BodyKeys()
    warnings: tuple[str, ...] = ()


def body_secret(fields: Mapping[str, object]) -> str | None:
    """The secret that a body carries, looked at before anything else in it. None where there is none.

    Also None where it carries two that differ, or something that is no text.
    """
    found = [sent for sent, folded in each_field(fields) if NAMES.get(folded) == "secret"]
    return _agreed(sent for sent in found if not values.is_absent(sent.value))


def _agreed(sent: Iterable[Sent]) -> str | None:
    try:
        secrets = {values.long_text(secret) for secret in sent}
    except InvalidSignal:
        return None
    return secrets.pop() if len(secrets) == 1 else None


def read_alert(fields: Mapping[str, object], rules: AlertRules) -> Alert:
    """What `fields`, as `listener.body.read_body` gives them, ask for.

    Raises InvalidSignal with a reason of CONTRACT 3: `unsubstituted_placeholder`, `unsupported_field`,
    `unknown_field`, `missing_field`, `missing_quantity`, `contradictory`, `keys_disagree`, `invalid_symbol`,
    `delayed_data`, and the reasons of values.py.
    """
    left_over = values.placeholders(fields)
    if left_over:
        detail = "a placeholder was not filled in; strategy placeholders work in strategy alerts only"
        raise InvalidSignal("unsubstituted_placeholder", left_over, detail)
    return _Reading(fields, rules).alert()


class _Reading(Fields):
    """One payload being read."""

    def __init__(self, fields: Mapping[str, object], rules: AlertRules) -> None:
        super().__init__(fields, rules.reaches_live)
        self.rules = rules

    def alert(self) -> Alert:
        signal = self._signal()
        self._refuse_contradictions(signal)
        self._refuse_incomplete(signal)
        keys = BodyKeys(**{name: self._key(name) for name in BodyKeys.__struct_fields__})
        return Alert(
            signal=self._with_brackets(signal),
            secret=_agreed(self.found["secret"]),
            keys=keys,
            warnings=tuple(self.warnings),
        )

    def _key(self, field: str) -> SentKey | None:
        try:
            value = self.read(field, values.long_text)
        except InvalidSignal as error:
            if error.reason != "contradictory":
                raise
            raise InvalidSignal("keys_disagree", error.fields, error.detail) from error
        return None if value is None else SentKey(self.found[field][0].name, value)

    # ------------------------------------------------------------------------------------------- the signal

    def _signal(self) -> Signal:
        symbol, exchange = self._instrument()
        action = self.read("action", _ACTION)
        missing = tuple(name for name, value in (("symbol", symbol), ("action", action)) if value is None)
        if symbol is None or action is None:
            raise InvalidSignal("missing_field", missing, "an order needs a symbol and an action")
        order_type, limit_price, stop_price, reference = self._prices()
        interval, bar_time, fired_at = self._times()
        position, position_size = self._position()
        return Signal(
            symbol=symbol,
            action=action,
            strategy=self.read("strategy", values.text),
            exchange=exchange,
            interval=interval,
            bar_time=bar_time,
            fired_at=fired_at,
            quantity=self.read("quantity", values.quantity),
            type=order_type,
            limit_price=limit_price,
            stop_price=stop_price,
            price=reference,
            tif=self.read("tif", _TIF),
            order_id=self.read("order_id", values.text),
            market_position=position,
            market_position_size=position_size,
            prev_market_position=self.read("prev_market_position", _DIRECTION),
            prev_market_position_size=self.read("prev_market_position_size", values.size),
            sentiment=self.read("sentiment", _DIRECTION),
            reduce_only=any(values.switch(sent) for sent in self.found["reduce_only"]),
            paper_only=self._paper_only(),
            comment=self.read("comment", values.long_text),
        )

    def _instrument(self) -> tuple[str | None, str | None]:
        """Symbol and exchange; a prefix and the exchange field must agree, `NASDAQ:AAPL` and `AAPL` do."""
        symbols: set[str] = set()
        exchanges: set[str] = {values.text(sent).upper() for sent in self.found["exchange"]}
        for sent in self.found["symbol"]:
            prefix, symbol = split_symbol(values.text(sent))
            if not is_symbol(symbol):
                raise InvalidSignal(
                    "invalid_symbol", (sent.name,), f"{symbol[:40]!r} is not a symbol like AAPL"
                )
            symbols.add(symbol)
            exchanges |= {prefix} if prefix else set()
        if len(symbols) > 1:
            raise self.contradiction("name different symbols", "symbol")
        split = [split_delayed(name) for name in exchanges]
        if len({name for name, _ in split}) > 1:
            raise self.contradiction("name different exchanges", "symbol", "exchange")
        if any(delayed for _, delayed in split):
            detail = "the chart shows delayed data (_DL, _DLY): its signals come late"
            if self.rules.reaches_live:
                raise InvalidSignal("delayed_data", self.names("exchange") or self.names("symbol"), detail)
            self.warn("delayed_data", detail)
        return next(iter(symbols), None), split[0][0] if split else None

    def _prices(self) -> tuple[OrderType, Decimal | None, Decimal | None, Decimal | None]:
        """Type, limit price, stop price, reference price.

        A limit price without a type asks for a limit order. A stop price without one may be an entry or a
        protective stop: refused. A field literally named `price` is the limit price of a limit order that has
        no other, and a reference everywhere else.
        """
        sent_type = self.read("type", _TYPE)
        limit, stop = self.read("limit_price", values.price), self.read("stop_price", values.price)
        if sent_type is None and stop is not None:
            detail = "a stop_price needs type stop or stop_limit; a protective stop is stop_loss"
            raise InvalidSignal("missing_field", ("type",), detail)
        order_type = sent_type or (OrderType.MARKET if limit is None else OrderType.LIMIT)
        if order_type in _LIMITED and limit is None:
            literal = [sent for sent in self.found["price"] if fold(sent.name.rpartition(".")[2]) == "price"]
            if not literal:
                raise InvalidSignal(
                    "missing_field", ("limit_price",), f"a {order_type} order needs a limit price"
                )
            limit = values.price(literal[0])
            self.found["price"].remove(literal[0])
        if order_type in _STOPPED and stop is None:
            raise InvalidSignal("missing_field", ("stop_price",), f"a {order_type} order needs a stop price")
        if order_type not in _LIMITED and limit is not None:
            raise self.contradiction(
                f"disagree: a {order_type} order has no limit price", "type", "limit_price"
            )
        if order_type not in _STOPPED and stop is not None:
            raise self.contradiction(
                f"disagree: a {order_type} order has no stop price", "type", "stop_price"
            )
        return order_type, limit, stop, self._reference()

    def _reference(self) -> Decimal | None:
        """The first name counts. Another that is no price is named, or refused where it may be an order."""
        for sent in self.found["price"][1:]:
            try:
                values.price(sent)
            except InvalidSignal as error:
                is_text = error.reason == "invalid_number"
                if is_text and fold(sent.name.rpartition(".")[2]) == CLOSE and not values.is_no_value(sent):
                    raise
                self.warn("reference_price_ignored", f"{sent.name}: {error.detail}")
        return self.read("price", values.price)

    def _times(self) -> tuple[str | None, int | None, int | None]:
        """Interval, bar time, fire time. A bar time with seconds is a fire time (HOLES H15)."""
        interval = self.read("interval", values.interval)
        bar_time = self.read("bar_time", values.time)
        fired_at = self.read("fired_at", values.time)
        whole_minutes = interval is None or interval_length(interval) >= MINUTE
        if bar_time is not None and whole_minutes and bar_time % MINUTE:
            sentence = "has seconds, so it is when the alert fired, not the bar; send {{time}} there"
            self.warn("fire_time_as_bar_time", f"{self.names('bar_time')[0]} {sentence}")
            fired_at = bar_time if fired_at is None else fired_at
            bar_time = None
        if fired_at is None and (bar_time is None or interval is None):
            self.warn(
                "age_unknown", "no fire time (timenow), nor bar time with interval: a late alert looks fresh"
            )
        return interval, bar_time, fired_at

    def _position(self) -> tuple[Direction | None, Decimal | None]:
        """The position after this order: side and size, or TradingView's signed `position_size`."""
        side = self.read("market_position", _DIRECTION)
        size = self.read("market_position_size", values.size)
        signed = self.read("position_size", values.number)
        if signed is None:
            if side is None and size is not None:
                raise InvalidSignal("missing_field", ("market_position",), "a size needs its side")
            return side, size
        stated = Direction.FLAT if signed == 0 else Direction.LONG if signed > 0 else Direction.SHORT
        if side is None:
            if not all(sent.nested for sent in self.found["position_size"]):
                raise InvalidSignal("unsupported_field", self.names("position_size"), POSITION_SIZE_REMEDY)
            side = stated
        if side is not stated or size not in (None, abs(signed)):
            fields = ("position_size", "market_position", "market_position_size")
            raise self.contradiction("say different things", *fields)
        return side, abs(signed)

    def _paper_only(self) -> bool:
        on = tuple(sent.name for sent in self.found["paper_only"] if not values.is_off(sent.value))
        if on and self.rules.reaches_live:
            detail = (
                "a test alert on a source that reaches a live account; use a source that reaches only paper"
            )
            raise InvalidSignal("unsupported_field", on, detail)
        return bool(on)

    # ------------------------------------------------------------------------------------------- as a whole

    def _with_brackets(self, signal: Signal) -> Signal:
        """Brackets protect what is opened: on an exit they ask for nothing, and no exit is lost for them."""
        take_profit, stop_loss = (
            self.read("take_profit", values.bracket),
            self.read("stop_loss", values.bracket),
        )
        if take_profit is None and stop_loss is None:
            return signal
        asked = (("take_profit", take_profit), ("stop_loss", stop_loss))
        names = self.names(*(field for field, value in asked if value is not None))
        if reads_as_exit(signal, ZERO):
            self.warn("brackets_ignored", f"{' and '.join(names)} on an order that opens nothing")
            return signal
        if not self.rules.places_brackets:
            raise InvalidSignal("unsupported_field", names, BRACKET_REMEDY)
        return msgspec.structs.replace(signal, take_profit=take_profit, stop_loss=stop_loss)

    def _refuse_contradictions(self, signal: Signal) -> None:
        for prefix in ("", "prev_"):
            side, size = f"{prefix}market_position", f"{prefix}market_position_size"
            stated_side, stated_size = getattr(signal, side), getattr(signal, size)
            if None not in (stated_side, stated_size) and (stated_side is Direction.FLAT) != (
                stated_size == 0
            ):
                raise self.contradiction("say different things", side, size)
        after, wanted = signal.market_position, signal.sentiment
        if None not in (after, wanted) and after is not wanted and signal.action is not Action.EXIT:
            raise self.contradiction(
                "point in different directions", "sentiment", "market_position", "position_size"
            )
        if signal.action is Action.REVERSE:
            if signal.target == 0:
                raise self.contradiction(
                    "disagree: reverse or flat", "action", "market_position", "sentiment"
                )
            if signal.reduce_only:
                raise self.contradiction("disagree: a reverse opens the other side", "action", "reduce_only")
        self._refuse_transition_against_action(signal)

    def _refuse_transition_against_action(self, signal: Signal) -> None:
        """A buy cannot take the position down, a sell cannot take it up."""
        sign = {Action.BUY: 1, Action.SELL: -1}.get(signal.action)
        if sign is None or signal.target is None or signal.previous is None:
            return
        if (signal.target - signal.previous) * sign < 0:
            fields = ("action", "market_position", "market_position_size", "position_size", "sentiment")
            before = ("prev_market_position", "prev_market_position_size")
            raise self.contradiction("disagree: the position moves against the action", *fields, *before)

    def _refuse_incomplete(self, signal: Signal) -> None:
        if reads_as_exit(signal, ZERO):
            return
        if signal.quantity is None and signal.target is None and self.rules.needs_quantity:
            detail = (
                "an entry needs a quantity or a market_position with its size, or an account that sizes it"
            )
            raise InvalidSignal("missing_quantity", ("quantity",), detail)
        daily = signal.interval is not None and is_daily_or_longer(signal.interval)
        if daily and signal.fired_at is None and self.rules.reaches_live:
            detail = (
                f'an entry on {signal.interval} bars needs its fire time: add "fired_at": "{{{{timenow}}}}"'
            )
            raise InvalidSignal("missing_field", ("fired_at",), detail)
