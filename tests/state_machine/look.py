"""What must hold of a ledger and an exchange at every moment, read with plain SQL (DESIGN 1)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

from app.domain.order import EDGES, State
from app.ledger.needs import needs
from app.ledger.reader import open_read_only, read
from app.ledger.store import broken_chain
from tests.state_machine.model import Model

D = Decimal
SOURCE = "tv-id"

_HELD_UP = """o.state = 'PENDING' AND EXISTS (
    SELECT 1 FROM orders n WHERE n.state = 'NEEDS_OPERATOR' AND n.account = o.account
    AND n.instrument = o.instrument
)"""
_OVER = "o.state IN ('DONE', 'DENIED', 'NOT_PLACED', 'NEEDS_OPERATOR')"
_UNSETTLED = f"SELECT count(*) FROM orders o WHERE NOT {_OVER} AND NOT ({_HELD_UP})"
_RESTS = "o.state = 'WORKING' AND o.type = 'limit' AND o.cancel_requested = 0"


def is_quiet(connection: apsw.Connection) -> bool:
    """Whether nothing is to come without a person."""
    return read(connection, f"{_UNSETTLED} LIMIT 1") == [{"count(*)": 0}]


def is_quiet_but_for_resting(connection: apsw.Connection) -> bool:
    """The same, without what rests at the exchange."""
    return read(connection, f"{_UNSETTLED} AND NOT ({_RESTS}) LIMIT 1") == [{"count(*)": 0}]


def nothing_is_submitting(connection: apsw.Connection) -> bool:
    return read(connection, "SELECT 1 FROM orders WHERE state = 'SUBMITTING' LIMIT 1") == []


@dataclass(frozen=True)
class Sent:
    """For whom a client order id was made."""

    key: str
    account: str
    strategy: str
    by_person: bool


class Seen:
    """What was ever seen, over restores too: whose each client order id is."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.sent: dict[str, Sent] = {}
        self._keys: dict[tuple[int, int], str] = {}
        """By the claim's number and time: its key, which a purge takes from the ledger."""

    def check_ledger(self, connection: apsw.Connection, model: Model) -> None:
        for row in read(connection, "SELECT * FROM claims WHERE forgotten_at IS NULL"):
            self._keys[row["id"], row["admitted_at"]] = row["key"]
        sql = "SELECT o.*, c.admitted_at, c.source_id AS by FROM orders o JOIN claims c ON c.id = o.claim_id"
        orders = read(connection, sql)
        self.orders = [f"O{row['id']}" for row in orders]
        for row in orders:
            key = self._keys[row["claim_id"], row["admitted_at"]]
            sent = Sent(key, row["account"], row["strategy"], row["by"] != SOURCE)
            if row["client_order_id"] is not None:
                self.sent.setdefault(row["client_order_id"], sent)
        _one_order_an_intent(orders)
        assert keys(connection) == set(model.ledger.known), "every acknowledged key, and no other"
        lost = "SELECT key FROM claims WHERE id NOT IN (SELECT claim_id FROM orders)"
        assert read(connection, lost) == [], "a key without an order"
        _books_are_their_fills(connection, model)
        _every_move_is_legal(connection, orders)
        assert broken_chain(connection) is None

    def key_of(self, connection: apsw.Connection, claim: int) -> str:
        (row,) = read(connection, "SELECT * FROM claims WHERE id = ?", (claim,))
        return self._keys.get((claim, row["admitted_at"])) or str(row["key"])

    def check_exchange(self, paper: list[dict[str, Any]], model: Model) -> None:
        """No id twice, none that the ledger never wrote, and of no key more than it asked for."""
        ours = [row for row in paper if not row["client_order_id"].startswith("hand-")]
        ids = Counter(row["client_order_id"] for row in ours)
        assert set(ids.values()) <= {1}, "one client order id twice"
        assert set(ids) <= set(self.sent), "an order that no ledger ever wrote"
        bought: Counter[tuple[str, str]] = Counter()
        sold: Counter[tuple[str, str]] = Counter()
        net: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for row in ours:
            whose, filled = self.sent[row["client_order_id"]], D(row["filled_quantity"])
            assert filled <= D(row["quantity"])
            most = D(row["quantity"]) if row["status"] in ("New", "PartiallyFilled") else filled
            (bought if row["side"] == "buy" else sold)[whose.key, whose.account] += int(most)
            net[whose.strategy, whose.account] += filled if row["side"] == "buy" else -filled
        for (key, _), quantity in bought.items():
            assert quantity <= model.may_buy.get(key, 0), f"{key} bought more than it asked for"
        for (key, _), quantity in sold.items():
            limit = model.may_sell.get(key)
            assert limit is None or quantity <= limit, f"{key} sold more than it asked for"
        for (strategy, _), held in net.items():
            assert held <= model.asked[strategy], f"{strategy} holds more than was ever asked for"
            assert held >= 0 or strategy in model.doubtful, f"{strategy} sold what was not its own"

    def check_sends(self, left: Counter[str], model: Model) -> None:
        """What may have left is sent again by a person's word alone."""
        for cid, times in left.items():
            if times > 1:
                assert times <= 1 + model.replays[self.sent[cid].key], f"{self.sent[cid]} was sent again"


def keys(connection: apsw.Connection) -> set[str]:
    sql = "SELECT key FROM claims WHERE forgotten_at IS NULL AND source_id = ?"
    return {row["key"] for row in read(connection, sql, (SOURCE,))}


def watermark(connection: apsw.Connection) -> int | None:
    (row,) = read(connection, "SELECT watermark FROM sources WHERE id = ?", (SOURCE,))
    found: int | None = row["watermark"]
    return found


def paper_orders(home: Path) -> list[dict[str, Any]]:
    with closing(open_read_only(home / "paper.sqlite3")) as connection:
        return read(connection, "SELECT * FROM orders ORDER BY id")


def is_told(connection: apsw.Connection, name: str, now: int) -> bool:
    return name in {need.subject for need in needs(connection, now)}


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
        assert net <= model.asked[name[3]], f"the book of {name[3]} exceeds what was ever asked for"
        assert net >= 0 or name[3] in model.doubtful, f"the book of {name[3]} is below nothing"


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
    rows = read(connection, sql)
    for row in rows:
        over = row["state"] in ("DONE", "DENIED", "NOT_PLACED")
        assert over or row["waits"] or row["name"] in told, row
    needy = {row["name"] for row in rows if row["state"] == "NEEDS_OPERATOR"}
    assert needy <= told


def everything_is_booked(connection: apsw.Connection, paper: list[dict[str, Any]]) -> None:
    """What the exchange did of an order that the ledger knows is in the ledger, or a person is asked."""
    known = {row["client_order_id"]: row for row in read(connection, "SELECT * FROM orders")}
    for there in paper:
        row = known.get(there["client_order_id"])
        if row is not None and row["state"] != "NEEDS_OPERATOR":
            assert row["state"] in ("WORKING", "DONE"), f"placed, and {row['state']} here"
            assert D(row["filled_quantity"]) == D(there["filled_quantity"]), "filled, and not booked"
