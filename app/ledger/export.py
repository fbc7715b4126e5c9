"""The auditors' views as a file: every view as JSON lines, or one as CSV.

Reads only. Rows come in small reads, oldest first, so that a large ledger holds nobody up (HOLES H24): each
row is as it was when it was read, and what comes in meanwhile is not in it.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO

import apsw

from app.ledger.copying import sync_folder
from app.ledger.queries import VIEWS, View, rfc3339
from app.ledger.reader import Row, open_read_only, read
from app.ledger.store import APPLICATION_ID

PAGE = 500
NAMES = tuple(name for name in VIEWS if name != "refused")
"""What can be exported; `refused` is a part of `deliveries`."""
CSV_DEFAULT = "orders"
KINDS = (".csv", ".jsonl")

_RISKY = ("=", "+", "-", "@", "\t", "\r")


class ExportFailed(Exception):
    """Nothing was written in place of the file. One line."""


def export(
    ledger: Path, target: Path, *, view: str | None = None, since: int | None = None
) -> dict[str, int]:
    """Writes `target` whole or not at all, in place of what was there, and returns rows by view. Blocking.

    `.jsonl`: one object a line with the name of its view, of all views or of `view`. `.csv`: `view`, else
    `orders`, with a head. Columns, UTC times and decimal texts are those of the views (CONTRACT 5); JSON has
    null where CSV has nothing. `since` (UTC microseconds) leaves out older rows of views that have a time.

    Raises ExportFailed, ValueError for a view or a kind of file that does not exist.
    """
    if target.suffix not in KINDS:
        raise ValueError(f"{target.name}: write a name that ends in .csv or .jsonl")
    if view is not None and view not in NAMES:
        raise ValueError(f"there is no view {view!r}: {', '.join(NAMES)}")
    as_csv = target.suffix == ".csv"
    chosen = (view,) if view else (CSV_DEFAULT,) if as_csv else NAMES
    with _target(target, as_csv=as_csv) as file, closing(open_read_only(ledger)) as connection:
        if connection.pragma("application_id") != APPLICATION_ID:
            raise ExportFailed(f"{ledger} is not an Onefill ledger")
        write = _csv_writer if as_csv else _json_writer
        return {name: write(file, name, _rows(connection, VIEWS[name], since)) for name in chosen}


def export_rows(target: Path, view: str, rows: Iterator[Row], columns: Sequence[str]) -> int:
    """Writes these rows as `export` does, in their order, and returns how many. Blocking; raises as `export`.

    `columns` are the head of a CSV without rows.
    """
    if target.suffix not in KINDS:
        raise ValueError(f"{target.name}: write a name that ends in .csv or .jsonl")
    as_csv = target.suffix == ".csv"
    with _target(target, as_csv=as_csv) as file:
        if as_csv:
            return _csv_writer(file, view, rows, columns)
        return _json_writer(file, view, rows)


@contextmanager
def _target(target: Path, *, as_csv: bool) -> Iterator[TextIO]:
    """A file that stands in place of the target once all of it is written and on the disk, or not at all."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        # A spreadsheet tells UTF-8 by the mark at the beginning.
        with os.fdopen(descriptor, "w", encoding="utf-8-sig" if as_csv else "utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except (apsw.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ExportFailed(f"{target} could not be written ({reason or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def _rows(connection: apsw.Connection, view: View, since: int | None) -> Iterator[Row]:
    """A view's rows, oldest first. Nothing stays open between two pages."""
    conditions = [view.condition] if view.condition else []
    bindings: list[Any] = []
    if since is not None and view.time is not None:
        conditions.append(f"{view.time} >= ?")
        bindings.append(rfc3339(since))
    if not view.numbered:
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        yield from read(connection, f"SELECT * FROM {view.name}{where}", bindings)
        return
    last = read(connection, f"SELECT number FROM {view.name} ORDER BY number DESC LIMIT 1")
    newest = last[0]["number"] if last else 0
    where = " AND ".join([*conditions, "number > ?", "number <= ?"])
    sql = f"SELECT * FROM {view.name} WHERE {where} ORDER BY number LIMIT {PAGE}"
    after = 0
    while True:
        rows = read(connection, sql, (*bindings, after, newest))
        for row in rows:
            after = row.pop("number")
            yield row
        if len(rows) < PAGE:
            return


def _json_writer(file: TextIO, name: str, rows: Iterator[Row]) -> int:
    count = 0
    for row in rows:
        file.write(json.dumps({"view": name, **row}, ensure_ascii=False, separators=(",", ":")) + "\n")
        count += 1
    return count


def _csv_writer(file: TextIO, name: str, rows: Iterator[Row], columns: Sequence[str] = ()) -> int:
    writer = csv.writer(file)
    count = 0
    for row in rows:
        if count == 0:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])
        count += 1
    if count == 0:
        writer.writerow(columns or VIEWS[name].columns)
    return count


def _cell(value: Any) -> Any:
    """What a sender chose must not be a formula when a person opens the file in a spreadsheet."""
    if isinstance(value, str) and value.startswith(_RISKY) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()
