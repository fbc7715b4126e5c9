"""The key lab reads what the door has stored, in pieces, and tries other keys on it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.clock import SECOND, ManualClock
from app.domain.keylab import USUAL, Composition, Verdict
from app.domain.times import read_time
from app.engine import keylab
from app.engine.keylab import Past, read_past, try_composition
from app.settings import Settings, read_settings
from tests.execution.kit import Desk, desk
from tests.listener.kit import HOOK, admission, opened, post, source

CONFIG = '[[sources]]\nname = "tv"\nid = "tv-id"\n[[accounts]]\nname = "paper"\n'
AT = read_time("2026-03-02T15:30:10Z")


async def read_whole(open_desk: Desk, settings: Settings, most: int = keylab.MOST) -> Past:
    pieces = [past async for past in read_past(open_desk.reader, settings, settings.sources[0], most)]
    return pieces[-1]


async def tried(open_desk: Desk, past: Past, composition: Composition) -> Verdict:
    found = await try_composition(open_desk.reader, past, composition)
    assert found is not None
    return found


async def test_stored_deliveries_are_tried_and_what_is_gone_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keylab, "PIECE", 2)
    monkeypatch.setattr(keylab, "TRIED", 2)
    settings = await asyncio.to_thread(read_settings, CONFIG)
    clock = ManualClock(AT)
    access = source(id="tv-id", admission=admission("tv-id", "tv"))
    async with (
        desk(tmp_path, CONFIG, clock=clock) as open_desk,
        opened(open_desk.store, clock, tv=access) as door,
    ):

        async def alert(order_id: str, header: str = "", **more: str) -> None:
            body = {
                "symbol": "AAPL",
                "action": "buy",
                "quantity": "1",
                "interval": "15",
                "bar_time": "2026-03-02T15:15:00Z",
                "order_id": order_id,
                "secret": "hush-hush-hush",
                **more,
            }
            await post(door, json.dumps(body).encode(), HOOK, *([header] if header else []))
            clock.advance(SECOND)

        for order_id in ("Long 1", "Long 1", "Long 2"):
            await alert(order_id)
        await alert("Long 3", "Idempotency-Key: h-1")
        await alert("Long 3", "Idempotency-Key: h-1")
        await alert("broken", quantity="none")
        await open_desk.writer.run(lambda _: None)

        past = await read_whole(open_desk, settings)
        assert [each.delivery for each in past.seen] == [1, 2, 3, 4, 5]
        assert (past.total, past.without_body, past.unreadable) == (5, 0, 0)
        own = await tried(open_desk, past, Composition())
        assert (own.signals, own.caught, own.swallowed, own.let_through, own.conflicts) == (3, 2, 0, 0, 0)
        without = await tried(open_desk, past, Composition(fields=USUAL - {"order_id"}))
        assert without.swallowed == 1
        assert without.swallowed_examples[0].other.alert.signal.order_id == "Long 2"

        await open_desk.writer.run(lambda tx: tx.change("bodies", "DELETE FROM bodies WHERE delivery_id = 3"))
        past = await read_whole(open_desk, settings)
        assert (len(past.seen), past.without_body) == (4, 1)
        newest = await read_whole(open_desk, settings, 2)
        assert [each.delivery for each in newest.seen] == [4, 5]
        assert await try_composition(open_desk.reader, past, Composition(), lambda: False) is None
