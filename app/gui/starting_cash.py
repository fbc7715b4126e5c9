"""What each paper account began with, as config.toml says it. The ledger does not keep it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from app.settings import ConfigError, config_path, read_settings, read_text


def starting_cash(home: Path) -> Callable[[], dict[str, Decimal]]:
    """Blocking when called; empty where the file cannot be read now."""

    def cash() -> dict[str, Decimal]:
        path = config_path(home)
        try:
            text = read_text(path)
            settings = read_settings(text or "", path)
        except ConfigError:
            return {}
        return {each.name: each.cash for each in settings.accounts if each.broker == "paper"}

    return cash
