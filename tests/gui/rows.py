"""Rows of every kind, written into a real ledger as the program would: what the tests look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from app.clock import SECOND
from app.domain.order import OrdStatus, State
from app.ledger import orders
from app.ledger.transaction import Transaction

MS = 1_000
SOURCE_ID = "5b1f1c1e8d3f4f0d9e7a"
SOURCE = "tradingview"
ACCOUNT = "paper"
PRICES = {"AAPL": "187.25", "MSFT": "412.10", "BTCUSDT": "61250.5", "ES1!": "5312.75", "EURUSD": "1.0831"}


def prepare(tx: Transaction) -> None:
    """The source and the account that every other row refers to."""
    if tx.one("SELECT 1 FROM sources WHERE id = ?", (SOURCE_ID,)) is None:
        tx.insert("sources", {"id": SOURCE_ID, "name": SOURCE})
        tx.insert(
            "accounts", {"name": ACCOUNT, "broker": "paper", "identity": "PAPER-1", "endpoint": "paper"}
        )


def add_signal(
    tx: Transaction,
    at: int,
    *,
    symbol: str = "AAPL",
    action: str = "buy",
    quantity: str = "10",
    key: str | None = None,
    key_source: str = "derived",
    with_order: bool = True,
) -> int:
    """A claim with its delivery, body, event and PENDING order; returns its number."""
    prepare(tx)
    key = key or hashlib.sha256(f"{symbol}{action}{at}".encode()).hexdigest()[:32]
    signal = {
        "symbol": symbol,
        "action": action,
        "strategy": "breakout",
        "exchange": "NASDAQ",
        "interval": "15",
        "bar_time": at // SECOND * SECOND - 900 * SECOND,
        "fired_at": at - 400 * MS,
        "quantity": quantity,
        "price": PRICES.get(symbol, "10"),
    }
    claim = tx.insert(
        "claims",
        {
            "digest": hashlib.sha256(f"{key}{at}".encode()).digest(),
            "source_id": SOURCE_ID,
            "key": key,
            "key_source": key_source,
            "header_key": 0,
            "rule_version": 1,
            "raw_fingerprint": b"r" * 32,
            "intent_fingerprint": b"i" * 32,
            "signal": json.dumps(signal),
            "symbol": symbol,
            "action": action,
            "quantity": quantity,
            "first_received_at": at,
            "admitted_at": at,
            "deliveries": 1,
        },
    )
    add_delivery(tx, at, "accepted", claim=claim, key=key, status=200, body=body_of(signal))
    tx.event(at, f"source:{SOURCE}", "claimed", f"S{claim}", {"key": key, "key_source": key_source})
    if with_order:
        add_order(tx, at, claim, symbol=symbol, action=action)
    return claim


def body_of(signal: dict[str, Any]) -> str:
    sent = {"secret": "***", **{name: value for name, value in signal.items() if name != "bar_time"}}
    return json.dumps(sent)


def add_delivery(
    tx: Transaction,
    at: int,
    verdict: str,
    *,
    claim: int | None = None,
    key: str | None = None,
    status: int | None = 200,
    reason: str | None = None,
    detail: str | None = None,
    fields: Sequence[str] = (),
    ack_us: int | None = 3_400,
    body: str = '{"ticker": "AAPL", "action": "buy"}',
) -> int:
    prepare(tx)
    delivery = tx.insert(
        "deliveries",
        {
            "received_at": at,
            "source_id": SOURCE_ID,
            "verdict": verdict,
            "http_status": status,
            "reason": reason,
            "fields": json.dumps(list(fields)) if fields else None,
            "detail": detail,
            "claim_id": claim,
            "key": key,
            "ack_us": ack_us,
        },
    )
    tx.insert("bodies", {"delivery_id": delivery, "body": body})
    return delivery


def add_order(tx: Transaction, at: int, claim: int, *, symbol: str, action: str) -> int:
    return tx.insert(
        "orders",
        {
            "claim_id": claim,
            "account": ACCOUNT,
            "leg": 1,
            "generation": 1,
            "instrument": symbol,
            "source_id": SOURCE_ID,
            "strategy": "breakout",
            "action": action,
            "purpose": "undecided",
            "type": "market",
            "state": "PENDING",
            "not_after": at + 60 * SECOND,
            "created_at": at,
            "updated_at": at,
        },
    )


def of(tx: Transaction, claim: int) -> orders.Order:
    return orders.newest(tx, claim)[0]


def send(tx: Transaction, claim: int, at: int) -> orders.Order:
    """PENDING to SUBMITTING, with its attempt."""
    order = of(tx, claim)
    row = tx.one("SELECT quantity, action FROM claims WHERE id = ?", (claim,))
    assert row is not None
    columns: dict[str, Any] = {
        "side": "buy" if row[1] == "buy" else "sell",
        "quantity": row[0],
        "client_order_id": hashlib.sha256(f"c{claim}".encode()).hexdigest()[:32],
    }
    order = orders.move(tx, order, State.SUBMITTING, at=at, actor="onefill", **columns)
    tx.insert(
        "attempts",
        {
            "order_id": order.id,
            "number": 1,
            "at": at,
            "identity": "PAPER-1",
            "endpoint": "paper",
            "request": json.dumps({"instrument": order.instrument, "quantity": row[0]}),
            "arrival_deadline": at + 120 * SECOND,
        },
    )
    return order


def reply(tx: Transaction, order: orders.Order, at: int, text: str, *, left: bool = True) -> None:
    tx.change(
        "attempts",
        "UPDATE attempts SET ended_at = ?, bytes_left = ?, reply = ? WHERE order_id = ? AND ended_at IS NULL",
        (at, int(left), text, order.id),
    )


def work(tx: Transaction, claim: int, at: int) -> orders.Order:
    """Sent, and the broker has it."""
    order = send(tx, claim, at)
    reply(tx, order, at + 6 * MS, '{"status": "New"}')
    return orders.move(
        tx,
        order,
        State.WORKING,
        at=at + 6 * MS,
        actor="onefill",
        ord_status=OrdStatus.NEW.value,
        broker_order_id=f"P-{claim:06}",
    )


def fill(tx: Transaction, claim: int, at: int, *, parts: int = 1) -> orders.Order:
    """Sent and filled, in one or more parts."""
    order = work(tx, claim, at)
    assert order.quantity is not None
    price = Decimal(PRICES.get(order.instrument, "10"))
    each = order.quantity / parts
    fills = [
        orders.BookedFill(f"x{claim}-{part}", each, price + part, Decimal(0), at + (9 + 40 * part) * MS)
        for part in range(parts)
    ]
    end = at + (9 + 40 * (parts - 1)) * MS
    order = orders.add_fills(tx, order, fills, at=end)
    return orders.move(tx, order, State.DONE, at=end, actor="onefill", ord_status=OrdStatus.FILLED.value)


def deny(tx: Transaction, claim: int, at: int, reason: str) -> orders.Order:
    return orders.move(tx, of(tx, claim), State.DENIED, at=at, actor="onefill", reason=reason)


def lose(tx: Transaction, claim: int, at: int) -> orders.Order:
    """Sent, and the connection broke: AMBIGUOUS, with two looks."""
    order = send(tx, claim, at)
    reply(tx, order, at + 210 * MS, "connection reset after the request was sent")
    order = orders.move(
        tx,
        order,
        State.AMBIGUOUS,
        at=at + 211 * MS,
        actor="onefill",
        reason="CONNECTION_LOST after the request was sent",
    )
    for look, result, after in (("by id", "absent", 1), ("open orders", "failed", 4)):
        tx.insert(
            "evidence",
            {
                "order_id": order.id,
                "at": at + after * SECOND,
                "identity": "PAPER-1",
                "look": look,
                "result": result,
                "detail": "timed out after 3 s" if result == "failed" else None,
            },
        )
    return order


def lose_for_good(tx: Transaction, claim: int, at: int) -> orders.Order:
    """NEEDS_OPERATOR: sent, lost, and not found out in time."""
    reason = "DEADLINE 900 s without proof"
    end = at + 900 * SECOND
    return orders.move(tx, lose(tx, claim, at), State.NEEDS_OPERATOR, at=end, actor="onefill", reason=reason)


def add_conflict(tx: Transaction, claim: int, at: int, key: str = "k1") -> int:
    """The same key asks for another quantity; a person may admit it."""
    delivery = add_delivery(
        tx,
        at,
        "conflict",
        claim=claim,
        key=key,
        status=422,
        reason="intent_differs",
        fields=["quantity"],
        detail="quantity was 0.02, now 0.2",
    )
    tx.change("deliveries", "UPDATE deliveries SET needs = 'look' WHERE id = ?", (delivery,))
    return delivery


def add_duplicate(tx: Transaction, claim: int, at: int) -> int:
    tx.change("claims", "UPDATE claims SET deliveries = deliveries + 1 WHERE id = ?", (claim,))
    row = tx.one("SELECT key FROM claims WHERE id = ?", (claim,))
    assert row is not None
    return add_delivery(tx, at, "duplicate", claim=claim, key=str(row[0]), ack_us=1_900)


def add_reconciliation(
    tx: Transaction,
    at: int,
    result: str = "OK",
    findings: Sequence[tuple[str, str, str, str]] = (),
    cause: str = "timer",
    positions: Sequence[dict[str, str]] = (),
    failed: Mapping[str, str] | None = None,
) -> int:
    """`findings`: (severity, kind, subject, detail); `positions`: symbol, expected, broker."""
    prepare(tx)
    held = list(positions) or [
        {"symbol": symbol, "expected": net, "broker": net, "drift": "none"}
        for symbol, net in tx.execute("SELECT instrument, net FROM books WHERE account = ?", (ACCOUNT,))
    ]
    sections = dict.fromkeys(("clock", "positions", "open_orders", "recent_orders", "fills"), "ok")
    report = {
        "colour": "green" if result == "OK" else "amber",
        "sections": sections | dict(failed or {}),
        "matched": len(held),
        "positions": held,
        "requests": 5,
    }
    run = tx.insert(
        "reconciliations",
        {
            "account": ACCOUNT,
            "cause": cause,
            "started_at": at,
            "ended_at": at + 38 * MS,
            "result": result,
            "report": json.dumps(report),
        },
    )
    for severity, kind, subject, detail in findings:
        tx.insert(
            "findings",
            {
                "reconciliation_id": run,
                "severity": severity,
                "kind": kind,
                "subject": subject,
                "detail": detail,
            },
        )
    tx.event(
        at + 38 * MS, "onefill", "reconciled", f"account:{ACCOUNT}", {"result": result, "run": f"R{run}"}
    )
    return run


def many_signals(tx: Transaction, start: int, count: int) -> None:
    """Bare claims, quickly: one every second."""
    prepare(tx)
    sql = (
        "INSERT INTO claims (digest, source_id, key, key_source, header_key, rule_version, raw_fingerprint, "
        "intent_fingerprint, signal, symbol, action, quantity, first_received_at, admitted_at, deliveries) "
        "VALUES (?, ?, ?, 'body', 0, 1, x'00', x'00', '{}', 'AAPL', 'buy', '1', ?, ?, 1)"
    )
    for number in range(count):
        at = start + number * SECOND
        bindings = (hashlib.sha256(f"{at}".encode()).digest(), SOURCE_ID, f"k{number}", at, at)
        if number + 1 < count:
            tx.execute(sql, bindings)
        else:
            tx.change("claims", sql, bindings)  # one of them says that claims changed
