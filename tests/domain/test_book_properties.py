"""What holds for every signal on every book: bounds, sides, sums (HOLES H2, H3, H6)."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from app.domain.book import Holdings, Trade, plan, reads_as_exit
from app.domain.signal import Action, Direction, Side, Signal
from app.domain.sizing import SMALLEST_STEP, WIDE, at_least_a_step, round_down, worth

D = Decimal
SIZES = st.decimals("0.00000001", "1000", places=8) | st.sampled_from([D(1), D(5), D(10), D("1e-9")])
NETS = st.just(D(0)) | SIZES.map(at_least_a_step) | SIZES.map(lambda size: -at_least_a_step(size))
LEAVES = st.just(D(0)) | SIZES


@st.composite
def signals(draw: st.DrawFn) -> Signal:
    """Every signal that the door lets through, and more: sizes only come with their sides."""
    action = draw(st.sampled_from([Action.BUY, Action.SELL, Action.EXIT, Action.REVERSE]))

    def position() -> tuple[Direction | None, D | None]:
        side = draw(st.none() | st.sampled_from(Direction))
        if side is None:
            return None, None
        if side is Direction.FLAT:
            return side, draw(st.sampled_from([None, D(0)]))
        return side, draw(st.none() | SIZES)

    (after, after_size), (before, before_size) = position(), position()
    return Signal(
        symbol="AAPL",
        action=action,
        quantity=draw(st.none() | SIZES),
        market_position=after,
        market_position_size=after_size,
        prev_market_position=before,
        prev_market_position_size=before_size,
        sentiment=draw(st.none() | st.sampled_from(Direction)),
        reduce_only=action is not Action.REVERSE and draw(st.booleans()),
    )


@st.composite
def holdings(draw: st.DrawFn) -> Holdings:
    book = draw(NETS)
    others = tuple(draw(st.lists(NETS, max_size=2)))
    by_hand = draw(st.just(D(0)) | NETS)
    return Holdings(book, book + sum(others, D(0)) + by_hand, draw(LEAVES), draw(LEAVES), others)


@given(signals(), holdings(), LEAVES, st.booleans())
def test_no_order_closes_more_than_book_orders_in_flight_and_broker_leave(
    signal: Signal, held: Holdings, size: Decimal, by_signal: bool
) -> None:
    trade = plan(signal, held, _entry_size(signal, size, by_signal), sized_by_signal=by_signal)
    if not isinstance(trade, Trade):
        return
    assert trade.reduces >= 0
    assert trade.opens >= 0
    assert trade.reduces + trade.opens == trade.quantity
    if trade.reduces:
        assert held.book * trade.side.sign < 0
        assert trade.reduces <= abs(held.book)
        assert trade.reduces <= held.closable
        assert trade.reduces <= held.at_broker
        assert abs(held.broker_position + trade.side.sign * trade.reduces) < abs(held.broker_position)
    if trade.reduces and trade.opens:
        assert trade.reduces == abs(held.book), "what turns a book closes all of it first"


@given(signals(), holdings(), LEAVES, st.booleans())
def test_no_order_goes_against_the_action_and_exits_open_nothing(
    signal: Signal, held: Holdings, size: Decimal, by_signal: bool
) -> None:
    trade = plan(signal, held, _entry_size(signal, size, by_signal), sized_by_signal=by_signal)
    if not isinstance(trade, Trade):
        return
    if signal.action is Action.BUY:
        assert trade.side is Side.BUY
    if signal.action is Action.SELL:
        assert trade.side is Side.SELL
    if signal.action is Action.EXIT or signal.reduce_only or signal.target == 0:
        assert trade.opens == 0
        assert trade.reduces > 0


@given(signals(), holdings(), LEAVES, st.booleans())
def test_the_book_never_grows_beyond_what_was_asked_for(
    signal: Signal, held: Holdings, size: Decimal, by_signal: bool
) -> None:
    """After all in flight it is no larger than before, or the target, or the entry's size on top."""
    trade = plan(signal, held, _entry_size(signal, size, by_signal), sized_by_signal=by_signal)
    if not isinstance(trade, Trade):
        return
    after = held.effective + trade.side.sign * trade.quantity
    most = max(abs(held.book), abs(held.effective))
    if signal.target is None and signal.action is not Action.REVERSE and not signal.reduce_only:
        most += size if not by_signal else signal.quantity or D(0)
    elif by_signal:
        most = max(most, abs(signal.target or D(0)), signal.quantity or D(0))
    else:
        most = max(most, size)
    assert abs(after) <= most
    if by_signal and signal.target is not None and signal.quantity is not None and signal.target != 0:
        assert trade.quantity <= signal.quantity


@given(signals(), holdings(), LEAVES)
def test_a_target_is_never_passed(signal: Signal, held: Holdings, size: Decimal) -> None:
    if signal.target is None:
        return
    trade = plan(signal, held, _entry_size(signal, size, by_signal=True), sized_by_signal=True)
    if isinstance(trade, Trade) and held.buys == held.sells == 0:
        after = held.effective + trade.side.sign * trade.quantity
        assert (after - signal.target) * trade.side.sign <= 0 or trade.opens == 0


@given(signals(), holdings(), LEAVES, st.booleans())
def test_what_reads_as_an_exit_by_its_own_words_never_enlarges_the_book(
    signal: Signal, held: Holdings, size: Decimal, by_signal: bool
) -> None:
    if not reads_as_exit(signal, D(0)) or held.buys or held.sells:
        return
    trade = plan(signal, held, _entry_size(signal, size, by_signal), sized_by_signal=by_signal)
    if isinstance(trade, Trade) and signal.target in (None, D(0)):
        assert abs(held.book + trade.side.sign * trade.quantity) <= abs(held.book)


@given(st.decimals("-1e30", "1e30"), st.sampled_from([SMALLEST_STEP, D("0.01"), D(1), D("2.5")]))
def test_rounding_is_down_to_whole_steps_and_never_below_zero(quantity: Decimal, step: Decimal) -> None:
    rounded = round_down(quantity, step)
    assert 0 <= rounded <= max(D(0), quantity)
    assert max(D(0), quantity) - rounded < step


@given(st.decimals("0.01", "1e12", places=2), st.decimals("0.00000001", "1e9", places=8))
def test_what_an_amount_buys_costs_no_more_than_the_amount(amount: Decimal, price: Decimal) -> None:
    bought = worth(amount, price)
    # In a wide context, as the product has more digits than the default one keeps.
    assert WIDE.multiply(bought, price) <= amount
    assert WIDE.multiply(WIDE.add(bought, SMALLEST_STEP), price) > amount


def _entry_size(signal: Signal, size: Decimal, by_signal: bool) -> Decimal:
    return (signal.quantity or D(0)) if by_signal else size
