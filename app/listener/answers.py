"""What is said back: every answer of the hook, as data (CONTRACT 3).

Shapes only, decided elsewhere. No answer holds a secret, a token or the body, and none is ever 500 or 504:
senders do not resend after those.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from app.claims.base import Refusal, Verdict
from app.clock import SECOND

RETRY_AFTER = "5"
"""Seconds; TradingView resends 5 s after a 5xx."""


class Answer(msgspec.Struct, frozen=True):
    """One answer. `body` is what the JSON holds, `status` first; `headers` are those of this answer only."""

    http_status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}
    close: bool = False
    """The connection ends with it: what is left of the request is not worth reading."""

    @property
    def word(self) -> str:
        return str(self.body["status"])

    @property
    def reason(self) -> str | None:
        return self.body.get("reason")

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.body)


NOT_FOUND = Answer(404, {"status": "not_found", "reason": "not_found"})
"""One answer for an unknown path, an unknown source, a wrong token and a browser."""

NO_PATH = msgspec.structs.replace(NOT_FOUND, close=True)

METHOD_NOT_ALLOWED = Answer(405, {"status": "method_not_allowed", "reason": "post_only"}, {"Allow": "POST"})

MALFORMED = Answer(400, {"status": "invalid", "reason": "malformed_request", "fields": []}, close=True)
"""What was sent is not HTTP, or bigger than a request line or header may be."""

TOO_LARGE = Refusal(413, "too_large", "body_over_64_kib", detail="a body may have 65536 bytes")
ENCODED = Refusal(
    415, "unsupported_encoding", "content_encoding", detail="send the body as it is, without Content-Encoding"
)

BAD_FRAMING = Refusal(
    400, "invalid", "bad_framing", detail="the body does not end where its headers or chunks say it does"
)

_CLOSING = frozenset({TOO_LARGE.reason, BAD_FRAMING.reason, "body_timeout", "disconnected"})

_SENTENCES = {
    "late": "no durable claim within the time allowed",
    "full": "the disk is full",
    "locked": "another program holds the ledger",
    "read_only": "the ledger cannot be written",
    "failing": "the ledger cannot be written",
    "stopping": "Onefill is stopping",
    "internal": "an error before anything was claimed",
    "body_timeout": "the body did not arrive in time",
    "disconnected": "the connection ended inside the body",
}
"""What a 503 tells a person. No error's own text: it may name a path."""


def health(word: str) -> Answer:
    """`word` is ok, degraded or halted."""
    return Answer(200, {"status": word})


def unauthorized(reason: str) -> Answer:
    """`reason` is bad_secret, missing_secret or unreadable."""
    return Answer(401, {"status": "unauthorized", "reason": reason})


def not_accepted(reason: str, detail: str = "") -> Refusal:
    """Nothing was claimed for this delivery; the sender should send again."""
    word = reason.replace("-", "_")
    return Refusal(503, "not_accepted", word, detail=detail or _SENTENCES.get(word, ""))


def of_refusal(refusal: Refusal) -> Answer:
    body: dict[str, Any] = {"status": refusal.verdict, "reason": refusal.reason}
    if refusal.http_status in (400, 422):
        body["fields"] = list(refusal.fields)
    if refusal.detail:
        body["detail"] = refusal.detail
    headers = {"Retry-After": RETRY_AFTER} if refusal.http_status == 503 else {}
    return Answer(refusal.http_status, body, headers, close=refusal.reason in _CLOSING)


def of_verdict(verdict: Verdict, duplicate_status: int) -> Answer:
    """The answer to a delivery that the claim's transaction decided."""
    if verdict.kind == "accepted":
        return accepted(verdict)
    if verdict.kind == "duplicate":
        return duplicate(verdict, duplicate_status)
    if verdict.kind == "conflict":
        return of_refusal(Refusal(422, "conflict", _reason(verdict), verdict.fields, verdict.detail))
    if verdict.kind == "stale":
        body = {"status": "stale", "reason": _reason(verdict)}
        return Answer(422, body | ({"detail": verdict.detail} if verdict.detail else {}))
    return of_refusal(not_accepted(_reason(verdict), verdict.detail))


def accepted(verdict: Verdict) -> Answer:
    body = {
        "status": "accepted",
        "signal": _signal(verdict),
        "key": verdict.key,
        "key_source": verdict.key_source,
        "outcome": verdict.outcome,
    }
    return Answer(200, body | _warnings(verdict))


def duplicate(verdict: Verdict, http_status: int) -> Answer:
    first = verdict.first_received_at
    body: dict[str, Any] = {
        "status": "duplicate",
        "signal": _signal(verdict),
        "outcome": verdict.outcome,
        "first_seen": None if first is None else rfc_3339(first),
        "deliveries": verdict.deliveries,
    }
    if http_status != 200:
        body["reason"] = "duplicate"
    return Answer(http_status, body | _warnings(verdict), {"Idempotent-Replayed": "true"})


def in_short(verdict: Verdict, duplicate_status: int) -> Answer:
    """The answer to a claim that stands, without what could not be put into words."""
    http_status = duplicate_status if verdict.kind == "duplicate" else 200
    body = {"status": verdict.kind, "signal": _signal(verdict)}
    return Answer(http_status, body if http_status == 200 else body | {"reason": "duplicate"})


def rfc_3339(microseconds: int) -> str:
    """UTC to the microsecond, as the ledger's views spell it."""
    seconds, fraction = divmod(microseconds, SECOND)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=fraction)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _warnings(verdict: Verdict) -> dict[str, Any]:
    """What a person should know about how it was read; a sender sees it while he still tries things out."""
    return {"warnings": list(verdict.warnings)} if verdict.warnings else {}


def _signal(verdict: Verdict) -> str | None:
    return None if verdict.claim_id is None else f"S{verdict.claim_id}"


def _reason(verdict: Verdict) -> str:
    return verdict.reason or verdict.kind
