"""Signals as a day brings them, posted to a real engine: for the tools that look at what was stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from app.clock import SECOND
from app.engine import Engine
from app.engine.sample import post


async def fill(engine: Engine) -> None:
    """Two partial exits on one bar, a resend, a second strategy: what keys have to tell apart."""
    address = next(each.local for each in engine.hook_addresses() if each.source == "tradingview")
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=engine.clock.now())
    bar = now - timedelta(minutes=now.minute % 15, seconds=now.second, microseconds=now.microsecond)
    steps = [
        ("buy", "Long 1", "0", "3"),
        ("buy", "Long 1", "0", "3"),
        ("sell", "TP", "3", "2"),
        ("sell", "TP", "2", "1"),
        ("sell", "TP", "2", "1"),
        ("sell", "SL", "1", "0"),
    ]
    for action, order_id, before, after in steps:
        body = {
            "strategy": "breakout",
            "symbol": "AAPL",
            "exchange": "NASDAQ",
            "interval": "15",
            "bar_time": bar.isoformat().replace("+00:00", "Z"),
            "fired_at": engine.clock.now() // SECOND,
            "action": action,
            "quantity": str(abs(int(after) - int(before))),
            "price": "189.25",
            "order_id": order_id,
            "market_position": "long" if after != "0" else "flat",
            "market_position_size": after,
            "prev_market_position": "long" if before != "0" else "flat",
            "prev_market_position_size": before,
        }
        answer = await post(address, json.dumps(body).encode())
        assert answer.status == 200, answer
