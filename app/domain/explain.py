"""What a message would do, in plain words: the order, its key, its age; or why it is refused and the remedy.

Pure, and a second opinion of nothing: it puts into words what `alert.py` and `key.py` have read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import msgspec

from app.domain.alert import Alert
from app.domain.book import reads_as_exit
from app.domain.explain_words import HEADS, REMEDIES, fallback_head
from app.domain.freshness import Age, signal_age
from app.domain.key import DERIVED_FROM, ChosenKey
from app.domain.locate import Mark, place_said
from app.domain.number import plain
from app.domain.repeat import WINDOW
from app.domain.signal import Action, Direction, InvalidSignal, KeySource, OrderType, Signal
from app.domain.times import SECOND

ZERO = Decimal(0)


class Kind(StrEnum):
    """What a sentence is about; the window gives each its heading."""

    ORDER = "order"
    KEY = "key"
    TIME = "time"
    KNOWN = "known"
    WARNING = "warning"
    PROBLEM = "problem"
    REMEDY = "remedy"
    NOTE = "note"


class Sentence(msgspec.Struct, frozen=True):
    kind: Kind
    text: str


class AccountFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What of an account changes what an alert means there. `sizing` is empty where the signal's own quantity
    counts, else as a person says it. `book` is what the strategy holds there; None where nobody looked."""

    name: str
    live: bool = False
    sizing: str = ""
    allow_short: bool = False
    book: Decimal | None = None


class SourceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message came in. Durations in microseconds; `keys_kept` None is for ever."""

    name: str
    accounts: tuple[AccountFacts, ...]
    max_age: int
    max_exit_age: int
    keys_kept: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is the word of the answer (CONTRACT 3): accepted, duplicate, conflict, stale, invalid, ...

    `marks` are places in the text that was given, where something is wrong.
    """

    http_status: int
    status: str
    headline: str
    sentences: tuple[Sentence, ...] = ()
    reason: str = ""
    fields: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    key: str | None = None
    key_source: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether the door would answer as to a message that it understood and that is new or a repeat."""
        return self.status in ("accepted", "duplicate")

    def of(self, *kinds: Kind) -> tuple[str, ...]:
        return tuple(each.text for each in self.sentences if each.kind in kinds)

    @property
    def text(self) -> str:
        """All of it, a line each."""
        return "\n".join([self.headline, *(f"- {each.text}" for each in self.sentences)])


# ------------------------------------------------------------------------------------------- what is accepted


def explain_alert(alert: Alert, key: ChosenKey, source: SourceFacts, at: int) -> tuple[str, list[Sentence]]:
    """Headline and sentences of a message that the door would claim at `at` (UTC microseconds)."""
    signal = alert.signal
    warnings = (*alert.warnings, *key.warnings)
    said = [
        *(Sentence(Kind.ORDER, text) for text in _order_notes(signal, source)),
        Sentence(Kind.KEY, key_sentence(key, signal)),
        Sentence(Kind.KEY, duplicates_sentence(key, source)),
        Sentence(Kind.TIME, time_sentence(signal, source, at)),
        *(Sentence(Kind.WARNING, _warning(text)) for text in warnings),
    ]
    return headline(signal, source), said


def headline(signal: Signal, source: SourceFacts) -> str:
    """`Buy 10 AAPL at market on paper`."""
    return f"{_what(signal, source)}{_how(signal)} on {_accounts(source)}"


def _what(signal: Signal, source: SourceFacts) -> str:
    symbol, target, size = signal.symbol, signal.target, _size(signal, source)
    match signal.action:
        case Action.CANCEL:
            return f"Cancel the open {symbol} orders of this strategy"
        case Action.EXIT:
            return f"Close {size or 'all'} of {symbol}" if signal.quantity else f"Close all {symbol}"
        case Action.REVERSE:
            return f"Turn the {symbol} position round" + (f" to {_position(target)}" if target else "")
    verb = "Buy" if signal.action is Action.BUY else "Sell"
    if target == ZERO:
        return f"{verb} {symbol} until nothing is left"
    if target is not None:
        most = f", at most {plain(signal.quantity)}" if signal.quantity is not None else ""
        return f"{verb} {symbol} until the position is {_position(target)}{most}"
    if signal.reduce_only:
        return f"{verb} {size or 'what is held of'} {symbol}, only to make a position smaller,"
    return f"{verb} {size or 'an amount that each account decides of'} {symbol}"


def _size(signal: Signal, source: SourceFacts) -> str:
    """The size in words; empty where the message says none that counts for all accounts."""
    sizings = {account.sizing for account in source.accounts}
    is_entry = not reads_as_exit(signal, ZERO) and signal.action is not Action.REVERSE
    if is_entry and sizings == {""} and signal.quantity is not None:
        return plain(signal.quantity)
    if is_entry and len(sizings) == 1:
        return next(iter(sizings))
    if not is_entry and signal.quantity is not None:
        return plain(signal.quantity)
    return ""


def _position(target: Decimal | None) -> str:
    if target is None:
        return "the other side"
    side = "long" if target > 0 else "short"
    return f"{side} {plain(abs(target))}"


def _how(signal: Signal) -> str:
    if signal.action is Action.CANCEL:
        return ""
    limit = None if signal.limit_price is None else plain(signal.limit_price)
    stop = None if signal.stop_price is None else plain(signal.stop_price)
    how = {
        OrderType.MARKET: " at market",
        OrderType.LIMIT: f" at {limit} or better (limit)",
        OrderType.STOP: f" at market once the price reaches {stop} (stop)",
        OrderType.STOP_LIMIT: f" at {limit} or better once the price reaches {stop} (stop limit)",
    }[signal.type]
    return how if signal.tif is None else f"{how}, {signal.tif.value}"


def _accounts(source: SourceFacts) -> str:
    names = [f"{account.name} (real money)" if account.live else account.name for account in source.accounts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _order_notes(signal: Signal, source: SourceFacts) -> list[str]:
    notes = []
    if signal.strategy is None:
        notes.append(
            "It names no strategy: it shares one book with all messages of this source that name none"
        )
    else:
        notes.append(f'It acts on the book of strategy "{signal.strategy}" of source {source.name} alone')
    notes += [_book_note(signal, account) for account in source.accounts if account.book is not None]
    if not any(account.book is not None for account in source.accounts):
        shorts = [account.name for account in source.accounts if not account.allow_short]
        if signal.action is Action.SELL and shorts and not reads_as_exit(signal, ZERO):
            notes.append(f"A sell with nothing held would be a short: denied on {' and '.join(shorts)}")
    if signal.action is not Action.CANCEL and not reads_as_exit(signal, ZERO):
        sized = {account.sizing for account in source.accounts if account.sizing}
        if sized and signal.quantity is not None:
            notes.append("Its quantity does not size the entry: the account's setting `sizing` does")
        notes.append("Limits of the account still apply: the order may be smaller, or denied with its reason")
    if signal.paper_only:
        notes.append("It says that it is a test: only paper accounts take it")
    for name, value in (("take profit", signal.take_profit), ("stop loss", signal.stop_loss)):
        if value is not None:
            notes.append(f"With it goes a {name}: {value}")
    return notes


def _book_note(signal: Signal, account: AccountFacts) -> str:
    assert account.book is not None
    held = "nothing" if account.book == 0 else f"{_position(account.book)} {signal.symbol}"
    note = f"On {account.name} that book holds {held} now"
    if signal.action is Action.EXIT and account.book == 0:
        return f"{note}: there would be nothing to do"
    if signal.action is Action.SELL and account.book <= 0 and not account.allow_short:
        return f"{note}, and shorts are not allowed: it would be denied (SHORT_NOT_ALLOWED)"
    return f"{note}: to Onefill this is an exit" if reads_as_exit(signal, account.book) else note


# ---------------------------------------------------------------------------------------------- key and age


def key_sentence(key: ChosenKey, signal: Signal) -> str:
    """Where the key comes from, and of what it is made."""
    match key.source:
        case KeySource.BODY:
            return f'Key "{key.key}", from the message itself'
        case KeySource.HEADER:
            return f'Key "{key.key}", from a header of the request'
        case KeySource.DERIVED:
            made_of = ", ".join(derived_from(signal, key.label))
            return f"Key derived from {made_of}; price, quantity and fire time are not part of it"
    label = f" and label {key.label}" if key.label else ""
    return f"No key and no bar time: the message is known by what it asks for{label} alone"


def derived_from(signal: Signal, label: str | None) -> list[str]:
    """The parts of a derived key, in words; what was not sent is left out."""
    parts = ["the source"]
    for name in DERIVED_FROM:
        value = getattr(signal, name)
        if value is not None:
            shown = rfc_3339(value) if name == "bar_time" else str(value)
            parts.append(f"{name.replace('_', ' ')} {shown}")
    if label:
        parts.append(f"label {label}")
    before = _side(signal.prev_market_position, signal.prev_market_position_size)
    after = _side(signal.market_position, signal.market_position_size)
    if before or after:
        parts.append(f"the position from {before or 'unknown'} to {after or 'unknown'}")
    return parts


def _side(side: Direction | None, size: Decimal | None) -> str:
    return " ".join(each for each in (side and side.value, size is not None and plain(size)) if each)


def duplicates_sentence(key: ChosenKey, source: SourceFacts) -> str:
    """How long a repeat is known as one."""
    if key.source is KeySource.WINDOW:
        return (
            f"Equal messages within {WINDOW // SECOND} s count as one; a later one is a new signal. "
            "Add a key or the bar time to be safe from late copies"
        )
    if source.keys_kept is None:
        return "A second message with this key is a duplicate, for ever: nothing is placed twice"
    days = source.keys_kept // (86_400 * SECOND)
    return (
        f"A second message with this key is a duplicate for {days} days, as long as keys are kept; "
        "after that one of so old a time is refused"
    )


def time_sentence(signal: Signal, source: SourceFacts, at: int) -> str:
    """How old it is, and how old it may become."""
    age = signal_age(signal, at)
    is_exit = reads_as_exit(signal, ZERO)
    limit = source.max_exit_age if is_exit else source.max_age
    kind = "an exit" if is_exit else "an entry"
    if age.microseconds is None:
        return "It states no time: a late one cannot be told from a fresh one"
    return f"{_age(age)}; {kind} older than {span(limit)} is refused"


def _age(age: Age) -> str:
    assert age.microseconds is not None
    if age.basis == "bar":
        return (
            "Its bar is still open"
            if age.microseconds == 0
            else f"Its bar closed {span(age.microseconds)} ago"
        )
    if age.microseconds < SECOND:
        return "It fired just now"
    return f"It fired {span(age.microseconds)} ago"


def _warning(text: str) -> str:
    """A warning is `word: sentence`; a person needs the sentence."""
    word, colon, sentence = text.partition(": ")
    return capital(sentence) if colon and word.replace("_", "").isalpha() else capital(text)


# -------------------------------------------------------------------------------------------- what is refused


def explain_refusal(error: InvalidSignal) -> tuple[str, list[Sentence]]:
    """Headline and sentences of what the door cannot take: what is wrong, where, and what to do."""
    head = HEADS.get(error.reason, fallback_head(error.reason))
    said = []
    # The place is marked and named apart.
    detail = error.detail if place_said(error.detail) is None else error.detail.partition(": ")[2]
    if detail:
        said.append(Sentence(Kind.PROBLEM, capital(detail)))
    if error.fields:
        named = ", ".join(error.fields)
        said.append(
            Sentence(Kind.PROBLEM, f"Field: {named}" if len(error.fields) == 1 else f"Fields: {named}")
        )
    remedy = REMEDIES.get(error.reason, "")
    if remedy:
        said.append(Sentence(Kind.REMEDY, remedy))
    return f"Refused: {head}", said


def refused(http_status: int, status: str, reason: str, detail: str) -> Explanation:
    """A refusal that is not about the message's meaning."""
    said = [Sentence(Kind.PROBLEM, capital(detail))] if detail else []
    if remedy := REMEDIES.get(reason, ""):
        said.append(Sentence(Kind.REMEDY, remedy))
    return Explanation(
        http_status=http_status,
        status=status,
        headline=f"Refused: {HEADS.get(reason, fallback_head(reason))}",
        sentences=tuple(said),
        reason=reason,
    )


# --------------------------------------------------------------------------------------------------- spelling


def span(microseconds: int) -> str:
    """`45 s`, `15 min`, `3 h`, `2 days`; rounded to what a person would say."""
    seconds = abs(microseconds) // SECOND
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def rfc_3339(microseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def capital(text: str) -> str:
    """A sentence begins with a capital; a field's own name is left as it is."""
    first = text.split(" ", 1)[0].rstrip(",;")
    return text if not first.isalpha() else f"{text[:1].upper()}{text[1:]}"
