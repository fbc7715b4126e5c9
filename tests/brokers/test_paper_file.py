"""Opening the paper exchange's file: durable or refused, made once, never made anew over something."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest

from app.brokers import paper_file
from app.brokers.paper import FILE_NAME, PaperBookRefused, PaperExchange
from app.brokers.paper_file import SETTINGS, open_paper_file
from app.clock import ManualClock
from tests.brokers.paper_kit import connected, opened, order, placed, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


async def refused(path: Path, *words: str) -> None:
    before = path.read_bytes() if path.exists() else None
    exchange = PaperExchange(path, ManualClock())
    with pytest.raises(PaperBookRefused) as caught:
        await exchange.open()
    for word in (path.name, *words):
        assert word in str(caught.value)
    assert (path.read_bytes() if path.exists() else None) == before
    await exchange.close()


async def with_one_order(path: Path) -> None:
    async with opened(path) as exchange:
        await placed(await connected(exchange), order())


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_h22_every_setting_holds_on_the_open_connection(path: Path) -> None:
    for _ in ("made", "opened again"):
        connection = open_paper_file(path)
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("foreign_keys") == 1
        connection.close()


@pytest.mark.skipif(os.name != "posix", reason="modes are posix")
def test_nobody_else_may_read_it(path: Path) -> None:
    open_paper_file(path).close()
    path.chmod(0o644)
    connection = open_paper_file(path)
    connection.execute("UPDATE exchange SET id = id")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    connection.close()
    assert modes == dict.fromkeys((path.name, f"{path.name}-wal", f"{path.name}-shm"), 0o600)


@pytest.mark.parametrize("name", [name for name, _, _ in SETTINGS])
def test_h22_a_setting_that_reads_back_otherwise_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    weaker = {
        "journal_mode": "delete",
        "synchronous": "NORMAL",
        "foreign_keys": "OFF",
        "trusted_schema": "ON",
    }
    open_paper_file(path).close()
    monkeypatch.setattr(
        paper_file, "SETTINGS", tuple((n, weaker[n] if n == name else v, e) for n, v, e in SETTINGS)
    )
    with pytest.raises(PaperBookRefused, match=f"refuses {name}"):
        open_paper_file(path)


def test_on_macos_the_sync_reaches_the_platter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    connection = open_paper_file(path)
    assert connection.pragma("fullfsync") == 1
    assert connection.pragma("checkpoint_fullfsync") == 1
    connection.close()


async def test_nothing_is_left_beside_the_file_after_close(path: Path) -> None:
    await with_one_order(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_the_leavings_of_a_start_that_died_are_cleared(path: Path) -> None:
    for name in (".new", ".new-wal", ".new-shm"):
        Path(f"{path}{name}").write_bytes(b"half a file")
    await with_one_order(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_a_file_that_is_no_database_is_refused_and_kept(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to look at" * 40)
    await refused(path, "cannot be read")


async def test_an_empty_file_is_refused_and_kept(path: Path) -> None:
    path.touch()
    await refused(path, "not a paper exchange's file")


async def test_another_programs_database_is_refused_and_kept(path: Path) -> None:
    change(path, "CREATE TABLE orders (id TEXT)")
    await refused(path, "not a paper exchange's file")


async def test_a_newer_version_is_refused_and_kept(path: Path) -> None:
    await with_one_order(path)
    change(path, "PRAGMA user_version = 3")
    await refused(path, "version 3")


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DROP TABLE fills", "table fills"),
        ("DROP TABLE prices", "table prices"),
        ("DROP INDEX orders_due", "index orders_due"),
        ("ALTER TABLE orders DROP COLUMN reason", "column orders.reason"),
        ("DELETE FROM exchange", "who it is"),
    ],
)
async def test_a_file_that_lacks_something_is_refused_and_kept(path: Path, statement: str, word: str) -> None:
    await with_one_order(path)
    change(path, statement)
    await refused(path, word)


async def test_a_damaged_file_is_refused_and_kept(path: Path) -> None:
    await with_one_order(path)
    with path.open("r+b") as file:
        file.seek(4096 * 4)
        file.write(os.urandom(4096 * 3))
    await refused(path)


async def test_a_missing_file_with_its_wal_still_there_is_refused(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"orders that were never copied back")
    await refused(path, "is missing")


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    await refused(tmp_path / "nowhere" / FILE_NAME, "cannot be opened")


async def test_the_book_holds_the_contract_by_itself(path: Path) -> None:
    await with_one_order(path)
    repeated = (
        "INSERT INTO orders SELECT 'x', account, client_order_id, symbol, side, quantity, status, "
        "filled_quantity, average_price, created_at, type, limit_price, stop_price, tif, reference_price, "
        "fill_mode, triggered, due_price, reason, 99 FROM orders"
    )
    for statement in (
        repeated,
        "UPDATE orders SET status = 'Accepted'",
        "UPDATE orders SET quantity = NULL",
    ):
        with pytest.raises(apsw.ConstraintError):
            change(path, statement)
    assert rows(
        path, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%STRICT'"
    ) == [(0,)]
