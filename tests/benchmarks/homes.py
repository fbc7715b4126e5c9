"""Homes for the measured engines: the settings of a first start, but with room for many orders."""

from __future__ import annotations

from pathlib import Path

from app.clock import SystemClock
from app.engine.opening import Opened, open_home
from app.secrets import Secrets

SOURCE = "tradingview"

CONFIG = f"""
[[sources]]
name = "{SOURCE}"
id = "benchmark"
accounts = ["paper"]

[[accounts]]
name = "paper"
broker = "paper"
cash = "1000000000"

[risk]
max_orders_per_minute = 0
"""


def make_home(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(CONFIG, encoding="utf-8")


def open_prepared(home: Path) -> Opened:
    """The home as the engine opens it, without the user's keyring."""
    return open_home(home, SystemClock(), lambda: secrets(home))


def secrets(home: Path) -> Secrets:
    return Secrets(home, {}, keyring=None)
