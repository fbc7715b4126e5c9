"""What a person may ask of a running program, and what of it also works on the ledger alone.

One code path for buttons and commands. Each changing command carries a request id that is written in the same
transaction as its effect, so that a repeated one acts once and gets the same answer (HOLES H26).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.domain.order import UNRESOLVED, State
from app.domain.risk import TradingState
from app.engine.status import CommandRefused
from app.execution.reconciler import Report
from app.ledger import orders
from app.ledger.queries import rfc3339
from app.ledger.restore import REFUSE_WITHOUT_TIME, lift_refusal
from app.ledger.transaction import Transaction

Answer = dict[str, Any]
Effect = Callable[[Transaction], Answer]

TRADING_STATE = "trading_state"
LOCK_NAME = "onefill.lock"
_MAX_ID = 200
_encoder = msgspec.json.Encoder(order="deterministic")


def once(
    tx: Transaction, request_id: str, name: str, arguments: Mapping[str, Any], at: int, effect: Effect
) -> Answer:
    """Runs `effect` unless this request has been answered before; then returns that answer.

    Raises CommandRefused if the id was used for another request.
    """
    kept = answered(tx, request_id, name, arguments)
    if kept is not None:
        return kept
    answer = effect(tx)
    text = _encoder.encode(answer).decode()
    command = _command(name, arguments)
    tx.insert("requests", {"id": request_id, "at": at, "command": command, "answer": text})
    return answer


def answered(tx: Transaction, request_id: str, name: str, arguments: Mapping[str, Any]) -> Answer | None:
    """The answer that this request has had, or None. Raises CommandRefused as `once`."""
    if not 0 < len(request_id) <= _MAX_ID:
        raise CommandRefused(f"a request id has 1 to {_MAX_ID} characters")
    row = tx.one("SELECT command, answer FROM requests WHERE id = ?", (request_id,))
    if row is None:
        return None
    if row[0] != _command(name, arguments):
        raise CommandRefused(f"request {request_id} was already used for: {row[0]}")
    answer: Answer = msgspec.json.decode(row[1])
    return answer


def _command(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {_encoder.encode(dict(arguments)).decode()}"


def trading_effect(
    name: str, arguments: Mapping[str, Any], at: int, actor: str
) -> tuple[TradingState, Effect]:
    """The state that `halt` or `resume` asks for, and the effect that sets it. Raises CommandRefused."""
    allowed = {"exits_only"} if name == "halt" else {"accept_without_time", "why"}
    if unknown := set(arguments) - allowed:
        raise CommandRefused(f"{name} knows no {', '.join(sorted(unknown))}")
    exits_only = arguments.get("exits_only", False)
    if not isinstance(exits_only, bool):
        raise CommandRefused("exits_only is true or false")
    to = TradingState.ACTIVE
    if name == "halt":
        to = TradingState.EXITS_ONLY if exits_only else TradingState.HALTED
    why = _reason_to_lift(arguments) if arguments.get("accept_without_time") else None

    def effect(tx: Transaction) -> Answer:
        if why is not None:
            lift_refusal(tx, at, actor, why)
        answer = set_trading_state(tx, to, at, actor)
        if tx.meta(REFUSE_WITHOUT_TIME) is not None:
            answer["without_time"] = "refused"
        return answer

    return to, effect


def _reason_to_lift(arguments: Mapping[str, Any]) -> str:
    """After a restore a signal without a time may be one that was placed already (HOLES H39)."""
    why = arguments.get("why")
    if arguments["accept_without_time"] is not True or not isinstance(why, str) or not why.strip():
        raise CommandRefused("to admit signals without a time again needs a reason: --why TEXT")
    return why


def set_trading_state(tx: Transaction, to: TradingState, at: int, actor: str) -> Answer:
    """Writes the kill switch and says what it cannot stop any more (HOLES H30).

    `in_flight`: sent, not known yet whether the broker has them. `resting`: at the broker, may still fill.
    `waiting`: will be denied, or still go out where only exits may.
    """
    was = tx.meta(TRADING_STATE) or TradingState.ACTIVE.value
    tx.set_meta(TRADING_STATE, to.value)
    tx.event(at, actor, "trading state set", "trading", {"from": was, "to": to.value})
    unresolved = orders.where(tx, "state IN (?, ?, ?)", sorted(state.value for state in UNRESOLVED))
    working = orders.where(tx, "state = ?", (State.WORKING.value,))
    pending = orders.where(tx, "state = ?", (State.PENDING.value,))
    return {
        "trading_state": to.value,
        "was": was,
        "in_flight": [order.name for order in unresolved],
        "resting": [order.name for order in working if order.leaves > 0],
        "waiting": [order.name for order in pending],
    }


def on_the_ledger(
    home: Path, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str, now: int
) -> Answer:
    """`halt` or `resume` with no app running: on the ledger itself, under the instance lock. Blocking.

    Raises AlreadyRunning, LedgerRefused, CommandRefused.
    """
    from app.ledger.lock import InstanceLock
    from app.ledger.store import FILE_NAME, MARKER_NAME, open_ledger

    if not (home / FILE_NAME).exists() and not (home / MARKER_NAME).exists():
        raise CommandRefused(f"there is no ledger in {home} yet: start Onefill first")
    _, effect = trading_effect(name, arguments, now, actor)
    lock = InstanceLock(home / LOCK_NAME)
    lock.acquire()
    try:
        connection = open_ledger(home, now)
        try:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                tx = Transaction(connection, set())
                answer = once(tx, request_id, name, arguments, now, effect)
            connection.execute("COMMIT")
        finally:
            connection.close()
    finally:
        lock.release()
    return answer


def report_as_json(report: Report) -> Answer:
    """A reconciliation's report as commands and the window show it; times RFC 3339."""
    return {
        "account": report.account,
        "cause": report.cause,
        "started_at": rfc3339(report.started_at),
        "ended_at": rfc3339(report.ended_at),
        "result": report.result,
        **report.as_json(),
        "findings": [msgspec.to_builtins(finding) for finding in report.findings],
    }
