"""The detail pane's page about one reconciliation: sections, findings by severity, both sides' positions.

A section that was not read is said as UNKNOWN, never as empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from html import escape
from typing import Any

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.formats import both_times, duration, microseconds_between, one_line
from app.gui.story import Page, Writer
from app.gui.theme import Theme, Tone
from app.gui.words import (
    CAUSES,
    DRIFTS,
    RECONCILIATION_RESULTS,
    REPORT_COLOURS,
    REPORT_LISTS,
    SECTIONS,
    SEVERITIES,
    Word,
    look_up,
    tr,
)
from app.ledger.positions import section_failed

_SEVERITIES = ("critical", "warning", "info")


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


_FIGURES = {
    "matched": _("orders that agree"),
    "fills_added": _("fills that were new to us"),
    "fills_ignored": _("fills seen before"),
    "fills_orphan": _("fills of no order of ours"),
    "clock_offset_ms": _("broker's clock ahead, ms"),
    "requests": _("requests"),
    "pages": _("pages"),
    "tries": _("tries"),
}


def reconciliation_page(
    row: dict[str, Any], findings: list[dict[str, Any]], theme: Theme, zone: tzinfo | None = None
) -> Page:
    """One run, from its row and its findings."""
    writer = Writer(theme, zone)
    report: dict[str, Any] = json.loads(row["report"])
    word = look_up(RECONCILIATION_RESULTS, row["result"])
    colour = look_up(REPORT_COLOURS, report.get("colour"))
    took = duration(microseconds_between(row["started_at"], row["ended_at"]))
    html = writer.pairs(
        [
            (tr("account"), escape(one_line(row["account"]))),
            (tr("result"), f"{writer.word(word)} {escape(tr(word.help))}"),
            (tr("in short"), writer.word(colour) if colour.text else ""),
            (tr("why"), escape(one_line(str(report.get("reason") or "")))),
            (tr("started"), escape(both_times(row["started_at"], zone))),
            (tr("took"), escape(took)),
            (tr("cause"), escape(tr(CAUSES.get(row["cause"], row["cause"])))),
        ]
    )
    html += _sections(writer, report)
    html += _findings(writer, findings)
    html += _positions(writer, report)
    html += "".join(_list(writer, tr(title), report.get(name)) for name, title in REPORT_LISTS.items())
    figures = [(tr(title), escape(str(report[name]))) for name, title in _FIGURES.items() if report.get(name)]
    if figures:
        html += writer.heading(tr("In numbers")) + writer.pairs(figures)
    whole = json.dumps({**row, "report": report, "found": findings}, indent=2, ensure_ascii=False)
    return Page(row["id"], tr("Reconciliation {id}").format(id=row["id"]), word, html, whole)


def _sections(writer: Writer, report: dict[str, Any]) -> str:
    sections = report.get("sections")
    if not isinstance(sections, Mapping):
        return ""
    good = Word("✓", tr("read"), Tone.GOOD)
    rows = []
    for name in sections:
        why = section_failed(report, name)
        unknown = Word("?", tr("UNKNOWN"), Tone.DOUBT)
        said = writer.word(good) if why is None else f"{writer.word(unknown)} {escape(one_line(why))}"
        rows.append((tr(SECTIONS.get(name, name.replace("_", " "))), said))
    return writer.heading(tr("What the broker told")) + writer.pairs(rows)


def _findings(writer: Writer, findings: list[dict[str, Any]]) -> str:
    if not findings:
        return writer.heading(tr("Findings")) + f"<p>{writer.quiet(tr('None.'))}</p>"
    order = {name: place for place, name in enumerate(_SEVERITIES)}
    rows = []
    for each in sorted(findings, key=lambda finding: order.get(finding["severity"], 9)):
        word = look_up(SEVERITIES, each["severity"])
        rows.append(
            f'<tr><td style="padding-right:12px">{writer.word(word)}</td>'
            f'<td style="padding-right:12px">{escape(one_line(each["subject"]))}</td>'
            f"<td>{escape(one_line(each['kind'].replace('_', ' ')))}"
            f"<br>{writer.quiet(one_line(each['detail']))}</td></tr>"
        )
    counted = ", ".join(
        f"{sum(each['severity'] == name for each in findings)} {tr(SEVERITIES[name].text).lower()}"
        for name in _SEVERITIES
        if any(each["severity"] == name for each in findings)
    )
    title = f"{tr('Findings')}: {counted}"
    return writer.heading(title) + f'<table cellspacing="0" cellpadding="2">{"".join(rows)}</table>'


def _positions(writer: Writer, report: dict[str, Any]) -> str:
    rows = report.get("positions") or []
    title = writer.heading(tr("Positions, side by side"))
    failed = section_failed(report, "positions")
    if failed is not None:
        words = tr("UNKNOWN: the broker did not tell its positions. They are not taken for flat.")
        return f"{title}<p>{writer.word(Word('?', words, Tone.DOUBT))}</p>"
    if not rows:
        return f"{title}<p>{writer.quiet(tr('Neither side held anything.'))}</p>"
    others = any(each.get("external") for each in rows)
    names = [tr("symbol"), tr("we expect"), *([tr("another's")] if others else []), tr("broker"), ""]
    head = "".join(f'<td style="padding-right:16px">{writer.quiet(name)}</td>' for name in names)
    lines = []
    for each in rows:
        word = _drift(each)
        cells = [each["symbol"], each.get("expected", "")]
        cells += [each.get("external", "")] if others else []
        cells.append(each.get("broker", ""))
        shown = "".join(
            f'<td style="padding-right:16px">{escape(one_line(str(cell)))}</td>' for cell in cells
        )
        lines.append(f"<tr>{shown}<td>{writer.word(word)}</td></tr>")
    return f'{title}<table cellspacing="0" cellpadding="1"><tr>{head}</tr>{"".join(lines)}</table>'


def _drift(row: Mapping[str, Any]) -> Word:
    kind = row.get("drift") or row.get("drift_class")
    if kind is None:
        kind = "none" if row.get("expected") == row.get("broker") else "unexplained"
    return look_up(DRIFTS, str(kind))


def _list(writer: Writer, title: str, rows: object) -> str:
    """Orders of one kind, as the run wrote them down."""
    if not isinstance(rows, Iterable) or isinstance(rows, str) or not rows:
        return ""
    lines = "".join(f"<li>{escape(one_line(_told(row)))}</li>" for row in rows)
    return writer.heading(title) + f'<ul style="margin-top:0;-qt-list-indent:0">{lines}</ul>'


def _told(row: object) -> str:
    if not isinstance(row, Mapping):
        return str(row)
    parts = [f"{name.replace('_', ' ')} {value}" for name, value in row.items() if value not in (None, "")]
    return ", ".join(parts)
