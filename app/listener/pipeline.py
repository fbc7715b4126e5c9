"""From one request to one answer: the checks in the contract's order, then the claim (CONTRACT 3).

Before the claim every doubt is a refusal and every fault a 503; after it nothing takes the 200 back. Nothing
of a request that failed authentication is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aiohttp import web

from app.claims.base import ClaimStore, Delivery, Refusal, Verdict
from app.claims.rows import EXIT_NOT_PLACED
from app.clock import Clock
from app.domain.alert import Alert, body_secret, read_alert
from app.domain.book import ZERO, reads_as_exit
from app.domain.exit_hint import ExitHint, hint_of, hint_of_signal, seems_an_exit, text_seems_an_exit
from app.domain.freshness import refuse_future
from app.domain.key import ChosenKey, HeaderKeys, choose_key, raw_fingerprint
from app.domain.signal import InvalidSignal, Signal
from app.ledger.errors import CommitUnknown, LedgerUnavailable, TicketLate
from app.ledger.ticket import Ticket
from app.listener import answers, body, bounded
from app.listener.answers import Answer
from app.listener.auth import (
    HEALTH_PATH,
    Gate,
    SourceAccess,
    comes_from_a_browser,
    is_own_host,
    read_hook_path,
)
from app.listener.bounded import Refused
from app.listener.connection import Visit
from app.listener.quiet import fault
from app.listener.redaction import redact
from app.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and, where it has one, the row whose status and milliseconds are filled in after it."""

    answer: Answer
    content: bytes
    source: str | None = None
    delivery_id: int | None = None


@dataclass(slots=True)
class _Case:
    """One delivery under way: what is known of it so far."""

    source: SourceAccess
    visit: Visit
    raw: bytes = b""
    fields: Mapping[str, object] | None = None
    """None while the body was not read, or could not be."""
    signal: Signal | None = None
    warnings: tuple[str, ...] = ()
    key: str | None = None

    @property
    def seems_an_exit(self) -> bool:
        """As far as can be told without the book: nothing is placed for it, so a person has to know."""
        if self.signal is not None and reads_as_exit(self.signal, ZERO):
            return True
        if self.fields is not None:
            return seems_an_exit(self.fields)
        return text_seems_an_exit(self.raw.decode("utf-8", "replace"))

    @property
    def hint(self) -> ExitHint | None:
        """For where it takes the book to tell, which only the transaction of its row can ask."""
        if self.signal is not None:
            return hint_of_signal(self.signal)
        return None if self.fields is None else hint_of(self.fields)


class _Unauthorized(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Pipeline:
    """`deadline` and `body_timeout` in microseconds from the moment the headers were there.

    `health()` gives the word of /healthz. `public_hosts` None lets any Host through: tunnels rewrite it.
    """

    def __init__(
        self,
        gate: Gate,
        store: ClaimStore,
        clock: Clock,
        tasks: Tasks,
        health: Callable[[], str],
        *,
        deadline: int,
        body_timeout: int,
        public_hosts: Sequence[str] | None,
    ) -> None:
        self.gate = gate
        self.stopping = False
        self.deliveries = 0
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._health = health
        self._deadline = deadline
        self._body_timeout = min(body_timeout, deadline)
        self._public_hosts = public_hosts

    async def answer(self, request: web.BaseRequest, visit: Visit) -> Reply:
        """Decides one request. Raises nothing but cancellation."""
        headers = request.headers
        if comes_from_a_browser(headers):
            return self._turned_away("browser", answers.NOT_FOUND)
        if self._public_hosts is not None and not is_own_host(headers.get("Host"), self._public_hosts):
            return self._turned_away("host", answers.NOT_FOUND)
        path = request.raw_path.partition("?")[0]
        if path == HEALTH_PATH and request.method == "GET":
            return _reply(answers.health(self._health()))
        hook = read_hook_path(path)
        if hook is None:
            return self._turned_away("path", answers.NOT_FOUND)
        if request.method != "POST":
            return self._turned_away("method", answers.METHOD_NOT_ALLOWED)
        source = self.gate.admit(hook, visit.at)
        if source is None:
            return self._turned_away("source_or_token", answers.NOT_FOUND)
        case = _Case(source, visit)
        if source.auth == "path":
            self._authenticated(case)
        return await self._receive(request, case)

    # ------------------------------------------------------------------------------------------ the checks

    async def _receive(self, request: web.BaseRequest, case: _Case) -> Reply:
        try:
            case.fields = await self._read(request, case)
            alert, key = self._understand(request, case, case.fields)
        except _Unauthorized as unauthorized:
            return self._turned_away(unauthorized.reason, answers.unauthorized(unauthorized.reason))
        except Refused as refused:
            return await self._refuse(case, refused.refusal)
        except InvalidSignal as error:
            return await self._refuse(case, _invalid(error))
        except Exception as error:  # noqa: BLE001 - before the claim: 503, and the sender sends again
            fault("a delivery could not be read", error, source=case.source.name)
            return await self._refuse(case, answers.not_accepted("internal"))
        return await self._claim(case, alert, key)

    async def _read(self, request: web.BaseRequest, case: _Case) -> Mapping[str, object]:
        """Encoding, size, parse, body secret."""
        if "Content-Encoding" in request.headers:
            raise Refused(answers.ENCODED)
        case.raw = await bounded.read_body(request, self._clock, case.visit.boot + self._body_timeout)
        if case.source.auth == "path":
            try:
                case.fields = body.read_body(case.raw)
            finally:
                self._refuse_when_stopping()
            return case.fields
        try:
            fields = body.read_body(case.raw)
        except InvalidSignal as error:
            raise _Unauthorized("unreadable") from error
        secret = body_secret(fields)
        if secret is None:
            raise _Unauthorized("missing_secret")
        if not self.gate.accepts(case.source, secret, case.visit.at):
            raise _Unauthorized("bad_secret")
        self._authenticated(case)
        case.fields = fields
        self._refuse_when_stopping()
        return fields

    def _understand(
        self, request: web.BaseRequest, case: _Case, fields: Mapping[str, object]
    ) -> tuple[Alert, ChosenKey]:
        """Meaning, key."""
        source = case.source
        alert = read_alert(fields, source.rules)
        case.signal, case.warnings = alert.signal, alert.warnings
        refuse_future(fields, alert.signal, case.visit.at)
        headers = HeaderKeys(
            idempotency_key=tuple(request.headers.getall("Idempotency-Key", ())),
            x_idempotency_key=tuple(request.headers.getall("X-Idempotency-Key", ())),
            webhook_id=tuple(request.headers.getall("webhook-id", ())),
        )
        key = choose_key(source.id, alert, headers, source.key_policy)
        case.warnings += key.warnings
        case.key = key.key
        return alert, key

    def _refuse_when_stopping(self) -> None:
        if self.stopping:
            raise Refused(answers.not_accepted("stopping"))

    def _authenticated(self, case: _Case) -> None:
        case.visit.authenticated = True
        self.deliveries += 1

    def _turned_away(self, reason: str, answer: Answer) -> Reply:
        self._store.count_unauthenticated(reason)
        return _reply(answer)

    # ------------------------------------------------------------------------------------ claim and refusal

    async def _claim(self, case: _Case, alert: Alert, key: ChosenKey) -> Reply:
        delivery = _delivery(case)
        word = self._store.refuses_at_once
        if word is not None:
            return self._unanswered(case, word)
        ticket = Ticket()
        until = case.visit.boot + self._deadline
        try:
            work = self._store.claim(case.source.admission, delivery, alert.signal, key, ticket)
            verdict = await bounded.settle(work, ticket, self._clock, until)
        except TicketLate:
            return _reply(answers.of_refusal(answers.not_accepted("late")), case)
        except CommitUnknown as error:
            # The store's own barrier records it (HOLES H19).
            return _reply(answers.of_refusal(answers.not_accepted(error.word)), case)
        except LedgerUnavailable as error:
            return self._unanswered(case, error.word)
        except InvalidSignal as error:
            return await self._refuse(case, _invalid(error))
        except Exception as error:  # noqa: BLE001 - nothing was acknowledged: 503, and the sender sends again
            fault("a claim failed", error, source=case.source.name)
            return self._unanswered(case, "internal")
        return self._stands(case, verdict)

    def _stands(self, case: _Case, verdict: Verdict) -> Reply:
        """The claim is on disk: from here on no fault of ours changes the status."""
        status = case.source.duplicate_status
        try:
            return _reply(answers.of_verdict(verdict, status), case, verdict.delivery_id)
        except Exception as error:  # noqa: BLE001 - the claim stands; a 5xx would be a lie
            fault("an answer could not be put together", error, source=case.source.name)
            return _reply(answers.in_short(verdict, status), case, verdict.delivery_id)

    async def _refuse(self, case: _Case, refusal: Refusal) -> Reply:
        """Records the refusal within the deadline; without a record the answer is still the same."""
        answer = answers.of_refusal(refusal)
        if not case.visit.authenticated:
            self._store.count_unauthenticated(refusal.reason)
            return _reply(answer)
        delivery = _lost(case)
        if self._store.refuses_at_once is not None:
            self._store.unanswered(delivery, refusal, case.key)
            return _reply(answer, case)
        ticket = Ticket()
        task = self._tasks.start("refusal", self._recorded(case, delivery, refusal, ticket))
        try:
            delivery_id = await bounded.settle(
                bounded.relayed(task), ticket, self._clock, case.visit.boot + self._deadline
            )
        except TicketLate:
            delivery_id = None
        return _reply(answer, case, delivery_id)

    async def _recorded(
        self, case: _Case, delivery: Delivery, refusal: Refusal, ticket: Ticket
    ) -> int | None:
        try:
            return await self._store.refuse(delivery, refusal, case.key, ticket)
        except TicketLate as late:
            if not late.ran:
                self._store.unanswered(delivery, refusal, case.key)
        except LedgerUnavailable:
            self._store.unanswered(delivery, refusal, case.key)
        except Exception as error:  # noqa: BLE001 - the answer does not depend on the record
            fault("a refusal was not recorded", error, source=case.source.name)
        return None

    def _unanswered(self, case: _Case, word: str) -> Reply:
        refusal = answers.not_accepted(word)
        self._store.unanswered(_lost(case), refusal, case.key)
        return _reply(answers.of_refusal(refusal), case)


def _reply(answer: Answer, case: _Case | None = None, delivery_id: int | None = None) -> Reply:
    return Reply(answer, answer.encoded(), case.source.name if case else None, delivery_id)


def _delivery(case: _Case) -> Delivery:
    try:
        kept = redact(case.raw)
    except Exception as error:  # noqa: BLE001 - what cannot be blanked for certain is not kept
        fault("a body could not be blanked and is not kept", error, source=case.source.name)
        kept = ""
    return Delivery(
        case.source.id,
        case.visit.at,
        case.visit.boot,
        kept,
        raw_fingerprint(case.raw),
        case.warnings,
    )


def _lost(case: _Case) -> Delivery:
    """A delivery that nothing is placed for: marked where it reads as an exit."""
    delivery = _delivery(case)
    if not case.seems_an_exit:
        return replace(delivery, accounts=case.source.admission.accounts, hint=case.hint)
    return replace(delivery, warnings=(*delivery.warnings, EXIT_NOT_PLACED))


def _invalid(error: InvalidSignal) -> Refusal:
    return Refusal(400, "invalid", error.reason, error.fields, error.detail)
