"""What a message would do if it came in now, without a claim: asked of the same rules that the door asks.

Reads only: nothing is claimed, stored or counted. Run it where reading the ledger may block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import apsw
import msgspec

from app.claims.admission import exits_of, not_fresh
from app.claims.base import Admission, Delivery
from app.claims.known import Known, look_up
from app.claims.rows import Case, Context
from app.domain.alert import Alert, body_secret, read_alert
from app.domain.alert_builder import SECRET_HERE
from app.domain.book import ZERO, reads_as_exit
from app.domain.explain import (
    AccountFacts,
    Explanation,
    Kind,
    Sentence,
    SourceFacts,
    capital,
    explain_alert,
    explain_refusal,
    headline,
    refused,
    rfc_3339,
    span,
)
from app.domain.explain_words import HEADS, REMEDIES
from app.domain.fields import each_field, field_of
from app.domain.freshness import is_stale, refuse_future, signal_age
from app.domain.key import ChosenKey, HeaderKeys, choose_key, raw_fingerprint
from app.domain.locate import Mark, field_marks, mark_at, offset_of, offset_of_byte, place_said
from app.domain.placeholders import Filled, fill_in
from app.domain.signal import InvalidSignal
from app.engine.parts import admission_of, alert_rules, instrument_of, key_policy
from app.ledger import orders
from app.ledger.transaction import Transaction
from app.listener.answers import TOO_LARGE
from app.listener.body import read_body
from app.listener.bounded import MAX_BODY
from app.settings import CashSizing, EquitySizing, QuantitySizing, Settings, Source

RUN = "check"
"""Names no run of the program: how long ago something was is asked of the wall clock."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it would arrive. `at`: UTC microseconds.

    `fill`: placeholders of TradingView are filled in with samples first. `accepts` says whether a secret in
    the body is right; None where that cannot be asked.
    """

    body: bytes
    at: int
    headers: HeaderKeys = HeaderKeys()
    fill: bool = False
    accepts: Callable[[str], bool] | None = None


def check_message(
    settings: Settings, source: Source, question: Question, db: apsw.Connection | None = None
) -> Explanation:
    """What the door would answer and what would come of it. `db`: a read-only ledger, in a transaction.

    Never raises for what is in the message. Without `db` nothing is said of keys and books that are known.
    """
    text = question.body.decode("utf-8", "replace").removeprefix("\ufeff")
    filled = None
    if question.fill:
        filled = fill_in(text, question.at)
        if filled.values:
            question = msgspec.structs.replace(question, body=filled.text.encode("utf-8"))
    check = _Check(settings, source, question, db)
    try:
        found = check.explain()
    except InvalidSignal as error:
        found = _invalid(error, source, question.body, filled)
    else:
        if found.fields:
            found = msgspec.structs.replace(found, marks=field_marks(text, check.sent_names(found.fields)))
    return _with_notes(found, filled)


class _Check:
    def __init__(
        self, settings: Settings, source: Source, question: Question, db: apsw.Connection | None
    ) -> None:
        self._settings = settings
        self._source = source
        self._question = question
        self._tx = None if db is None else Transaction(db, set())
        self._fields: Mapping[str, object] = {}

    def explain(self) -> Explanation:
        """The door's checks in the door's order. Raises InvalidSignal."""
        source, question = self._source, self._question
        if len(question.body) > MAX_BODY:
            return refused(TOO_LARGE.http_status, TOO_LARGE.verdict, TOO_LARGE.reason, TOO_LARGE.detail)
        fields = self._fields = read_body(question.body)
        if source.auth == "body":
            secret = body_secret(fields)
            if secret is None:
                return refused(
                    401, "unauthorized", "missing_secret", "its secret is missing, or there are two"
                )
            if secret == SECRET_HERE or (question.accepts is not None and not question.accepts(secret)):
                return refused(401, "unauthorized", "bad_secret", "its secret is not the one of this source")
        alert = read_alert(fields, alert_rules(self._settings, source))
        refuse_future(fields, alert.signal, question.at)
        key = choose_key(source.id, alert, question.headers, key_policy(source))
        found = self._judge(alert, key)
        if source.auth == "body" and question.accepts is None:
            return _adding(found, Sentence(Kind.NOTE, "Its secret is compared at the door, not here"))
        return found

    def sent_names(self, fields: tuple[str, ...]) -> list[str]:
        """What the message itself calls these fields of a signal."""
        return [sent.name for sent, folded in each_field(self._fields) if field_of(sent, folded) in fields]

    def _judge(self, alert: Alert, key: ChosenKey) -> Explanation:
        books = self._books(alert)
        facts = source_facts(self._settings, self._source, books)
        title, said = explain_alert(alert, key, facts, self._question.at)
        good = Explanation(
            http_status=200,
            status="accepted",
            headline=title,
            sentences=tuple(said),
            key=key.key,
            key_source=key.source.value,
        )
        if self._tx is None:
            return self._aged(good, alert)
        return self._against_the_ledger(self._tx, good, alert, key, facts)

    def _aged(self, good: Explanation, alert: Alert) -> Explanation:
        signal, source = alert.signal, self._source
        age = signal_age(signal, self._question.at)
        is_exit = reads_as_exit(signal, ZERO)
        if not is_stale(age, is_exit=is_exit, max_age=source.max_age, max_exit_age=source.max_exit_age):
            return good
        return _turned_down(good, 422, "stale", "stale", "")

    def _against_the_ledger(
        self, tx: Transaction, good: Explanation, alert: Alert, key: ChosenKey, facts: SourceFacts
    ) -> Explanation:
        signal, context = alert.signal, Context(RUN, instrument_of)
        delivery = Delivery(
            self._source.id, self._question.at, 0, "", raw_fingerprint(self._question.body), alert.warnings
        )
        admission = self._admission()
        case = Case(context, admission, delivery, signal, key, exits_of(tx, context, admission, signal))
        known = look_up(tx, RUN, delivery, signal, key)
        if known is not None and known.conflict is not None:
            if not (admission.admit_exits and case.is_exit):
                return _conflict(good, known)
            said = f"Its key is that of S{known.claim.id}, which asked for something else; "
            said += "as an exit it is let in once under a key of its own (on_conflict)"
            return _adding(good, Sentence(Kind.KNOWN, said))
        if known is not None and not known.claim.unanswered:
            return self._duplicate(good, known, headline(known.claim.signal, facts))
        refusal = not_fresh(tx, case)
        if refusal is not None:
            return _turned_down(good, refusal.http_status, refusal.verdict, refusal.reason, refusal.detail)
        return good

    def _duplicate(self, good: Explanation, known: Known, first: str) -> Explanation:
        claim = known.claim
        text = (
            f"Its key is that of S{claim.id} ({first}), which came {span(known.apart)} before, at "
            f"{rfc_3339(claim.first_received_at)}: nothing would be placed again"
        )
        known_already = msgspec.structs.replace(
            good,
            http_status=self._source.duplicate_status,
            status="duplicate",
            headline=f"Nothing: it is a duplicate of S{claim.id}",
        )
        return _adding(known_already, Sentence(Kind.KNOWN, text), first=True)

    def _admission(self) -> Admission:
        return admission_of(self._settings, self._source)

    def _books(self, alert: Alert) -> dict[str, Decimal]:
        """By account: what the strategy's book holds, empty where there is no ledger to ask."""
        if self._tx is None:
            return {}
        signal = alert.signal
        return {
            account: orders.book_of(
                self._tx,
                account,
                instrument_of(account, signal.symbol, signal.exchange),
                self._source.id,
                signal.strategy or "",
            )
            for account in self._source.accounts
        }


# --------------------------------------------------------------------------------------------------- helpers


def source_facts(
    settings: Settings, source: Source, books: Mapping[str, Decimal] | None = None
) -> SourceFacts:
    """What of the settings changes what a message means, in words."""
    held = books or {}
    accounts = tuple(
        AccountFacts(
            name=account.name,
            live=account.live,
            sizing=_sizing(account.sizing),
            allow_short=account.allow_short,
            book=held.get(account.name),
        )
        for account in settings.accounts
        if account.name in source.accounts
    )
    return SourceFacts(
        name=source.name,
        accounts=accounts,
        max_age=source.max_age,
        max_exit_age=source.max_exit_age,
        keys_kept=settings.retention.keys,
    )


def _sizing(sizing: object) -> str:
    match sizing:
        case QuantitySizing(quantity=quantity):
            return f"{quantity:f} (the account's size) of"
        case CashSizing(cash=cash):
            return f"{cash:f} in cash worth of"
        case EquitySizing(fraction=fraction):
            return f"{fraction * 100:f}".rstrip("0").rstrip(".") + " % of the account's equity of"
    return ""


def _adding(found: Explanation, sentence: Sentence, *, first: bool = False) -> Explanation:
    said = (sentence, *found.sentences) if first else (*found.sentences, sentence)
    return msgspec.structs.replace(found, sentences=said)


def _conflict(good: Explanation, known: Known) -> Explanation:
    conflict = known.conflict
    assert conflict is not None
    said = [
        Sentence(Kind.PROBLEM, f"{capital(conflict.detail)} (S{known.claim.id})"),
        Sentence(Kind.PROBLEM, f"Different: {', '.join(conflict.fields)}"),
        Sentence(Kind.REMEDY, REMEDIES.get(conflict.reason, "")),
    ]
    return msgspec.structs.replace(
        good,
        http_status=422,
        status="conflict",
        headline=f"Refused: {HEADS.get(conflict.reason, 'its key is known')}",
        reason=conflict.reason,
        fields=conflict.fields,
        sentences=(*said, *good.sentences),
    )


def _turned_down(good: Explanation, http_status: int, status: str, reason: str, detail: str) -> Explanation:
    """Understood, and refused all the same: what it would have done stays to be read."""
    said = [Sentence(Kind.PROBLEM, f"It would have been: {good.headline}")]
    if detail:
        said.insert(0, Sentence(Kind.PROBLEM, capital(detail)))
    if remedy := REMEDIES.get(reason, ""):
        said.append(Sentence(Kind.REMEDY, remedy))
    return msgspec.structs.replace(
        good,
        http_status=http_status,
        status=status,
        headline=f"Refused: {HEADS.get(reason, reason)}",
        reason=reason,
        sentences=(*said, *good.sentences),
    )


def _invalid(error: InvalidSignal, source: Source, raw: bytes, filled: Filled | None) -> Explanation:
    title, said = explain_refusal(error)
    http_status, status, reason = 400, "invalid", error.reason
    if source.auth == "body" and error.reason in _BEFORE_THE_SECRET:
        http_status, status, reason = 401, "unauthorized", "unreadable"
        said.append(Sentence(Kind.REMEDY, REMEDIES[reason]))
    return Explanation(
        http_status=http_status,
        status=status,
        headline=title,
        sentences=tuple(said),
        reason=reason,
        fields=error.fields,
        marks=_marks(error, raw, filled),
    )


_BEFORE_THE_SECRET = frozenset(
    """
    empty_body not_utf8 not_an_order_message invalid_json batch_unsupported duplicate_key too_deep
    too_many_fields string_too_long lone_surrogate number_too_long number_out_of_range non_finite_number
    """.split()  # noqa: SIM905 a table of words
)


def _marks(error: InvalidSignal, raw: bytes, filled: Filled | None) -> tuple[Mark, ...]:
    """Places in the text as it was given, before anything was filled in."""
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    place = place_said(error.detail) if error.reason == "invalid_json" else None
    at = offset_of_byte(raw, error.detail) if error.reason == "not_utf8" else None
    if place is not None:
        at = offset_of(text, *place)
    if filled is not None and filled.values:
        if at is not None:
            at = filled.original(at)
        text = filled.before
    if at is not None:
        return (mark_at(text, at, at + 1),)
    return field_marks(text, error.fields)


def _with_notes(found: Explanation, filled: Filled | None) -> Explanation:
    if filled is None or not filled.values:
        return found
    values = ", ".join(f"{name} = {value}" for name, value in filled.values.items())
    found = _adding(found, Sentence(Kind.NOTE, f"Filled in as TradingView would: {values}"))
    if filled.strategy_only:
        text = "Placeholders with strategy. are filled in by alerts of a strategy only, not of an indicator"
        found = _adding(found, Sentence(Kind.NOTE, text))
    return found
