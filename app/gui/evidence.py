"""The part of a story that a person decides by: what was sent, each look at the broker, what positions say.

Pure: rows in, HTML out. What came from outside is escaped.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from app.gui.formats import both_times, local_milliseconds, local_time, one_line
from app.gui.timeline import reply_in_short
from app.gui.verdict import BUTTONS, suggest
from app.gui.words import EVIDENCE, POSITION_STATES, look_up, tr

if TYPE_CHECKING:
    from app.gui.story import Writer

UNRESOLVED = ("AMBIGUOUS", "NEEDS_OPERATOR")


def evidence_html(writer: Writer, order: dict[str, Any], now: str) -> str:
    """`order` with `position`: the row of `positions` on its instrument, or None."""
    position = order.get("position")
    verdict = suggest(order, position, now)
    button = tr(BUTTONS[verdict.answer])
    return (
        writer.heading(tr("Evidence on {order}").format(order=order["id"]))
        + f"<p><b>{escape(tr('Suggested'))}: {escape(button)}.</b> {escape(verdict.text)}</p>"
        + _sent(writer, order)
        + _looks(writer, order)
        + _position(writer, order, position)
    )


def _sent(writer: Writer, order: dict[str, Any]) -> str:
    html = f"<p style='margin-bottom:2px'><b>{escape(tr('What we sent'))}</b></p>"
    if not order["attempts"]:
        return html + f"<p>{writer.quiet(tr('Nothing yet.'))}</p>"
    for each in order["attempts"]:
        left = {1: tr("yes"), 0: tr("no"), None: tr("not known")}[each["bytes_left"]]
        html += writer.pairs(
            [
                (tr("attempt"), escape(f"{each['number']}, {both_times(each['at'], writer.zone)}")),
                (tr("to"), escape(one_line(f"{each['identity']}, {each['endpoint']}"))),
                (tr("terms"), escape(one_line(_terms(each["request"])))),
                (tr("has left us"), escape(left)),
                (tr("answer"), escape(one_line(reply_in_short(each["reply"] or tr("none"))))),
                (tr("may arrive until"), escape(local_time(each["arrival_deadline"], writer.zone))),
            ]
        )
    return html


def _terms(request: str) -> str:
    try:
        value = json.loads(request, parse_float=str, parse_int=str)
    except ValueError:
        return request
    if not isinstance(value, dict):
        return request
    return ", ".join(f"{name.replace('_', ' ')} {each}" for name, each in value.items() if each is not None)


def _looks(writer: Writer, order: dict[str, Any]) -> str:
    html = f"<p style='margin-bottom:2px'><b>{escape(tr('What the broker answered'))}</b></p>"
    if not order["evidence"]:
        return html + f"<p>{writer.quiet(tr('It was not asked yet.'))}</p>"
    rows = []
    for look in order["evidence"]:
        word = look_up(EVIDENCE, look["result"])
        at = f"{local_time(look['at'], writer.zone)}{local_milliseconds(look['at'], writer.zone)[8:]}"
        rows.append(
            f'<tr><td style="padding-right:12px">{escape(at).replace(" ", "&nbsp;")}</td>'
            f'<td style="padding-right:12px">{escape(one_line(look["look"]))}</td>'
            f'<td style="padding-right:12px">{writer.ink(word.tone, word.shown)}</td>'
            f"<td>{writer.quiet(one_line(look['detail'] or ''))}</td></tr>"
        )
    return html + f'<table cellspacing="0" cellpadding="1">{"".join(rows)}</table>'


def _position(writer: Writer, order: dict[str, Any], position: dict[str, Any] | None) -> str:
    html = f"<p style='margin-bottom:2px'><b>{escape(tr('What positions say'))}</b></p>"
    if position is None:
        text = tr("Neither our books nor the broker hold {symbol} in {account}.")
        return html + f"<p>{escape(text.format(symbol=order['symbol'], account=order['account']))}</p>"
    word = look_up(POSITION_STATES, position["state"])
    broker = tr("not known") if position["broker"] is None else position["broker"]
    return html + writer.pairs(
        [
            (tr("we expect without it"), escape(position["expected"])),
            (tr("the broker says"), escape(str(broker))),
            (tr("difference"), escape(position["difference"] or "")),
            (tr("state"), f"{writer.word(word)} {escape(tr(word.help))}"),
            (tr("asked at"), escape(both_times(position["as_of"], writer.zone)) if position["as_of"] else ""),
        ]
    )
