"""Transactions on the paper exchange's file: committed before an answer, undone whole, or in doubt.

Knows nothing of orders. No read and no write gets past a COMMIT whose outcome is unknown (HOLES H19).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from app.brokers.base import LookupFailed
from app.failpoint import failpoint

T = TypeVar("T")


class CommitInDoubt(Exception):
    """COMMIT raised: what it carried may or may not be in the file."""


class PaperStore:
    """One connection, used by one thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._in_doubt = False

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str, *bindings: str | int | None) -> list[tuple[Any, ...]]:
        """Runs one statement and returns all of its rows; no cursor stays open."""
        return self._connection.execute(sql, bindings).fetchall()

    def row(self, sql: str, *bindings: str | int | None) -> tuple[Any, ...]:
        """The one row that must be there."""
        return self.rows(sql, *bindings)[0]

    def change(self, sql: str, *bindings: str | int | None) -> int:
        """Runs one INSERT or UPDATE and returns how many rows it changed, counted at once (HOLES H21)."""
        self.rows(sql, *bindings)
        return self._connection.changes()

    def write(self, place: str, work: Callable[[], T]) -> T:
        """Runs `work` in one transaction, returns after its COMMIT has. An error of `work` undoes all of it.

        Raises what `work` raised, an apsw.Error of before the COMMIT (nothing is written), or CommitInDoubt.
        `place` names the failpoints around the COMMIT.
        """
        self._settle_doubt()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = work()
        except BaseException:
            self._undo()
            raise
        failpoint(f"{place}_before_commit")
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._in_doubt = True
            self._undo()
            raise CommitInDoubt(str(error)) from error
        failpoint(f"{place}_after_commit")
        return result

    def read(self, look: Callable[[], T]) -> T:
        """Runs `look`; raises LookupFailed where the file does not answer, or not with what it must hold."""
        try:
            self._settle_doubt()
            return look()
        except (apsw.Error, ArithmeticError, ValueError) as error:
            raise LookupFailed(f"paper exchange: {error}") from error

    def _settle_doubt(self) -> None:
        """After a failed COMMIT nothing is read or written until another transaction has taken its place.

        The failed one may lie whole in the WAL and come back at the next start although this process does not
        see it; the next commit writes over it. Until then finding nothing proves nothing.
        """
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if not self._in_doubt:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self.change("UPDATE exchange SET barrier = barrier + 1")
            self._connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        self._in_doubt = False

    def _undo(self) -> None:
        """Rolls back. Where even that fails, the next call tries again before it does anything else."""
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._connection.execute("ROLLBACK")
