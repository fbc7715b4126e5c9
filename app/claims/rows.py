"""The rows that a decision writes: a claim, its orders, the delivery with its body.

No decision is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from app.claims.base import Admission, Delivery
from app.domain.freshness import signal_time
from app.domain.key import RULE_VERSION, ChosenKey, intent_fingerprint
from app.domain.order import State
from app.domain.signal import Action, Signal
from app.ledger import orders
from app.ledger.transaction import Transaction, Value

EXIT_NOT_PLACED = "exit_not_placed: this reads as an exit, and nothing was placed for it"
"""Stands on every delivery that was not answered 200 and reads as an exit, so that it can be shown first."""
SECOND_SIGNAL = (
    "second_signal: no resend comes so late, so this may be a signal of its own; send a key or the bar time"
)


@dataclass(frozen=True, slots=True)
class Context:
    """`run` names this run of the program; `instrument_of(account, symbol, exchange)` maps a symbol."""

    run: str
    instrument_of: Callable[[str, str, str | None], str]


@dataclass(frozen=True, slots=True)
class Case:
    """One delivery under decision. `exits` says of each account whether the signal is an exit there."""

    context: Context
    admission: Admission
    delivery: Delivery
    signal: Signal
    key: ChosenKey
    exits: Mapping[str, bool]

    @property
    def is_exit(self) -> bool:
        return any(self.exits.values())

    @property
    def now(self) -> int:
        return self.delivery.received_at

    @property
    def actor(self) -> str:
        return f"source:{self.admission.source}"


def insert_claim(tx: Transaction, case: Case, digest: bytes, epoch: int | None) -> int:
    """The claim of a key that was free; returns its id."""
    signal = case.signal
    return tx.insert(
        "claims",
        {
            "digest": digest,
            "source_id": case.delivery.source_id,
            "key": case.key.key,
            "key_source": case.key.source.value,
            "header_key": int(case.key.from_header),
            "epoch": epoch,
            "rule_version": RULE_VERSION,
            "intent_fingerprint": intent_fingerprint(signal, RULE_VERSION),
            "symbol": signal.symbol,
            "action": signal.action.value,
            "quantity": None if signal.quantity is None else orders.plain(signal.quantity),
            "first_received_at": case.now,
            "deliveries": 1,
            **_admitted(case),
        },
    )


def admit_claim_again(tx: Transaction, case: Case, claim_id: int) -> None:
    """The claim takes what this delivery says, as if it were the first of its key."""
    values = {"unanswered": 0, **_admitted(case)}
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.change(
        "claims",
        f"UPDATE claims SET {assignments}, deliveries = deliveries + 1 WHERE id = ?",
        (*values.values(), claim_id),
    )


def _admitted(case: Case) -> dict[str, Value]:
    """What a claim keeps of the delivery that was admitted."""
    return {
        "admitted_at": case.now,
        "opened_boot": case.delivery.received_boot,
        "opened_run": case.context.run,
        "raw_fingerprint": case.delivery.raw_fingerprint,
        "signal": msgspec.json.encode(case.signal).decode(),
        "bar_time": case.signal.bar_time,
        "signal_time": signal_time(case.signal),
    }


def insert_order(tx: Transaction, case: Case, claim_id: int, account: str, generation: int) -> None:
    """One account's leg of a claim, PENDING."""
    signal = case.signal
    tx.insert(
        "orders",
        {
            "claim_id": claim_id,
            "account": account,
            "leg": 1,
            "generation": generation,
            "instrument": case.context.instrument_of(account, signal.symbol, signal.exchange),
            "source_id": case.admission.source_id,
            "strategy": signal.strategy or "",
            "action": signal.action.value,
            "purpose": purpose(case, account),
            "type": signal.type.value,
            "limit_price": None if signal.limit_price is None else orders.plain(signal.limit_price),
            "stop_price": None if signal.stop_price is None else orders.plain(signal.stop_price),
            "tif": None if signal.tif is None else signal.tif.value,
            "state": State.PENDING.value,
            "not_after": case.now + case.admission.max_order_age,
            "created_at": case.now,
            "updated_at": case.now,
        },
    )


def outcome_at_first(case: Case) -> dict[str, Any]:
    """What `orders.outcome` would read back of the orders that were just inserted."""
    legs = [
        {
            "client_order_id": None,
            "broker_order_id": None,
            "account": account,
            "symbol": case.signal.symbol,
            "side": None,
            "quantity": None,
            "state": State.PENDING.value,
            "ord_status": None,
            "filled_quantity": "0",
            "average_price": None,
            "reason": None,
        }
        for account in sorted(case.admission.accounts)
    ]
    return {"state": State.PENDING.value, "orders": legs}


def purpose(case: Case, account: str) -> str:
    """What the door takes an order for; the worker decides again."""
    if case.signal.action is Action.CANCEL:
        return "cancel"
    return "exit" if case.exits[account] else "undecided"


def insert_delivery(
    tx: Transaction,
    delivery: Delivery,
    *,
    verdict: str,
    http_status: int | None,
    reason: str | None,
    key: str | None,
    fields: tuple[str, ...] = (),
    detail: str = "",
    claim_id: int | None = None,
    warnings: tuple[str, ...] = (),
    row_id: int | None = None,
) -> int:
    """A delivery's one row and its body; returns its id. `row_id` is given where it was fixed before."""
    values: dict[str, Value] = {} if row_id is None else {"id": row_id}
    delivery_id = tx.insert(
        "deliveries",
        {
            **values,
            "received_at": delivery.received_at,
            "source_id": delivery.source_id,
            "verdict": verdict,
            "http_status": http_status,
            "reason": reason,
            "fields": msgspec.json.encode(list(fields)).decode(),
            "detail": detail,
            "claim_id": claim_id,
            "key": key,
            "warnings": msgspec.json.encode(list(warnings)).decode(),
            "needs": _needs(verdict, warnings),
        },
    )
    tx.insert("bodies", {"delivery_id": delivery_id, "body": delivery.body})
    return delivery_id


def _needs(verdict: str, warnings: tuple[str, ...]) -> str | None:
    """Why a person should look at it; None for what needs nobody."""
    if EXIT_NOT_PLACED in warnings:
        return "exit"
    return "look" if verdict == "conflict" or SECOND_SIGNAL in warnings else None
