"""The detail pane's page about one position: both sides, whose, the last fills and corrections. Pure."""

from __future__ import annotations

import json
from datetime import tzinfo
from html import escape
from typing import Any

from app.gui.formats import both_times, local_time, one_line
from app.gui.story import Page, Writer
from app.gui.theme import Theme
from app.gui.words import POSITION_STATES, SIDES, look_up, tr


def position_page(name: str, row: dict[str, Any], theme: Theme, zone: tzinfo | None = None) -> Page:
    writer = Writer(theme, zone)
    word = look_up(POSITION_STATES, row["state"])
    broker = tr("not known") if row["broker"] is None else row["broker"]
    html = writer.pairs(
        [
            (tr("state"), f"{writer.word(word)} {escape(tr(word.help))}"),
            (tr("we expect"), escape(row["expected"])),
            (tr("broker says"), escape(str(broker))),
            (tr("difference"), escape(row["difference"] or "")),
            (tr("kind"), escape(one_line(row["class"] or ""))),
            (tr("asked at"), escape(both_times(row["as_of"], zone)) if row["as_of"] else ""),
            (tr("by run"), escape(row["run"] or "")),
        ]
    )
    html += _table(
        writer, tr("Whose it is"), [[b["quantity"], b["source"], b["strategy"]] for b in row["books"]]
    )
    fills = [
        [
            local_time(fill["at"], zone),
            look_up(SIDES, fill["side"]).shown,
            fill["quantity"],
            tr("at {price}").format(price=fill["price"]),
            fill["order_id"],
        ]
        for fill in row["fills"]
    ]
    html += _table(writer, tr("Last fills"), fills)
    adjustments = [
        [local_time(one["at"], zone), one["quantity"], one["source"], one["strategy"], one["why"]]
        for one in row["adjustments"]
    ]
    html += _table(writer, tr("Corrections by hand"), adjustments)
    title = one_line(f"{row['symbol']} {tr('in')} {row['account']}")
    text = json.dumps({key: value for key, value in row.items() if key != "number"}, indent=2, default=str)
    return Page(name, title, word, html, text)


def _table(writer: Writer, title: str, rows: list[list[Any]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        "<tr>"
        + "".join(f'<td style="padding-right:14px">{escape(one_line(str(cell or "")))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return writer.heading(title) + f'<table cellspacing="0" cellpadding="1">{lines}</table>'
