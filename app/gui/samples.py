"""What Onefill hands to a new user: a message for TradingView's alert dialog, Pine examples. Read once."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> Path | None:
    """A file that Onefill ships beside its code: in the wheel, or in the work tree."""
    app = Path(__file__).resolve().parent.parent
    for folder in (app / "_resources", app.parent / "resources"):
        if (folder / name).is_file():
            return folder / name
    return None


def _text(name: str) -> str:
    path = resource(name)
    return "" if path is None else path.read_text(encoding="utf-8")


ALERT_MESSAGE = _text("tradingview-message.json")
PINE_STRATEGY = _text("pine/strategy.pine")
PINE_INDICATOR = _text("pine/indicator.pine")
