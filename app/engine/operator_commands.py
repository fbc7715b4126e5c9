"""A person's decisions as commands: what each takes, and the operation that does it.

One row a command. Every one is done once a request id, which is written in the transaction of its effect, on
what the person saw, and with a reason that stays in the audit chain (HOLES H26).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from app.claims.rows import Context
from app.clock import Clock
from app.domain.alert import read_alert
from app.domain.signal import InvalidSignal, Signal
from app.engine import parts
from app.engine.commands import Answer, answered, once
from app.engine.status import CommandRefused
from app.execution import (
    identity,
    operator_admit,
    operator_books,
    operator_exits,
    operator_replay,
    operator_resolve,
)
from app.execution.operator import AccountRules, Decision, NotDone
from app.execution.operator_exits import Press
from app.execution.session import Session
from app.execution.trading import Trading
from app.ledger.reader import Reader
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer
from app.listener.body import read_body
from app.settings import Settings, Source

A = TypeVar("A")
Effect = Callable[[Transaction], Answer]

MAX_WHY = 500
NOT_OF_A_REQUEST = frozenset({"seen", "dry_run"})
"""Arguments that may differ when a request is repeated: by then the person sees what it has done."""


class _Decided(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    why: str = ""
    dry_run: bool = False
    """Says what would be done, and does nothing."""


class ResolveRequest(_Decided, frozen=True, kw_only=True):
    """`seen` is the state that the person saw; `account_gone` goes with `not_placed` alone."""

    order: str
    answer: Literal["placed", "not_placed", "look_again"]
    broker_order_id: str | None = None
    account_gone: bool = False
    seen: str | None = None


class ReplayRequest(_Decided, frozen=True, kw_only=True):
    """An order (O12), or a signal (S12) with all its legs. `seen` is a state, or states by order."""

    order: str
    seen: str | dict[str, str] | None = None


class AdmitRequest(_Decided, frozen=True, kw_only=True):
    delivery: str


class DismissRequest(_Decided, frozen=True, kw_only=True):
    ids: list[str]


class CancelRequest(_Decided, frozen=True, kw_only=True):
    order: str
    seen: str | None = None


class CloseRequest(_Decided, frozen=True, kw_only=True):
    """`seen`: what each book held that the person saw, by symbol, source and strategy."""

    account: str
    symbol: str
    seen: dict[str, str] | None = None


class FlattenRequest(_Decided, frozen=True, kw_only=True):
    """`seen` as for a close."""

    account: str
    seen: dict[str, str] | None = None


class BookRequest(_Decided, frozen=True, kw_only=True):
    """`quantity` is signed text; `seen` the quantity that the person saw."""

    account: str
    symbol: str
    quantity: str
    source: str | None = None
    strategy: str | None = None
    seen: str | None = None


class AcknowledgeRequest(_Decided, frozen=True, kw_only=True):
    """`identity` is the number of the account that answers, typed; or `drift` a symbol, seen."""

    account: str
    identity: str | None = None
    drift: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One press of a button, or one command."""

    name: str
    arguments: Mapping[str, Any]
    actor: str
    id: str

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it the same request when it comes again."""
        return {name: value for name, value in self.arguments.items() if name not in NOT_OF_A_REQUEST}


class _WouldDo(Exception):
    """Carries the answer of a dry run out of the transaction, which is undone with it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("a dry run")
        self.answer = answer


class Person:
    """Carries out a person's decisions in a running engine."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        trading: Trading,
        clock: Clock,
        settings: Settings,
        context: Context,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._trading = trading
        self._clock = clock
        self._settings = settings
        self._context = context

    async def act(self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str) -> Answer:
        """Raises CommandRefused, LedgerUnavailable."""
        row = COMMANDS[name]
        request = Request(name, arguments, actor, request_id)
        try:
            asked = msgspec.convert(dict(arguments), row.takes, strict=True)
        except msgspec.ValidationError as error:
            raise CommandRefused(f"not a request of this command: {error}") from None
        if row.needs_reason and not asked.dry_run and not asked.why.strip():
            raise CommandRefused(f"{name} needs a reason: --why TEXT")
        if len(asked.why) > MAX_WHY:
            raise CommandRefused(f"a reason has at most {MAX_WHY} characters")
        try:
            kept = await self._writer.run(lambda tx: answered(tx, request.id, request.name, request.identity))
            return kept if kept is not None else await row.does(self, request, asked)
        except NotDone as refused:
            raise CommandRefused(str(refused)) from refused
        except LostUpdate as error:
            raise CommandRefused(f"{error}: look at it again") from error

    # ------------------------------------------------------------------------------------ one each

    async def _resolve(self, request: Request, asked: ResolveRequest) -> Answer:
        broker_order_id = (asked.broker_order_id or "").strip()
        if (asked.answer == "placed") != bool(broker_order_id):
            raise NotDone("`placed` takes the broker's id of the order, and nothing else does")
        if asked.account_gone and asked.answer != "not_placed":
            raise NotDone("that the account is gone can only be said of what was not placed")
        order = await self._reader.call(
            lambda db: operator_resolve.unresolved(Transaction(db, set()), asked.order, asked.seen)
        )
        session = self._session(order.account)
        look = await operator_resolve.look(session, self._writer, self._reader, self._clock, order)
        decision = self._decision(request, asked)

        def effect(tx: Transaction) -> Answer:
            match asked.answer:
                case "placed":
                    return operator_resolve.placed(
                        tx, asked.order, asked.seen, look, decision, broker_order_id=broker_order_id
                    )
                case "not_placed":
                    return operator_resolve.not_placed(
                        tx, asked.order, asked.seen, look, decision, account_gone=asked.account_gone
                    )
                case "look_again":
                    return operator_resolve.look_again(tx, asked.order, asked.seen, look, decision)

        answer = await self._do(request, asked, effect)
        session.nudge()
        return answer

    async def _replay(self, request: Request, asked: ReplayRequest) -> Answer:
        decision, accounts = self._decision(request, asked), self._accounts()
        return await self._do(
            request,
            asked,
            lambda tx: operator_replay.replay(tx, asked.order, asked.seen, accounts, decision),
        )

    async def _admit(self, request: Request, asked: AdmitRequest) -> Answer:
        row = await self._reader.call(
            lambda db: operator_admit.admissible(Transaction(db, set()), asked.delivery)
        )
        source = next((one for one in self._settings.all_sources if one.id == row.source_id), None)
        if source is None:
            raise NotDone(f"the source of {row.name} is no longer configured")
        signal = self._read_again(row.name, row.body or "", source)
        admission = parts.admission_of(self._settings, source)
        boot, decision = self._clock.boot(), self._decision(request, asked)
        return await self._do(
            request,
            asked,
            lambda tx: operator_admit.admit(tx, self._context, admission, row, signal, boot, decision),
        )

    def _read_again(self, name: str, body: str, source: Source) -> Signal:
        """By the rules that the door reads with; the body was kept with its secrets blanked."""
        try:
            return read_alert(read_body(body.encode()), parts.alert_rules(self._settings, source)).signal
        except InvalidSignal as error:
            fields = f" ({', '.join(error.fields)})" if error.fields else ""
            raise NotDone(f"{name} cannot be read any more: {error.reason}{fields} {error.detail}") from error

    async def _dismiss(self, request: Request, asked: DismissRequest) -> Answer:
        decision = self._decision(request, asked)
        return await self._do(request, asked, lambda tx: operator_admit.dismiss(tx, asked.ids, decision))

    async def _cancel(self, request: Request, asked: CancelRequest) -> Answer:
        decision = self._decision(request, asked)
        answer = await self._do(
            request, asked, lambda tx: operator_exits.cancel(tx, asked.order, asked.seen, decision)
        )
        session = self._trading.session(answer["account"])
        if session is not None:
            session.nudge()
        return answer

    async def _close(self, request: Request, asked: CloseRequest) -> Answer:
        decision, press = self._decision(request, asked), self._press(request)
        account = self._session(asked.account).name
        instrument = self._context.instrument_of(account, asked.symbol.strip().upper(), None)
        return await self._do(
            request,
            asked,
            lambda tx: operator_exits.close(tx, account, instrument, press, decision, asked.seen),
        )

    async def _flatten(self, request: Request, asked: FlattenRequest) -> Answer:
        decision, press = self._decision(request, asked), self._press(request)
        account = self._session(asked.account).name
        return await self._do(
            request, asked, lambda tx: operator_exits.flatten(tx, account, press, decision, asked.seen)
        )

    async def _book(self, request: Request, asked: BookRequest) -> Answer:
        wanted, decision = operator_books.read_quantity(asked.quantity), self._decision(request, asked)
        account = self._session(asked.account).name
        instrument = self._context.instrument_of(account, asked.symbol.strip().upper(), None)
        return await self._do(
            request,
            asked,
            lambda tx: operator_books.set_book(
                tx,
                account,
                instrument,
                wanted,
                decision,
                source=asked.source,
                strategy=asked.strategy,
                seen=asked.seen,
            ),
        )

    async def _acknowledge(self, request: Request, asked: AcknowledgeRequest) -> Answer:
        if (asked.identity is None) == (asked.drift is None):
            raise NotDone(
                "say the number of the account (--identity), or the symbol of a difference (--drift)"
            )
        decision, session = self._decision(request, asked), self._session(asked.account)
        if asked.drift is not None:
            instrument = self._context.instrument_of(session.name, asked.drift.strip().upper(), None)
            return await self._do(
                request,
                asked,
                lambda tx: operator_books.acknowledge_drift(tx, session.name, instrument, decision),
            )
        number = asked.identity or ""
        answer = await self._do(
            request, asked, lambda tx: identity.acknowledge(tx, session.name, number, decision)
        )
        if not asked.dry_run:
            session.begin_anew("its account was acknowledged: the session begins anew")
        return answer

    # -------------------------------------------------------------------------------------- shared

    async def _do(self, request: Request, asked: _Decided, effect: Effect) -> Answer:
        """The effect and the answer in one transaction; of a dry run nothing stays."""
        if not asked.dry_run:
            at = self._clock.now()
            return await self._writer.run(
                lambda tx: once(tx, request.id, request.name, request.identity, at, effect)
            )

        def try_it(tx: Transaction) -> None:
            raise _WouldDo(effect(tx))

        try:
            await self._writer.run(try_it)
        except _WouldDo as would:
            return {"dry_run": True, **would.answer}
        raise AssertionError("a dry run ends with its answer")

    def _decision(self, request: Request, asked: _Decided) -> Decision:
        return Decision(self._clock.now(), request.actor, asked.why.strip())

    def _press(self, request: Request) -> Press:
        return Press(request.id, self._context, self._clock.boot())

    def _session(self, account: str) -> Session:
        session = self._trading.session(account)
        if session is None:
            known = ", ".join(one.name for one in self._settings.accounts)
            raise NotDone(f"there is no account {account[:40]!r}: {known}")
        return session

    def _accounts(self) -> dict[str, AccountRules]:
        found = {}
        for account in self._settings.accounts:
            session = self._trading.session(account.name)
            if session is not None:
                found[account.name] = AccountRules(session.policy, session.broker.facts)
        return found


@dataclass(frozen=True, slots=True)
class _Command:
    takes: type[Any]
    does: Callable[[Person, Request, Any], Awaitable[Answer]]
    needs_reason: bool = True


COMMANDS: Mapping[str, _Command] = {
    "resolve": _Command(ResolveRequest, Person._resolve),
    "replay": _Command(ReplayRequest, Person._replay),
    "admit": _Command(AdmitRequest, Person._admit),
    "dismiss": _Command(DismissRequest, Person._dismiss),
    "cancel": _Command(CancelRequest, Person._cancel, needs_reason=False),
    "close": _Command(CloseRequest, Person._close),
    "flatten": _Command(FlattenRequest, Person._flatten),
    "book": _Command(BookRequest, Person._book),
    "acknowledge": _Command(AcknowledgeRequest, Person._acknowledge),
}
"""A new decision is one request, one operation and one row here."""
