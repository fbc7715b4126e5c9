"""The paper exchange's book: orders, fills, cash and prices in a SQLite file of its own.

Synchronous, for the exchange's one thread. It never touches the ledger, never answers before its COMMIT has
returned, and never takes a failed COMMIT for an undone one (HOLES H42).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import apsw

from app.brokers.base import (
    Account,
    BrokerOrder,
    DuplicateId,
    Fill,
    HeldBack,
    LastCheck,
    LookupFailed,
    OrderRequest,
    Placed,
    Refused,
    Snapshot,
    SubmitReply,
    Unknown,
    Unsent,
)
from app.brokers.paper_file import open_paper_file
from app.brokers.paper_match import (
    EXACT,
    ROUNDED,
    FillMode,
    fault_of,
    is_usable,
    next_piece,
    opening_part,
)
from app.brokers.paper_rows import (
    FILL_COLUMNS,
    ORDER_COLUMNS,
    ZERO,
    PaperOrder,
    fill_from_row,
    new_order,
    order_from_row,
    rfc3339,
    row_from_order,
)
from app.brokers.paper_store import CommitInDoubt, PaperStore
from app.clock import Clock
from app.domain.number import plain
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side, TimeInForce

FEE = "0"
"""The paper exchange takes no fee."""
_OPEN = "status IN ('New', 'PartiallyFilled')"


class _NoOrder(Exception):
    """Ends a submit whose answer is not an order; nothing is written."""

    def __init__(self, reply: SubmitReply) -> None:
        super().__init__(reply)
        self.reply = reply


class PaperBook:
    """The open file. Methods raise LookupFailed where it does not answer; `submit` replies instead."""

    def __init__(self, path: Path, clock: Clock, vfs: str | None = None) -> None:
        """Opens or makes the file; raises PaperBookRefused."""
        self._store = PaperStore(open_paper_file(path, vfs))
        self._clock = clock
        self._touched: set[str] = set()
        self.id: str = self._store.row("SELECT id FROM exchange")[0]

    def close(self) -> None:
        self._store.close()

    @property
    def has_touched(self) -> bool:
        return bool(self._touched)

    def take_touched(self) -> set[str]:
        """The accounts whose orders have changed since the last call, beyond what replies have said."""
        touched, self._touched = self._touched, set()
        return touched

    # ------------------------------------------------------------------ what changes the book

    def open_account(self, name: str, cash: Decimal) -> Account:
        """Makes the account on first sight. A `cash` unlike the last one pays the difference in or out."""

        def work() -> None:
            rows = self._store.rows("SELECT paid_in, cash FROM accounts WHERE name = ?", name)
            if not rows:
                self._store.rows(
                    "INSERT INTO accounts (name, identity, paid_in, cash, opened_at) VALUES (?, ?, ?, ?, ?)",
                    *(name, str(uuid.uuid4()), plain(cash), plain(cash), self._clock.now()),
                )
                return
            paid_in, held = map(Decimal, rows[0])
            if paid_in != cash:
                held = EXACT.add(held, EXACT.subtract(cash, paid_in))
                self._store.rows(
                    "UPDATE accounts SET paid_in = ?, cash = ? WHERE name = ?", plain(cash), plain(held), name
                )

        self._change("paper_account", work)
        return self.account(name)

    def submit(
        self, account: str, request: OrderRequest, mode: FillMode, last_check: LastCheck
    ) -> SubmitReply:
        """Takes one order. `last_check` runs when the write lock is held, right before the first write.

        An error before COMMIT is rolled back and answered Unsent; an error of COMMIT is Unknown.
        """

        def work() -> SubmitReply:
            last_check()
            return Placed(self._take(account, request, mode).shown())

        try:
            return self._store.write("paper", work)
        except HeldBack as held:
            return Unsent(held.reason)
        except _NoOrder as answer:
            return answer.reply
        except CommitInDoubt as error:
            return Unknown(f"paper exchange: COMMIT failed: {error}")
        except (apsw.Error, LookupFailed) as error:
            return Unsent(f"paper exchange: {error}")

    def cancel(self, account: str, client_order_id: str) -> None:
        """Cancels the order if it is still open; one that is not there or has ended stays as it is."""

        def work() -> None:
            canceled = self._store.change(
                "UPDATE orders SET status = 'Canceled', due_price = NULL "
                f"WHERE account = ? AND client_order_id = ? AND {_OPEN}",
                *(account, client_order_id),
            )
            if canceled:
                self._touched.add(account)

        self._change("paper_cancel", work)

    def show_price(self, symbol: str, price: Decimal) -> None:
        """Keeps the symbol's last price and lets it fill what rests."""
        if not is_usable(price):
            raise ValueError(f"not a price: {price}")
        self._change("paper_price", partial(self._show, symbol, price))

    def fill_due(self) -> None:
        """One fill for each order that is owed one, each in a transaction of its own."""
        for order in self._store.read(lambda: self._orders("due_price IS NOT NULL")):
            piece = next_piece(order.quantity, order.filled_quantity, order.fill_mode, order.tif)
            self._change("paper_fill", partial(self._fill, order, piece))

    def fill_all_due(self) -> None:
        """Fills all that is owed, to the end: at start, for what an interrupted run left."""
        while self.owes_fills():
            self.fill_due()

    # ------------------------------------------------------------------ looks

    def owes_fills(self) -> bool:
        return self._store.read(
            lambda: bool(self._store.rows("SELECT 1 FROM orders WHERE due_price IS NOT NULL LIMIT 1"))
        )

    def find(self, account: str, client_order_id: str) -> BrokerOrder | None:
        order = self._store.read(lambda: self._find(account, client_order_id))
        return None if order is None else order.shown()

    def account(self, name: str) -> Account:
        return self._store.read(lambda: self._account(name))

    def position(self, account: str, symbol: str) -> Decimal:
        return self._store.read(lambda: self._position(account, symbol))

    def quote(self, symbol: str) -> Decimal | None:
        return self._store.read(lambda: self._last_price(symbol))

    def fills(self, account: str, client_order_id: str) -> list[Fill]:
        return self._store.read(
            lambda: self._fills("o.account = ? AND o.client_order_id = ?", account, client_order_id)
        )

    def snapshot(self, account: str, since: int) -> Snapshot:
        """One moment of the book: this thread is its only writer, so nothing changes between these reads."""
        return self._store.read(
            lambda: Snapshot(
                account=self._account(account),
                positions=self._positions("account = ?", account),
                open_orders=[order.shown() for order in self._orders(f"account = ? AND {_OPEN}", account)],
                fills=self._fills("f.account = ? AND f.at >= ?", account, since),
                recent_orders=[
                    order.shown()
                    for order in self._orders("account = ? AND created_at >= ?", account, rfc3339(since))
                ],
                positions_before=self._positions("account = ?", account),
                clock_offset=0,
                pages=1,
                requests=1,
            )
        )

    def _change(self, place: str, work: Callable[[], None]) -> None:
        try:
            self._store.write(place, work)
        except (apsw.Error, CommitInDoubt) as error:
            raise LookupFailed(f"paper exchange: {error}") from error

    # ------------------------------------------------------------------ inside a transaction

    def _take(self, account: str, request: OrderRequest, mode: FillMode) -> PaperOrder:
        known = self._find(account, request.client_order_id)
        if known is not None:
            raise _NoOrder(DuplicateId(f"client order id already used by order {known.id}"))
        fault = fault_of(request)
        if fault is not None:
            raise _NoOrder(Refused("INVALID_ORDER", fault))
        symbol = request.instrument
        if request.reference_price is not None:
            self._show(symbol, request.reference_price)
        price = self._last_price(symbol)
        if price is None and request.type is OrderType.MARKET:
            raise _NoOrder(Refused("NO_PRICE", f"no price was ever shown for {symbol}"))

        sequence = self._store.row("SELECT coalesce(max(sequence), 0) + 1 FROM orders")[0]
        order = new_order(self.id, sequence, account, request, mode, self._clock.now())
        if price is not None:
            order = order.after(price)
        if order.due_price is None and order.tif in (TimeInForce.IOC, TimeInForce.FOK):
            order = order._replace(status=OrdStatus.CANCELED)
        else:
            self._check_funds(order)
        marks = ", ".join("?" * len(PaperOrder._fields))
        self._store.rows(f"INSERT INTO orders ({ORDER_COLUMNS}) VALUES ({marks})", *row_from_order(order))
        return self._fill_at_once(order)

    def _show(self, symbol: str, price: Decimal) -> None:
        self._store.rows(
            "INSERT INTO prices (symbol, price, shown_at) VALUES (?, ?, ?) "
            "ON CONFLICT (symbol) DO UPDATE SET price = excluded.price, shown_at = excluded.shown_at",
            *(symbol, plain(price), self._clock.now()),
        )
        for resting in self._orders(f"symbol = ? AND due_price IS NULL AND {_OPEN}", symbol):
            order = resting.after(price)
            if order == resting:
                continue
            self._store.rows(
                "UPDATE orders SET triggered = ?, due_price = ? WHERE id = ?",
                int(order.is_stop_reached),
                None if order.due_price is None else plain(order.due_price),
                order.id,
            )
            self._fill_at_once(order)

    def _fill_at_once(self, order: PaperOrder) -> PaperOrder:
        """The order as it stands after the fill that `instant` makes inside this transaction."""
        if order.due_price is not None and order.fill_mode is FillMode.INSTANT:
            self._fill(order, order.leaves)
        (order,) = self._orders("id = ?", order.id)
        return order

    def _fill(self, order: PaperOrder, quantity: Decimal) -> None:
        """One fill at the price that is due, with its cash. A buy that cash no longer covers is canceled.

        Does nothing where the order is no longer as it was read: another program on this file was quicker.
        """
        price = order.due_price
        assert price is not None
        standing = [(now.status, now.filled_quantity) for now in self._orders("id = ?", order.id)]
        if standing != [(order.status, order.filled_quantity)]:
            return
        self._touched.add(order.account)
        cost = EXACT.multiply(quantity, price)
        cash = self._cash(order.account)
        if order.side is Side.BUY and cost > cash:
            position = self._position(order.account, order.symbol)
            if opening_part(order.side, quantity, position) > 0:
                self._store.rows(
                    "UPDATE orders SET status = 'Canceled', due_price = NULL, reason = ? WHERE id = ?",
                    *(f"INSUFFICIENT_FUNDS cash={plain(cash)} cost={plain(cost)}", order.id),
                )
                return
        earlier = self._fills("f.order_id = ?", order.id)
        self._store.rows(
            "INSERT INTO fills (account, exec_id, order_id, symbol, side, quantity, price, fee, at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(order.account, f"{order.id}-{len(earlier) + 1}", order.id, order.symbol, order.side.value),
            *(plain(quantity), plain(price), FEE, self._clock.now()),
        )
        self._add_to_position(order.account, order.symbol, order.side, quantity)
        filled = EXACT.add(order.filled_quantity, quantity)
        paid = cost
        for fill in earlier:
            paid = EXACT.add(paid, EXACT.multiply(fill.quantity, fill.price))
        is_done = filled == order.quantity
        self._store.rows(
            "UPDATE orders SET filled_quantity = ?, average_price = ?, status = ?, due_price = ? "
            "WHERE id = ?",
            plain(filled),
            plain(ROUNDED.divide(paid, filled)),
            (OrdStatus.FILLED if is_done else OrdStatus.PARTIALLY_FILLED).value,
            None if is_done else plain(price),
            order.id,
        )
        left = EXACT.subtract(cash, cost) if order.side is Side.BUY else EXACT.add(cash, cost)
        self._store.rows("UPDATE accounts SET cash = ? WHERE name = ?", plain(left), order.account)

    def _check_funds(self, order: PaperOrder) -> None:
        """Refuses a buy that opens what cash does not cover, with what open buys will take set aside.

        A buy that only covers a short is an exit and needs no cash.
        """
        if order.side is not Side.BUY:
            return
        position = self._position(order.account, order.symbol)
        free = self._cash(order.account)
        for other in self._orders(f"account = ? AND side = 'buy' AND {_OPEN}", order.account):
            free = EXACT.subtract(free, EXACT.multiply(other.leaves, other.estimate))
            if other.symbol == order.symbol:
                position = EXACT.add(position, other.leaves)
        cost = EXACT.multiply(order.quantity, order.estimate)
        if opening_part(order.side, order.quantity, position) > 0 and cost > free:
            raise _NoOrder(Refused("INSUFFICIENT_FUNDS", f"cost={plain(cost)} free={plain(free)}"))

    # ------------------------------------------------------------------ rows

    def _orders(self, where: str, *bindings: str | int) -> list[PaperOrder]:
        rows = self._store.rows(
            f"SELECT {ORDER_COLUMNS} FROM orders WHERE {where} ORDER BY sequence", *bindings
        )
        return [order_from_row(row) for row in rows]

    def _find(self, account: str, client_order_id: str) -> PaperOrder | None:
        found = self._orders("account = ? AND client_order_id = ?", account, client_order_id)
        return found[0] if found else None

    def _fills(self, where: str, *bindings: str | int) -> list[Fill]:
        rows = self._store.rows(
            f"SELECT {FILL_COLUMNS} FROM fills f JOIN orders o ON o.id = f.order_id "
            f"WHERE {where} ORDER BY f.at, f.rowid",
            *bindings,
        )
        return [fill_from_row(row) for row in rows]

    def _last_price(self, symbol: str) -> Decimal | None:
        rows = self._store.rows("SELECT price FROM prices WHERE symbol = ?", symbol)
        return Decimal(rows[0][0]) if rows else None

    def _cash(self, account: str) -> Decimal:
        rows = self._store.rows("SELECT cash FROM accounts WHERE name = ?", account)
        if not rows:
            raise LookupFailed(f"paper exchange: no account {account}")
        return Decimal(rows[0][0])

    def _add_to_position(self, account: str, symbol: str, side: Side, quantity: Decimal) -> None:
        signed = quantity if side is Side.BUY else EXACT.minus(quantity)
        self._store.rows(
            "INSERT INTO positions (account, symbol, quantity) VALUES (?, ?, ?) "
            "ON CONFLICT (account, symbol) DO UPDATE SET quantity = excluded.quantity",
            *(account, symbol, plain(EXACT.add(self._position(account, symbol), signed))),
        )

    def _position(self, account: str, symbol: str) -> Decimal:
        return self._positions("account = ? AND symbol = ?", account, symbol).get(symbol, ZERO)

    def _positions(self, where: str, *bindings: str) -> dict[str, Decimal]:
        """Signed and by symbol; what is zero is left out."""
        rows = self._store.rows(f"SELECT symbol, quantity FROM positions WHERE {where}", *bindings)
        return {symbol: position for symbol, position in ((s, Decimal(q)) for s, q in rows) if position}

    def _account(self, name: str) -> Account:
        cash = equity = self._cash(name)
        identity = self._store.row("SELECT identity FROM accounts WHERE name = ?", name)[0]
        for symbol, position in self._positions("account = ?", name).items():
            equity = EXACT.add(equity, EXACT.multiply(position, self._last_price(symbol) or ZERO))
        return Account(identity=identity, endpoint=f"paper:{self.id}", cash=cash, equity=equity)
