"""From the parts' own words to the facts that a person sees: a word, a level, a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.clock import SECOND
from app.domain.risk import TradingState
from app.engine.lag import ERROR_MS, WARNING_MS, LoopLag
from app.engine.status import Fact, Level
from app.execution.session import AccountFact
from app.ledger.counts import STRANGE
from app.ledger.standing import Trouble
from app.ledger.writer import Health
from app.listener.server import DoorFacts

WAL_WARNING = 16 * 1024 * 1024
WAL_ERROR = 64 * 1024 * 1024
"""Bytes of write-ahead log (HOLES H24)."""

_ACCOUNT_LEVELS: dict[str, Level] = {
    "ready": "ok",
    "failing": "error",
    "blocked": "error",
    "exits_only": "error",
}

_LEDGER_REASONS = {
    "full": "the disk is full: free space; deliveries are answered 503 until then",
    "read-only": "the ledger cannot be written: allow it; deliveries are answered 503 until then",
    "locked": "another program holds the ledger: close it; deliveries are answered 503 until then",
    "failing": "the disk fails: look at it; deliveries are answered 503 until then",
    "stopping": "Onefill is stopping",
}


def listener(
    door: DoorFacts | None, strange: Mapping[str, int] | None = None, new_tokens: Sequence[str] = ()
) -> Fact:
    """`strange`: requests of the last hours by reason that may have been meant for a source; `new_tokens`:
    sources that had deliveries before and whose token was made anew at this start."""
    if door is None:
        return Fact("listener", "starting", "warning", "the door is not open yet")
    if door.word == "open" and (strange or new_tokens):
        said = [f"listening on port {door.port}", *map(new_token, new_tokens)]
        said += [turned_away(strange)] if strange else []
        return Fact("listener", "open", "warning", "; ".join(said))
    if door.word == "open":
        return Fact("listener", "open", "ok", f"listening on port {door.port}")
    level: Level = "warning" if door.word == "stopping" else "error"
    return Fact("listener", door.word, level, door.reason or "the door is not open")


def turned_away(strange: Mapping[str, int]) -> str:
    """What may be somebody's alert that does not get in: nothing of it is kept, so this is all there is."""
    counted = ", ".join(
        f"{count} {'request' if count == 1 else 'requests'} with {STRANGE.get(reason, reason)}"
        for reason, count in sorted(strange.items())
    )
    return f"{counted} in the last two hours: is the address at the sender the one that `onefill url` shows?"


def new_token(source: str) -> str:
    return (
        f"the token of {source} was nowhere and was made anew, although alerts came in with one before: put "
        f"the address of `onefill url {source}` into every alert, or bring the old token back"
    )


def ledger(health: Health | None, broken_event: int | None) -> Fact:
    if health is None:
        return Fact("ledger", "starting", "warning", "not opened yet")
    if health.word != "ok":
        reason = _LEDGER_REASONS.get(health.word, health.word)
        return Fact(
            "ledger", health.word, "error", f"{reason} ({health.detail})" if health.detail else reason
        )
    if broken_event is not None:
        reason = f"the audit chain is broken at event E{broken_event}: the file was changed from outside"
        return Fact("ledger", "altered", "error", reason)
    if health.wal_bytes > WAL_WARNING:
        level: Level = "error" if health.wal_bytes > WAL_ERROR else "warning"
        reason = health.detail or f"{health.wal_bytes // 1_000_000} MB of write-ahead log await copying"
        return Fact("ledger", "growing", level, reason)
    return Fact("ledger", "ok", "ok", "every claim is on disk before its answer")


def account(fact: AccountFact, refused: str | None = None, trouble: Trouble | None = None) -> Fact:
    """`refused`: why it has no broker at all; `trouble`: what its ledger and broker disagree about."""
    if refused is not None:
        return Fact(f"account:{fact.name}", "failing", "error", refused)
    if trouble is not None and fact.word == "ready":
        return Fact(f"account:{fact.name}", trouble.word, "warning", trouble.reason)
    return Fact(f"account:{fact.name}", fact.word, _ACCOUNT_LEVELS.get(fact.word, "warning"), fact.reason)


def accounts(
    own: Iterable[AccountFact], refused: Mapping[str, str], troubles: Mapping[str, Trouble]
) -> list[Fact]:
    """Each account's own word, unless it has no broker, or its ledger and broker disagree."""
    return [account(fact, refused.get(fact.name), troubles.get(fact.name)) for fact in own]


def clock(behind: int, jump: int, stood_still: int = 0) -> Fact:
    """Microseconds: `behind` what an earlier run has seen; `jump` of a recent step, signed; `stood_still`
    of a recent sleep."""
    if behind > 0:
        reason = f"the clock stands {_span(behind)} before what was seen earlier: set it right"
        return Fact("clock", "behind", "error", f"{reason}; entries are held back")
    if jump:
        way = "forward" if jump > 0 else "back"
        return Fact("clock", "stepped", "warning", f"the clock went {way} by {_span(abs(jump))} at once")
    if stood_still:
        reason = f"the program stood still for {_span(stood_still)} (asleep?); the accounts were opened anew"
        return Fact("clock", "stepped", "warning", reason)
    return Fact("clock", "ok", "ok", "steady")


def trading(state: TradingState) -> Fact:
    match state:
        case TradingState.ACTIVE:
            return Fact("trading", "active", "ok", "signals become orders")
        case TradingState.EXITS_ONLY:
            return Fact(
                "trading", "exits_only", "warning", "entries are denied, exits go out; resume to end it"
            )
        case TradingState.HALTED:
            return Fact("trading", "halted", "warning", "every order is denied; resume to end it")


def loop(lag: LoopLag) -> Fact:
    largest = lag.max_ms
    if largest <= WARNING_MS:
        return Fact("loop", "ok", "ok", "answers in time")
    level: Level = "error" if largest > ERROR_MS else "warning"
    reason = f"the program stood still for {largest:.0f} ms within the last minute: answers may come late"
    return Fact("loop", "slow", level, reason)


def backup(problem: str) -> list[Fact]:
    """Empty while the backup of the day is there, or not due yet."""
    return [Fact("backup", "failing", "warning", problem)] if problem else []


def program(dead: Iterable[str], unattended: int, fatal: str | None) -> list[Fact]:
    """What should not happen at all; empty where it did not."""
    if fatal is not None:
        return [Fact("program", "stopping", "error", fatal)]
    names = sorted(dead)
    if names:
        reason = f"a part of the program died: {', '.join(names)}: restart Onefill, the log has the details"
        return [Fact("program", "broken", "error", reason)]
    if unattended:
        return [Fact("program", "waiting", "error", f"{unattended} orders wait and nobody works on them")]
    return []


def _span(microseconds: int) -> str:
    seconds = microseconds // SECOND
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3600} h"
