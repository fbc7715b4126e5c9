"""A plausible trading day in a ledger: one of everything that can happen, between many rows that go well."""

from __future__ import annotations

from app.clock import SECOND
from app.ledger import orders
from app.ledger.transaction import Transaction
from tests.gui.rows import (
    MS,
    PRICES,
    add_conflict,
    add_delivery,
    add_duplicate,
    add_reconciliation,
    add_signal,
    body_of,
    deny,
    fill,
    lose,
    lose_for_good,
    of,
    prepare,
    work,
)


def trading_day(tx: Transaction, now: int, quiet_rows: int = 45, *, calm: bool = False) -> None:
    """One of everything, the newest a few seconds before `now`. `calm`: nothing in doubt."""
    prepare(tx)
    symbols = list(PRICES)
    at = now - (quiet_rows + 12) * 95 * SECOND
    add_reconciliation(tx, at - 5 * SECOND, cause="start")
    for number in range(quiet_rows):
        symbol = symbols[number * 7 % len(symbols)]
        action = ("buy", "sell")[number % 2]
        claim = add_signal(
            tx, at, symbol=symbol, action=action, quantity=("10", "2", "0.015", "1")[number % 4]
        )
        fill(tx, claim, at + 8 * MS)
        if number % 9 == 4:
            add_duplicate(tx, claim, at + 2 * SECOND)
        if number % 6 == 0:
            add_reconciliation(tx, at + 30 * SECOND)
        at += 95 * SECOND
    at = _refused_and_denied(tx, at)
    if not calm:
        at = _in_doubt(tx, at)
    last = add_signal(tx, at, symbol="AAPL", quantity="10")
    fill(tx, last, at + 8 * MS)
    tx.event(at + SECOND, "window", "trading state set", "trading", {"from": "halted", "to": "active"})


STEP = 80 * SECOND


def _refused_and_denied(tx: Transaction, at: int) -> int:
    step = STEP
    stale = "age 1312.4 s, limit 90 s for an entry"
    add_delivery(tx, at, "stale", status=422, reason="stale", detail=stale, key="tv-7f31")
    add_delivery(
        tx,
        at + step,
        "invalid",
        status=400,
        reason="unsupported_field",
        fields=["leverage"],
        detail="leverage = 5: remove it; leverage, margin and position mode are set at the broker",
        body='{"ticker": "BTCUSDT", "action": "buy", "leverage": 5, "quantity": 1.50}',
    )
    add_delivery(
        tx,
        at + step,
        "invalid",
        status=400,
        reason="missing_field",
        fields=["action"],
        detail="there is no action: send buy, sell, exit, reverse or cancel",
        body="BUY AAPL now!!",
    )
    at += 2 * step
    denied = add_signal(tx, at, symbol="ES1!", quantity="40")
    deny(tx, denied, at + 5 * MS, "NOTIONAL_EXCEEDS_MAX_PER_ORDER notional=212510 max=5000")
    at += step
    rest = add_signal(tx, at, symbol="MSFT", quantity="5")
    work(tx, rest, at + 7 * MS)
    at += step
    conflict = add_signal(tx, at, symbol="BTCUSDT", quantity="0.02", key="tv-7f38", key_source="body")
    fill(tx, conflict, at + 7 * MS, parts=2)
    add_duplicate(tx, conflict, at + 900 * MS)
    add_duplicate(tx, conflict, at + 3 * SECOND)
    add_delivery(
        tx,
        at + 5 * SECOND,
        "conflict",
        claim=conflict,
        key="tv-7f38",
        status=422,
        reason="intent_differs",
        fields=["quantity"],
        detail="quantity was 0.02, now 0.2",
        body=body_of(
            {
                "symbol": "BTCUSDT",
                "action": "buy",
                "strategy": "breakout",
                "exchange": "NASDAQ",
                "interval": "15",
                "fired_at": at + 4 * SECOND,
                "quantity": "0.2",
                "price": "61262",
            }
        ),
    )
    return at + step


def _in_doubt(tx: Transaction, at: int) -> int:
    step = STEP
    lost = add_signal(tx, at, symbol="BTCUSDT", quantity="0.01", key="tv-7f3a", key_source="body")
    lose(tx, lost, at + 12 * MS)
    add_reconciliation(
        tx,
        at + 6 * SECOND,
        "FINDINGS",
        [
            (
                "critical",
                "order_unknown",
                f"O{lost}",
                "sent at the broker's door, not found by id; asking again",
            ),
            ("warning", "position_drift", "BTCUSDT", "ours 0.035, the broker's 0.045"),
            ("info", "unattributed_order", "P-999001", "an order that Onefill did not make; left alone"),
        ],
    )
    at += step
    waiting = add_signal(
        tx, at, symbol="BTCUSDT", action="sell", quantity="0.01", key="tv-7f3b", key_source="body"
    )
    order = of(tx, waiting)
    orders.note(tx, order, at=at, reason=f"WAITING_FOR_UNRESOLVED order=O{lost}")
    return at + step


def needing(tx: Transaction, now: int) -> None:
    """One of most things that need a person, some minutes before `now`."""
    at = now - 22 * 60 * SECOND
    lose_for_good(tx, add_signal(tx, at, symbol="MSFT", quantity="5"), at + MS)
    long = add_signal(tx, at + SECOND, symbol="AAPL", quantity="10")
    fill(tx, long, at + 2 * SECOND)
    out = add_signal(tx, at + STEP, symbol="AAPL", action="exit", quantity="10")
    tx.execute("UPDATE orders SET purpose = 'exit' WHERE claim_id = ?", (out,))
    deny(tx, out, at + STEP + MS, "TRADING_HALTED")
    add_conflict(tx, long, at + 2 * STEP, key="tv-7f40")
    finding = ("warning", "drift", "BTCUSDT", "ours 0.035, the broker's 0.045")
    held = [{"symbol": "BTCUSDT", "expected": "0.035", "broker": "0.045"}]
    add_reconciliation(tx, at + 3 * STEP, "FINDINGS", [finding], positions=held)
