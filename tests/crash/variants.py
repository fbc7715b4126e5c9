"""The product made worse, for controls that must fail: `python -m tests.crash.variants NAME serve ...`

Each is a mistake that a program of this kind can be written with. None of it can be had from the product.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import apsw

from app.brokers import paper_file
from app.cli import main
from app.ledger import batch, store
from app.ledger.entry import Entry, answer


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
    attempt: Callable[[Any, Entry], bool] = batch.Committer._attempt

    def attempted(self: batch.Committer, entry: Entry) -> bool:
        done = attempt(self, entry)
        if done and entry.ticket is not None and entry.error is None and entry.ticket.acknowledge():
            answer([entry])
            time.sleep(0.02)
        return done

    batch.Committer._attempt = attempted  # type: ignore[method-assign]


VARIANTS: dict[str, Callable[[], None]] = {
    made.__name__: made for made in (ledger_normal, paper_normal, answers_early)
}

if __name__ == "__main__":
    VARIANTS[sys.argv[1]]()
    main(sys.argv[2:])
