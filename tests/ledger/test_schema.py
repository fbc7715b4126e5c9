"""The schema as text: what no table, index or trigger of the ledger may ever have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.ledger.store import migrations, open_ledger

SQL = "\n".join(re.sub(r"--[^\n]*", "", text) for _, text in migrations())


@pytest.mark.parametrize(
    "word", ["DEFERRABLE", "DEFERRED", "RAISE(ROLLBACK", "RAISE(FAIL", "RAISE(IGNORE", "REPLACE", "PRAGMA"]
)
def test_h18_h20_words_that_may_not_be_there(word: str) -> None:
    assert word not in re.sub(r"RAISE\s*\(\s*", "RAISE(", SQL.upper())


def test_h18_every_trigger_that_refuses_aborts() -> None:
    assert len(re.findall(r"RAISE\(ABORT, '[^']+'\)", SQL)) == SQL.upper().count("RAISE") > 10


def test_every_table_is_strict_and_holds_money_as_text(tmp_path: Path) -> None:
    connection = open_ledger(tmp_path, 1)
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
    )
    strict = {name: bool(is_strict) for name, is_strict in tables if not name.startswith("sqlite_")}
    columns = {
        (table, column): kind
        for table in strict
        for column, kind in connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
    }
    connection.close()
    assert all(strict.values()), strict
    assert "REAL" not in columns.values()
    assert {
        kind for (_, column), kind in columns.items() if re.search(r"price|quantity|fee|net|equity", column)
    } == {"TEXT"}
