"""What is refused and stands against a book is marked as an exit, over a real ledger (HOLES H5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest

from app.claims.rows import EXIT_NOT_PLACED
from app.clock import ManualClock
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.listener.server import Door
from tests.listener.kit import ALERT, BODY_HOOK, HOOK, SECRET, Ledger, admission, ledger, opened, post, source

TRANSITION: dict[str, Any] = {
    "quantity": 5,
    "prev_market_position": "long",
    "prev_market_position_size": 10,
    "market_position": "long",
    "market_position_size": 5,
}


@dataclass
class Locked:
    """The real store, but for claims, which find the ledger locked."""

    store: Any
    refuses_at_once: str | None = None
    tried: list[object] = field(default_factory=list)

    def claim(self, *asked: object) -> NoReturn:
        self.tried.append(asked)
        raise LedgerUnavailable("locked")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@dataclass
class Place:
    door: Door
    ledger: Ledger
    locked: Locked

    async def hold(
        self, net: str, symbol: str = "AAPL", source_id: str = "tv-id", strategy: str = ""
    ) -> None:
        await self.ledger.writer.run(
            lambda tx: orders.add_to_book(tx, "paper", symbol, source_id, strategy, Decimal(net))
        )

    async def marks(self) -> list[str | None]:
        found = await self.ledger.rows("SELECT needs, warnings FROM deliveries ORDER BY id")
        for needs, warnings in found:
            assert json.loads(warnings).count(EXIT_NOT_PLACED) == (needs == "exit")
        return [needs for needs, _ in found]

    async def refused(self, path: str = HOOK, **fields: object) -> int:
        body = {name: value for name, value in (ALERT | fields).items() if value is not None}
        response = await post(self.door, json.dumps(body).encode(), path)
        assert response.status != 200
        return response.status


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    clock = ManualClock()
    async with ledger(tmp_path, clock) as book:
        locked = Locked(book.store)
        async with opened(locked, clock) as door:
            yield Place(door, book, locked)


REFUSED: list[dict[str, Any]] = [
    {"quantity": None},
    {"stop_loss": 100},
    {"quantity": "NaN"},
    {"order_id": "{{strategy.order.id}}"},
    {"symbol": "{{ticker}}"},
    {"symbol": None},
    {"strategy": "{{strategy}}"},
]


@pytest.mark.parametrize("fields", REFUSED)
@pytest.mark.parametrize(
    ("action", "net", "needs"),
    [("sell", "10", "exit"), ("buy", "-10", "exit"), ("buy", "10", None), ("sell", "-10", None),
     ("sell", "0", None)],
)  # fmt: skip
async def test_h5_what_is_refused_is_an_exit_by_the_book(
    place: Place, fields: dict[str, Any], action: str, net: str, needs: str | None
) -> None:
    await place.hold(net)
    assert await place.refused(action=action, **fields) == 400
    assert await place.marks() == [needs]


async def test_h5_a_stated_transition_nearer_to_zero_needs_no_book(place: Place) -> None:
    assert await place.refused(action="sell", leverage=5, **TRANSITION) == 400
    assert await place.marks() == ["exit"]


@pytest.mark.parametrize("at_once", [None, "locked"])
async def test_h5_a_sell_answered_503_is_an_exit_by_the_book_of_when_its_row_is_written(
    place: Place, at_once: str | None
) -> None:
    place.locked.refuses_at_once = at_once
    await place.hold("10")
    for fields in ({"action": "sell"}, {"action": "sell", "quantity": None}, {"action": "buy"}):
        assert await place.refused(**fields) in (503, 400)
    assert await place.marks() == ["exit", "exit", None]
    assert bool(place.locked.tried) is (at_once is None)


async def test_h5_sizes_without_the_side_before_are_a_transition_of_a_503_as_well(place: Place) -> None:
    fields = {name: value for name, value in TRANSITION.items() if name != "prev_market_position"}
    assert await place.refused(action="sell", **fields) == 503
    assert await place.marks() == ["exit"]


@pytest.mark.parametrize("path", [HOOK, BODY_HOOK])
async def test_h5_a_sell_while_stopping_is_an_exit_by_the_book(place: Place, path: str) -> None:
    await place.hold("10")
    await place.hold("10", source_id="own-id")
    place.door.close_intake()
    assert await place.refused(path, action="sell", secret=SECRET) == 503
    assert await place.refused(path, action="buy", secret=SECRET) == 503
    assert await place.marks() == ["exit", None]


async def test_another_book_makes_nothing_an_exit(place: Place) -> None:
    await place.hold("10", symbol="MSFT")
    await place.hold("10", source_id="own-id")
    await place.hold("10", strategy="other")
    await place.refused(action="sell", quantity=None)
    assert await place.marks() == [None]
    await place.refused(action="sell", quantity=None, strategy="other")
    assert await place.marks() == [None, "exit"]


async def test_the_book_of_any_account_of_the_source_counts_and_of_no_other(tmp_path: Path) -> None:
    async with ledger(tmp_path, ManualClock()) as book:
        for accounts, needs in ((("one", "paper"), "exit"), (("one",), None)):
            tv = source(admission=admission("tv-id", "tv", accounts=accounts))
            async with opened(book.store, ManualClock(), tv=tv) as door:
                here = Place(door, book, Locked(book.store))
                await here.hold("10")
                await here.refused(action="sell", quantity=None)
                assert (await here.marks())[-1] == needs


async def test_an_unreadable_body_is_judged_by_its_words_alone(place: Place) -> None:
    await place.hold("10")
    await post(place.door, b'{"symbol": "AAPL", "action": "sell",')
    await post(place.door, b'{"symbol": "AAPL", "action": "exit",')
    assert await place.marks() == [None, "exit"]
