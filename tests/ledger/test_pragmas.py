"""What durability rests on is set, one pragma a call, and read back; one that does not hold is refused."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from app.ledger.store import LedgerRefused, configure, open_ledger

# The opposite of each, so that a setting that is silently ignored shows.
OPPOSITES = {
    "journal_mode": "delete",
    "synchronous": "NORMAL",
    "foreign_keys": "OFF",
    "recursive_triggers": "OFF",
    "trusted_schema": "ON",
    "journal_size_limit": "-1",
    "fullfsync": "OFF",
    "checkpoint_fullfsync": "OFF",
}
EFFECTIVE = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "recursive_triggers": 1,
    "trusted_schema": 0,
    "journal_size_limit": 16 * 1024 * 1024,
    "wal_autocheckpoint": 1000,
}


class Deaf:
    """A connection that ignores one pragma, as a SQLite built otherwise may, and says nothing."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def execute(self, sql: str) -> apsw.Cursor:
        if sql.startswith(f"PRAGMA {self._name} ="):
            sql = f"PRAGMA {self._name} = {OPPOSITES[self._name]}"
        return self._connection.execute(sql)


def test_h22_all_of_them_are_in_effect_on_an_open_ledger(tmp_path: Path) -> None:
    connection = open_ledger(tmp_path, 1)
    actual: dict[str, Any] = {name: connection.pragma(name) for name in EFFECTIVE}
    connection.close()
    assert actual == EFFECTIVE


@pytest.mark.parametrize("name", OPPOSITES)
def test_h22_one_that_does_not_hold_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")  # where two more of them matter
    with contextlib.closing(apsw.Connection(str(tmp_path / "x"))) as connection:
        with pytest.raises(LedgerRefused, match=f"refuses {name} ="):
            configure(cast(apsw.Connection, Deaf(connection, name)))
        configure(connection)
        assert connection.pragma("fullfsync") == 1
        assert connection.pragma("checkpoint_fullfsync") == 1


def test_h22_a_database_that_cannot_have_a_log_is_refused() -> None:
    with (
        contextlib.closing(apsw.Connection(":memory:")) as connection,
        pytest.raises(LedgerRefused, match="memory"),
    ):
        configure(connection)


def test_h22_inside_a_transaction_sqlite_ignores_foreign_keys_and_it_shows(tmp_path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(tmp_path / "x"))) as connection:
        configure(connection)
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("BEGIN")
        with pytest.raises((LedgerRefused, apsw.SQLError)):
            configure(connection)


def test_h22_one_call_sets_one_pragma(tmp_path: Path) -> None:
    """Several statements in a call stop at the first that returns a row, if its rows are not read."""
    calls: list[str] = []

    class Listening(Deaf):
        def execute(self, sql: str) -> apsw.Cursor:
            calls.append(sql)
            return super().execute(sql)

    with contextlib.closing(apsw.Connection(str(tmp_path / "x"))) as connection:
        configure(cast(apsw.Connection, Listening(connection, "none of them")))
    assert len(calls) >= 12
    assert not [sql for sql in calls if ";" in sql]
