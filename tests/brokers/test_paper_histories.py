"""Generated histories of orders, prices, cancels and restarts: what must hold after any of them."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.brokers.base import Broker, OrderRequest, Placed
from app.brokers.paper import FILE_NAME, FillMode, PaperBroker
from app.brokers.paper_book import PaperBook
from app.brokers.paper_match import opening_part
from app.clock import ManualClock
from app.domain.order import OrdStatus
from app.domain.signal import Side, TimeInForce
from tests.brokers.paper_kit import nothing_against, order

CASH = Decimal(1_000)

prices = st.sampled_from(["80", "95", "100", "105", "120.5"])
orders = st.builds(
    lambda side, quantity, price, limit, stop, tif, symbol: order(
        "to be named", side, quantity, price=price, limit=limit, stop=stop, tif=tif, symbol=symbol
    ),
    st.sampled_from(Side),
    st.sampled_from(["0.3", "1", "5", "9"]),
    st.none() | prices,
    st.none() | prices,
    st.none() | prices,
    st.none() | st.sampled_from(TimeInForce),
    st.sampled_from(["AAPL", "BTCUSDT"]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("order"), orders, st.sampled_from(FillMode)),
        st.tuples(st.just("price"), st.sampled_from(["AAPL", "BTCUSDT"]), prices),
        st.tuples(st.just("cancel"), st.integers(0, 8)),
        st.tuples(st.just("fill")),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


def play(path: Path, history: list[tuple[object, ...]]) -> tuple[PaperBook, dict[str, OrderRequest]]:
    """Runs a history; the open book and the orders that it took."""
    clock = ManualClock()
    book = PaperBook(path, clock)
    book.open_account("paper", CASH)
    taken: dict[str, OrderRequest] = {}
    for number, step in enumerate(history):
        clock.advance(1)
        match step:
            case ("order", OrderRequest() as request, FillMode() as mode):
                named = replace(request, client_order_id=f"c-{number}")
                reply = book.submit("paper", named, mode, nothing_against)
                if isinstance(reply, Placed):
                    taken[named.client_order_id] = named
            case ("price", str(symbol), str(price)):
                book.show_price(symbol, Decimal(price))
            case ("cancel", int(which)):
                book.cancel("paper", f"c-{which}")
            case ("fill",):
                book.fill_due()
            case ("restart",):
                book.close()
                book = PaperBook(path, clock)
                book.fill_all_due()
    return book, taken


@settings(max_examples=60, deadline=None)
@given(steps)
def test_cash_positions_and_orders_always_agree_with_the_fills(history: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        book, taken = play(Path(folder) / FILE_NAME, history)
        try:
            book.fill_all_due()
            check(book, taken)
        finally:
            book.close()


def check(book: PaperBook, taken: dict[str, OrderRequest]) -> None:
    snapshot = book.snapshot("paper", 0)
    assert len({fill.exec_id for fill in snapshot.fills}) == len(snapshot.fills)

    cash, positions = CASH, defaultdict[str, Decimal](Decimal)
    for fill in snapshot.fills:
        before = positions[fill.instrument]
        cash -= fill.side.sign * fill.quantity * fill.price
        positions[fill.instrument] += fill.side.sign * fill.quantity
        if fill.side is Side.BUY and opening_part(fill.side, fill.quantity, before) > 0:
            assert cash >= 0, "a buy opened what the cash did not cover"
    assert snapshot.account.cash == cash
    assert snapshot.positions == {symbol: position for symbol, position in positions.items() if position}

    for client_order_id, request in taken.items():
        found = book.find("paper", client_order_id)
        assert found is not None
        own = [fill for fill in snapshot.fills if fill.client_order_id == client_order_id]
        assert found.filled_quantity == sum((fill.quantity for fill in own), Decimal(0)) <= request.quantity
        assert (found.status is OrdStatus.FILLED) == (found.filled_quantity == request.quantity)
        assert (found.average_price is None) == (not own)
        for fill in own:
            if request.limit_price is not None:
                assert (request.limit_price - fill.price) * request.side.sign >= 0
        is_open = found in snapshot.open_orders
        assert is_open == (not found.status.is_terminal)
        assert not (is_open and request.tif in (TimeInForce.IOC, TimeInForce.FOK))


def test_the_paper_broker_is_a_broker() -> None:
    """For the type checker; at run time only that every method is there."""

    def as_broker(broker: PaperBroker) -> Broker:
        return broker

    assert as_broker.__annotations__["return"] == "Broker"
    assert {name for name in vars(Broker) if not name.startswith("_")} <= set(dir(PaperBroker))
