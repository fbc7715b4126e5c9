"""Identity: the key a signal is claimed under, and when two signals ask for the same (CONTRACT 3, 'Key').

Pure. A key is never cut, never joined from a template and never made from a clock. What is digested here is
stored for ever: a changed rule is a new version beside the old one, which stays callable (HOLES H41).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal

import msgspec

from app.domain.alert import Alert, SentKey
from app.domain.canonical import Canonical, digest
from app.domain.number import plain
from app.domain.signal import InvalidSignal, KeySource, Signal

RULE_VERSION = 1
"""The rule that new keys and fingerprints are made by."""

MAX_KEY = 255
MAX_LABEL = 20
ADMIT_EPOCH = 600_000_000
"""Microseconds: ten minutes, the span in which an admitted signal without a bar time is one and the same."""

_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
"""A string of RFC 8941 section 3.3.3: printable ASCII, with quote and backslash escaped."""


class HeaderKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the three key headers as they arrived, one a header line."""

    idempotency_key: tuple[str, ...] = ()
    x_idempotency_key: tuple[str, ...] = ()
    webhook_id: tuple[str, ...] = ()


class KeyPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The source's settings: `body_key = "label"`, and `without_time = "refuse"` instead of `"window"`."""

    body_key_is_label: bool = False
    refuse_without_time: bool = False


class ChosenKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key, where it came from, and the label that went into a derived one.

    `from_header`: a header carried it, alone or beside the body; such a key is exempt from the ten minutes
    after which a key without a bar time counts as re-used.
    """

    key: str
    source: KeySource
    from_header: bool = False
    label: str | None = None
    warnings: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------ the choice


def choose_key(source_id: str, alert: Alert, headers: HeaderKeys, policy: KeyPolicy) -> ChosenKey:
    """The key of this delivery: sent in body or header, else derived.

    Raises InvalidSignal: `keys_disagree`, `repeated_header`, `invalid_key`, `key_too_long`, `missing_key`.
    """
    labels = _Labels(policy.body_key_is_label)
    sent: list[tuple[str, str]] = []
    in_body = labels.identity(alert.keys.key)
    if in_body is not None and alert.keys.key is not None:
        sent.append((alert.keys.key.name, in_body))
    for name, lines in (
        ("Idempotency-Key", headers.idempotency_key),
        ("X-Idempotency-Key", headers.x_idempotency_key),
    ):
        value = _header(name, lines)
        if value is not None:
            sent.append((name, value))
    if len({key for _, key in sent}) > 1:
        names = tuple(name for name, _ in sent)
        raise InvalidSignal("keys_disagree", names, f"{' and '.join(names)} carry different keys")
    if sent:
        only_in_body = in_body is not None and len(sent) == 1
        source = KeySource.HEADER if in_body is None else KeySource.BODY
        return ChosenKey(key=sent[0][1], source=source, from_header=not only_in_body)
    for candidate in (alert.keys.id, alert.keys.trace_id):
        value = labels.identity(candidate)
        if value is not None:
            return ChosenKey(key=value, source=KeySource.BODY)
    value = _header("webhook-id", headers.webhook_id)
    if value is not None:
        return ChosenKey(key=value, source=KeySource.HEADER, from_header=True)
    return _derived(source_id, alert, labels, policy)


def is_label(text: str) -> bool:
    """At most 20 letters, spaces, `_` and `-`: the name of a Pine order or of an alert, not of one signal."""
    return len(text) <= MAX_LABEL and all(c.isalpha() or c in " _-" for c in text)


def normalise_key(name: str, text: str) -> str | None:
    """The key in NFC without surrounding spaces; None where nothing is left. `name` is for the refusal."""
    key = unicodedata.normalize("NFC", text).strip()
    if not key.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs") for c in key):
        raise InvalidSignal("invalid_key", (name,), "a control character or half a surrogate pair in it")
    if len(key) > MAX_KEY:
        raise InvalidSignal(
            "key_too_long", (name,), f"{len(key)} characters; at most {MAX_KEY}, it is never cut"
        )
    return key or None


class _Labels:
    """The labels met on the way to the key, and what has to be said about them."""

    def __init__(self, every_body_key: bool) -> None:
        self._every_body_key = every_body_key
        self._names: list[str] = []
        self.label: str | None = None

    def identity(self, candidate: SentKey | None) -> str | None:
        """The candidate's text, or None where there is none or where it is a label."""
        text = None if candidate is None else normalise_key(candidate.name, candidate.value)
        if candidate is None or text is None:
            return None
        if not self._every_body_key and not is_label(text):
            return text
        self.add(candidate.name, text)
        return None

    def add(self, name: str, text: str) -> None:
        self._names.append(name)
        self.label = self.label or text

    def warnings(self) -> tuple[str, ...]:
        if not self._names:
            return ()
        names = " and ".join(self._names)
        return (f"label_key: {names} names an order or an alert, not one signal; the key is derived with it",)


def _header(name: str, lines: tuple[str, ...]) -> str | None:
    if len(lines) > 1:
        raise InvalidSignal("repeated_header", (name,), f"{name} came {len(lines)} times")
    text = lines[0].strip(" \t") if lines else ""
    if text.startswith('"'):
        match = _QUOTED.fullmatch(text)
        if match is None:
            raise InvalidSignal("invalid_key", (name,), f"{name} opens a quote but is no string of RFC 8941")
        text = re.sub(r"\\(.)", r"\1", match[1])
    return normalise_key(name, text)


def _derived(source_id: str, alert: Alert, labels: _Labels, policy: KeyPolicy) -> ChosenKey:
    signal, alert_id = alert.signal, alert.keys.alert_id
    if labels.label is None and alert_id is not None:
        # Always a label, so it warns of nothing: it is meant to name the alert.
        labels.label = normalise_key(alert_id.name, alert_id.value)
    warnings = labels.warnings()
    if signal.bar_time is not None:
        key = derived_key(source_id, signal, labels.label)
        return ChosenKey(key=key, source=KeySource.DERIVED, label=labels.label, warnings=warnings)
    if policy.refuse_without_time:
        detail = 'send a key that is new for every signal, or the bar time: "bar_time": "{{time}}"'
        raise InvalidSignal("missing_key", ("key",), detail)
    sentence = "no key and no bar time: equal alerts within 45 s count as one; add {{time}} or a key"
    return ChosenKey(
        key=window_key(source_id, signal, labels.label),
        source=KeySource.WINDOW,
        label=labels.label,
        warnings=(*warnings, f"window_key: {sentence}"),
    )


# --------------------------------------------------------------------------------- what is digested (stored)


def derived_key(source_id: str, signal: Signal, label: str | None, version: int = RULE_VERSION) -> str:
    """`d1:` and the digest of what tells this signal from others of its source: no price, no fire time."""
    return f"d{version}:" + digest(_DERIVED[version](source_id, signal, label)).hex()


def window_key(source_id: str, signal: Signal, label: str | None, version: int = RULE_VERSION) -> str:
    """`w1:` and the digest of intent, order id and label; claim_digest adds the window's epoch."""
    parts: list[Canonical] = [source_id, _INTENT[version](signal), signal.order_id, label]
    return f"w{version}:" + digest(parts).hex()


def keys_of_earlier_rules(source_id: str, signal: Signal, key: ChosenKey) -> tuple[ChosenKey, ...]:
    """What a derived or window key was called by the rules before this one, newest first; none of a sent one.

    Else an upgrade between a send and its resend would make two signals of one (HOLES H41).
    """
    make = {KeySource.DERIVED: derived_key, KeySource.WINDOW: window_key}.get(key.source)
    if make is None:
        return ()
    return tuple(
        msgspec.structs.replace(key, key=make(source_id, signal, key.label, version))
        for version in range(RULE_VERSION - 1, 0, -1)
    )


def admitted_key(original_key: str, signal: Signal, received_at: int, version: int = RULE_VERSION) -> str:
    """`a1:` and the digest that a conflicting delivery is admitted under, by a person or as an exit (H16).

    The bar time tells two admissions apart; without one, the ten minutes in which they were received.
    """
    moment: list[Canonical] = ["epoch", received_at // ADMIT_EPOCH]
    if signal.bar_time is not None:
        moment = ["bar", signal.bar_time]
    return f"a{version}:" + digest([original_key, _INTENT[version](signal), *moment]).hex()


def claim_digest(source_id: str, key: str, epoch: int | None) -> bytes:
    """SHA-256 of what a claim is unique by: source, key, and the epoch of a window key (DESIGN 5)."""
    return digest([source_id, key, epoch])


def intent_of(signal: Signal, version: int = RULE_VERSION) -> dict[str, str | None]:
    """What the payload asks for, numbers by value, without what it only reports (CONTRACT 3, 'Intent')."""
    return _INTENT[version](signal)


def intent_fingerprint(signal: Signal, version: int = RULE_VERSION) -> bytes:
    return digest(_INTENT[version](signal))


def differing_fields(one: Signal, other: Signal, version: int = RULE_VERSION) -> tuple[str, ...]:
    """Names of what the two ask for differently; empty exactly where their fingerprints are equal."""
    a, b = _INTENT[version](one), _INTENT[version](other)
    return tuple(name for name in a if a[name] != b[name])


def raw_fingerprint(body: bytes) -> bytes:
    """SHA-256 of the body as it arrived, for the record only: it decides nothing."""
    return hashlib.sha256(body).digest()


_INTENT_V1 = (
    "symbol", "exchange", "strategy", "action", "quantity", "type", "limit_price", "stop_price", "tif",
    "take_profit", "stop_loss", "market_position", "market_position_size", "prev_market_position",
    "prev_market_position_size", "sentiment", "reduce_only", "paper_only",
)  # fmt: skip
_TRANSITION_V1 = _INTENT_V1[11:15]


def _intent_v1(signal: Signal) -> dict[str, str | None]:
    return {name: _text(getattr(signal, name)) for name in _INTENT_V1}


DERIVED_FROM = ("strategy", "exchange", "symbol", "interval", "bar_time", "action", "order_id")
TRANSITION = _TRANSITION_V1
"""Fields of a Signal that a derived key is made of, besides source and label: for telling a person."""


def _derived_v1(source_id: str, signal: Signal, label: str | None) -> Canonical:
    transition = [_text(getattr(signal, name)) for name in _TRANSITION_V1]
    return [source_id, *(_text(getattr(signal, name)) for name in DERIVED_FROM), label, transition]


def _text(value: object) -> str | None:
    """A value of a Signal as text: a number by its value, a word as it is spelled, a time in microseconds."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_INTENT: dict[int, Callable[[Signal], dict[str, str | None]]] = {1: _intent_v1}
_DERIVED: dict[int, Callable[[str, Signal, str | None], Canonical]] = {1: _derived_v1}
"""Rule version -> rule. A version that was ever released stays here, unchanged."""
