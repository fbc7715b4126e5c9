"""The alert that all measurements send: the README's message as TradingView fills it in.

Every one is a signal of its own: its order id is part of the derived key.
"""

from __future__ import annotations

import time

SYMBOLS = ("AAPL", "MSFT", "NVDA", "AMZN", "META", "TSLA", "AVGO", "ORCL", "NFLX", "COST")

BAR = 15 * 60

_TEXT = """{
  "strategy": "my-strategy",
  "symbol": "%(symbol)s",
  "exchange": "NASDAQ",
  "interval": "15",
  "bar_time": "%(bar)s",
  "fired_at": "%(fired_at)s",
  "action": "%(action)s",
  "quantity": "1",
  "price": "187.25",
  "order_id": "%(order)s",
  "market_position": "%(position)s",
  "market_position_size": "%(size)d",
  "prev_market_position": "%(before)s",
  "prev_market_position_size": "%(size_before)d"
}"""

_ENTRY = {"action": "buy", "position": "long", "size": 1, "before": "flat", "size_before": 0}
_EXIT = {"action": "sell", "position": "flat", "size": 0, "before": "long", "size_before": 1}


class Alerts:
    """Bodies, one after the other: an entry, then its exit, on ten symbols in turn. `run` names who sends."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._count = 0
        self._second = 0
        self._ends: list[tuple[bytes, bytes]] = []

    def next(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._ends = [self._cut(symbol, side, second) for symbol in SYMBOLS for side in (_ENTRY, _EXIT)]
        before, after = self._ends[self._count % len(self._ends)]
        self._count += 1
        return b"%b%08d%b" % (before, self._count, after)

    def _cut(self, symbol: str, side: dict[str, object], second: int) -> tuple[bytes, bytes]:
        times = {"fired_at": _spelled(second), "bar": _spelled(second // BAR * BAR - BAR)}
        text = _TEXT % {**side, **times, "symbol": symbol, "order": f"{self._run}-{'#' * 8}"}
        before, after = text.split("#" * 8)
        return before.encode(), after.encode()


def _spelled(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
