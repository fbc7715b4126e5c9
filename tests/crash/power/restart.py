"""After a power cut: start on what is left, let recovery and resolver work, send all again, look.

What is wrong comes back as lines; no line, no complaint.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.brokers.paper import PaperBookRefused
from app.clock import SECOND
from app.domain.order import State
from app.engine.status import StartRefused
from app.ledger.store import broken_chain, open_ledger
from tests.crash.check import violations
from tests.crash.power.disk import Disk
from tests.crash.power.shop import ACCOUNTS, ALERTS, BEGAN, Alert, Shop, opened

States = dict[tuple[str, str], State | None]
Counts = Counter[tuple[str, str, str]]


async def restart(home: Path, answered: set[str], placed: set[str], disk: Disk | None = None) -> list[str]:
    """`answered` are keys with a 200, `placed` client order ids that the exchange confirmed, both before the
    cut. With a disk the restart is recorded in its turn."""
    try:
        async with opened(home, BEGAN + 5 * SECOND, disk) as shop:
            possible, wrong = await _watched(shop, home, answered, placed, disk)
    except (StartRefused, PaperBookRefused) as error:
        return [f"the start was refused: {error}"]
    return wrong + await asyncio.to_thread(_at_rest, home, possible)


async def _watched(
    shop: Shop, home: Path, answered: set[str], placed: set[str], disk: Disk | None
) -> tuple[bool, list[str]]:
    states, counts = await _states(shop), _at_exchange(home)
    kept = {row["key"] for row in await shop.desk.reader.rows("SELECT key FROM v_signals")}
    wrong = [f"S2 {key}: answered 200, not in the ledger" for key in answered - kept]
    wrong += [f"S3 {cid}: confirmed, not at the exchange" for cid in placed - _client_order_ids(home)]

    await shop.desk.trading.start(0)
    await shop.quiet()
    for alert in ALERTS:
        verdict = await shop.send(alert)
        if verdict.kind not in ("accepted", "duplicate"):
            wrong.append(f"S5 {alert.key}: sent again, {verdict.kind} {verdict.reason}")
        elif disk is not None:
            disk.mark("answered", alert.key)
        if alert.key in answered and verdict.kind != "duplicate":
            wrong.append(f"S5 {alert.key}: answered 200 before the cut, {verdict.kind} after it")
        await shop.quiet()

    now, ended = _at_exchange(home), await _states(shop)
    for alert in ALERTS:
        for account in ACCOUNTS:
            if now[account, alert.symbol, alert.side] > 1:
                wrong.append(f"S3 {alert.key}: {now[account, alert.symbol, alert.side]} orders of {account}")
    possible = _possible(states, counts)
    if possible:
        wrong += _exactly(states, counts, now, ended)
    return possible, wrong + [f"the program: {death}" for death in shop.broken]


def _possible(states: States, counts: Counts) -> bool:
    """Whether the two files can be together in one world: nothing at the exchange that the ledger never sent,
    nothing confirmed to the ledger that the exchange lacks. What is cut apart need not be; then there must be
    no double all the same, but some order may end with a person."""
    for alert in ALERTS:
        for account in ACCOUNTS:
            state = states.get((alert.key, account))
            there = counts[account, alert.symbol, alert.side]
            if (
                alert.side
                and there != (state in (State.WORKING, State.DONE))
                and state is not State.AMBIGUOUS
            ):
                return False
    return True


def _exactly(states: States, counts: Counts, now: Counts, ended: States) -> list[str]:
    """HOLES H35: one order where the cut fell before SUBMITTING or after the exchange's commit, else none and
    a NOT_PLACED to be seen."""
    wrong = []
    for alert in ALERTS:
        for account in ACCOUNTS:
            name = (account, alert.symbol, alert.side)
            state = states.get((alert.key, account))
            expected, final = _expected(alert, account, state, counts, now)
            if now[name] != expected or ended[alert.key, account] is not final:
                wrong.append(
                    f"H35 {alert.key} of {account}: was {state}, is {ended[alert.key, account]} with "
                    f"{now[name]} orders; {final} with {expected} would be right"
                )
    return wrong


def _expected(
    alert: Alert, account: str, state: State | None, counts: Counts, now: Counts
) -> tuple[int, State]:
    if not alert.side:
        return 0, State.DONE
    if state is State.NOT_PLACED:
        return 0, State.NOT_PLACED
    if state is State.AMBIGUOUS:
        there = counts[account, alert.symbol, alert.side]
        return there, State.DONE if there else State.NOT_PLACED
    if alert.side == "sell":
        # An exit sells what its entry bought; where that one proved absent there is nothing to do.
        return now[account, alert.symbol, "buy"], State.DONE
    return 1, State.DONE


async def _states(shop: Shop) -> States:
    rows = await shop.desk.reader.rows(
        "SELECT s.key, o.account, o.state FROM v_orders o JOIN v_signals s ON s.id = o.signal"
    )
    return {(row["key"], row["account"]): State(row["state"]) for row in rows}


def _at_exchange(home: Path) -> Counts:
    rows = _paper(home, "SELECT account, symbol, side, client_order_id FROM orders")
    return Counter((account, symbol, side) for account, symbol, side, _ in rows)


def _client_order_ids(home: Path) -> set[str]:
    return {str(cid) for (cid,) in _paper(home, "SELECT client_order_id FROM orders")}


def _paper(home: Path, sql: str) -> list[tuple[Any, ...]]:
    """Through apsw, as the product: two copies of SQLite in one process undo each other's locks."""
    with closing(apsw.Connection(str(home / PAPER_FILE), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return connection.execute(sql).fetchall()


def _at_rest(home: Path, possible: bool) -> list[str]:
    """The chain of events from end to end, and what the stranger's checker says; where the two files
    cannot be of one world, what it says of each by itself."""
    connection = open_ledger(home, BEGAN + 6 * SECOND)
    with closing(connection):
        broken = broken_chain(connection, newest=1_000_000)
        damage = connection.execute("PRAGMA integrity_check(1)").fetchall()
    wrong = [] if broken is None else [f"the chain is broken at E{broken}"]
    wrong += [] if damage == [("ok",)] else [f"the ledger is damaged: {damage}"]
    apart = ("not in the ledger", "the exchange says otherwise")
    return wrong + [line for line in violations(home) if possible or not line.endswith(apart)]
