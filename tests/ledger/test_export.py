"""Exports: what an auditor gets, exactly as the views have it, whole or not at all."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.ledger import export as exporting
from app.ledger.export import CSV_DEFAULT, NAMES, ExportFailed, export
from app.ledger.queries import VIEWS
from app.ledger.reader import read
from app.ledger.store import FILE_NAME
from tests.ledger.ledger_rows import NOON, SECOND, Rows


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    (tmp_path / "home").mkdir()
    made = Rows(tmp_path / "home")
    for n in range(3):
        claim = made.claim(f"key-{n}", NOON + n * SECOND, quantity="0.10000000000000000001")
        made.delivery(claim, at=NOON + n * SECOND)
        order = made.order(claim, NOON + n * SECOND)
        made.move(order, "SUBMITTING", "WORKING")
        made.fill(order, f"x{n}", NOON + n * SECOND)
    made.book("AAPL", "-3.5")
    yield made
    made.close()


@pytest.fixture
def ledger(rows: Rows, tmp_path: Path) -> Path:
    return tmp_path / "home" / FILE_NAME


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def test_json_lines_have_every_view_with_its_name_oldest_first(ledger: Path, tmp_path: Path) -> None:
    counts = export(ledger, tmp_path / "all.jsonl")
    found = lines(tmp_path / "all.jsonl")
    assert counts == {
        "signals": 3,
        "deliveries": 3,
        "orders": 3,
        "fills": 3,
        "positions": 1,
        "events": 1,
        "reconciliations": 0,
    }
    assert {name: [row["view"] for row in found].count(name) for name in NAMES} == counts
    assert [row["id"] for row in found if row["view"] == "orders"] == ["O1", "O2", "O3"]


def test_rows_are_those_of_the_views_times_and_decimals_as_text(
    rows: Rows, ledger: Path, tmp_path: Path
) -> None:
    export(ledger, tmp_path / "all.jsonl")
    for name in NAMES:
        view = VIEWS[name]
        wanted = [
            {column: value for column, value in zip(names, row, strict=True) if column != "number"}
            for names, row in described(rows.connection, f"SELECT * FROM {view.name}")
        ]
        assert [
            {column: value for column, value in row.items() if column != "view"}
            for row in lines(tmp_path / "all.jsonl")
            if row["view"] == name
        ] == wanted
    fill = next(row for row in lines(tmp_path / "all.jsonl") if row["view"] == "fills")
    assert (fill["at"], fill["price"]) == ("2026-03-02T12:00:00.000000Z", "10")
    signal = next(row for row in lines(tmp_path / "all.jsonl") if row["view"] == "signals")
    assert signal["quantity"] == "0.10000000000000000001"


def described(connection: apsw.Connection, sql: str) -> Iterator[tuple[list[str], tuple[Any, ...]]]:
    cursor = connection.execute(sql)
    for row in cursor:
        yield [name for name, *_ in cursor.description], row


def test_csv_is_one_view_with_a_head_and_orders_where_none_is_named(ledger: Path, tmp_path: Path) -> None:
    assert export(ledger, tmp_path / "a.csv") == {CSV_DEFAULT: 3}
    head, *orders = table(tmp_path / "a.csv")
    assert tuple(head[: len(VIEWS["orders"].columns)]) == VIEWS["orders"].columns
    assert [row[0] for row in orders] == ["O1", "O2", "O3"]
    assert export(ledger, tmp_path / "b.csv", view="positions") == {"positions": 1}
    assert table(tmp_path / "b.csv") == [
        ["account", "symbol", "source", "strategy", "quantity"],
        ["paper", "AAPL", "tradingview", "", "-3.5"],
    ]


def test_one_view_as_json_lines_and_an_empty_one_as_csv(ledger: Path, tmp_path: Path) -> None:
    assert export(ledger, tmp_path / "a.jsonl", view="fills") == {"fills": 3}
    assert {row["view"] for row in lines(tmp_path / "a.jsonl")} == {"fills"}
    assert export(ledger, tmp_path / "b.csv", view="reconciliations") == {"reconciliations": 0}
    assert table(tmp_path / "b.csv") == [list(VIEWS["reconciliations"].columns)]


def test_since_leaves_out_what_is_older(ledger: Path, tmp_path: Path) -> None:
    assert export(ledger, tmp_path / "a.csv", view="fills", since=NOON + SECOND) == {"fills": 2}
    assert export(ledger, tmp_path / "b.csv", view="positions", since=NOON + 9 * SECOND) == {"positions": 1}


def test_what_a_sender_chose_is_no_formula_in_a_spreadsheet(rows: Rows, ledger: Path, tmp_path: Path) -> None:
    for key in ("=1+1", "+cmd", "@x", "-1+1", "-1.5", "plain", 'quo"te, and\nline'):
        rows.claim(key)
    export(ledger, tmp_path / "a.csv", view="signals")
    keys = [row[2] for row in table(tmp_path / "a.csv")[4:]]
    assert keys == ["'=1+1", "'+cmd", "'@x", "'-1+1", "-1.5", "plain", 'quo"te, and\nline']
    export(ledger, tmp_path / "a.jsonl", view="signals")
    assert [row["key"] for row in lines(tmp_path / "a.jsonl")][3:5] == ["=1+1", "+cmd"]


def test_several_pages_and_rows_that_come_meanwhile(
    rows: Rows, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAGE", 2)

    def read_and_write(*arguments: Any) -> Any:
        found = read(*arguments)
        rows.tx.event(NOON, "test", "meanwhile", "")
        return found

    monkeypatch.setattr(exporting, "read", read_and_write)
    rows.tx.event(NOON, "test", "before", "")
    rows.tx.event(NOON, "test", "before", "")
    assert export(ledger, tmp_path / "a.jsonl", view="events") == {"events": 3}
    assert [row["what"] for row in lines(tmp_path / "a.jsonl")] == ["migrated", "before", "before"]


def test_the_file_is_private_and_replaces_an_older_one_whole(ledger: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.jsonl"
    target.write_text("older")
    export(ledger, target, view="fills")
    assert len(lines(target)) == 3
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "home"]


def test_a_failure_leaves_the_older_file(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.jsonl"
    target.write_text("older")

    def breaks(*_arguments: Any) -> Any:
        raise apsw.IOError("the disk fails")

    monkeypatch.setattr(exporting, "read", breaks)
    with pytest.raises(ExportFailed, match="the disk fails"):
        export(ledger, target)
    assert target.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "home"]
    with pytest.raises(ExportFailed, match="No such file"):
        export(ledger, tmp_path / "nowhere" / "a.csv")


def test_other_kinds_views_and_databases_are_refused(ledger: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.csv or \.jsonl"):
        export(ledger, tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match="no view 'claims'"):
        export(ledger, tmp_path / "a.csv", view="claims")
    foreign = apsw.Connection(str(tmp_path / "foreign.sqlite3"))
    foreign.execute("CREATE TABLE x (y)")
    foreign.close()
    with pytest.raises(ExportFailed, match="not an Onefill ledger"):
        export(tmp_path / "foreign.sqlite3", tmp_path / "a.csv")
