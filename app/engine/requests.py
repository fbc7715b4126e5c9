"""A person's requests to the running engine: each once, from buttons and commands alike (HOLES H26).

What they do to the ledger is `commands.py`'s; here is who waits for whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import structlog

from app.brokers.base import LookupFailed
from app.clock import Clock
from app.domain.risk import TradingState
from app.engine import commands, operator_commands, retention_commands
from app.engine.commands import Answer
from app.engine.operator_commands import NOT_OF_A_REQUEST, Person
from app.engine.retention_commands import Keeping
from app.engine.status import CommandRefused
from app.execution.trading import Trading
from app.ledger.errors import LedgerUnavailable
from app.ledger.reader import Reader
from app.ledger.writer import Writer
from app.tasks import Tasks

log = structlog.get_logger(__name__)


class Requests:
    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        trading: Trading,
        clock: Clock,
        tasks: Tasks,
        keeping: Keeping,
        person: Person,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._trading = trading
        self._clock = clock
        self._tasks = tasks
        self._keeping = keeping
        self._person = person
        self._running: dict[str, tuple[str, asyncio.Task[Answer | CommandRefused]]] = {}

    async def command(
        self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str
    ) -> Answer:
        """Raises CommandRefused. A caller that goes away does not stop what it asked for."""
        asked = {key: value for key, value in arguments.items() if key not in NOT_OF_A_REQUEST}
        key = f"{name} {sorted(asked.items())!r} {arguments.get('dry_run', False)}"
        running = self._running.get(request_id)
        if running is not None and running[0] != key:
            raise CommandRefused(f"request {request_id} was already used for another command")
        if running is None:
            work = _answered(self._act(name, dict(arguments), actor, request_id))
            task = self._tasks.start(f"command {name}", work)
            running = self._running[request_id] = (key, task)
            task.add_done_callback(lambda _: self._running.pop(request_id, None))
        answer = await asyncio.shield(running[1])
        if isinstance(answer, CommandRefused):
            raise CommandRefused(str(answer))
        return answer

    async def _act(self, name: str, arguments: dict[str, Any], actor: str, request_id: str) -> Answer:
        match name:
            case "halt" | "resume":
                return await self._set_trading_state(name, arguments, actor, request_id)
            case "reconcile":
                return await self._reconcile(arguments, request_id)
            case "test account":
                return await self._test_account(arguments)
            case _ if name in operator_commands.COMMANDS:
                return await self._person.act(name, arguments, actor=actor, request_id=request_id)
            case _ if name in retention_commands.NAMES:
                return await self._keeping.act(name, arguments, actor=actor, request_id=request_id)
        raise CommandRefused(f"there is no command {name!r}")

    async def _set_trading_state(
        self, name: str, arguments: dict[str, Any], actor: str, request_id: str
    ) -> Answer:
        now = self._clock.now()
        to, effect = commands.trading_effect(name, arguments, now, actor)
        brakes = to is not TradingState.ACTIVE
        if brakes:
            # The brake works in memory before it is on disk: a slow disk must not let one more order out.
            self._trading.note_state(to)
        try:
            answer = await self._writer.run(
                lambda tx: commands.once(tx, request_id, name, arguments, now, effect)
            )
        except LedgerUnavailable as error:
            if brakes:
                log.critical("halted in memory only", state=to.value, ledger=error.word)
                raise CommandRefused(
                    f"{to.value} until the next start, but the ledger cannot keep it ({error}): repeat it"
                ) from error
            raise
        except CommandRefused:
            self._trading.note_state(await self._kept_trading_state())
            raise
        self._trading.note_state(await self._kept_trading_state())
        return answer

    async def _kept_trading_state(self) -> TradingState:
        """What the ledger says now: a repeated request may be older than the state that holds."""
        rows = await self._reader.rows("SELECT value FROM meta WHERE name = ?", (commands.TRADING_STATE,))
        return TradingState(rows[0]["value"]) if rows else TradingState.ACTIVE

    async def _test_account(self, arguments: dict[str, Any]) -> Answer:
        """Logs in and asks whose account it is; nothing is sent, and nothing is kept of it."""
        name = arguments.get("account")
        session = self._trading.session(name) if isinstance(name, str) else None
        if session is None:
            raise CommandRefused(f"there is no account {name!r} in force; a new one is there after a start")
        try:
            async with session.asked() as account:
                facts = session.broker.facts
        except LookupFailed as error:
            raise CommandRefused(f"{name} could not be asked: {error}") from error
        return {
            "account": name,
            "identity": account.identity,
            "endpoint": account.endpoint,
            "cash": f"{account.cash:f}",
            "equity": f"{account.equity:f}",
            "live": session.policy.account.live,
            "priced_by_alert": facts.priced_by_payload,
        }

    async def _reconcile(self, arguments: dict[str, Any], request_id: str) -> Answer:
        account = arguments.pop("account", None)
        if arguments or not isinstance(account, str | None):
            raise CommandRefused("reconcile takes one account's name, or none for all")
        request = {"account": account}
        kept = await self._writer.run(lambda tx: commands.answered(tx, request_id, "reconcile", request))
        if kept is not None:
            return kept
        try:
            reports = await self._trading.reconcile(account, "button")
        except LookupError as error:
            raise CommandRefused(str(error)) from error
        except LookupFailed as error:
            raise CommandRefused(f"the broker could not be asked: {error}") from error
        answer = {"reports": [commands.report_as_json(report) for report in reports]}
        now = self._clock.now()
        return await self._writer.run(
            lambda tx: commands.once(tx, request_id, "reconcile", request, now, lambda _: answer)
        )


async def _answered(work: Awaitable[Answer]) -> Answer | CommandRefused:
    """A refusal is an answer for all who wait on the request, not the death of a task."""
    try:
        return await work
    except CommandRefused as refused:
        return refused
    except LedgerUnavailable as error:
        return CommandRefused(f"the ledger cannot take it now: {error}")
