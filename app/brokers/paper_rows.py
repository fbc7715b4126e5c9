"""Rows of the paper exchange's file and what they are in Python: Decimals, enums, microseconds.

Pure conversions; no statement is run here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from app.brokers.base import BrokerOrder, Fill, OrderRequest
from app.brokers.paper_match import EXACT, FillMode, fills_at, is_triggered
from app.domain.number import plain
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side, TimeInForce

ZERO = Decimal(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ORDER_COLUMNS = (
    "id, account, client_order_id, symbol, side, quantity, status, filled_quantity, average_price, "
    "created_at, type, limit_price, stop_price, tif, reference_price, fill_mode, triggered, due_price, "
    "sequence"
)
"""As PaperOrder's fields are, one for one."""

FILL_COLUMNS = "f.exec_id, f.order_id, o.client_order_id, f.symbol, f.side, f.quantity, f.price, f.fee, f.at"


class PaperOrder(NamedTuple):
    """One row of `orders`, typed."""

    id: str
    account: str
    client_order_id: str
    symbol: str
    side: Side
    quantity: Decimal
    status: OrdStatus
    filled_quantity: Decimal
    average_price: Decimal | None
    created_at: int
    type: OrderType
    limit_price: Decimal | None
    stop_price: Decimal | None
    tif: TimeInForce | None
    reference_price: Decimal | None
    fill_mode: FillMode
    is_stop_reached: bool
    due_price: Decimal | None
    """A fill is owed at this price."""
    sequence: int

    @property
    def leaves(self) -> Decimal:
        return EXACT.subtract(self.quantity, self.filled_quantity)

    @property
    def estimate(self) -> Decimal:
        """What one unit will cost, as far as is known before the fill; zero where nothing is."""
        return self.due_price or self.limit_price or self.stop_price or ZERO

    def after(self, price: Decimal) -> PaperOrder:
        """The order after a price was shown: its stop reached or not, a fill due at that price or not."""
        reached = self.is_stop_reached or (
            self.stop_price is not None and is_triggered(self.side, self.stop_price, price)
        )
        is_due = fills_at(self.type, self.side, self.limit_price, reached, price)
        return self._replace(is_stop_reached=reached, due_price=price if is_due else None)

    def shown(self) -> BrokerOrder:
        return BrokerOrder(
            broker_order_id=self.id,
            client_order_id=self.client_order_id,
            instrument=self.symbol,
            side=self.side,
            quantity=self.quantity,
            status=self.status,
            filled_quantity=self.filled_quantity,
            average_price=self.average_price,
            created_at=self.created_at,
        )


def new_order(
    exchange_id: str, sequence: int, account: str, request: OrderRequest, mode: FillMode, now: int
) -> PaperOrder:
    """An order that has just come in and has met no price yet."""
    return PaperOrder(
        # The exchange's own mark in front keeps ids apart when a file is begun anew.
        id=f"{exchange_id[:8]}-{sequence:08d}",
        account=account,
        client_order_id=request.client_order_id,
        symbol=request.instrument,
        side=request.side,
        quantity=request.quantity,
        status=OrdStatus.NEW,
        filled_quantity=ZERO,
        average_price=None,
        created_at=now,
        type=request.type,
        limit_price=request.limit_price,
        stop_price=request.stop_price,
        tif=request.tif,
        reference_price=request.reference_price,
        fill_mode=mode,
        is_stop_reached=False,
        due_price=None,
        sequence=sequence,
    )


def order_from_row(row: tuple[Any, ...]) -> PaperOrder:
    order = PaperOrder(*row)
    return order._replace(
        side=Side(order.side),
        quantity=Decimal(order.quantity),
        status=OrdStatus(order.status),
        filled_quantity=Decimal(order.filled_quantity),
        average_price=_number(order.average_price),
        created_at=microseconds(str(order.created_at)),
        type=OrderType(order.type),
        limit_price=_number(order.limit_price),
        stop_price=_number(order.stop_price),
        tif=None if order.tif is None else TimeInForce(order.tif),
        reference_price=_number(order.reference_price),
        fill_mode=FillMode(order.fill_mode),
        is_stop_reached=bool(order.is_stop_reached),
        due_price=_number(order.due_price),
    )


def row_from_order(order: PaperOrder) -> list[str | int | None]:
    """The values for ORDER_COLUMNS."""
    row: list[str | int | None] = []
    for value in order._replace(created_at=0):
        if isinstance(value, Decimal):
            row.append(plain(value))
        elif isinstance(value, bool):
            row.append(int(value))
        else:
            row.append(value)
    row[PaperOrder._fields.index("created_at")] = rfc3339(order.created_at)
    return row


def fill_from_row(row: tuple[Any, ...]) -> Fill:
    exec_id, order_id, client_order_id, symbol, side, quantity, price, fee, at = row
    return Fill(
        exec_id=exec_id,
        broker_order_id=order_id,
        client_order_id=client_order_id,
        instrument=symbol,
        side=Side(side),
        quantity=Decimal(quantity),
        price=Decimal(price),
        fee=Decimal(fee),
        at=at,
    )


def rfc3339(time: int) -> str:
    """UTC microseconds as text, always with six decimals, so that the text sorts as the time does."""
    moment = _EPOCH + timedelta(microseconds=time)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def _number(text: Any) -> Decimal | None:
    return None if text is None else Decimal(text)
