"""What every command has in common: --home, --json, one line for what went wrong, rows as table or JSON."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

MAX_CELL = 48
MAX_LAST_CELL = 160
"""Characters of one cell of a table, and of one in its last column; JSON and `show` have the whole."""


class Failed(click.ClickException):
    """Refused or failed: one line on stderr, exit code 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"onefill: {self.format_message()}", file=file or sys.stderr)


@dataclass(frozen=True, slots=True)
class Front:
    """The common options, those before the command's name and those behind it together."""

    home_argument: str | None = None
    json: bool = False

    @property
    def home(self) -> Path:
        from app.settings import ConfigError, home_folder

        try:
            return home_folder(self.home_argument, os.environ)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error

    def emit(self, value: Mapping[str, Any], text: str) -> None:
        """One thing: a JSON object, or text for a person."""
        click.echo(to_json(value) if self.json else text)

    def emit_rows(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], nothing: str) -> None:
        """A list: JSON lines of whole rows, or a table of some columns."""
        if self.json:
            for row in rows:
                click.echo(to_json(row))
        elif rows:
            click.echo(table(rows, columns))
        else:
            click.echo(nothing)


def front_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --home and --json, and hands a Front to the function; an option behind the command comes first."""

    @click.option("--home", "home_argument", metavar="DIR", help="Folder of everything that Onefill writes.")
    @click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
    @functools.wraps(function)
    def with_front(home_argument: str | None, as_json: bool, **arguments: Any) -> Any:
        outer = click.get_current_context().obj
        if isinstance(outer, Front):
            home_argument = outer.home_argument if home_argument is None else home_argument
            as_json = as_json or outer.json
        return function(front=Front(home_argument, as_json), **arguments)

    return with_front


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Aligned text with a head; numbers to the right. The last column may be long: nothing follows."""
    most = [*[MAX_CELL] * (len(columns) - 1), MAX_LAST_CELL]
    cells = [
        [cell(row.get(column), limit) for column, limit in zip(columns, most, strict=True)] for row in rows
    ]
    heads = [column.replace("_", " ") for column in columns]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(columns))]
    widths[-1] = 0 if not _all_numbers(cells, -1) else widths[-1]
    right = [_all_numbers(cells, i) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [heads, *cells]
    )


def cell(value: Any, most: int = MAX_CELL) -> str:
    """A value for a person: local times, nothing as `-`, control characters shown, long text cut."""
    text = whole(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def whole(value: Any) -> str:
    """As `cell`, uncut."""
    if value is None or value == "":
        return "-"
    text = str(value)
    if (local := local_time(text)) is not None:
        return local
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def count_of(number: int, thing: str) -> str:
    """`1 source`, `2 sources`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def local_time(text: str) -> str | None:
    """`2026-03-02T12:00:00.000000Z` as the local `2026-03-02 13:00:00+01:00`; None for any other text."""
    if len(text) != 27 or text[10] != "T" or text[-1] != "Z":
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat(sep=" ", timespec="seconds")
    except ValueError:
        return None


def _all_numbers(cells: Sequence[Sequence[str]], column: int) -> bool:
    return all(_is_number(line[column]) or line[column] == "-" for line in cells)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()


def read_since(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Callback of an option: `90d`, `15m` or RFC 3339 as UTC microseconds."""
    from app.clock import SystemClock
    from app.domain.times import TimeError, read_time
    from app.settings import parse_duration

    if value is None:
        return None
    try:
        return max(0, SystemClock().now() - parse_duration(value))
    except ValueError as not_a_span:
        try:
            return read_time(value)
        except TimeError:
            problem = f"{value!r} is no time: write 90d, 15m, or 2026-03-02T15:30:00Z"
            raise click.BadParameter(problem) from not_a_span
