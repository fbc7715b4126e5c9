"""One batch of operations: one transaction, a savepoint each, answered only after COMMIT has returned.

Runs on the writer's thread and nowhere else. Nothing here knows what an operation means; no operation's
error may stop the thread, and nothing runs while it is unknown what the last COMMIT left on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import structlog

from app.clock import SECOND, Clock
from app.failpoint import failpoint
from app.ledger.entry import Entry, OnVoid, answer
from app.ledger.errors import CommitUnknown, LedgerUnavailable, TicketLate, presentable, word_of
from app.ledger.presence import Presence
from app.ledger.transaction import Transaction
from app.ledger.wal import WriteAheadLog

log = structlog.get_logger(__name__)

LOCK_WAIT_MS = 200
"""How long one BEGIN waits for another process's lock before late tickets are let go."""
PATIENCE = 10 * SECOND
"""How long an operation waits for the lock before it fails."""
LOCK_TRIES_CLOSING = 8
"""How many times all that still waits at the stop tries for the lock, together."""
BARRIER_PAUSE = SECOND
"""Between two tries at a barrier that failed for another reason than the lock or a full disk."""
BARRIER_TRIES = 3

SOUND = ("ok", "")
_NOT_FOR_OPERATIONS = frozenset(
    {
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_SAVEPOINT,
        apsw.SQLITE_PRAGMA,
        apsw.SQLITE_ATTACH,
        apsw.SQLITE_DETACH,
    }
)


class Committer:
    """Runs batches on the one writing connection; calls `fatal` and `announce` on the writer's thread."""

    def __init__(
        self,
        connection: apsw.Connection,
        clock: Clock,
        fatal: Callable[[str], None],
        announce: Callable[[frozenset[str]], None],
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._fatal = fatal
        self._announce = announce
        self._presence: Presence | None = None
        self.wal = WriteAheadLog(connection)
        self.trouble = SOUND
        """What is wrong, as (word, detail): replaced as a whole, so that any thread may read it."""
        self.commits = 0
        self.operations = 0
        self.closing = False
        self._closing_tries = 0
        self._fenced = False
        self._store_failed = False
        self._locked_out: list[Entry] = []
        self._in_doubt: list[Entry] = []
        self._unannounced: set[str] = set()
        self._owed: list[tuple[OnVoid, Any]] = []
        self._lost_commits: list[dict[str, Any]] = []
        self._barrier_failures = 0
        self._next_barrier_at: int | None = None
        self._given_up: LedgerUnavailable | None = None
        connection.set_busy_timeout(LOCK_WAIT_MS)
        connection.set_authorizer(self._authorize)

    def run(self, batch: list[Entry]) -> list[Entry]:
        """Runs, commits and answers the entries; returns those that wait on for another program's lock.

        Never raises.
        """
        # Those without a ticket go first: no lane's operation may see, in the transaction they share, the
        # claim of a delivery that can still be told 503 (HOLES H17).
        batch = sorted(batch, key=lambda entry: entry.ticket is not None)
        self._store_failed = False
        self._locked_out = []
        if self._presence is None:  # made here: asking for files is nothing for the loop
            self._presence = Presence(self._connection)
        try:
            self._run_together(batch)
        except BaseException as error:
            log.critical("ledger batch failed", error=repr(error), exc_info=error)
            self._roll_back()
            self._void([entry for entry in self._in_doubt if not entry.settled], error)
            waiting = set(self._locked_out)
            self._refuse(
                [entry for entry in batch if not entry.settled and entry not in waiting], _unavailable(error)
            )
        finally:
            self._in_doubt = []
            self._roll_back()
        return self._locked_out

    def settle_debts(self) -> None:
        """Tries once more, at the stop, to mark what was refused although it may be on disk."""
        self._next_barrier_at = None
        if self._given_up is None and not self._try_barrier():
            log.critical("ledger stopped with a refused write unmarked", count=len(self._owed))

    # ------------------------------------------------------------------ running

    def _run_together(self, batch: list[Entry]) -> None:
        batch = self._begin(batch)
        ran: list[Entry] = []
        for position, entry in enumerate(batch):
            if entry.is_late:
                self._refuse([entry], TicketLate(ran=False))
            elif self._attempt(entry):
                ran.append(entry)
            else:
                # Nothing of this batch stands any more, and no further statement of it may run: outside the
                # transaction each would commit on its own (HOLES H18).
                self._roll_back()
                self._run_apart([*ran, *batch[position:]])
                return
        if ran:
            self._commit(ran)

    def _run_apart(self, entries: list[Entry]) -> None:
        """Runs each again in a transaction of its own, after an error that voided the one they shared."""
        for entry in entries:
            if self._locked_out:
                self._locked_out.append(entry)
                continue
            if not self._begin([entry]):
                continue
            if entry.is_late:
                self._roll_back()
                self._refuse([entry], TicketLate(ran=False))
            elif self._attempt(entry):
                self._commit([entry])
            else:
                self._roll_back()
                self._refuse([entry], entry.error or LedgerUnavailable("failing"))

    def _attempt(self, entry: Entry) -> bool:
        """Runs one operation in a savepoint. False if the whole transaction is void with it.

        An error of the store itself (full, I/O, memory, interrupt) voids it too, for SQLite may have rolled
        back by itself and documents a ROLLBACK as the right answer; any other undoes this operation only.
        """
        entry.value, entry.error, entry.topics = None, None, set()
        transaction = Transaction(self._connection, entry.topics)
        try:
            self._execute("SAVEPOINT operation")
            entry.value = self._fence(entry.operation, transaction)
            self._execute("RELEASE operation")
            return True
        except BaseException as raised:  # noqa: BLE001 - it goes to the caller, and the thread goes on (HOLES H20)
            error = transaction.lost or raised
            entry.value, entry.error, entry.topics = None, presentable(error), set()
            if not self._connection.in_transaction or word_of(error) is not None:
                return False
        try:
            self._execute("ROLLBACK TO operation")
            self._execute("RELEASE operation")
        except apsw.Error:
            return False
        return True

    def _fence(self, operation: Callable[..., Any], transaction: Transaction, *arguments: Any) -> Any:
        """Calls an operation that may do anything but end, open or configure transactions."""
        self._fenced = True
        try:
            value = operation(transaction, *arguments)
        finally:
            self._fenced = False
            transaction.end()
        if transaction.lost is not None:
            raise transaction.lost
        return value

    def _authorize(self, action: int, *_: str | None) -> int:
        return apsw.SQLITE_DENY if self._fenced and action in _NOT_FOR_OPERATIONS else apsw.SQLITE_OK

    def _execute(self, sql: str) -> None:
        # Past the statement cache, so that an operation's own COMMIT is always prepared, and refused, anew.
        self._connection.execute(sql, can_cache=False)

    # ------------------------------------------------------------------ begin and commit

    def _begin(self, batch: list[Entry]) -> list[Entry]:
        """Opens the transaction, first the barrier's where one is owed. Returns the batch, or nothing."""
        if self._given_up is not None:
            self._refuse(batch, self._given_up)
            return []
        try:
            self._pass_barrier()
            self._execute("BEGIN IMMEDIATE")
            return batch
        except apsw.BusyError:
            self._locked_out = self._still_waiting(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing has begun
            self._roll_back()
            self._refuse(batch, _unavailable(error))
        return []

    def _still_waiting(self, batch: list[Entry]) -> list[Entry]:
        """After one more wait for the lock: lets go of those that are late or have waited too long."""
        self.trouble = ("locked", "another program holds the ledger's lock")
        self._closing_tries += self.closing
        now = self._clock.boot()
        left = []
        for entry in batch:
            if entry.is_late:
                self._refuse([entry], TicketLate(ran=False))
            elif now - entry.since > PATIENCE or self._closing_tries >= LOCK_TRIES_CLOSING:
                self._refuse([entry], LedgerUnavailable(*self.trouble))
            else:
                left.append(entry)
        return left

    def _commit(self, ran: list[Entry]) -> None:
        failpoint("before_commit")
        self._in_doubt = ran
        written = self.wal.commits
        try:
            self._execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the outcome is unknown
            undone = isinstance(error, apsw.ConstraintError) and self._connection.in_transaction
            self._roll_back()
            if not undone:
                self._void(ran, error)
            elif len(ran) > 1:
                self._run_apart(ran)
            else:
                self._refuse(ran, presentable(error))
            return
        failpoint("after_commit")
        lost = self._presence.lost() if self._presence is not None else None
        if lost is not None:
            self._give_up(
                f"{lost} was moved, deleted or replaced while it was open: put it back and start anew"
            )
            self._refuse(ran, LedgerUnavailable(*self.trouble))
            return
        self.commits += 1
        self.operations += len(ran)
        if self.wal.commits != written and not self._store_failed:
            self.trouble = SOUND
        answered: list[Entry] = []
        late: list[Entry] = []
        for entry in ran:
            self._unannounced |= entry.topics
            (answered if entry.acknowledge(late) else late).append(entry)
        answer(answered)
        self._owe(late)
        self._try_barrier()
        for entry in late:
            self._refuse([entry], TicketLate(ran=entry.error is None))

    def _void(self, ran: list[Entry], error: BaseException) -> None:
        """COMMIT raised: what is on disk is unknown until a barrier is committed over it (HOLES H19)."""
        if not ran:
            return
        unknown = CommitUnknown(word_of(error) or "failing", str(error))
        log.error("commit failed", operations=len(ran), error=repr(error))
        self._note(unknown)
        self._owe(ran)
        self._lost_commits.append({"operations": len(ran), "error": str(error)})
        # Tried before anybody is told: a process that dies until then has answered nobody.
        self._try_barrier()
        for entry in ran:
            self._refuse([entry], entry.error or unknown)

    # ------------------------------------------------------------------ the barrier

    def _owe(self, entries: Sequence[Entry]) -> None:
        self._owed += [
            (entry.on_void, entry.value)
            for entry in entries
            if entry.on_void is not None and entry.error is None
        ]

    def _try_barrier(self) -> bool:
        """Passes the barrier now if it can be; else the next transaction must. Says whether none is owed."""
        try:
            self._pass_barrier()
        except (apsw.BusyError, LedgerUnavailable) as error:
            self._note(presentable(error))
            return False
        return True

    def _pass_barrier(self) -> None:
        """Marks what was refused although it may be on disk, before anything else may run (HOLES H17, H19).

        Until it is through, nothing is announced either. Raises BusyError, or LedgerUnavailable; gives the
        ledger up after three failures that are neither the lock nor a full or read-only disk.
        """
        if self._owed or self._lost_commits:
            if self._next_barrier_at is not None and self._clock.boot() < self._next_barrier_at:
                raise LedgerUnavailable("failing", "what the last commit left on disk is not known yet")
            failpoint("before_barrier")
            try:
                self._commit_barrier()
            except apsw.BusyError:
                self._roll_back()
                raise
            except BaseException as error:
                self._roll_back()
                unavailable = _unavailable(error)
                if unavailable.word not in ("full", "read-only"):
                    self._count_barrier_failure(error)
                raise unavailable from error
            failpoint("after_barrier")
            self.commits += 1
            self._owed, self._lost_commits = [], []
            self._barrier_failures, self._next_barrier_at = 0, None
        if self._unannounced:
            topics, self._unannounced = frozenset(self._unannounced), set()
            self._announce(topics)

    def _commit_barrier(self) -> None:
        self._execute("BEGIN IMMEDIATE")
        topics: set[str] = set()
        for on_void, value in self._owed:
            self._fence(on_void, Transaction(self._connection, topics), value)
        for detail in self._lost_commits:
            Transaction(self._connection, topics).event(
                self._clock.now(), "onefill", "commit failed", "ledger", detail
            )
        self._execute("COMMIT")
        self._unannounced |= topics

    def _count_barrier_failure(self, error: BaseException) -> None:
        self._barrier_failures += 1
        self._next_barrier_at = self._clock.boot() + BARRIER_PAUSE
        bug = None if word_of(error) else error
        log.error("ledger barrier failed", failures=self._barrier_failures, error=repr(error), exc_info=bug)
        if self._barrier_failures >= BARRIER_TRIES:
            self._give_up(f"the ledger cannot be written safely any more: {error}")

    def _give_up(self, reason: str) -> None:
        if self._given_up is not None:
            return
        self._given_up = LedgerUnavailable("failing", reason)
        self.trouble = ("failing", reason)
        try:
            self._fatal(reason)
        except Exception as error:
            log.critical("nobody could be told that the ledger failed", reason=reason, exc_info=error)

    # ------------------------------------------------------------------ answers

    def _roll_back(self) -> None:
        try:
            if self._is_open():
                self._execute("ROLLBACK")
        except apsw.Error as error:
            log.exception("rollback failed", error=str(error))
            if self._is_open():
                self._give_up(f"the ledger cannot undo a failed write: {error}")

    def _is_open(self) -> bool:
        return self._connection.in_transaction

    def _note(self, error: BaseException) -> None:
        if isinstance(error, LedgerUnavailable) and self._given_up is None:
            self.trouble = (error.word, error.detail)
            self._store_failed = True

    def _refuse(self, entries: Sequence[Entry], error: Exception) -> None:
        self._note(error)
        for entry in entries:
            if entry.ticket is not None and not isinstance(error, TicketLate):
                entry.ticket.expire()
            entry.value, entry.error = None, error
        answer(entries)


def _unavailable(error: BaseException) -> LedgerUnavailable:
    if isinstance(error, LedgerUnavailable):
        return error
    return LedgerUnavailable(word_of(error) or "failing", str(error) or repr(error))
