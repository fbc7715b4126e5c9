"""What must hold of a ledger and an exchange at every moment, read with plain SQL."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

from app.domain.order import EDGES, State
from app.ledger.needs import needs
from app.ledger.reader import read
from app.ledger.store import broken_chain
from tests.state_machine.model import Model

D = Decimal

_HELD_UP = """o.state = 'PENDING' AND EXISTS (
    SELECT 1 FROM orders n WHERE n.state = 'NEEDS_OPERATOR' AND n.account = o.account
    AND n.instrument = o.instrument
)"""
_OVER = "o.state IN ('DONE', 'DENIED', 'NOT_PLACED', 'NEEDS_OPERATOR')"
UNSETTLED = f"SELECT count(*) FROM orders o WHERE NOT {_OVER} AND NOT ({_HELD_UP})"
"""Orders of which something is still to come without a person."""
BUSY = f"{UNSETTLED} AND NOT (o.state = 'WORKING' AND o.type = 'limit' AND o.cancel_requested = 0)"
"""The same, without those that rest at the exchange."""


class Seen:
    """What was ever seen, over restores too: whose key each client order id was sent for."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self._key_of: dict[str, str] = {}

    def check_ledger(self, connection: apsw.Connection, model: Model) -> None:
        orders = read(connection, "SELECT o.*, c.key FROM orders o JOIN claims c ON c.id = o.claim_id")
        self.orders = [f"O{row['id']}" for row in orders]
        for row in orders:
            if row["client_order_id"] is not None:
                self._key_of.setdefault(row["client_order_id"], row["key"])
        _one_order_an_intent(orders)
        assert keys(connection) == set(model.ledger.known), "every acknowledged key, and no other"
        _books_are_their_fills(connection, model)
        _every_move_is_legal(connection, orders)
        assert broken_chain(connection) is None

    def check_exchange(self, paper: list[dict[str, Any]], model: Model) -> None:
        """No id twice, none that the ledger never wrote, and of no key more than it asked for."""
        ids = Counter(row["client_order_id"] for row in paper)
        assert set(ids.values()) <= {1}
        assert set(ids) <= set(self._key_of), "an order that no ledger ever wrote"
        bought: Counter[str] = Counter()
        net = D(0)
        for row in paper:
            filled = D(row["filled_quantity"])
            net += filled if row["side"] == "buy" else -filled
            if row["side"] == "buy":
                bought[self._key_of[row["client_order_id"]]] += int(filled)
        for key, quantity in bought.items():
            assert quantity <= model.bought[key], f"{key} was placed again"
        assert 0 <= net <= sum(model.asked.values())


def keys(connection: apsw.Connection) -> set[str]:
    return {row["key"] for row in read(connection, "SELECT key FROM claims WHERE forgotten_at IS NULL")}


def paper_ids(home: Path) -> list[str]:
    connection = apsw.Connection(str(home / "paper.sqlite3"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [str(row[0]) for row in connection.execute("SELECT client_order_id FROM orders").fetchall()]
    finally:
        connection.close()


def _one_order_an_intent(orders: list[dict[str, Any]]) -> None:
    legs = Counter((row["claim_id"], row["account"], row["leg"], row["generation"]) for row in orders)
    assert set(legs.values()) <= {1}
    ids = Counter(row["client_order_id"] for row in orders if row["client_order_id"] is not None)
    assert set(ids.values()) <= {1}
    at_broker = Counter(row["broker_order_id"] for row in orders if row["broker_order_id"] is not None)
    assert set(at_broker.values()) <= {1}


def _books_are_their_fills(connection: apsw.Connection, model: Model) -> None:
    added: defaultdict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    sql = """SELECT o.account, o.instrument, o.source_id, o.strategy, f.side, f.quantity
        FROM fills f JOIN orders o ON o.id = f.order_id
        UNION ALL SELECT account, instrument, source_id, strategy, 'buy', quantity FROM adjustments"""
    fills: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    for *book, side, quantity in fills:
        added[tuple(book)] += D(quantity) if side == "buy" else -D(quantity)
    rows: list[tuple[Any, ...]] = connection.execute("SELECT * FROM books").fetchall()
    books = {row[:4]: D(row[4]) for row in rows}
    assert {name: net for name, net in books.items() if net} == {n: net for n, net in added.items() if net}
    for name, net in books.items():
        assert 0 <= net <= model.most_held(name[3]), f"the book of {name[3]}"


def _every_move_is_legal(connection: apsw.Connection, orders: list[dict[str, Any]]) -> None:
    at = {row["id"]: State.PENDING for row in orders}
    sql = "SELECT subject, detail FROM events WHERE what = 'order moved' ORDER BY id"
    moves: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    for subject, text in moves:
        number, detail = int(subject[1:]), json.loads(text)
        move = (State(detail["from"]), State(detail["to"]))
        assert move in EDGES
        assert move[0] is at[number], f"{subject} came from {move[0]}, and was {at[number]}"
        at[number] = move[1]
    assert at == {row["id"]: State(row["state"]) for row in orders}


def everything_is_told(connection: apsw.Connection, now: int) -> None:
    """Every order is over or stands in Needs you, itself or by what it waits for."""
    told = {need.subject for need in needs(connection, now)}
    sql = f"SELECT 'O' || o.id AS name, o.state, o.reason, {_HELD_UP} AS waits FROM orders o"
    for row in read(connection, sql):
        over = row["state"] in ("DONE", "DENIED", "NOT_PLACED")
        assert over or row["waits"] or row["name"] in told, row
    needy = {row["name"] for row in read(connection, sql) if row["state"] == "NEEDS_OPERATOR"}
    assert needy <= told
