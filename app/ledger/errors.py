"""What can go wrong with the ledger, in the words that the door, the lanes and the window use."""

from __future__ import annotations

import apsw


class LedgerUnavailable(Exception):
    """The ledger takes no write now. `word` is `full`, `read-only`, `locked`, `stopping` or `failing`."""

    def __init__(self, word: str, detail: str = "") -> None:
        super().__init__(f"{word}: {detail}" if detail else word)
        self.word = word
        self.detail = detail


class CommitUnknown(LedgerUnavailable):
    """COMMIT raised: the operation may or may not be on disk until the barrier has committed (HOLES H19)."""


class TicketLate(Exception):
    """The delivery was told 503 before its operation was acknowledged.

    `ran` says whether the operation reached the disk all the same; then `on_void` marks it before
    anything else is written.
    """

    def __init__(self, ran: bool) -> None:
        super().__init__("answered 503 before the commit")
        self.ran = ran


class OperationFailed(Exception):
    """An operation raised what no future can carry (SystemExit, StopIteration); it is the cause."""


_WORDS: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "full"),
    (apsw.ReadOnlyError, "read-only"),
    (apsw.BusyError, "locked"),
    (apsw.LockedError, "locked"),
    (apsw.CantOpenError, "failing"),
    (apsw.IOError, "failing"),
    (apsw.CorruptError, "failing"),
    (apsw.NotADBError, "failing"),
    (apsw.NoMemError, "failing"),
    (apsw.InterruptError, "failing"),
)


def word_of(error: BaseException) -> str | None:
    """The store's own failures have a word that a person is shown; a statement's error has none."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), None)


def presentable(error: BaseException) -> Exception:
    """What a caller gets: LedgerUnavailable for the store's own failures, else the error as it is."""
    word = word_of(error)
    if word is not None:
        return LedgerUnavailable(word, str(error))
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    failed = OperationFailed(f"the operation raised {error!r}")
    failed.__cause__ = error
    return failed
