"""TradingView's placeholders: which there are, and a body with sample values in their place.

Pure. For trying things out alone: the door fills nothing in, and refuses what was left over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.domain.times import MINUTE, SECOND

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")

SAMPLES: dict[str, str] = {
    "ticker": "SAMPLE",
    "exchange": "SAMPLE",
    "interval": "1",
    "open": "10",
    "high": "10",
    "low": "10",
    "close": "10",
    "volume": "1",
    "syminfo.currency": "USD",
    "syminfo.basecurrency": "na",
    "strategy.order.action": "buy",
    "strategy.order.contracts": "1",
    "strategy.order.price": "10",
    "strategy.order.id": "Sample",
    "strategy.order.comment": "Sample",
    "strategy.order.alert_message": "",
    "strategy.market_position": "long",
    "strategy.market_position_size": "1",
    "strategy.prev_market_position": "flat",
    "strategy.prev_market_position_size": "0",
    "strategy.position_size": "1",
}
"""One share of a made-up symbol, bought when flat (facts/tradingview-and-tunnels.md 1.5)."""

_PLOT = re.compile(r"plot_(?:[0-9]|1[0-9])|plot\(\\?\"[^\"]*\\?\"\)")


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with its placeholders filled in. `values` are those that were, by name.

    `unknown` are names that TradingView has not; they stay as they are, unless asked for otherwise.
    """

    text: str
    before: str
    """The text as it was given."""
    values: Mapping[str, str]
    unknown: tuple[str, ...]
    _steps: tuple[tuple[int, int, int], ...] = ()
    """Of each replacement: where it ends in `text`, where it began there, where it ends in the original."""

    @property
    def strategy_only(self) -> bool:
        """Whether it can only come from a strategy's alert: elsewhere these are not filled in."""
        return any(name.startswith("strategy.") for name in self.values)

    def original(self, offset: int) -> int:
        """The place in the original of a place in `text`."""
        shift = 0
        for end, start, original_end in self._steps:
            if start <= offset < end:
                return original_end - 1
            if end <= offset:
                shift = original_end - end
        return offset + shift


def fill_in(
    text: str, now: int, given: Mapping[str, str] | None = None, *, unknown_too: bool = False
) -> Filled:
    """`text` with sample values as TradingView would fill it in at `now` (UTC microseconds).

    `given` are values that come before the samples. `unknown_too`: a name that TradingView has not becomes
    `sample`, where a sender of another kind fills it in.
    """
    minute = now - now % MINUTE
    values = {**SAMPLES, "timenow": _rfc_3339(now), "time": _rfc_3339(minute), **(given or {})}
    pieces: list[str] = []
    steps: list[tuple[int, int, int]] = []
    used: dict[str, str] = {}
    unknown: dict[str, None] = {}
    at = length = 0
    for match in _PLACEHOLDER.finditer(text):
        name = match[1]
        value = values.get(name, "10" if _PLOT.fullmatch(name) else None)
        if value is None:
            unknown[name] = None
            if not unknown_too:
                continue
            value = "sample"
        used[name] = value
        before = text[at : match.start()]
        pieces += [before, value]
        start = length + len(before)
        length = start + len(value)
        at = match.end()
        steps.append((length, start, at))
    return Filled("".join([*pieces, text[at:]]), text, used, tuple(unknown), tuple(steps))


def _rfc_3339(microseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds - microseconds % SECOND)
    return moment.isoformat().replace("+00:00", "Z")
