"""Reply tables of venues that Onefill has no adapter for: they show that the classifier knows none of them.

The codes are those of facts/brokers-and-reconciliation 2.2 and 3.1.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from app.brokers.base import BrokerOrder
from app.brokers.classify import ReplyCodes, Rule
from app.domain.order import OrdStatus
from app.domain.signal import Side


def reader(broker_id: str, client_id: str, *, inside: tuple[str | int, ...] = ()) -> Any:
    """Reads just enough of an answer: the two ids, wherever the venue puts them."""

    def read(answer: Any) -> BrokerOrder | None:
        for step in inside:
            answer = answer[step]
        return BrokerOrder(
            broker_order_id=str(answer.get(broker_id) or ""),
            client_order_id=answer.get(client_id),
            instrument="X",
            side=Side.BUY,
            quantity=Decimal(1),
            status=OrdStatus.NEW,
            filled_quantity=Decimal(0),
            average_price=None,
            created_at=0,
        )

    return read


BINANCE = ReplyCodes(
    read_order=reader("orderId", "clientOrderId"),
    message_at=(("msg",),),
    duplicate=(Rule(code="-2010", message="^Duplicate order sent"), Rule(code="-4116")),
    unknown=(Rule(code="-100[0167]"),),
    refused=(
        Rule(code="-1013|-102[12]|-1102|-1121|-2014|-2015|-2019|-2022"),
        Rule(code="-2010", message="insufficient balance|would immediately"),
        # The same status means both; the words tell them apart.
        Rule(statuses=(503,), message=r"^Service Unavailable\.$"),
        Rule(statuses=(503,), code="-1008"),
    ),
    throttled=(Rule(statuses=(418, 429), code="-1003|-1015"),),
)

BYBIT = ReplyCodes(
    read_order=reader("orderId", "orderLinkId", inside=("result",)),
    code_at=(("retCode",),),
    message_at=(("retMsg",),),
    duplicate=(Rule(code="110072|170141"),),
    unknown=(Rule(code="10000|10006|10016|10019|10429|170001|170007|170146"),),
    refused=(Rule(code="1000[1-5]|10027|110007|170131"),),
)

OKX = ReplyCodes(
    read_order=reader("ordId", "clOrdId", inside=("data", 0)),
    code_at=(("data", 0, "sCode"), ("code",)),
    message_at=(("data", 0, "sMsg"), ("msg",)),
    duplicate=(Rule(code="51016"),),
    unknown=(Rule(code="50001|50004|50013|50026|51149"),),
    refused=(Rule(code="51000|51008|5010[2-9]|5011[0-3]"),),
    throttled=(Rule(code="50011"),),
)

KRAKEN = ReplyCodes(
    read_order=reader("txid", "cl_ord_id", inside=("result",)),
    code_at=(("error", 0),),
    message_at=(),
    duplicate=(Rule(code="EOrder:Duplicate.*"),),
    unknown=(Rule(code="EService:(Timeout|Unavailable|Busy)|EGeneral:Internal error"),),
    refused=(Rule(code="EOrder:Insufficient funds|EOrder:Invalid price|EAPI:.*|EService:Deadline elapsed"),),
)

COINBASE = ReplyCodes(
    read_order=reader("order_id", "client_order_id", inside=("success_response",)),
    code_at=(("error_response", "error"), ("error",)),
    message_at=(("error_response", "message"), ("message",)),
    duplicate=(Rule(code="DUPLICATE_CLIENT_ORDER_ID"),),
    unknown=(Rule(code="UNKNOWN_FAILURE_REASON"),),
    refused=(Rule(code="INSUFFICIENT_FUND"),),
)
