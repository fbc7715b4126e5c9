"""The detail pane's page about one thing, as rich text. Pure: rows and colours in, HTML out, off the loop.

Everything that came from outside is escaped, and characters that hide or reorder text are spelled out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from html import escape
from typing import Any

from app.domain.key import DERIVED_FROM, TRANSITION
from app.gui import timeline
from app.gui.conflict import conflict_html
from app.gui.evidence import UNRESOLVED, evidence_html
from app.gui.formats import (
    both_times,
    duration,
    local_milliseconds,
    local_time,
    microseconds_between,
    moment,
    offset,
    one_line,
    pretty_json,
    visible,
)
from app.gui.theme import Theme, Tone
from app.gui.words import (
    KEY_SOURCES,
    LEVELS,
    ORDER_STATES,
    SIDES,
    VERDICTS,
    Word,
    look_up,
    order_word,
    tr,
)
from app.ledger.queries import rfc3339

Story = dict[str, Any]
_TIMES = ("bar_time", "fired_at")


@dataclass(frozen=True, slots=True)
class Page:
    """What the pane shows, and the same as JSON for the clipboard."""

    id: str
    title: str
    word: Word
    html: str
    json: str


class Writer:
    """Makes HTML in the colours of one theme."""

    def __init__(self, theme: Theme, zone: tzinfo | None = None) -> None:
        self.theme = theme
        self.zone = zone

    def ink(self, tone: Tone, text: str) -> str:
        return f'<span style="color:{self.theme.ink[tone].name()}">{escape(text)}</span>'

    def quiet(self, text: str) -> str:
        return self.ink(Tone.QUIET, text)

    def word(self, word: Word) -> str:
        return f"<b>{self.ink(word.tone, word.shown)}</b>"

    def heading(self, text: str) -> str:
        return (
            f'<p style="margin-top:14px;margin-bottom:3px;color:{self.theme.quiet.name()}">'
            f"<b>{escape(text.upper())}</b></p>"
        )

    def pairs(self, rows: Iterable[tuple[str, str]]) -> str:
        """Name and value; a value is HTML already."""
        cells = "".join(
            f'<tr><td style="padding-right:14px">{self.quiet(name)}</td><td>{value}</td></tr>'
            for name, value in rows
            if value
        )
        return f'<table cellspacing="0" cellpadding="1">{cells}</table>' if cells else ""

    def code(self, text: str) -> str:
        ground = self.theme.window.name()
        return (
            f'<table width="100%" cellspacing="0" cellpadding="8" bgcolor="{ground}"><tr><td>'
            f'<pre style="white-space:pre-wrap;margin:0">{escape(visible(text))}</pre></td></tr></table>'
        )


def story_page(story: Story, theme: Theme, zone: tzinfo | None = None) -> Page:
    """The page of a signal, an order or a delivery, from `queries.story`."""
    writer = Writer(theme, zone)
    parts = [
        _summary(writer, story),
        _refusal(writer, story),
        *(evidence_html(writer, order, story["now"]) for order in story["orders"] if _in_doubt(order, story)),
        _timeline(writer, story),
        *(_order(writer, order) for order in story["orders"]),
        _signal(writer, story),
        _body(writer, story),
    ]
    title, word = _title(story)
    return Page(story["id"], title, word, "".join(parts), _as_json(story))


def event_page(row: dict[str, Any], theme: Theme, zone: tzinfo | None = None) -> Page:
    writer = Writer(theme, zone)
    html = writer.pairs(
        [
            (tr("when"), escape(both_times(row["at"], zone))),
            (tr("who"), escape(one_line(row["actor"]))),
            (tr("what"), escape(one_line(row["what"]))),
            (tr("about"), escape(one_line(row["subject"]))),
        ]
    )
    if row["detail"] != "{}":
        html += writer.heading(tr("Detail")) + writer.code(pretty_json(row["detail"]))
    word = Word("·", one_line(row["what"]), Tone.QUIET)
    return Page(row["id"], tr("Event {id}").format(id=row["id"]), word, html, _as_json(row))


def fact_page(name: str, row: dict[str, Any], theme: Theme, zone: tzinfo | None = None) -> Page:
    """What a part of the program says of itself."""
    writer = Writer(theme, zone)
    html = writer.pairs(
        [
            (tr("state"), writer.word(row["word"])),
            (tr("since"), escape(both_times(row["since"], zone)) if row["since"] else ""),
            (tr("reason"), escape(visible(row["reason"]))),
        ]
    )
    said = {each: row[each] for each in ("part", "level", "reason", "since")} | {"word": row["word"].text}
    return Page(name, row["part"], row["word"], html, _as_json(said))


def missing_page(name: str, theme: Theme) -> Page:
    text = tr("{id} is not in the ledger any more.").format(id=name)
    return Page(name, name, Word("", "", Tone.QUIET), f"<p>{Writer(theme).quiet(text)}</p>", "{}")


def failed_page(name: str, why: str, theme: Theme) -> Page:
    text = tr("The story of {id} cannot be read now ({why}). Read again with F5.").format(id=name, why=why)
    return Page(name, name, look_up(LEVELS, "error"), f"<p>{escape(visible(text))}</p>", "{}")


# ------------------------------------------------------------------------------------------ one section each


def _in_doubt(order: dict[str, Any], story: Story) -> bool:
    return order["state"] in UNRESOLVED and "now" in story


def _title(story: Story) -> tuple[str, Word]:
    signal, orders = story["signal"], story["orders"]
    if story["kind"] == "order":
        order = next(each for each in orders if each["id"] == story["id"])
        side = order["side"] or order["action"]
        quantity = order["quantity"] or ""
        title = f"{order['id']}  {side} {quantity} {order['symbol']}"
        return one_line(" ".join(title.split(" "))), order_word(
            order["state"], order["ord_status"], order["reason"]
        )
    if story["kind"] == "delivery":
        row = next(each for each in story["deliveries"] if each["id"] == story["id"])
        title = tr("Delivery {id}").format(id=row["id"])
        return title, look_up(VERDICTS, row["verdict"])
    title = f"{signal['id']}  {signal['action']} {signal['quantity'] or ''} {signal['symbol']}"
    if len(orders) == 1:
        only = orders[0]
        return one_line(title), order_word(only["state"], only["ord_status"], only["reason"])
    return one_line(title), look_up(ORDER_STATES, signal["outcome"])


def _summary(writer: Writer, story: Story) -> str:
    reached = timeline.milestones(story)
    if not reached:
        return ""
    (first_word, first), *others = reached
    zone = writer.quiet(offset(first, writer.zone))
    parts = [f"{escape(first_word)} {escape(local_time(first, writer.zone))} {zone}"]
    parts += [
        f"{escape(word)} <b>{unbroken(duration(microseconds_between(first, at)))}</b>" for word, at in others
    ]
    return f'<p style="margin-top:0">{" &rarr; ".join(parts)}</p>'


def unbroken(text: str) -> str:
    """HTML in which number and unit stay together."""
    return escape(text).replace(" ", "&nbsp;")


def _refusal(writer: Writer, story: Story) -> str:
    row = next((each for each in story["deliveries"] if each["id"] == story["id"]), None)
    if row is None or row["verdict"] == "accepted":
        return ""
    word = look_up(VERDICTS, row["verdict"])
    fields = json.loads(row["fields"]) if row["fields"] else []
    html = f"<p>{writer.word(word)} {escape(tr(word.help))}</p>"
    return (
        html
        + writer.pairs(
            [
                (tr("reason"), escape(one_line(row["reason"] or ""))),
                (tr("detail"), escape(one_line(row["detail"] or ""))),
                (tr("fields"), escape(one_line(", ".join(str(field) for field in fields)))),
                (tr("answered"), escape(str(row["http_status"] or ""))),
                (tr("signal"), escape(row["signal"] or "")),
                (tr("hint"), escape(story.get("hint", ""))),
            ]
        )
        + (conflict_html(writer, story, row) if row["verdict"] == "conflict" else "")
    )


def _timeline(writer: Writer, story: Story) -> str:
    steps = timeline.steps(story)
    if not steps:
        return ""
    start, day, rows = steps[0].at, "", []
    for step in steps:
        date = moment(step.at).astimezone(writer.zone).strftime("%Y-%m-%d")
        if date != day:
            day = date
            label = f"{date} ({offset(step.at, writer.zone)})"
            rows.append(f'<tr><td colspan="4">{writer.quiet(label)}</td></tr>')
        after = "" if step.at == start else "+" + duration(microseconds_between(start, step.at))
        text = f"{escape(step.text)}"
        if step.more:
            text += f"<br>{writer.quiet(step.more)}"
        rows.append(
            f'<tr><td style="padding-right:10px">{escape(local_milliseconds(step.at, writer.zone))}</td>'
            f'<td align="right" style="padding-right:10px">{writer.quiet(after)}</td>'
            f'<td align="center" style="padding-right:8px">{writer.ink(step.tone, step.glyph)}</td>'
            f"<td>{text}</td></tr>"
        )
    table = f'<table cellspacing="0" cellpadding="1">{"".join(rows)}</table>'
    return writer.heading(tr("Timeline")) + table


def _order(writer: Writer, order: dict[str, Any]) -> str:
    word = order_word(order["state"], order["ord_status"], order["reason"])
    side = look_up(SIDES, order["side"] or order["action"])
    prices = " ".join(
        f"{name} {order[key]}"
        for name, key in (("limit", "limit_price"), ("stop", "stop_price"))
        if order[key]
    )
    what = f"{order['quantity'] or ''} {order['symbol']} {order['type']} {prices} {order['tif'] or ''}"
    asked = f"{side.shown} {what}"
    filled = f"{order['filled_quantity']}" + (
        f" at {order['average_price']} on average" if order["average_price"] else ""
    )
    generation = order["generation"]
    title = tr("Order {id} on {account}").format(id=order["id"], account=order["account"])
    if generation > 1:
        title += tr(", generation {number}").format(number=generation)
    return writer.heading(title) + writer.pairs(
        [
            (tr("asked for"), escape(one_line(" ".join(asked.split())))),
            (tr("state"), f"{writer.word(word)} {writer.quiet(_codes(order))}"),
            (tr("reason"), escape(one_line(order["reason"] or ""))),
            (tr("filled"), escape(filled)),
            (tr("sent to"), escape(one_line(_where(order)))),
            (tr("our id"), escape(order["client_order_id"] or "")),
            (tr("broker's id"), escape(one_line(order["broker_order_id"] or ""))),
        ]
    )


def _where(order: dict[str, Any]) -> str:
    """The broker's own account number, as it was when the order left."""
    if not order["attempts"]:
        return ""
    last = order["attempts"][-1]
    return tr("account {identity}, {endpoint}").format(identity=last["identity"], endpoint=last["endpoint"])


def _codes(order: dict[str, Any]) -> str:
    return f"{order['state']} / {order['ord_status']}" if order["ord_status"] else str(order["state"])


def _signal(writer: Writer, story: Story) -> str:
    signal = story["signal"]
    if signal is None:
        return ""
    source = signal["key_source"]
    rows = [
        (tr("source"), escape(one_line(signal["source"]))),
        (tr("key"), escape(one_line(signal["key"]))),
        (tr("key from"), f"{escape(source)}. {escape(tr(KEY_SOURCES.get(source, '')))}"),
        (tr("made of"), escape(_made_of(signal)) if source == "derived" else ""),
        (tr("times sent"), escape(str(signal["deliveries"]))),
    ]
    if signal["unanswered"]:
        rows.append(
            (
                tr("note"),
                escape(tr("The sender was told 503; its resend is admitted as if it were the first.")),
            )
        )
    html = writer.heading(tr("Signal {id}").format(id=signal["id"])) + writer.pairs(rows)
    parsed = json.loads(signal["parsed"])
    fields = []
    for name, value in parsed.items():
        shown = (
            both_times(rfc3339(value), writer.zone)
            if name in _TIMES and isinstance(value, int)
            else str(value)
        )
        fields.append((name.replace("_", " "), escape(one_line(shown))))
    return html + writer.heading(tr("As it was understood")) + writer.pairs(fields)


def _made_of(signal: dict[str, Any]) -> str:
    """The fields that a derived key was made of, as they were understood; what is empty is part of it too."""
    parsed = json.loads(signal["parsed"])
    parts = [one_line(signal["source"])]
    for name in (*DERIVED_FROM, *TRANSITION):
        value = parsed.get(name)
        if name == "bar_time" and isinstance(value, int):
            value = local_time(rfc3339(value))
        if value is not None:
            parts.append(one_line(f"{name.replace('_', ' ')} {value}"))
    return ", ".join(parts)


def _body(writer: Writer, story: Story) -> str:
    title = writer.heading(tr("Message as stored, secrets blanked"))
    if story["body"] is None:
        return title + f"<p>{writer.quiet(tr('Its body was purged.'))}</p>"
    return title + writer.code(pretty_json(story["body"]))


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
