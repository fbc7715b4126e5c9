"""Two messages under one key, side by side: which fields differ, and which of them made the conflict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from app.gui.formats import local_time, one_line, pretty_json
from app.gui.theme import Tone
from app.gui.words import tr

if TYPE_CHECKING:
    from app.gui.story import Writer

MISSING = "—"
_Fields = dict[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One field: its text in the first message and in this one, None where it is not there.

    `counts`: it is part of what the message asks for, so that its difference made the conflict.
    """

    name: str
    first: str | None
    now: str | None
    counts: bool

    @property
    def differs(self) -> bool:
        return self.first != self.now


def compare(first: str | None, now: str | None, counting: Sequence[str]) -> list[Line] | None:
    """Field by field, those that made the conflict first; None where one of them is not a JSON object."""
    one, other = _fields(first), _fields(now)
    if one is None or other is None:
        return None
    names = dict.fromkeys([*one, *other])
    lines = [Line(name, one.get(name), other.get(name), name in counting) for name in names]
    return sorted(lines, key=lambda line: (not (line.differs and line.counts), not line.differs))


def conflict_html(writer: Writer, story: dict[str, Any], row: dict[str, Any]) -> str:
    """`story` of the conflicting delivery `row`, with `first_body`: what was accepted under the key."""
    first = next((each for each in reversed(story["deliveries"]) if each["verdict"] == "accepted"), None)
    title = writer.heading(tr("The two messages"))
    names = (
        tr("accepted: {id}, {time}").format(
            id=first["id"] if first else "?",
            time=local_time(first["received_at"], writer.zone) if first else "?",
        ),
        tr("this one: {id}, {time}").format(id=row["id"], time=local_time(row["received_at"], writer.zone)),
    )
    counting = json.loads(row["fields"]) if row["fields"] else []
    lines = compare(story.get("first_body"), story["body"], counting)
    if lines is None:
        return title + _whole(writer, names, (story.get("first_body"), story["body"]))
    head = "".join(
        f'<td style="padding-right:14px">{writer.quiet(name)}</td>' for name in ("", tr("field"), *names)
    )
    body = "".join(_row(writer, line) for line in lines)
    note = tr("≠ differs and counts: it asks for something else. ~ differs and does not count.")
    table = f'<table cellspacing="0" cellpadding="2"><tr>{head}</tr>{body}</table>'
    return f"{title}{table}<p>{writer.quiet(note)}</p>"


def _row(writer: Writer, line: Line) -> str:
    mark, tone = ("≠", Tone.DOUBT) if line.counts else ("~", Tone.HELD)
    if not line.differs:
        mark, tone = "=", Tone.QUIET
    cells = []
    for text in (line.first, line.now):
        shown = escape(one_line(MISSING if text is None else text))
        cells.append(f"<td style='padding-right:14px'>{f'<b>{shown}</b>' if line.differs else shown}</td>")
    name = escape(one_line(line.name))
    name = f"<b>{name}</b>" if line.differs else name
    ground = f' bgcolor="{writer.theme.wash[tone].name()}"' if line.differs else ""
    return (
        f"<tr{ground}><td>{writer.ink(tone, mark)}</td>"
        f"<td style='padding-right:14px'>{name}</td>{''.join(cells)}</tr>"
    )


def _whole(writer: Writer, names: tuple[str, str], bodies: tuple[str | None, str | None]) -> str:
    parts = []
    for name, body in zip(names, bodies, strict=True):
        text = tr("Its body was purged.") if body is None else pretty_json(body)
        parts.append(f'<td width="50%" valign="top"><p>{writer.quiet(name)}</p>{writer.code(text)}</td>')
    return f'<table width="100%" cellspacing="4"><tr>{"".join(parts)}</tr></table>'


def _fields(body: str | None) -> _Fields | None:
    """By path, each value as it was written."""
    if body is None:
        return None
    try:
        value = json.loads(body, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found: _Fields = {}
    _walk(value, "", found)
    return found


def _walk(value: object, path: str, found: _Fields) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _walk(inner, f"{path}.{name}" if path else str(name), found)
    elif isinstance(value, str):
        found[path] = value
    else:
        found[path] = json.dumps(value, ensure_ascii=False)
