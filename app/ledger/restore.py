"""Going back to a backup without placing anything twice (HOLES H39).

What was claimed and sent since the backup is not in it. So nothing is sent before a person says so, nothing
that may have been sent is taken for new, and the ledger that was there is kept beside the restored one.
Blocking; the caller holds the instance lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from app.domain.order import State
from app.ledger import orders
from app.ledger.copying import SUFFIXES, CopyFailed, copy_ledger, stamp, sync_folder
from app.ledger.store import FILE_NAME, MARKER_NAME, LedgerRefused, open_ledger
from app.ledger.transaction import Transaction

REFUSE_WITHOUT_TIME = "refuse_without_time_until_lifted"
"""Meta: while it is there, a signal that states no time is refused, since it cannot be told from one that was
placed after the backup. The value is when the restore was, in UTC microseconds."""
LOOKUP_BEFORE_SEND = "lookup_before_send"
"""Meta: since a restore (its time in UTC microseconds) every client order id is looked up at the broker
before its first send: an order that the lost part of the ledger knew may be there under it."""
TRADING_STATE = "trading_state"

_WORKSHOP = ".restoring-"


@dataclass(frozen=True, slots=True)
class Marked:
    """What became of what was under way in the backup, by the names that a person sees."""

    denied: tuple[str, ...]
    ambiguous: tuple[str, ...]
    open: tuple[str, ...]
    """At the broker when the backup was made: the next start asks what became of them."""


def mark_restored(tx: Transaction, now: int, actor: str) -> Marked:
    """Makes a ledger that went back in time safe to open: one transaction, before it has its name.

    PENDING is denied, SUBMITTING becomes AMBIGUOUS, trading is halted, every source's watermark is now,
    signals without a time are refused, ids are looked up first. What is PENDING under an id already may have
    gone out under it since: it is as much in doubt as what was being sent.
    """
    for order in orders.where(tx, "state = 'PENDING' AND client_order_id IS NOT NULL"):
        reason = "RESTORED it was to be sent again when the backup was made"
        orders.move(tx, order, State.SUBMITTING, at=now, actor=actor, reason=reason)
    pending = orders.where(tx, "state = 'PENDING'")
    for order in pending:
        orders.move(
            tx, order, State.DENIED, at=now, actor=actor, reason="RESTORED the ledger went back in time"
        )
    interrupted = orders.where(tx, "state = 'SUBMITTING'")
    for order in interrupted:
        reason = "RESTORED it was being sent when the backup was made"
        orders.move(tx, order, State.AMBIGUOUS, at=now, actor=actor, reason=reason)
    elsewhere = orders.where(tx, "state IN ('WORKING', 'NEEDS_OPERATOR', 'AMBIGUOUS')")
    tx.set_meta(TRADING_STATE, "halted")
    tx.change("sources", "UPDATE sources SET watermark = max(coalesce(watermark, 0), ?)", (now,))
    tx.set_meta(REFUSE_WITHOUT_TIME, str(now))
    tx.set_meta(LOOKUP_BEFORE_SEND, str(now))
    names = tuple(order.name for order in interrupted)
    return Marked(
        denied=tuple(order.name for order in pending),
        ambiguous=names,
        open=tuple(order.name for order in elsewhere if order.name not in names),
    )


def lift_refusal(tx: Transaction, now: int, actor: str, why: str) -> bool:
    """Signals without a time are admitted again, by a person's word. False if they were not refused."""
    lifted = tx.change("meta", "DELETE FROM meta WHERE name = ?", (REFUSE_WITHOUT_TIME,)) == 1
    if lifted:
        tx.event(now, actor, "signals without a time admitted again", "ledger", {"why": why})
    return lifted


Finish = Callable[[Transaction, str | None], dict[str, Any]]
"""The last transaction before a restored ledger gets its name; knows the name that the other one gets."""


def restore_ledger(home: Path, backup: Path, now: int, finish: Finish) -> dict[str, Any]:
    """Puts a backup in the ledger's place and returns what `finish` made of it.

    The ledger that was there gets another name and is never overwritten. Cut off at any point there is the
    old ledger, or the new one, or none: then a start refuses, and the restore can be done again. Raises
    LedgerRefused.
    """
    folder = home / f"{_WORKSHOP}{stamp(now)}"
    try:
        for leftover in home.glob(f"{_WORKSHOP}*"):
            shutil.rmtree(leftover)
        folder.mkdir(mode=0o700)
        try:
            aside = _name_aside(home, now)
            answer = _prepare(folder, backup, now, aside, finish)
            if aside is not None:
                _put_aside(home, aside)
            # From here on a start finds a marker and no ledger, and refuses.
            sync_folder(home)
            os.replace(folder / MARKER_NAME, home / MARKER_NAME)
            os.replace(folder / FILE_NAME, home / FILE_NAME)
            sync_folder(home)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except (CopyFailed, apsw.Error) as error:
        raise LedgerRefused(f"{backup} could not be restored ({error})") from error
    except OSError as error:
        raise LedgerRefused(f"{backup} could not be restored ({error.strerror or error})") from error
    return answer


def _prepare(folder: Path, backup: Path, now: int, aside: str | None, finish: Finish) -> dict[str, Any]:
    """A whole home's ledger in `folder`, one file and its marker, moved forward to this version."""
    copy_ledger(backup, folder / FILE_NAME, at_rest=True)
    connection = open_ledger(folder, now)
    try:
        connection.execute("BEGIN IMMEDIATE").fetchall()
        answer = finish(Transaction(connection, set()), aside)
        connection.execute("COMMIT").fetchall()
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close(True)
    return answer


def _name_aside(home: Path, now: int) -> str | None:
    """A free name for the ledger that is there, damaged or not; None if there is none."""
    if not any((home / (FILE_NAME + suffix)).exists() for suffix in SUFFIXES):
        return None
    name, number = f"ledger-replaced-{stamp(now)}.sqlite3", 1
    while any((home / (name + suffix)).exists() for suffix in SUFFIXES):
        number += 1
        name = f"ledger-replaced-{stamp(now)}-{number}.sqlite3"
    return name


def _put_aside(home: Path, name: str) -> None:
    path = home / FILE_NAME
    if path.exists():
        # One file is renamed at once; a file and its log could be torn apart by a kill.
        with contextlib.suppress(apsw.Error):
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close(True)
    for suffix in SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.rename(home / (FILE_NAME + suffix), home / (name + suffix))
