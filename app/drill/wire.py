"""Rows of the book in the venue's own JSON: names, spellings and kinds of values as Alpaca documents them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from app.drill import times
from app.drill.store import plain

Json = dict[str, Any]
_NAMES = uuid.UUID("7d1f5c0a-5c47-4d0c-9f3b-6f1d2d3f4a55")


def asset_id(symbol: str) -> str:
    return str(uuid.uuid5(_NAMES, symbol))


def order(row: Mapping[str, Any]) -> Json:
    filled = Decimal(row["filled_qty"])
    average = plain(round(Decimal(row["filled_value"]) / filled, 9)) if filled else None
    created, updated = times.write_ns(row["created_ns"]), times.write_ns(row["updated_ns"])
    status = row["status"]
    ended = {
        f"{name}_at": updated if status == word else None
        for name, word in (
            ("filled", "filled"),
            ("expired", "expired"),
            ("canceled", "canceled"),
            ("failed", "rejected"),
        )
    }
    is_coin = "/" in row["symbol"]
    return {
        "id": row["id"],
        "client_order_id": row["client_order_id"],
        "created_at": created,
        "updated_at": updated,
        "submitted_at": created,
        **ended,
        "replaced_at": None,
        "replaced_by": None,
        "replaces": None,
        "asset_id": asset_id(row["symbol"]),
        "symbol": row["symbol"],
        "asset_class": "crypto" if is_coin else "us_equity",
        "notional": None,
        "qty": row["qty"],
        "filled_qty": row["filled_qty"],
        "filled_avg_price": average,
        "order_class": "",
        "order_type": row["type"],
        "type": row["type"],
        "side": row["side"],
        "time_in_force": row["tif"],
        "limit_price": row["limit_price"],
        "stop_price": row["stop_price"],
        "status": status,
        "extended_hours": bool(row["extended_hours"]),
        "legs": None,
        "trail_percent": None,
        "trail_price": None,
        "hwm": None,
        "subtag": None,
        "source": None,
    }


def fill(row: Mapping[str, Any], of: Mapping[str, Any]) -> Json:
    """An activity. It carries no client order id: the venue's does not."""
    left = Decimal(of["qty"]) - Decimal(row["cum_qty"])
    return {
        "id": row["id"],
        "activity_type": "FILL",
        "transaction_time": times.write_ns(row["at_ns"]),
        "type": "fill" if left <= 0 else "partial_fill",
        "price": row["price"],
        "qty": row["qty"],
        "side": row["side"],
        "symbol": of["symbol"],
        "leaves_qty": plain(max(Decimal(0), left)),
        "order_id": of["id"],
        "cum_qty": row["cum_qty"],
        "order_status": "filled" if left <= 0 else "partially_filled",
    }


def account(row: Mapping[str, Any], cash: Decimal, worth: Decimal, multiplier: int) -> Json:
    money = {name: plain(cash + worth) for name in ("equity", "last_equity", "portfolio_value")}
    return {
        "id": row["id"],
        "account_number": row["number"],
        "status": "ACTIVE",
        "crypto_status": "ACTIVE",
        "currency": "USD",
        "cash": plain(cash),
        **money,
        "buying_power": plain(max(Decimal(0), cash) * multiplier),
        "multiplier": str(multiplier),
        "shorting_enabled": bool(row["shorting"]),
        "pattern_day_trader": False,
        "trading_blocked": False,
        "transfers_blocked": False,
        "account_blocked": False,
        "trade_suspended_by_user": False,
    }


def position(symbol: str, qty: Decimal, price: Decimal) -> Json:
    is_coin = "/" in symbol
    value = plain(qty * price)
    return {
        "asset_id": asset_id(symbol),
        # Positions spell coins without the slash that orders have.
        "symbol": symbol.replace("/", ""),
        "exchange": "CRYPTO" if is_coin else "NASDAQ",
        "asset_class": "crypto" if is_coin else "us_equity",
        "avg_entry_price": plain(price),
        "qty": plain(qty),
        "qty_available": plain(qty),
        "side": "long" if qty > 0 else "short",
        "market_value": value,
        "cost_basis": value,
        "current_price": plain(price),
    }


def asset(row: Mapping[str, Any]) -> Json:
    is_coin = row["class"] == "crypto"
    shared = {
        "id": asset_id(row["symbol"]),
        "class": row["class"],
        "exchange": "CRYPTO" if is_coin else "NASDAQ",
        "symbol": row["symbol"],
        "name": row["symbol"],
        "status": "active" if row["tradable"] else "inactive",
        "tradable": bool(row["tradable"]),
        "marginable": not is_coin,
        "shortable": bool(row["shortable"]) and not is_coin,
        "easy_to_borrow": bool(row["shortable"]) and not is_coin,
        "fractionable": bool(row["fractionable"]),
    }
    if not is_coin:
        return shared
    return shared | {
        "min_order_size": "0.0001",
        "min_trade_increment": "0.000000001",
        "price_increment": "0.000000001",
    }


def clock(now: int, *, is_open: bool) -> Json:
    hour = 3_600 * 1_000_000
    return {
        "timestamp": times.write(now),
        "is_open": is_open,
        "next_open": times.write(now + (24 if is_open else 12) * hour),
        "next_close": times.write(now + (6 if is_open else 18) * hour),
    }


def latest_trade(row: Mapping[str, Any], at: int) -> Json:
    return {"t": times.write(at), "x": "V", "p": float(row["price"]), "s": 100, "c": ["@"], "i": 1, "z": "C"}


def latest_quote(row: Mapping[str, Any], at: int) -> Json:
    price = float(row["price"])
    return {"t": times.write(at), "ax": "V", "ap": price, "as": 1, "bx": "V", "bp": price, "bs": 1, "z": "C"}
