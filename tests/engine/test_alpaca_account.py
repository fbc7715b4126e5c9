"""An account at Alpaca in a running engine: without keys it fails by itself, with them it trades (H38)."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import aiohttp
import pytest

from app.brokers.base import LookupFailed
from app.clock import SystemClock
from app.drill.server import SimulatedExchange
from app.engine import Engine
from app.engine.parts import alpaca_keys, instruments
from app.secrets import Secrets
from app.settings import read_settings
from tests.drill.exchange_kit import furnish
from tests.engine.kit import rows, until, word

BOTH = """
[[sources]]
name = "tv"
accounts = ["broker"]

[[accounts]]
name = "paper"

[[accounts]]
name = "broker"
broker = "alpaca"
base_url = "{url}"
"""
KEYS = {
    "ONEFILL_SECRET_ACCOUNT_BROKER_KEY_ID": "key-1",
    "ONEFILL_SECRET_ACCOUNT_BROKER_SECRET_KEY": "secret-1",
}


def engine_at(home: Path, url: str, environ: dict[str, str]) -> Engine:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(BOTH.format(url=url), encoding="utf-8")
    return Engine(home, SystemClock(), port=0, secrets=lambda: Secrets(home, environ, keyring=None))


def reason(engine: Engine) -> str:
    return next(fact.reason for fact in engine.status().facts if fact.name == "account:broker")


async def test_h38_an_account_without_keys_fails_in_words_and_the_others_go_on(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    exchange = SimulatedExchange(tmp_path / "exchange.sqlite3")
    await exchange.start()
    await furnish(exchange)
    engine = engine_at(tmp_path / "home", exchange.url, environ)
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "account:broker") == "failing")
        await until(engine, lambda: word(engine.status(), "account:paper") == "ready")
        assert word(engine.status(), "listener") == "open"
        assert "onefill secret set account.broker.key_id" in reason(engine)
        assert "ONEFILL_SECRET_ACCOUNT_BROKER_KEY_ID" in reason(engine)
        # They are read at each try: who sets them needs no restart.
        environ.update(KEYS)
        await until(engine, lambda: word(engine.status(), "account:broker") == "ready")
    finally:
        await engine.stop()
        await exchange.stop()


async def test_a_signal_becomes_one_order_at_the_exchange_and_its_fill_is_booked(tmp_path: Path) -> None:
    exchange = SimulatedExchange(tmp_path / "exchange.sqlite3")
    await exchange.start()
    await furnish(exchange)
    engine = engine_at(tmp_path / "home", exchange.url, KEYS)
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "account:broker") == "ready")
        hook = next(one.local for one in engine.hook_addresses() if one.source == "tv")
        alert = {"key": "k-0123456789", "symbol": "NASDAQ:AAPL", "action": "buy", "quantity": 3, "price": 100}
        async with aiohttp.ClientSession() as session:
            answers = await asyncio.gather(*(_post(session, hook, alert) for _ in range(3)))
        assert answers == [200, 200, 200]

        async def is_done() -> bool:
            return [row["state"] for row in await rows(engine, "orders")] == ["DONE"]

        await until(engine, is_done)
        (order,) = await rows(engine, "orders")
        assert (order["symbol"], Decimal(order["filled_quantity"])) == ("AAPL", Decimal(3))
        (there,) = await exchange.rows("SELECT * FROM orders")
        assert there["client_order_id"] == order["client_order_id"]
        assert (there["status"], there["qty"]) == ("filled", "3")
    finally:
        await engine.stop()
        await exchange.stop()


async def _post(session: aiohttp.ClientSession, hook: str, alert: dict[str, object]) -> int:
    async with session.post(hook, data=json.dumps(alert)) as answer:
        return answer.status


def test_keys_are_named_where_they_are_missing(tmp_path: Path) -> None:
    def kept(**environ: str) -> Secrets:
        return Secrets(tmp_path, environ, keyring=None)

    keys = alpaca_keys("broker", lambda: kept(**{**KEYS, "ONEFILL_SECRET_ACCOUNT_BROKER_KEY_ID": " key-1 "}))
    assert (keys.key_id, keys.secret_key) == ("key-1", "secret-1")
    with pytest.raises(LookupFailed, match=r"secret set account\.broker\.secret_key"):
        alpaca_keys("broker", lambda: kept(ONEFILL_SECRET_ACCOUNT_BROKER_KEY_ID="key-1"))


def test_each_account_has_its_brokers_spelling() -> None:
    spell = instruments(read_settings(BOTH.format(url="http://127.0.0.1:9000")))
    assert spell("broker", "BTCUSD", "COINBASE") == "BTC/USD"
    assert spell("broker", "VOD", "LSE") == "LSE:VOD"
    assert spell("paper", "BTCUSD", "COINBASE") == "BTCUSD"
    assert spell("gone", "AAPL", None) == "AAPL"
