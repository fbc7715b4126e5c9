"""The simulated exchange's book: it takes orders, fills and ends them, and knows what every account holds.

Blocking; used by one thread. Nothing here knows of faults: what is in the file did happen.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.clock import Clock
from app.drill import entry, times
from app.drill.entry import OPEN, Order, Rejected, Standing
from app.drill.rules import Rules
from app.drill.store import Store

ZERO = Decimal(0)
Row = dict[str, Any]
OPEN_SQL = f"status IN ({', '.join(repr(status) for status in OPEN)})"


class Book:
    def __init__(self, path: Path, clock: Clock, rules: Rules) -> None:
        self._clock = clock
        self.rules = rules
        self.store = Store(path, self.now())
        self._in_this_start = 0
        newest = self.store.row("SELECT max(updated_ns) AS ns FROM orders")
        self._last_ns = (newest or {}).get("ns") or 0

    def close(self) -> None:
        self.store.close()

    def now(self) -> int:
        return self._clock.now() + self.rules.skew

    def _stamp(self) -> int:
        """Nanoseconds; no two events share one, or paging by time would lose orders."""
        self._last_ns = max(self.now() * 1_000, self._last_ns + 1_000)
        return self._last_ns

    # ------------------------------------------------------------------------------- accounts and symbols

    def add_account(self, number: str, key_id: str, secret: str, cash: str, *, shorting: bool = True) -> None:
        """An account that is there already gets the key as well, and keeps what it has."""
        store = self.store
        with store.writing():
            if store.row("SELECT 1 FROM accounts WHERE number = ?", number) is None:
                identity = str(uuid.uuid4())
                store.insert("accounts", number=number, id=identity, cash=cash, shorting=int(shorting))
            if store.row("SELECT 1 FROM keys WHERE key_id = ?", key_id) is not None:
                store.update("keys", "key_id", key_id, secret=secret, account=number)
            else:
                store.insert("keys", key_id=key_id, secret=secret, account=number)

    def account_of(self, key_id: str, secret: str) -> str | None:
        row = self.store.row("SELECT account FROM keys WHERE key_id = ? AND secret = ?", key_id, secret)
        return str(row["account"]) if row else None

    def add_asset(
        self,
        symbol: str,
        price: str,
        *,
        tradable: bool = True,
        shortable: bool = True,
        fractionable: bool = True,
    ) -> None:
        """A symbol with a slash is a coin."""
        flags = {"tradable": int(tradable), "shortable": int(shortable), "fractionable": int(fractionable)}
        kind = "crypto" if "/" in symbol else "us_equity"
        with self.store.writing():
            if self.asset(symbol) is None:
                more = {"class": kind}
                self.store.insert("assets", symbol=symbol, price=price, price_at=self.now(), **more, **flags)
            else:
                self.store.update("assets", "symbol", symbol, price=price, price_at=self.now(), **flags)

    def asset(self, symbol: str) -> Row | None:
        return self.store.row("SELECT * FROM assets WHERE symbol = ?", symbol)

    def set_price(self, symbol: str, price: str) -> None:
        """The market moves; what it reaches fills."""
        with self.store.writing():
            self.store.update("assets", "symbol", symbol, price=price, price_at=self.now())
            self._match_all(symbol)

    def open_session(self, is_open: bool) -> None:
        self.rules.is_open = is_open
        with self.store.writing():
            for asset in self.store.rows("SELECT symbol FROM assets"):
                self._match_all(asset["symbol"])

    # -------------------------------------------------------------------------------------- taking orders

    def submit(self, account: str, body: Mapping[str, Any], *, origin: str = "api") -> Row:
        """Takes an order, or returns the one that was taken under its id (class A). Raises Rejected."""
        digest = hashlib.sha256(repr(sorted(body.items())).encode()).hexdigest()
        with self.store.writing():
            self._check_expiry(body)
            order = entry.read_order(body, str(uuid.uuid4()))
            known = self._known(account, order.client_order_id, digest)
            if known is not None:
                return known
            asset = self.asset(order.symbol)
            entry.check_terms(order, asset)
            assert asset is not None
            entry.check_standing(order, asset, self._standing(account, order.symbol))
            row = self._insert(account, order, digest, origin)
            if self.rules.filling == "in_reply":
                self._match(row)
            return self.order(row["seq"])

    def match_later(self, seq: int) -> None:
        """The order's own turn in the market, after its answer."""
        if self.rules.filling != "by_hand":
            with self.store.writing():
                self._match(self.order(seq))

    def _known(self, account: str, client_order_id: str, digest: str) -> Row | None:
        sql = "SELECT * FROM orders WHERE account = ? AND client_order_id = ? ORDER BY seq"
        before = self.store.rows(sql, account, client_order_id)
        if not before:
            return None
        if self.rules.id_class == "A":
            return before[0]
        refused = {
            "B": True,
            "C": any(row["status"] in OPEN for row in before),
            "D": any(row["body_digest"] == digest for row in before),
            "E": False,
        }
        if refused[self.rules.id_class]:
            raise entry.duplicate_id()
        return None

    def _check_expiry(self, body: Mapping[str, Any]) -> None:
        name = self.rules.expiry_field
        if name is None or body.get(name) is None:
            return
        if self.now() > times.read_moment(str(body[name])):
            raise Rejected(entry.UNPROCESSABLE, entry.NOT_IN_STATE, "request expired before it arrived")

    def _standing(self, account: str, symbol: str) -> Standing:
        row = self.store.row("SELECT * FROM accounts WHERE number = ?", account)
        assert row is not None
        sql = f"SELECT * FROM orders WHERE account = ? AND symbol = ? AND {OPEN_SQL} ORDER BY seq"
        return Standing(
            position=self.position(account, symbol),
            cash=self.cash(account),
            buying_power=self.rules.buying_power,
            shorting=bool(row["shorting"]),
            open_orders=self.store.rows(sql, account, symbol),
        )

    def _insert(self, account: str, order: Order, digest: str, origin: str) -> Row:
        ns = self._stamp()
        self._in_this_start += 1
        seq = self.store.insert(
            "orders",
            id=str(self._in_this_start) if self.rules.counts_ids else str(uuid.uuid4()),
            start=self.store.start,
            account=account,
            client_order_id=order.client_order_id,
            origin=origin,
            symbol=order.symbol,
            side=order.side,
            qty=order.qty,
            type=order.type,
            limit_price=order.limit_price,
            stop_price=order.stop_price,
            tif=order.tif,
            extended_hours=int(order.extended_hours),
            status="new" if self._trades(order.symbol, order.extended_hours) else "accepted",
            filled_qty="0",
            filled_value="0",
            stop_reached=0,
            created_ns=ns,
            updated_ns=ns,
            body_digest=digest,
        )
        return self.order(seq)

    def order(self, seq: int) -> Row:
        row = self.store.row("SELECT * FROM orders WHERE seq = ?", seq)
        assert row is not None
        return row

    def by_client_id(self, client_order_id: str, account: str | None = None) -> Row:
        """The newest under this id. Raises LookupError."""
        sql = "SELECT * FROM orders WHERE client_order_id = ? AND account = coalesce(?, account)"
        row = self.store.row(f"{sql} ORDER BY seq DESC", client_order_id, account)
        if row is None:
            raise LookupError(f"no order under {client_order_id}")
        return row

    # ------------------------------------------------------------------------------------------- matching

    def _trades(self, symbol: str, extended_hours: bool = False) -> bool:
        return self.rules.is_open or extended_hours or "/" in symbol

    def _match_all(self, symbol: str) -> None:
        sql = f"SELECT * FROM orders WHERE symbol = ? AND {OPEN_SQL} ORDER BY seq"
        for row in self.store.rows(sql, symbol):
            if self.rules.filling != "by_hand" or row["type"] != "market":
                self._match(row)

    def _match(self, row: Row) -> None:
        """Fills what is left of an order if the market is there; what cannot wait ends."""
        if row["status"] not in OPEN or not self._trades(row["symbol"], bool(row["extended_hours"])):
            return
        asset = self.asset(row["symbol"])
        assert asset is not None
        price, sign = Decimal(asset["price"]), 1 if row["side"] == "buy" else -1
        reached = bool(row["stop_reached"])
        if row["stop_price"] is not None and not reached:
            reached = (price - Decimal(row["stop_price"])) * sign >= 0
            if reached:
                self.store.update("orders", "seq", row["seq"], stop_reached=1)
        fits = row["limit_price"] is None or (Decimal(row["limit_price"]) - price) * sign >= 0
        if fits and (row["stop_price"] is None or reached):
            self._fill(row, Decimal(row["qty"]) - Decimal(row["filled_qty"]), price)
        elif row["tif"] in ("ioc", "fok"):
            self._end(row, "canceled")

    def _fill(self, row: Row, qty: Decimal, price: Decimal) -> None:
        ns = self._stamp()
        filled = Decimal(row["filled_qty"]) + qty
        value = Decimal(row["filled_value"]) + qty * price
        fill = self.store.insert(
            "fills",
            id=f"{ns}::{uuid.uuid4()}",
            account=row["account"],
            order_seq=row["seq"],
            side=row["side"],
            qty=qty,
            price=price,
            cum_qty=filled,
            at_ns=ns,
        )
        sign = 1 if row["side"] == "buy" else -1
        self._move(row["account"], row["symbol"], qty * sign, price, fill)
        done = filled >= Decimal(row["qty"])
        still_open = row["status"] in OPEN
        status = "filled" if done else "partially_filled" if still_open else row["status"]
        self.store.update(
            "orders",
            "seq",
            row["seq"],
            filled_qty=filled,
            filled_value=value,
            status=status,
            updated_ns=ns,
            ended_at=self.now() if done else row["ended_at"],
        )

    def _end(self, row: Row, status: str) -> None:
        self.store.update(
            "orders", "seq", row["seq"], status=status, updated_ns=self._stamp(), ended_at=self.now()
        )

    def _move(self, account: str, symbol: str, qty: Decimal, price: Decimal, fill: int | None) -> None:
        self.store.insert(
            "movements", account=account, symbol=symbol, qty=qty, price=price, at=self.now(), fill_seq=fill
        )

    # ---------------------------------------------------------------------------- what a drill makes happen

    def fill(self, client_order_id: str, qty: str | None = None, price: str | None = None) -> None:
        """Fills so much of an order (all that is left), also of one that has ended: a late fill."""
        with self.store.writing():
            row = self.by_client_id(client_order_id)
            asset = self.asset(row["symbol"])
            assert asset is not None
            left = Decimal(row["qty"]) - Decimal(row["filled_qty"])
            self._fill(row, left if qty is None else Decimal(qty), Decimal(price or asset["price"]))

    def end(self, client_order_id: str, status: str) -> None:
        """The venue itself ends an order: canceled, expired or rejected."""
        with self.store.writing():
            self._end(self.by_client_id(client_order_id), status)

    def end_of_day(self) -> None:
        with self.store.writing():
            for row in self.store.rows(f"SELECT * FROM orders WHERE tif = 'day' AND {OPEN_SQL}"):
                self._end(row, "expired")

    def by_hand(self, account: str, body: Mapping[str, Any]) -> Row:
        """An order of a person's or another program's, past Onefill; filled at once where the market is."""
        row = self.submit(account, body, origin="hand")
        with self.store.writing():
            self._match(self.order(row["seq"]))
        return self.order(row["seq"])

    def twin(self, client_order_id: str) -> Row:
        """A second order under the same client id, as no venue should have it."""
        with self.store.writing():
            row = self.by_client_id(client_order_id)
            copy = {name: value for name, value in row.items() if name != "seq"}
            ns = self._stamp()
            copy |= {"id": str(uuid.uuid4()), "created_ns": ns, "updated_ns": ns, "origin": "twin"}
            return self.order(self.store.insert("orders", **copy))

    def move_outside(self, account: str, symbol: str, qty: str) -> None:
        """The position changes without an order: a transfer, a split, a liquidation."""
        asset = self.asset(symbol)
        assert asset is not None
        with self.store.writing():
            self._move(account, symbol, Decimal(qty), Decimal(asset["price"]), None)

    # -------------------------------------------------------------------------------------- what there is

    def cancel(self, account: str, order_id: str) -> Row:
        """Raises Rejected."""
        with self.store.writing():
            row = self.find(account, "id", order_id)
            if row is None:
                raise Rejected(404, entry.NOT_FOUND, f"order not found for {order_id}")
            if row["status"] not in OPEN:
                message = f'order is already in "{row["status"]}" state'
                raise Rejected(entry.UNPROCESSABLE, entry.NOT_IN_STATE, message)
            self._end(row, "canceled")
            return self.order(row["seq"])

    def find(self, account: str, name: str, value: str) -> Row | None:
        """The newest of an account under `id` or `client_order_id`."""
        sql = f"SELECT * FROM orders WHERE account = ? AND {name} = ? ORDER BY seq DESC"
        return self.store.row(sql, account, value)

    def position(self, account: str, symbol: str, until: int | None = None) -> Decimal:
        sql = "SELECT qty FROM movements WHERE account = ? AND symbol = ? AND at <= coalesce(?, at)"
        return sum((Decimal(row["qty"]) for row in self.store.rows(sql, account, symbol, until)), ZERO)

    def holdings(self, account: str, until: int | None = None) -> dict[str, Decimal]:
        symbols = self.store.rows("SELECT DISTINCT symbol FROM movements WHERE account = ?", account)
        found = {row["symbol"]: self.position(account, row["symbol"], until) for row in symbols}
        return {symbol: qty for symbol, qty in found.items() if qty}

    def cash(self, account: str) -> Decimal:
        row = self.store.row("SELECT cash FROM accounts WHERE number = ?", account)
        assert row is not None
        sql = "SELECT qty, price FROM movements WHERE account = ? AND fill_seq IS NOT NULL"
        spent = (Decimal(move["qty"]) * Decimal(move["price"]) for move in self.store.rows(sql, account))
        return Decimal(row["cash"]) - sum(spent, ZERO)

    def note(self, account: str, endpoint: str, client_order_id: str, outcome: str, answered: str) -> None:
        """Writes down an order or a cancel that came by the wire."""
        with self.store.writing():
            self.store.insert(
                "requests",
                at=self.now(),
                account=account,
                endpoint=endpoint,
                client_order_id=client_order_id,
                outcome=outcome,
                answered=answered,
            )
