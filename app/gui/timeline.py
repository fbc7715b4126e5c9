"""One thing's story in order of time: received, claimed, answered, sent, looked at, filled. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.gui.formats import moment, one_line, told
from app.gui.theme import Tone
from app.gui.words import EVIDENCE, ORDER_STATES, VERDICTS, Word, look_up, tr

Story = dict[str, Any]
SHOWN_FIRST = 3
SHOWN_LAST = 10
"""Of many deliveries of one signal, the first and the last ones; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Step:
    """`at` is RFC 3339 UTC. `rank` orders steps of one moment."""

    at: str
    text: str
    glyph: str = "·"
    tone: Tone = Tone.QUIET
    more: str = ""
    rank: int = 0


def steps(story: Story) -> list[Step]:
    """Every step of a signal, an order or a delivery, oldest first."""
    found = [*_deliveries(story), *_events(story)]
    for order in story["orders"]:
        found += [*_attempts(order), *_evidence(order), *_fills(order)]
    return sorted(found, key=lambda step: (moment(step.at), step.rank))


def milestones(story: Story) -> list[tuple[str, str]]:
    """(word, time) of what a person waits for: received, answered, sent, filled; those that happened.

    Of a delivery that did not become the signal only what happened to itself.
    """
    own = next((row for row in story["deliveries"] if row["id"] == story["id"]), None)
    first = own or min(story["deliveries"], key=lambda row: row["number"], default=None)
    if first is None:
        return []
    found = [(tr("received"), first["received_at"])]
    if first["ack_ms"] is not None:
        found.append((tr("answered"), _answered_at(first)))
    if first["verdict"] != "accepted":
        return found
    attempts = [attempt["at"] for order in story["orders"] for attempt in order["attempts"]]
    fills = [fill["at"] for order in story["orders"] for fill in order["fills"]]
    if attempts:
        found.append((tr("sent"), min(attempts)))
    if fills:
        found.append((tr("last fill"), max(fills)))
    return found


def _answered_at(delivery: dict[str, Any]) -> str:
    answered = moment(delivery["received_at"]) + timedelta(milliseconds=delivery["ack_ms"])
    return answered.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _deliveries(story: Story) -> Iterator[Step]:
    rows = sorted(story["deliveries"], key=lambda row: row["number"])
    hidden = rows[SHOWN_FIRST:-SHOWN_LAST] if len(rows) > SHOWN_FIRST + SHOWN_LAST else []
    for place, row in enumerate(rows):
        if hidden and row is hidden[0]:
            text = tr("{number} more deliveries, not listed here").format(number=len(hidden))
            yield Step(row["received_at"], text)
        if row in hidden:
            continue
        verdict = look_up(VERDICTS, row["verdict"])
        text = (tr("Received from {source}") if place == 0 else tr("Received again from {source}")).format(
            source=row["source"]
        )
        yield Step(row["received_at"], f"{text} ({row['id']})", "→", Tone.WORKING)
        if row["verdict"] != "accepted":
            why = one_line(": ".join(part for part in (row["reason"], row["detail"]) if part))
            yield Step(row["received_at"], tr(verdict.text), verdict.glyph, verdict.tone, why, rank=1)
        if row["ack_ms"] is not None:
            text = tr("Answered {status}").format(status=row["http_status"])
            good = row["http_status"] is not None and row["http_status"] < 300
            yield Step(_answered_at(row), text, "←", Tone.GOOD if good else Tone.BAD, rank=4)
        elif row["http_status"] is None:
            yield Step(row["received_at"], tr("No answer is on record"), "?", Tone.DOUBT, rank=4)


def _events(story: Story) -> Iterator[Step]:
    for row in story["events"]:
        detail = _object(row["detail"])
        if row["what"] == "filled":
            continue  # the fill itself is a step
        if row["what"] == "claimed":
            text = tr("Claimed as {signal}, on disk").format(signal=row["subject"])
            yield Step(row["at"], text, "✓", Tone.GOOD, rank=2)
        elif row["what"] == "order moved":
            yield _moved(row, detail)
        else:
            text = f"{row['what'].capitalize()} ({row['subject']}, {row['actor']})"
            yield Step(row["at"], one_line(text), "·", Tone.QUIET, one_line(told(row["detail"])), rank=3)


def _moved(row: dict[str, Any], detail: dict[str, Any]) -> Step:
    to = str(detail.get("to"))
    word: Word = look_up(ORDER_STATES, to)
    text = f"{row['subject']}: {tr(word.text).lower()}"
    if to == "SUBMITTING":
        text = tr("{order}: about to be sent, and on disk").format(order=row["subject"])
    # Who moved it is worth a word where it was a person.
    by = "" if row["actor"].partition(":")[0] in ("onefill", "worker", "broker") else row["actor"]
    reason = detail.get("reason")
    more = ", ".join(part for part in (str(reason) if reason else "", by) if part)
    return Step(row["at"], text, word.glyph, word.tone, one_line(more), rank=5 if to == "SUBMITTING" else 10)


def _attempts(order: dict[str, Any]) -> Iterator[Step]:
    for row in order["attempts"]:
        text = tr("{order} sent to {account}, attempt {number}").format(
            order=order["id"], account=order["account"], number=row["number"]
        )
        yield Step(row["at"], text, "→", Tone.WORKING, rank=6)
        if row["ended_at"] is not None:
            left = row["bytes_left"]
            text = tr("Nothing had left for the broker") if left == 0 else tr("The broker's reply to {order}")
            tone = Tone.QUIET if left == 0 else Tone.WORKING
            more = one_line(reply_in_short(row["reply"] or ""))
            yield Step(row["ended_at"], text.format(order=order["id"]), "←", tone, more, rank=7)


_TELLING = ("status", "broker_order_id", "code", "detail", "reason", "error", "message")


def reply_in_short(reply: str) -> str:
    """Of a broker's reply, `Word {JSON}`, what tells a person how it went; the copied JSON has all of it."""
    word, brace, rest = reply.partition("{")
    try:
        value = json.loads(brace + rest)
    except ValueError:
        return reply
    flat: dict[str, Any] = dict(value)
    for inner in value.values():
        if isinstance(inner, dict):
            flat |= inner
    told = [f"{name.replace('_', ' ')} {flat[name]}" for name in _TELLING if flat.get(name) not in (None, "")]
    return ", ".join([*([word.strip()] if word.strip() else []), *told]) or reply


def _evidence(order: dict[str, Any]) -> Iterator[Step]:
    for row in order["evidence"]:
        word = look_up(EVIDENCE, row["result"])
        text = tr("Looked for {order} at the broker ({look}): {result}").format(
            order=order["id"], look=one_line(row["look"]), result=tr(word.text).lower()
        )
        yield Step(row["at"], text, word.glyph, word.tone, one_line(row["detail"] or ""), rank=8)


def _fills(order: dict[str, Any]) -> Iterator[Step]:
    for row in order["fills"]:
        text = tr("{order} filled: {side} {quantity} at {price}").format(
            order=order["id"], side=row["side"], quantity=row["quantity"], price=row["price"]
        )
        more = tr("fee {fee}").format(fee=row["fee"]) if row["fee"] not in ("0", None) else ""
        yield Step(row["at"], text, "✓", Tone.GOOD, more, rank=9)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"detail": text}
    return value if isinstance(value, dict) else {"detail": value}
