"""The product made worse, for controls that must fail: `python -m tests.crash.variants NAME serve ...`

Each is a mistake that a program of this kind can be written with. None of it can be had from the product.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import apsw

from app.brokers import paper_file
from app.brokers.base import BrokerOrder, Fill, Snapshot
from app.brokers.paper_book import PaperBook
from app.claims import admission, ledger_store
from app.claims.known import Known
from app.cli import main
from app.clock import SECOND, SystemClock
from app.domain.order import State
from app.engine import opening
from app.execution import gate, lanes, replies
from app.execution.trading import Trading
from app.ledger import batch, orders, store
from app.ledger.entry import Entry, answer
from app.ledger.orders import Order
from app.ledger.transaction import Transaction
from app.listener.bounded import relayed

GAP = 0.02
"""Seconds that a mistake stays open; in a program that makes it by nature, its own slowness does the same."""


def ledger_normal() -> None:
    """The ledger's commits are not synced."""
    configure = store.configure

    def configured(connection: apsw.Connection) -> None:
        configure(connection)
        connection.execute("PRAGMA synchronous = NORMAL").fetchall()

    store.configure = configured


def paper_normal() -> None:
    """The paper exchange's commits are not synced."""
    paper_file.SETTINGS = tuple(
        ("synchronous", "NORMAL", 1) if name == "synchronous" else (name, value, expected)
        for name, value, expected in paper_file.SETTINGS
    )


def answers_early() -> None:
    """A delivery is answered when its claim has been written, before the COMMIT."""
    _tell_before_commit(lambda entry: entry.ticket is not None and entry.ticket.acknowledge())


def claim_after_send(gap: float = GAP) -> None:
    """An order is sent first, and what says so is committed after it."""
    ids_of_its_own()
    _tell_before_commit(lambda entry: isinstance(entry.value, gate.Send), gap)


def claim_long_after_send() -> None:
    """The same, and so long after it that a slow machine too has sent the order and been killed by then."""
    claim_after_send(2.0)


def check_then_insert() -> None:
    """The key is looked up, and if it is unknown then inserted, in two transactions."""
    ids_of_its_own()
    _in_schema("digest BLOB NOT NULL UNIQUE", "digest BLOB NOT NULL")
    claim, look_up = ledger_store.LedgerClaimStore.claim, inside(admission).look_up
    unknown: set[int] = set()

    def claimed(self: ledger_store.LedgerClaimStore, rules: Any, delivery: Any, *arguments: Any) -> Any:
        signal, key, _ = arguments
        run = self._context.run

        async def work() -> Any:
            if await self._writer.run(lambda tx: look_up(tx, run, delivery, signal, key)) is None:
                unknown.add(id(delivery))
            return await claim(self, rules, delivery, *arguments)

        return relayed(asyncio.get_running_loop().create_task(work()))

    def looked_up(tx: Transaction, run: str, delivery: Any, *arguments: Any) -> Known | None:
        known: Known | None = look_up(tx, run, delivery, *arguments)
        return None if id(delivery) in unknown else known

    inside(ledger_store.LedgerClaimStore).claim = claimed
    inside(admission).look_up = looked_up


def resubmit_on_not_found() -> None:
    """An order whose fate is unknown and that the exchange does not show is sent again, as a new one.

    The exchange shows what it had before the start only after a while, as many do.
    """
    ids_of_its_own()
    _in_schema("", "DROP TRIGGER orders_keep_client_order_id;")
    _lag(2 * SECOND)
    absent, record = replies.record_absence, lanes.Lane._record

    def sent_again(
        tx: Transaction, order_id: int, identity: str, now: int, *, proof: str, detail: str = ""
    ) -> Order:
        order = absent(tx, order_id, identity, now, proof=proof, detail=detail)
        return orders.move(tx, order, State.PENDING, at=now, actor="resolver", client_order_id=None)

    async def recorded(self: lanes.Lane, *arguments: Any) -> Any:
        await asyncio.sleep(GAP)
        return await record(self, *arguments)

    replies.record_absence = sent_again
    inside(lanes.Lane)._record = recorded


def no_compare_and_set() -> None:
    """Two workers take one order: each has read that it is PENDING, neither asks again as it moves it."""
    ids_of_its_own()
    _in_schema("", "DROP TRIGGER orders_follow_edges; DROP TRIGGER orders_keep_client_order_id;")
    change, get, decide, wake = Transaction.change, orders.get, inside(lanes).decide, Trading._wake_lane
    read: dict[int, Order] = {}
    deciding: list[int] = []

    def changed(self: Transaction, table: str, sql: str, bindings: Any = ()) -> int:
        guard = " AND state = ?"
        if table == "orders" and sql.endswith(f"WHERE id = ?{guard}"):
            sql, bindings = sql.removesuffix(guard), bindings[:-1]
        return change(self, table, sql, bindings)

    def got(tx: Transaction, order_id: int) -> Order:
        order = get(tx, order_id)
        if deciding and deciding.pop() == order_id:
            return read.setdefault(order_id, order)
        return order

    def decided(tx: Transaction, order_id: int, *arguments: Any, **options: Any) -> gate.Decision:
        deciding[:] = [order_id]
        decision: gate.Decision = decide(tx, order_id, *arguments, **options)
        return decision

    def woken(self: Trading, account: str, instrument: str) -> None:
        wake(self, account, instrument)
        first, twin = self._lanes[account, instrument], (account, f"{instrument} twin")
        if twin not in self._lanes:
            self._lanes[twin] = lanes.Lane(
                first.session,
                instrument,
                writer=self._writer,
                reader=self._reader,
                clock=self._clock,
                prices=self._prices,
                held_back=self.held_back,
                earlier=self._earlier,
            )
            self._running[str(twin)] = self._tasks.start(f"lane {twin}", self._lanes[twin].run())
        self._lanes[twin].wake()

    inside(Transaction).change = changed
    orders.get = got
    inside(lanes).decide = decided
    inside(Trading)._wake_lane = woken


def ids_of_its_own() -> None:
    """Each send has a client order id that is made up for it: the last fence is gone, all others stand."""
    inside(gate).id_of = lambda *_: uuid.uuid4().hex


def claim_unsynced() -> None:
    """Not worse, but unlucky: the disk refuses to sync the first alert's claim, once."""
    global _disk
    _disk = _OneSyncFails(b"entry-0001")
    inspect = store._inspect
    # It only reads. A read-only connection that cannot lock as it closes is an error only through apsw.
    inside(store)._inspect = lambda path, known, _vfs: inspect(path, known, None)
    inside(opening).open_ledger = partial(store.open_ledger, vfs=_disk.name)


# ------------------------------------------------------------------ what they are made of


def inside(place: object) -> Any:
    """The same module or class, to be changed."""
    return place


def _tell_before_commit(is_told: Callable[[Entry], bool], gap: float = GAP) -> None:
    attempt: Callable[[batch.Committer, Entry], bool] = batch.Committer._attempt

    def attempted(self: batch.Committer, entry: Entry) -> bool:
        done = attempt(self, entry)
        if done and entry.error is None and is_told(entry):
            answer([entry])
            time.sleep(gap)
        return done

    inside(batch.Committer)._attempt = attempted


def _in_schema(old: str, new: str) -> None:
    """Replaces a text of the ledger's schema, or adds one at its end."""
    migrations = store.migrations

    def changed() -> list[tuple[str, str]]:
        (name, text), *later = migrations()
        assert old in text, f"the schema has no {old!r} any more"
        return [(name, text.replace(old, new) if old else f"{text}\n{new}"), *later]

    store.migrations = changed


def _lag(microseconds: int) -> None:
    """The exchange's lookups show nothing of before the start until so long after it."""
    clock = SystemClock()
    began = clock.now()
    find, fills, snapshot = PaperBook.find, PaperBook.fills, PaperBook.snapshot

    def is_shown(at: int) -> bool:
        return at >= began or clock.now() > began + microseconds

    def found(self: PaperBook, account: str, client_order_id: str) -> BrokerOrder | None:
        order = find(self, account, client_order_id)
        return order if order is not None and is_shown(order.created_at) else None

    def filled(self: PaperBook, account: str, client_order_id: str) -> list[Fill]:
        return [fill for fill in fills(self, account, client_order_id) if is_shown(fill.at)]

    def taken(self: PaperBook, account: str, since: int) -> Snapshot:
        whole = snapshot(self, account, since)
        shown = [order for order in whole.open_orders if is_shown(order.created_at)]
        recent = [order for order in whole.recent_orders if is_shown(order.created_at)]
        fills = [fill for fill in whole.fills if is_shown(fill.at)]
        return replace(whole, open_orders=shown, recent_orders=recent, fills=fills)

    inside(PaperBook).find = found
    inside(PaperBook).fills = filled
    inside(PaperBook).snapshot = taken


class _OneSyncFails(apsw.VFS):
    """The ledger's disk; the first sync of its log after the writer has put `key` there fails."""

    def __init__(self, key: bytes) -> None:
        self.name = "one-sync-fails"
        super().__init__(self.name, "")
        self.key = key
        self.is_due = False
        self.has_failed = False

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _OneSyncFailsFile(self, name, flags)


class _OneSyncFailsFile(apsw.VFSFile):
    def __init__(self, disk: _OneSyncFails, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._is_log = path.endswith("ledger.sqlite3-wal")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        of_a_batch = threading.current_thread().name.startswith("ledger-writer")
        if self._is_log and of_a_batch and self._disk.key in bytes(data):
            self._disk.is_due = True
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._is_log and self._disk.is_due and not self._disk.has_failed:
            self._disk.has_failed = True
            raise apsw.IOError("the disk refused to sync")
        super().xSync(flags)


_disk: _OneSyncFails | None = None

VARIANTS: dict[str, Callable[[], None]] = {
    made.__name__: made
    for made in (
        ledger_normal,
        paper_normal,
        answers_early,
        check_then_insert,
        claim_after_send,
        claim_long_after_send,
        resubmit_on_not_found,
        no_compare_and_set,
        ids_of_its_own,
        claim_unsynced,
    )
}

if __name__ == "__main__":
    VARIANTS[sys.argv[1]]()
    main(sys.argv[2:])
