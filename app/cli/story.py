"""One thing's whole story as text: received, claimed, sent, answered, filled, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.cli.front import cell, whole

_ORDER = ("account", "symbol", "side", "quantity", "state", "ord_status", "reason")
_MACHINE = frozenset({"digest", "at"})
"""Of an event's detail: what says nothing to a person, or what the line has already."""
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
                lines.append(f"      {whole(row['detail'])}")
            lines += [f"      warning: {whole(sentence)}" for sentence in warnings_of(row)]
    if story["events"]:
        lines.append("events")
        lines += [
            f"  {row['id']}  {cell(row['at'])}  {cell(row['actor'])}: {cell(row['what'])} {row['subject']}"
            f"{_what_of(row)}"
            for row in story["events"]
        ]
    lines.append("body")
    body = story["body"]
    lines.append("  (no longer kept)" if body is None else f"  {_lines(body)}")
    return "\n".join(lines)


def _order(order: Mapping[str, Any]) -> list[str]:
    lines = [f"{order['id']}  " + "  ".join(whole(order[name]) for name in _ORDER if order[name] is not None)]
    ids = [f"{name.replace('_', ' ')} {order[name]}" for name in _IDS if order[name] is not None]
    lines.append("  " + ", ".join(ids))
    for attempt in order["attempts"]:
        reply = "no reply" if attempt["reply"] is None else whole(attempt["reply"])
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


def warnings_of(row: Mapping[str, Any]) -> list[str]:
    """A delivery's warnings as sentences."""
    return [str(sentence) for sentence in json.loads(row["warnings"] or "[]")]


def _what_of(event: Mapping[str, Any]) -> str:
    """An event's detail in words: from what to what, then the rest as name=value."""
    detail = json.loads(event["detail"])
    was, to = detail.pop("from", None), detail.pop("to", None)
    said = "" if to is None else f" {whole(was)} -> {whole(to)}"
    rest = ", ".join(_named(detail))
    return f"{said}  {rest}" if rest else said


def _named(detail: Mapping[str, Any]) -> Iterator[str]:
    for name, value in detail.items():
        if name not in _MACHINE and value is not None:
            yield whole(value) if name == "reason" else f"{name}={whole(value)}"


def _lines(text: str) -> str:
    """All of it, control characters shown: what a stranger sent must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
