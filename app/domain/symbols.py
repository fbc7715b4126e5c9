"""Symbols as alerts spell them: exchange prefix, upper case, delayed feeds.

Splitting is all that happens here. Nothing maps one symbol to another by guess; what a broker calls it is the
mapping's business.
"""

from __future__ import annotations

import re

_PREFIXED = re.compile(r"(?P<exchange>[A-Za-z0-9_]{1,20}):(?P<symbol>.+)")
_SYMBOL = re.compile(r"[^\x00-\x1f\x7f-\x9f={}\"\\]{1,64}")
_DELAYED = re.compile(r"_DLY?$")


def split_symbol(text: str) -> tuple[str | None, str]:
    """(`NASDAQ`, `AAPL`) of `nasdaq:aapl`; (None, `AAPL`) where there is no prefix. Both in upper case."""
    match = _PREFIXED.fullmatch(text.strip())
    if match is None:
        return None, text.strip().upper()
    return match["exchange"].upper(), match["symbol"].strip().upper()


def is_symbol(text: str) -> bool:
    """Can this be a symbol at all? Not the JSON that Pine's `ticker.modify` puts into `syminfo.tickerid`."""
    return _SYMBOL.fullmatch(text) is not None and text[0] != ":" != text[-1] and any(map(str.isalnum, text))


def split_delayed(exchange: str) -> tuple[str, bool]:
    """(`NASDAQ`, True) of `NASDAQ_DLY`: TradingView marks delayed data so (help 43000531021)."""
    real = _DELAYED.sub("", exchange)
    return real, real != exchange
