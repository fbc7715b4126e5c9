"""One thing's whole story as text: received, claimed, sent, answered, filled, in the order of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.cli.front import cell

_ORDER = ("account", "symbol", "side", "quantity", "state", "ord_status", "reason")
_IDS = ("client_order_id", "broker_order_id", "filled_quantity", "average_price", "generation", "leg")


def story_text(story: Mapping[str, Any]) -> str:
    lines: list[str] = []
    signal = story["signal"]
    if signal is not None:
        lines.append(
            f"{signal['id']}  {signal['action']} {cell(signal['quantity'])} {cell(signal['symbol'])}"
            f"  from {cell(signal['source'])}  {cell(signal['first_seen'])}  {signal['outcome']}"
        )
        lines.append(
            f"  key {cell(signal['key'])} ({signal['key_source']}), {signal['deliveries']} deliveries"
        )
    for order in story["orders"]:
        lines += _order(order)
    if story["deliveries"]:
        lines.append("deliveries")
        for row in reversed(story["deliveries"]):
            answer = f"{cell(row['http_status'])} {row['verdict']}"
            reason = "" if row["reason"] is None else f"  {cell(row['reason'])}"
            lines.append(
                f"  {row['id']}  {cell(row['received_at'])}  {answer}  {cell(row['ack_ms'])} ms{reason}"
            )
            if row["detail"]:
                lines.append(f"      {cell(row['detail'])}")
    if story["events"]:
        lines.append("events")
        lines += [
            f"  {row['id']}  {cell(row['at'])}  {cell(row['actor'])}: {cell(row['what'])} {row['subject']}"
            for row in story["events"]
        ]
    lines.append("body")
    body = story["body"]
    lines.append("  (no longer kept)" if body is None else f"  {_whole(body)}")
    return "\n".join(lines)


def _order(order: Mapping[str, Any]) -> list[str]:
    lines = [f"{order['id']}  " + "  ".join(cell(order[name]) for name in _ORDER if order[name] is not None)]
    ids = [f"{name.replace('_', ' ')} {order[name]}" for name in _IDS if order[name] is not None]
    lines.append("  " + ", ".join(ids))
    for attempt in order["attempts"]:
        reply = "no reply" if attempt["reply"] is None else cell(attempt["reply"])
        lines.append(f"  sent      {cell(attempt['at'])}  {reply}")
    lines += [
        f"  looked    {cell(look['at'])}  {cell(look['look'])}: {look['result']}"
        for look in order["evidence"]
    ]
    lines += [
        f"  filled    {cell(row['at'])}  {row['side']} {row['quantity']} @ {row['price']}  fee {row['fee']}"
        for row in order["fills"]
    ]
    return lines


def _whole(text: str) -> str:
    """All of it, control characters shown: what a stranger sent must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
