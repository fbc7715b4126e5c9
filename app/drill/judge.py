"""Was anything doubled, lost or made up? `python -m app.drill.judge EXCHANGE-FILE HOME`

Reads only the exchange's book and the ledger's views, both at rest, and nothing of the program. An order of
the exchange is one that came by the wire; what a drill put there itself has another origin.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import apsw

Row = dict[str, Any]
ENDED = ("DONE", "NOT_PLACED", "DENIED", "NEEDS_OPERATOR")


def read(path: Path, sql: str) -> list[Row]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        connection.row_trace = lambda of, row: {c[0]: v for c, v in zip(of.description, row, strict=True)}
        return cast(list[Row], connection.execute(sql).fetchall())
    finally:
        connection.close()


def violations(exchange: Path, home: Path) -> list[str]:
    """What speaks against the master assertion, one line each."""
    ledger = home / "ledger.sqlite3"
    placed = read(exchange, "SELECT * FROM orders WHERE origin = 'api' ORDER BY seq")
    posts = read(exchange, "SELECT client_order_id AS id FROM requests WHERE endpoint = 'submit'")
    filled = read(
        exchange, "SELECT client_order_id AS id, f.qty FROM fills f JOIN orders o ON o.seq = order_seq"
    )
    signals = {row["id"] for row in read(ledger, "SELECT id FROM v_signals")}
    orders = read(ledger, "SELECT * FROM v_orders ORDER BY number")
    fills = read(ledger, "SELECT * FROM v_fills")
    moves = read(ledger, "SELECT subject, detail FROM v_events WHERE what = 'order moved'")
    sends = Counter(row["subject"] for row in moves if json.loads(row["detail"])["to"] == "SUBMITTING")
    by_id = {row["client_order_id"]: row for row in orders if row["client_order_id"]}
    there = {row["client_order_id"]: row for row in placed}
    found: list[str] = []

    # At most one order for each client order id, and for each leg of a signal.
    twice = Counter(row["client_order_id"] for row in placed)
    found += [f"DOUBLED {name}: {n} orders at the exchange" for name, n in twice.items() if n > 1]
    void = {n for n, row in there.items() if Decimal(row["filled_qty"]) == 0 and row["ended_at"] is not None}
    asked = [by_id[name] for name in there.keys() & by_id.keys() - void]
    legs = Counter((row["signal"], row["account"], row["leg"]) for row in asked)
    found += [f"DOUBLED {leg}: {n} orders at the exchange" for leg, n in legs.items() if n > 1]

    # Nothing at the exchange that the ledger does not know, nothing sent more often than it was decided.
    found += [f"UNKNOWN {name}: not in the ledger" for name in there.keys() - by_id.keys()]
    for name, n in Counter(row["id"] for row in posts).items():
        decided = sends[by_id[name]["id"]] if name in by_id else 0
        if n > decided:
            found.append(f"SENT_AGAIN {name}: {n} times, decided {decided} times")

    # Every acknowledged signal is there and has ended, or stands before a person.
    told = read(ledger, "SELECT signal, id FROM v_deliveries WHERE verdict IN ('accepted', 'duplicate')")
    lost = [row["id"] for row in told if row["signal"] not in signals]
    found += [f"LOST {name}: acknowledged, and its signal is not in the ledger" for name in lost]
    found += [f"LOST {name}: no order" for name in signals - {row["signal"] for row in orders}]
    for row in orders:
        at, state, reason = there.get(row["client_order_id"]), row["state"], row["reason"] or ""
        waits = state == "PENDING" and row["purpose"] == "exit" and reason.startswith("WAITING")
        if not (state in ENDED or waits or (state == "WORKING" and at is not None)):
            found.append(f"OPEN {row['id']}: is {state} {reason}")
        if at is not None and state in ("PENDING", "DENIED", "NOT_PLACED"):
            found.append(f"UNSEEN {row['id']}: is {state}, and the exchange has it {at['status']}")
        if state == "DONE" and row["client_order_id"] and (at is None or at["ended_at"] is None):
            found.append(f"MADE_UP {row['id']}: is DONE, and the exchange has it {at and at['status']}")

    # Fills agree, each booked once.
    theirs: dict[str, Decimal] = defaultdict(Decimal)
    ours: dict[str, Decimal] = defaultdict(Decimal)
    for row in filled:
        theirs[row["id"]] += Decimal(row["qty"])
    names = {row["id"]: row["client_order_id"] for row in orders}
    for row in fills:
        ours[names[row["order_id"]]] += Decimal(row["quantity"])
    for name, order in by_id.items():
        if theirs[name] != ours[name] and order["state"] != "NEEDS_OPERATOR":
            found.append(f"FILLS {name}: {theirs[name]} at the exchange, {ours[name]} in the ledger")
    return found


if __name__ == "__main__":
    lines = violations(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "nothing was doubled, lost or made up\n")
    sys.exit(1 if lines else 0)
