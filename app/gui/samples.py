"""What Onefill hands to a new user: a message for TradingView's alert dialog, Pine examples. Read once."""

from __future__ import annotations

from app.settings import resource


def _text(name: str) -> str:
    path = resource(name)
    return "" if path is None else path.read_text(encoding="utf-8")


ALERT_MESSAGE = _text("tradingview-message.json")
PINE_STRATEGY = _text("pine/strategy.pine")
PINE_INDICATOR = _text("pine/indicator.pine")
