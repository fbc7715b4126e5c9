"""What a reply of the paper exchange is worth: kills, power cuts, failing disks, locks, the last check."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import apsw
import pytest

import app.brokers.paper_store as paper_store
from app.brokers import paper_file
from app.brokers.base import HeldBack, LookupFailed, OrderRequest, Placed, SubmitReply, Unknown, Unsent
from app.brokers.paper import FILE_NAME, PaperBroker
from app.brokers.paper_book import PaperBook
from app.failpoint import EXIT_CODE
from tests.brokers.paper_kit import CASH, connected, nothing_against, opened, order, placed, rows, state
from tests.crash.power.disk import Disk

D = Decimal
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.close()


# ------------------------------------------------------------------ commit before reply


async def test_h42_another_program_sees_the_order_before_the_reply(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, int] = {}

    def look(place: str) -> None:
        if place in ("paper_before_commit", "paper_after_commit"):
            seen[place] = rows(path, "SELECT count(*) FROM orders WHERE client_order_id = 'c-1'")[0][0]

    monkeypatch.setattr(paper_store, "failpoint", look)
    async with opened(path) as exchange:
        await placed(await connected(exchange), order())
    assert seen == {"paper_before_commit": 0, "paper_after_commit": 1}


_CHILD = """
import asyncio, sys
from decimal import Decimal
from pathlib import Path
from app.brokers.paper import PaperBroker, PaperExchange
from app.clock import SystemClock
from tests.brokers.paper_kit import Wakes, nothing_against, order

async def main() -> None:
    exchange = PaperExchange(Path(sys.argv[1]), SystemClock())
    await exchange.open()
    broker = PaperBroker(exchange, "paper", Decimal(100_000), sys.argv[2])
    await broker.connect()
    wakes = Wakes(broker)
    for client_order_id in ("c-1", "c-2"):
        reply = await broker.submit(order(client_order_id), nothing_against)
        print("reply", reply, flush=True)
        await wakes.next()
        await broker.find(client_order_id)
        if sys.argv[2] == "partial":
            await wakes.next()

asyncio.run(main())
"""


def killed_at(place: str, path: Path, fills: str) -> int:
    """Runs two orders in a process that dies at `place`; how many replies it had given."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path), fills],
        env={**os.environ, "ONEFILL_FAILPOINT": place, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert child.returncode == EXIT_CODE, child.stderr
    return child.stdout.count("reply")


@pytest.mark.parametrize("fills", ["async", "instant", "partial"])
@pytest.mark.parametrize(
    ("place", "replies", "there"),
    [
        ("paper_before_commit", 0, 0),
        ("paper_before_commit=2", 1, 1),
        ("paper_after_commit", 0, 1),
        ("paper_after_commit=2", 1, 2),
    ],
)
async def test_h42_a_kill_around_the_commit_leaves_exact_counts(
    path: Path, fills: str, place: str, replies: int, there: int
) -> None:
    assert killed_at(place, path, fills) == replies
    async with opened(path) as exchange:
        broker = await connected(exchange)
        for number, client_order_id in enumerate(("c-1", "c-2")):
            if number < there:
                assert await state(broker, client_order_id) == ("Filled", D(10), D(100))
            else:
                assert await broker.find(client_order_id) is None
        assert await broker.position("AAPL") == D(10 * there)
        assert (await broker.account()).cash == CASH - 1_000 * there
        pieces = 2 if fills == "partial" else 1
        assert len((await broker.snapshot(0)).fills) == there * pieces
    assert rows(path, "SELECT count(*) FROM orders") == [(there,)]


@pytest.mark.parametrize("fills", ["async", "partial"])
@pytest.mark.parametrize("place", ["paper_fill_before_commit", "paper_fill_after_commit"])
async def test_a_kill_around_a_fill_leaves_the_order_filled_once(path: Path, fills: str, place: str) -> None:
    killed_at(place, path, fills)
    halves = {"async": [D(10)], "partial": [D(5), D(5)]}[fills]
    async with opened(path) as exchange:
        broker = await connected(exchange)
        assert await state(broker) == ("Filled", D(10), D(100))
        assert [fill.quantity for fill in await broker.fills("c-1")] == halves
        assert (await broker.account()).cash == CASH - 1_000


# ------------------------------------------------------------------ power


async def replied_then_power_cut(path: Path, disk: Disk, image: Path) -> None:
    async with opened(path):
        pass
    async with opened(path, vfs=disk.name) as exchange:
        await placed(await connected(exchange), order())
        disk.image(image)


async def test_h42_what_was_replied_survives_a_power_cut(path: Path, disk: Disk, tmp_path: Path) -> None:
    await replied_then_power_cut(path, disk, tmp_path / "after")
    async with opened(tmp_path / "after" / FILE_NAME) as exchange:
        assert await state(await connected(exchange)) == ("Filled", D(10), D(100))


async def test_h42_with_synchronous_normal_it_would_not(
    path: Path, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [("synchronous", "NORMAL", 1) if s[0] == "synchronous" else s for s in paper_file.SETTINGS]
    monkeypatch.setattr(paper_file, "SETTINGS", tuple(settings))
    await replied_then_power_cut(path, disk, tmp_path / "after")
    async with opened(tmp_path / "after" / FILE_NAME) as exchange:
        assert await (await connected(exchange)).find("c-1") is None


# ------------------------------------------------------------------ errors of the file


async def test_h19_a_commit_that_failed_is_unknown_and_then_settled_before_any_look(
    path: Path, disk: Disk, tmp_path: Path
) -> None:
    async with opened(path):
        pass
    async with opened(path, vfs=disk.name) as exchange:
        broker = await connected(exchange)
        copies: list[Path] = []

        def copy() -> None:
            copies.append(copy_of(path, tmp_path / f"killed-{len(copies)}"))

        disk.failing_syncs, disk.before_failing = 1_000, copy
        reply = await broker.submit(order("lost"), nothing_against)
        assert isinstance(reply, Unknown)
        with pytest.raises(LookupFailed):
            await broker.find("lost")
        assert isinstance(await broker.submit(order("held"), nothing_against), Unsent)
        disk.failing_syncs = 0
        assert await broker.find("lost") is None
        settled = copy_of(path, tmp_path / "settled")
        await placed(broker, order("next"))
    async with opened(copies[0] / FILE_NAME) as exchange:
        # A kill right after the failed COMMIT: the order lies whole in the WAL and comes back.
        assert await (await connected(exchange)).find("lost") is not None
    async with opened(settled / FILE_NAME) as exchange:
        assert await (await connected(exchange)).find("lost") is None
    assert rows(path, "SELECT client_order_id FROM orders") == [("next",)]


def copy_of(path: Path, folder: Path) -> Path:
    """The file and its WAL as they lie on the disk, as after kill -9; returns `folder`."""
    folder.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        (folder / name).write_bytes((path.parent / name).read_bytes())
    return folder


async def test_a_full_disk_before_the_commit_is_proof_that_nothing_was_sent(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        limit = await exchange.run(lambda book: book._store._connection.pragma("max_page_count"))
        await exchange.run(lambda book: book._store._connection.pragma("max_page_count", 1))
        replies: list[SubmitReply] = []
        while not replies or isinstance(replies[-1], Placed):
            replies.append(await broker.submit(order(f"c-{len(replies)}", quantity="0.01"), nothing_against))
        last = f"c-{len(replies) - 1}"
        assert isinstance(replies[-1], Unsent)
        assert "full" in replies[-1].reason
        assert await broker.find(last) is None
        await exchange.run(lambda book: book._store._connection.pragma("max_page_count", limit))
        await placed(broker, order(last))


async def test_a_file_that_another_program_locks_is_unsent_for_orders_and_no_hindrance_for_looks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_file, "LOCK_WAIT_MS", 1)
    async with opened(path) as exchange:
        broker = await connected(exchange)
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        assert isinstance(await broker.submit(order(), nothing_against), Unsent)
        with pytest.raises(LookupFailed):
            await broker.cancel("c-1")
        assert await broker.find("c-1") is None
        other.close()
        await placed(broker, order())


async def test_a_look_that_fails_is_not_an_absence(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order())
        await exchange.run(lambda book: book.close())
        with pytest.raises(LookupFailed):
            await broker.find("c-1")
        with pytest.raises(LookupFailed):
            await broker.position("AAPL")
        with pytest.raises(LookupFailed):
            await broker.snapshot(0)


def leave_open(book: PaperBook) -> None:
    book._store.rows("BEGIN")
    book._store.rows("UPDATE accounts SET cash = '1'")


async def test_h20_a_transaction_that_was_left_open_stops_nothing(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await exchange.run(leave_open)
        assert (await broker.account()).cash == CASH
        await placed(broker, order())


# ------------------------------------------------------------------ the last check


async def submit_with(broker: PaperBroker, request: OrderRequest, reason: str) -> SubmitReply:
    def held() -> None:
        raise HeldBack(reason)

    return await broker.submit(request, held)


async def test_h30_what_the_last_check_holds_back_is_not_written(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        reply = await submit_with(broker, order(price="123"), "TRADING_HALTED")
        assert reply == Unsent("TRADING_HALTED")
        assert await broker.find("c-1") is None
        assert await broker.quote("AAPL") is None
        await placed(broker, order())
        assert await submit_with(broker, order(), "STALE") == Unsent("STALE")


async def test_h31_the_last_check_comes_after_the_wait_for_the_lock(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        locked: list[bool] = []

        def check() -> None:
            other = apsw.Connection(str(path))
            try:
                other.execute("BEGIN IMMEDIATE")
                locked.append(False)
            except apsw.BusyError:
                locked.append(True)
            finally:
                other.close()

        assert isinstance(await broker.submit(order(), check), Placed)
        assert locked == [True]


async def test_an_error_of_the_last_check_itself_is_not_swallowed_and_nothing_is_written(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)

        def broken() -> None:
            raise KeyError("halt")

        with pytest.raises(KeyError):
            await broker.submit(order(), broken)
        assert await broker.find("c-1") is None
        await placed(broker, order())
