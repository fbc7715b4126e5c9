"""What an answer to an order proves: one pure function for every venue, over a table that the adapter brings.

No venue is named here. Whatever is neither a proven refusal nor our own order coming back is Unknown: a
page with status 200, an order under another id, a refusal that the table does not list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from app.brokers.base import (
    BrokerOrder,
    DuplicateId,
    Placed,
    Refused,
    SubmitReply,
    Throttled,
    Unknown,
    Unsent,
)

MAX_DETAIL = 200
"""Characters of a venue's own words that are kept."""

Path = tuple[str | int, ...]
"""Where something stands in a JSON answer: `("error", 0)` is the first entry of the list `error`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Fits an answer if all that it states does. `code` must match as a whole, `message` somewhere.

    A rule that states neither fits every readable answer of its statuses, with a code or without.
    """

    code: str = ""
    message: str = ""
    statuses: tuple[int, ...] = ()
    """Empty: any that says that the venue has processed the request (2xx and 4xx)."""

    def fits(self, status: int, code: str, message: str) -> bool:
        if not (status in self.statuses if self.statuses else _is_processed(status)):
            return False
        if self.code and not re.fullmatch(self.code, code):
            return False
        return not self.message or re.search(self.message, message, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class ReplyCodes:
    """A venue's raw codes (facts/brokers-and-reconciliation 2.2), as data. The first rule that fits decides,
    duplicates before unknown before refused before throttled."""

    read_order: Callable[[Any], BrokerOrder | None]
    """The order in a decoded answer of success; None, or a ValueError, where there is none to be read."""
    code_at: tuple[Path, ...] = (("code",),)
    message_at: tuple[Path, ...] = (("message",),)
    duplicate: tuple[Rule, ...] = ()
    unknown: tuple[Rule, ...] = ()
    refused: tuple[Rule, ...] = ()
    throttled: tuple[Rule, ...] = ()


def classify(
    codes: ReplyCodes,
    client_order_id: str,
    *,
    left: bool,
    status: int | None = None,
    body: bytes = b"",
    retry_after: int | None = None,
    error: str = "",
) -> SubmitReply:
    """What is known of an order after one try.

    `left`: whether a byte of it may have left. `status` is None where no answer came, then `error` says why.
    `body` is the raw answer, complete; `retry_after` is in microseconds.
    """
    if not left:
        return Unsent(_short(error) or "not sent")
    if status is None:
        return Unknown(_short(error) or "no answer")
    if error:
        return Unknown(_short(f"HTTP {status}, and then: {error}"))
    answer = _decode(body)
    if answer is None:
        return _unreadable(status, body)
    code, message = _first(answer, codes.code_at), _first(answer, codes.message_at)
    said = _short(f"HTTP {status} {code} {message}")
    if _any(codes.duplicate, status, code, message):
        return DuplicateId(said)
    if _any(codes.unknown, status, code, message):
        return Unknown(said)
    if _any(codes.refused, status, code, message):
        return Refused(code or f"HTTP_{status}", _short(message))
    if _any(codes.throttled, status, code, message):
        return Throttled(said, retry_after)
    if not 200 <= status < 300:
        return Unknown(said)
    return _read(codes, client_order_id, answer, said)


def _read(codes: ReplyCodes, client_order_id: str, answer: Any, said: str) -> SubmitReply:
    try:
        order = codes.read_order(answer)
    except (ValueError, ArithmeticError, KeyError, TypeError) as error:
        return Unknown(_short(f"{said} an order that cannot be read: {error}"))
    if order is None or not order.broker_order_id:
        return Unknown(_short(f"{said} no order in the answer"))
    if order.client_order_id != client_order_id:
        return Unknown(_short(f"{said} the order in the answer is not ours: {order.client_order_id}"))
    return Placed(order)


def _unreadable(status: int, body: bytes) -> SubmitReply:
    """No JSON object or list: a gateway's page, half an answer, nothing at all.

    A 429 is no exception: a gateway may say it after the venue has executed the order, with any header.
    """
    start = body[:60].decode("utf-8", "replace") if body else "an empty body"
    return Unknown(_short(f"HTTP {status} unreadable: {start}"))


def _is_processed(status: int) -> bool:
    return 200 <= status < 300 or (400 <= status < 500 and status != 408)


def _any(rules: tuple[Rule, ...], status: int, code: str, message: str) -> bool:
    return any(rule.fits(status, code, message) for rule in rules)


def _decode(body: bytes) -> Any:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return answer if isinstance(answer, dict | list) else None


def _first(answer: Any, paths: tuple[Path, ...]) -> str:
    """The first of the places that holds a text or a number, as text."""
    for path in paths:
        found = answer
        for step in path:
            found = _step(found, step)
        if isinstance(found, str | int) and not isinstance(found, bool) and found != "":
            return str(found)
    return ""


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, Mapping) else None
    return value[step] if isinstance(value, list) and len(value) > step else None


def _short(text: str) -> str:
    return " ".join(text.split())[:MAX_DETAIL]
