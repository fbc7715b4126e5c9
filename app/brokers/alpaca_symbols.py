"""TradingView's spelling of an instrument -> Alpaca's. Pure; what no rule maps is marked, never guessed.

An unmapped symbol keeps its exchange before a colon (`LSE:VOD`): no symbol of Alpaca's has one, so it can
never be taken for the American share of the same name.
"""

from __future__ import annotations

import re

from app.domain.symbols import split_delayed

STOCK_EXCHANGES = frozenset({"NASDAQ", "NYSE", "AMEX", "ARCA", "NYSEARCA", "BATS", "CBOE", "OTC", "IEX"})
"""TradingView's prefixes of American shares and funds, which Alpaca lists under the same symbols."""

COIN_EXCHANGES = frozenset(
    {
        "COINBASE",
        "BINANCE",
        "BINANCEUS",
        "KRAKEN",
        "BITSTAMP",
        "GEMINI",
        "CRYPTO",
        "BITFINEX",
        "BYBIT",
        "OKX",
        "KUCOIN",
        "GATEIO",
        "GATE",
        "MEXC",
        "HTX",
        "HUOBI",
        "BITGET",
        "POLONIEX",
        "CRYPTOCOM",
        "BITTREX",
    }
)
QUOTES = ("USDT", "USDC", "USD", "BTC")
"""What Alpaca's coins are priced in (docs.alpaca.markets, crypto trading); a longer one is tried first."""
COINS = frozenset(
    {
        "AAVE",
        "AVAX",
        "BAT",
        "BCH",
        "BTC",
        "CRV",
        "DOGE",
        "DOT",
        "ETH",
        "GRT",
        "LINK",
        "LTC",
        "MKR",
        "PEPE",
        "SHIB",
        "SOL",
        "SUSHI",
        "TRUMP",
        "UNI",
        "USDC",
        "USDT",
        "XRP",
        "XTZ",
        "YFI",
    }
)
"""Coins that are known without an exchange: no American share has a name like BTCUSD."""

_SHARE = re.compile(r"[A-Z]{1,5}(?:\.[A-Z]{1,3})?")
_PAIR = re.compile(rf"(?P<base>[A-Z0-9]{{2,12}})/?(?P<quote>{'|'.join(QUOTES)})")


def instrument_of(symbol: str, exchange: str | None) -> str:
    """`BRK.B` of NYSE is `BRK.B`, `BTCUSD` of COINBASE is `BTC/USD`, `VOD` of LSE stays `LSE:VOD`.

    `symbol` and `exchange` are upper case, as a Signal has them.
    """
    venue = None if exchange is None else split_delayed(exchange)[0]
    pair = as_pair(symbol)
    if venue in COIN_EXCHANGES:
        return pair or f"{venue}:{symbol}"
    if venue is None:
        is_coin = pair is not None and ("/" in symbol or pair.partition("/")[0] in COINS)
        return pair if is_coin and pair is not None else symbol
    if venue in STOCK_EXCHANGES and _SHARE.fullmatch(symbol):
        return symbol
    return f"{venue}:{symbol}"


def as_pair(symbol: str) -> str | None:
    """`BTC/USD` of `BTCUSD` or `BTC/USD`; None for what is no pair of a coin and a money of Alpaca's."""
    match = _PAIR.fullmatch(symbol)
    if match is None:
        return None
    return f"{match['base']}/{match['quote']}"


def is_coin(instrument: str) -> bool:
    return "/" in instrument


def is_unmapped(instrument: str) -> bool:
    return ":" in instrument
