"""What the broker says right before an order is decided: all of it read at once, nothing of it kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from app.brokers.base import Broker
from app.execution.policy import View
from app.ledger import orders
from app.ledger.orders import Book
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction


async def look(reader: Reader, broker: Broker, account: str, instrument: str, clock_offset: int) -> View:
    """`clock_offset` is the venue's clock minus ours as last measured, in microseconds.

    Raises LookupFailed.
    """
    books, last_fill = await reader.call(lambda db: _before(Transaction(db, set()), account, instrument))
    facts = broker.facts
    there, position, quote, market, rules = await _together(
        broker.account(),
        broker.position(instrument),
        broker.quote(instrument),
        broker.market(instrument),
        broker.rules(instrument),
    )
    return View(
        there,
        position,
        quote,
        facts.priced_by_payload,
        books,
        market,
        rules,
        last_fill,
        flips_in_one_order=facts.flips_in_one_order,
        clock_offset=clock_offset,
        expires=facts.orders_expire,
    )


def _before(tx: Transaction, account: str, instrument: str) -> tuple[tuple[Book, ...], int]:
    """Our books on an instrument and the newest fill, as the ledger has them before a look."""
    newest = tx.one("SELECT coalesce(max(id), 0) FROM fills")
    return tuple(orders.books(tx, account, instrument)), newest[0] if newest else 0


async def _together(*looks: Awaitable[Any]) -> list[Any]:
    """All of them at once; the first failure counts only when every one has come back."""
    answers = await asyncio.gather(*looks, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers
