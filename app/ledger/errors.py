"""What can go wrong with the ledger, in the words that the door, the lanes and the window use."""

from __future__ import annotations

import apsw


class LedgerUnavailable(Exception):
    """The ledger cannot take a write now. `word` is `full`, `read-only`, `locked`, `stopping` or `failing`."""

    def __init__(self, word: str, detail: str = "") -> None:
        super().__init__(f"{word}: {detail}" if detail else word)
        self.word = word
        self.detail = detail


class CommitUnknown(LedgerUnavailable):
    """COMMIT raised: the operation may or may not be on disk until the barrier has committed (HOLES H19)."""


class TicketLate(Exception):
    """The delivery was told 503 before its operation was acknowledged.

    `ran` says whether the operation reached the disk all the same; then `on_void` has marked it.
    """

    def __init__(self, ran: bool) -> None:
        super().__init__("answered 503 before the commit")
        self.ran = ran


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


def word_of(error: apsw.Error) -> str | None:
    """The store's own failures have a word that a person is shown; a statement's error has none."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), None)


def named(error: apsw.Error) -> Exception:
    """LedgerUnavailable for the store's own failures; a statement's error stays what it is."""
    word = word_of(error)
    return error if word is None else LedgerUnavailable(word, str(error))
