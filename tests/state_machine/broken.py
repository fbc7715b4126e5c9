"""The product made worse, for controls that must fail: each is a mistake that it could be built with.

Made by patching from outside, and undone at the end; the product has no switch for any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from app.claims import admission, known, ledger_store
from app.claims.known import Known
from app.domain import absence
from app.domain.order import State
from app.domain.risk import TradingState
from app.engine import at_rest
from app.execution import exposure, gate, ids, replies, ruling
from app.execution.trading import Trading
from app.ledger import orders, restore, retention, store
from app.ledger.orders import Order
from app.ledger.transaction import Transaction

Broken = Callable[[], AbstractContextManager[None]]


@contextmanager
def _with(*changes: tuple[object, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for place, name, made in changes:
            assert hasattr(place, name), f"{name} is not there any more"
            stack.enter_context(patch.object(place, name, made))
        yield


class _Reworded(Transaction):
    """A transaction whose statements lack a part."""

    def __init__(self, tx: Transaction, part: str) -> None:
        self._tx, self._part = tx, part

    def change(self, table: str, sql: str, bindings: Any = ()) -> int:
        assert self._part in sql
        return self._tx.change(table, sql.replace(self._part, ""), bindings)


def _forget_without_watermark(tx: Transaction, *arguments: Any, **options: Any) -> int:
    return _FORGET(_Reworded(tx, "s.watermark >= ?1 AND "), *arguments, **options)


_FORGET, _BEGIN, _PURGE = retention.forget_keys, retention.begin, retention.purge


def purge_without_watermark() -> AbstractContextManager[None]:
    """Keys are forgotten, and what comes again is new."""

    def begin(tx: Transaction, *, plan: retention.Plan, **options: Any) -> None:
        _BEGIN(tx, plan=replace(plan, keys={}), **options)

    return _with((retention, "forget_keys", _forget_without_watermark), (retention, "begin", begin))


def watermark_after_the_keys() -> AbstractContextManager[None]:
    """The watermark is committed when the keys are gone, not before the first goes (HOLES H40)."""

    async def purge(writer: Any, reader: Any, plan: Any, cutoffs: Any, **options: Any) -> Any:
        with patch.object(retention, "begin", lambda *_, **__: None):
            purged = await _PURGE(writer, reader, plan, cutoffs, **options)
        await writer.run(partial(_BEGIN, plan=plan, cutoffs=cutoffs, **options))
        return purged

    return _with((retention, "forget_keys", _forget_without_watermark), (retention, "purge", purge))


def restore_without_halt() -> AbstractContextManager[None]:
    """A restored ledger goes on trading as if nothing had been lost."""

    def mark(tx: Transaction, now: int, actor: str) -> restore.Marked:
        marked = restore.mark_restored(tx, now, actor)
        tx.set_meta(restore.TRADING_STATE, "active")
        return marked

    return _with((at_rest, "mark_restored", mark))


def restore_without_watermark() -> AbstractContextManager[None]:
    """What was claimed after the backup is new when it comes again."""

    def mark(tx: Transaction, now: int, actor: str) -> restore.Marked:
        marked = restore.mark_restored(tx, now, actor)
        tx.change("sources", "UPDATE sources SET watermark = NULL", ())
        return marked

    return _with((at_rest, "mark_restored", mark))


def lanes_ignore_halt() -> AbstractContextManager[None]:
    """The kill switch is shown, and nobody who sends asks for it."""

    def active(_: Transaction) -> TradingState:
        return TradingState.ACTIVE

    return _with(
        (ruling, "trading_state", active),
        (gate, "trading_state", active),
        (replies, "trading_state", active),
        (Trading, "held_back", lambda *_, **__: None),
    )


def check_then_insert() -> AbstractContextManager[None]:
    """The key is looked up, and if it is unknown then inserted, in two transactions."""
    claim, look_up = ledger_store.LedgerClaimStore.claim, known.look_up
    unknown: dict[int, object] = {}
    """By their number in memory, and kept there: else another one would get it."""

    async def claimed(self: Any, rules: Any, delivery: Any, signal: Any, key: Any, *more: Any) -> Any:
        run = self._context.run
        if await self._writer.run(lambda tx: look_up(tx, run, delivery, signal, key)) is None:
            unknown[id(delivery)] = delivery
        return await claim(self, rules, delivery, signal, key, *more)

    def looked_up(tx: Transaction, run: str, delivery: Any, *arguments: Any) -> Known | None:
        found = look_up(tx, run, delivery, *arguments)
        return None if id(delivery) in unknown else found

    return _with(
        (ledger_store.LedgerClaimStore, "claim", claimed),
        (admission, "look_up", looked_up),
        (store, "migrations", _schema("digest BLOB NOT NULL UNIQUE", "digest BLOB NOT NULL")),
    )


def resubmit_on_not_found() -> AbstractContextManager[None]:
    """An order whose fate is unknown goes out again, as a new one, when one look does not show it."""

    def judge(case: absence.Case, *_: Any) -> absence.Verdict:
        return absence.Verdict.ABSENT if case.looks else absence.Verdict.LOOK_AGAIN

    def sent_again(
        tx: Transaction, order_id: int, identity: str, now: int, *, proof: str, detail: str = ""
    ) -> Order:
        order = _ABSENT(tx, order_id, identity, now, proof=proof, detail=detail)
        return orders.move(tx, order, State.PENDING, at=now, actor="resolver", client_order_id=None)

    identity = ids.id_of
    made: dict[str, int] = {}

    def another_id(*arguments: Any) -> str:
        cid = identity(*arguments)
        made[cid] = made.get(cid, -1) + 1
        return cid[:-2] + f"{made[cid]:02x}"

    return _with(
        (absence, "judge", judge),
        (replies, "record_absence", sent_again),
        (gate, "id_of", another_id),
        (store, "migrations", _schema("", "DROP TRIGGER orders_keep_client_order_id;")),
    )


def resubmit_the_same() -> AbstractContextManager[None]:
    """The same under the same id: the exchange itself refuses the second, as not every one would."""

    def sent_again(
        tx: Transaction, order_id: int, identity: str, now: int, *, proof: str, detail: str = ""
    ) -> Order:
        order = _ABSENT(tx, order_id, identity, now, proof=proof, detail=detail)
        return orders.move(tx, order, State.PENDING, at=now, actor="resolver")

    return _with((replies, "record_absence", sent_again))


_ABSENT = replies.record_absence


def exit_from_the_account() -> AbstractContextManager[None]:
    """An exit closes what the account holds, whoever bought it (HOLES H2)."""
    holdings = exposure.holdings

    def held(*arguments: Any) -> Any:
        found = holdings(*arguments)
        return replace(found, book=found.broker_position, other_books=())

    return _with((exposure, "holdings", held))


def _schema(old: str, new: str) -> Callable[[], list[tuple[str, str]]]:
    """The ledger's schema with a text replaced, or one added at its end."""
    migrations = store.migrations

    def changed() -> list[tuple[str, str]]:
        (name, text), *later = migrations()
        assert old in text, f"the schema has no {old!r} any more"
        return [(name, text.replace(old, new) if old else f"{text}\n{new}"), *later]

    return changed
