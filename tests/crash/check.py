"""Did every alert become at most one order, and was nothing lost? `python tests/crash/check.py HOME [ACKS]`

Reads the ledger's views and paper.sqlite3 of a home whose program is at rest, and nothing of the program.
ACKS has one JSON object a line, what a sender was told: key, status, answer, signal; and symbol, side,
quantity where no two keys share all three. `--in-flight`: the program died and was not started again since.
The claims S2 to S5 are those of tests/README.md; S1 cannot be seen from here (tests/crash/trace).
"""

import json
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

Row = dict[str, Any]
MOVES = {
    "PENDING": "SUBMITTING DENIED DONE NEEDS_OPERATOR",
    "SUBMITTING": "WORKING NOT_PLACED AMBIGUOUS PENDING DENIED NEEDS_OPERATOR",
    "AMBIGUOUS": "WORKING NOT_PLACED NEEDS_OPERATOR",
    "NEEDS_OPERATOR": "WORKING NOT_PLACED AMBIGUOUS",
    "WORKING": "DONE NEEDS_OPERATOR",
    "NOT_PLACED": "WORKING PENDING",
}


def read(path: Path, sql: str) -> list[Row]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


def violations(home: Path, acks: list[Row] | None = None, in_flight: bool = False) -> list[str]:
    """What speaks against S2 to S5, one line each."""
    acks = [ack for ack in acks or [] if ack["status"] == 200]
    paper = read(home / "paper.sqlite3", "SELECT * FROM orders")
    ledger = home / "ledger.sqlite3"
    signals = {row["id"]: row for row in read(ledger, "SELECT * FROM v_signals")}
    orders = read(ledger, "SELECT * FROM v_orders ORDER BY number")
    placed = {(row["account"], row["client_order_id"]): row for row in paper}
    moves = read(ledger, "SELECT subject, detail FROM v_events WHERE what = 'order moved' ORDER BY number")
    counted = read(ledger, "SELECT signal FROM v_deliveries WHERE verdict IN ('accepted', 'duplicate')")
    state, found = {row["id"]: "PENDING" for row in orders}, []

    # S2: what was answered 200 is in the ledger. S5: under one signal, accepted once, each time counted.
    lost = [ack for ack in acks if signals.get(ack["signal"], {}).get("key") != ack["key"]]
    found += [f"S2 {ack['key']}: answered 200 as {ack['signal']}, which the ledger lacks" for ack in lost]
    names = Counter(key for key, _ in {(ack["key"], ack["signal"]) for ack in acks})
    found += [f"S5 {key}: was answered with {n} signals" for key, n in names.items() if n > 1]
    accepted = Counter(ack["key"] for ack in acks if ack["answer"] == "accepted")
    found += [f"S5 {key}: was answered accepted {n} times" for key, n in accepted.items() if n > 1]
    rows, told = Counter(row["signal"] for row in counted), Counter(ack["signal"] for ack in acks)
    for name, row in signals.items():
        if not told[name] <= row["deliveries"] == rows[name]:
            found.append(f"S5 {name}: {told[name]} answers, {row['deliveries']} counted, {rows[name]} rows")

    # S3: one signal a key, one order a leg, one a key by what was asked for, none that the ledger lacks.
    keys = Counter((s["source"], s["key"]) for s in signals.values() if s["key_source"] != "window")
    found += [f"S3 {key}: {n} signals of one key" for key, n in keys.items() if n > 1]
    known = {(row["account"], row["client_order_id"]): row for row in orders}
    found += [f"S3 {name}: at the exchange and not in the ledger" for name in placed.keys() - known.keys()]
    # A replay after a cancel that left nothing filled is a second order of the leg, and no double.
    void = {n for n, row in placed.items() if row["status"] == "Canceled" and row["filled_quantity"] == "0"}
    legs = Counter((known[n]["signal"], n[0], known[n]["leg"]) for n in (placed.keys() & known.keys()) - void)
    found += [f"S3 {leg}: {n} orders at the exchange" for leg, n in legs.items() if n > 1]
    asked = {(ack["symbol"], ack["side"], ack["quantity"]): ack["key"] for ack in acks if "quantity" in ack}
    same = Counter((row["account"], (row["symbol"], row["side"], row["quantity"])) for row in paper)
    found += [f"S3 {asked[w]}: {n} orders of one key" for (_, w), n in same.items() if n > 1 and w in asked]

    # S3: each order went along the state table. S4: it ended, and as the exchange says.
    for move in moves:
        name, step = move["subject"], json.loads(move["detail"])
        if step["from"] != state.get(name) or step["to"] not in MOVES.get(step["from"], "").split():
            found.append(
                f"S3 {name}: moved from {step['from']} to {step['to']} when it was {state.get(name)}"
            )
        state[name] = step["to"]
    for row in orders:
        there, word = placed.get((row["account"], row["client_order_id"])), row["state"]
        filled = Decimal(there["filled_quantity"]) if there else Decimal(0)
        if word != state[row["id"]]:
            found.append(f"S3 {row['id']}: is {word}, and its events say {state[row['id']]}")
        unfit = word in ("PENDING", "DENIED", "NOT_PLACED") if there else word == "WORKING"
        if unfit or (word == "DONE" and filled != Decimal(row["filled_quantity"])):
            found.append(f"S4 {row['id']}: is {word}, and the exchange says otherwise")
        waits = word == "PENDING" and row["reason"]
        if word in ("PENDING", "SUBMITTING", "AMBIGUOUS") and not waits and not in_flight:
            found.append(f"S4 {row['id']}: is still {word}")
    return found


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:] if name != "--in-flight"]
    lines = files[1].read_text("utf-8").splitlines() if len(files) > 1 else []
    wrong = violations(files[0], [json.loads(line) for line in lines], "--in-flight" in sys.argv)
    print("\n".join(wrong) or "S2 to S5 hold")
    sys.exit(bool(wrong))
