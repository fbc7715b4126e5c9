"""`onefill check`: what a message would do, in words, without sending it. Nothing is claimed or stored."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from app.cli.front import Failed, Front, front_options

if TYPE_CHECKING:
    from app.domain.explain import Explanation
    from app.settings import Settings, Source

UNFIT = 1
"""The exit code where the door would refuse it."""


@click.command()
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option("--source", "source_name", help="As if it came to this source; else the first configured one.")
@click.option("--as-is", is_flag=True, help="Fill in no {{placeholders}}: exactly this text arrives.")
@front_options
def check(front: Front, file: IO[bytes], source_name: str | None, as_is: bool) -> None:
    """Say what a message (a file, or - for stdin) would do if it came in now; nothing is sent or stored.

    Placeholders as {{ticker}} are filled in with sample values. Exit code 1 where it would be refused.
    """
    from app.cli.hook import settings_of
    from app.clock import SystemClock
    from app.engine.checking import Question, check_message
    from app.ledger.store import FILE_NAME

    settings = settings_of(front.home)
    source = _source(settings, source_name)
    question = Question(body=file.read(), at=SystemClock().now(), fill=not as_is)
    with _ledger(front.home, front.home / FILE_NAME) as db:
        found = check_message(settings, source, question, db)
    front.emit(as_json(source.name, found), _as_text(source.name, found))
    if not found.is_good:
        raise click.exceptions.Exit(UNFIT)


def _source(settings: Settings, name: str | None) -> Source:
    if name is None:
        return settings.sources[0]
    chosen = settings.source(name)
    if chosen is None:
        raise Failed(f"there is no source {name!r}: {', '.join(each.name for each in settings.all_sources)}")
    return chosen


def _ledger(home: Path, path: Path) -> contextlib.AbstractContextManager[Any]:
    """The ledger where there is one yet: known keys and books are asked of it."""
    from app.cli.read import ledger_of

    return ledger_of(home) if path.exists() else contextlib.nullcontext()


def as_json(source: str, found: Explanation) -> dict[str, Any]:
    return {
        "source": source,
        "http_status": found.http_status,
        "status": found.status,
        "headline": found.headline,
        "reason": found.reason or None,
        "fields": list(found.fields),
        "key": found.key,
        "key_source": found.key_source,
        "sentences": [{"kind": each.kind.value, "text": each.text} for each in found.sentences],
        "places": [{"line": mark.line, "column": mark.column} for mark in found.marks],
    }


def _as_text(source: str, found: Explanation) -> str:
    lines = [found.headline]
    lines += [f"  line {mark.line}, column {mark.column}" for mark in found.marks]
    lines += [f"  {each.text}" for each in found.sentences]
    lines.append(f"  The door would answer {found.http_status} {found.status} (source {source})")
    return "\n".join(lines)
