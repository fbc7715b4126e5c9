"""The words and glyphs for every state that the window shows, as tables.

A new state is a new row here. The contract's own word stays in the tooltip, so that a person can find it in
the papers, the commands and the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.gui.theme import Tone


def tr(text: str) -> str:
    """The text in the user's language; safe on any thread."""
    return QCoreApplication.translate("Words", text)


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


@dataclass(frozen=True, slots=True)
class Word:
    glyph: str
    text: str
    tone: Tone
    help: str = ""

    @property
    def shown(self) -> str:
        return f"{self.glyph} {tr(self.text)}"


ORDER_STATES: Mapping[str, Word] = {
    "PENDING": Word("…", _("Waiting"), Tone.HELD, _("Not sent yet.")),
    "SUBMITTING": Word("→", _("Sending"), Tone.WORKING, _("On its way to the broker; no answer yet.")),
    "WORKING": Word("●", _("Working"), Tone.WORKING, _("The broker has it and it may still fill.")),
    "AMBIGUOUS": Word(
        "?",
        _("Ambiguous"),
        Tone.DOUBT,
        _("Nobody knows yet whether the broker has it. Onefill asks the broker and sends nothing again."),
    ),
    "NEEDS_OPERATOR": Word("!", _("Needs you"), Tone.DOUBT, _("Onefill cannot decide this alone.")),
    "DENIED": Word("✕", _("Denied"), Tone.BAD, _("Not sent: a limit or a rule stopped it.")),
    "NOT_PLACED": Word("✕", _("Not placed"), Tone.BAD, _("Proved: the broker does not have it.")),
    "DONE": Word("✓", _("Done"), Tone.GOOD, _("Over; nothing of it can still happen.")),
}

ORDER_STATUSES: Mapping[str, Word] = {
    "PendingNew": Word("●", _("Pending new"), Tone.WORKING),
    "New": Word("●", _("Working"), Tone.WORKING),
    "PartiallyFilled": Word("◐", _("Partly filled"), Tone.WORKING),
    "Filled": Word("✓", _("Filled"), Tone.GOOD),
    "Canceled": Word("–", _("Canceled"), Tone.QUIET),
    "Rejected": Word("✕", _("Rejected"), Tone.BAD, _("The broker refused it.")),
    "Expired": Word("–", _("Expired"), Tone.QUIET),
    "PendingCancel": Word(
        "●", _("Canceling"), Tone.HELD, _("Cancel sent, not confirmed: it may still fill.")
    ),
}

NOTHING_TO_DO = Word(
    "–", _("Nothing to do"), Tone.QUIET, _("There was nothing to close, so nothing was sent.")
)

VERDICTS: Mapping[str, Word] = {
    "accepted": Word("✓", _("Accepted"), Tone.GOOD, _("Claimed: it became a signal.")),
    "duplicate": Word("=", _("Duplicate"), Tone.SAME, _("The same signal again. Nothing was placed twice.")),
    "conflict": Word(
        "≠", _("Conflict"), Tone.DOUBT, _("The same key asks for something else. Nothing was placed.")
    ),
    "stale": Word("✕", _("Too old"), Tone.HELD, _("It came later than its source allows.")),
    "invalid": Word("✕", _("Invalid"), Tone.BAD, _("It could not be read as an order.")),
    "unauthorized": Word("✕", _("Wrong secret"), Tone.BAD, _("Nothing of it was kept.")),
    "not_accepted": Word(
        "!",
        _("Not accepted"),
        Tone.BAD,
        _("It could not be claimed safely. The sender was told to try again."),
    ),
}

RECONCILIATION_RESULTS: Mapping[str, Word] = {
    "OK": Word("✓", _("Agrees"), Tone.GOOD, _("Our orders, fills and positions agree with the broker's.")),
    "FINDINGS": Word("!", _("Differences"), Tone.HELD, _("Something differs: see the findings.")),
    "PARTIAL": Word(
        "?", _("Incomplete"), Tone.DOUBT, _("Part of the broker's answer is missing; nothing is concluded.")
    ),
    "FAILED": Word("✕", _("Failed"), Tone.BAD, _("The broker could not be asked.")),
}

POSITION_STATES: Mapping[str, Word] = {
    "agrees": Word("✓", _("Agrees"), Tone.GOOD, _("The broker holds what our fills add up to.")),
    "differs": Word("!", _("Differs"), Tone.HELD, _("The broker holds something else than our fills say.")),
    "moved": Word(
        "…",
        _("Compare again"),
        Tone.QUIET,
        _("We have traded it since the broker was asked: reconcile."),
    ),
    "unknown": Word("?", _("Not known"), Tone.DOUBT, _("The broker has not told its positions yet.")),
}

REPORT_COLOURS: Mapping[str, Word] = {
    "green": Word("✓", _("All well"), Tone.GOOD),
    "amber": Word("!", _("Worth a look"), Tone.HELD),
    "red": Word("✕", _("Needs a look now"), Tone.BAD),
}

DRIFTS: Mapping[str, Word] = {
    "none": Word("✓", _("Agrees"), Tone.GOOD),
    "dust": Word("·", _("Less than a step"), Tone.QUIET),
    "pending": Word("…", _("Still moving"), Tone.HELD),
    "explained_external": Word("i", _("Another's, explained"), Tone.SAME),
    "unexplained": Word("!", _("Unexplained"), Tone.BAD),
    "unknown": Word("?", _("UNKNOWN"), Tone.DOUBT),
}
"""Why a position is off."""

SECTIONS: Mapping[str, str] = {
    "clock": _("clock"),
    "positions": _("positions"),
    "open_orders": _("open orders"),
    "recent_orders": _("closed orders"),
    "fills": _("fills"),
    "account": _("account"),
}

REPORT_LISTS: Mapping[str, str] = {
    "ghosts": _("Called absent, there after all"),
    "conflicts": _("Contradictions"),
    "missing_at_broker": _("Open here, unknown to the broker"),
    "ambiguous": _("Of unknown fate"),
    "resolved_now": _("Found out by this run"),
    "unknown_at_us": _("Not ours, not touched"),
}
"""Of a run's report, the lists of orders, worst first."""

SEVERITIES: Mapping[str, Word] = {
    "info": Word("i", _("Note"), Tone.QUIET),
    "warning": Word("!", _("Warning"), Tone.HELD),
    "critical": Word("✕", _("Critical"), Tone.BAD),
}

EVIDENCE: Mapping[str, Word] = {
    "found": Word("✓", _("Found"), Tone.GOOD),
    "absent": Word("–", _("Absent"), Tone.HELD),
    "failed": Word("?", _("Look failed"), Tone.DOUBT),
}

LEVELS: Mapping[str, Word] = {
    "ok": Word("✓", _("OK"), Tone.GOOD),
    "warning": Word("▲", _("Warning"), Tone.HELD),
    "error": Word("✕", _("Error"), Tone.BAD),
}
"""Of a fact in the status strip: glyph and colour; the fact brings its own word."""

ABSENT = Word("–", _("None"), Tone.QUIET)
"""Of a part that nobody has asked for: neither well nor unwell, so no tick."""

TRADING: Mapping[str, Word] = {
    "active": Word("✓", _("Active"), Tone.GOOD, _("Entries and exits are placed.")),
    "exits_only": Word("‖", _("Exits only"), Tone.HELD, _("Entries are denied, exits are placed.")),
    "halted": Word("■", _("Halted"), Tone.BAD, _("Signals are claimed and shown, and nothing is placed.")),
}

SIDES: Mapping[str, Word] = {
    "buy": Word("▲", _("buy"), Tone.WORKING),
    "sell": Word("▼", _("sell"), Tone.BAD),
    "exit": Word("◆", _("exit"), Tone.QUIET),
    "reverse": Word("↕", _("reverse"), Tone.QUIET),
    "cancel": Word("–", _("cancel"), Tone.QUIET),
}

KEY_SOURCES: Mapping[str, str] = {
    "body": _("The sender put it into the message."),
    "header": _("The sender put it into a header of the request."),
    "derived": _(
        "Made from what the message asks for and its bar: strategy, symbol, interval, bar time, action, "
        "order id."
    ),
    "window": _(
        "The message names no bar, so the key holds what it asks for, for 45 seconds from the first one."
    ),
}

CAUSES: Mapping[str, str] = {
    "start": _("Start"),
    "timer": _("Timer"),
    "reconnect": _("Reconnected"),
    "button": _("By hand"),
}

TURNED_AWAY: Mapping[str, str] = {
    "source_or_token": _("with a wrong token or an unknown source"),
    "bad_secret": _("with a wrong secret"),
    "missing_secret": _("without a secret"),
    "unreadable": _("unreadable where the secret is in the body"),
}
"""Requests that have no row, by reason."""

FACTS: Mapping[str, str] = {
    "listener": _("Listener"),
    "ledger": _("Ledger"),
    "clock": _("Clock"),
    "trading": _("Trading"),
    "loop": _("Loop lag"),
    "tunnel": _("Tunnel"),
}


def look_up(table: Mapping[str, Word], name: str | None) -> Word:
    """The word for this name; a name that the table does not know is shown as it is."""
    if name is None:
        return Word("", "", Tone.QUIET)
    return table.get(name) or Word("·", name.replace("_", " ").lower(), Tone.QUIET)


def order_word(state: str, ord_status: str | None, reason: str | None) -> Word:
    """What an order's state and the broker's status say together, in one word."""
    if state == "DONE" and reason == "NOTHING_TO_DO":
        return NOTHING_TO_DO
    if ord_status is not None and state in ("DONE", "WORKING"):
        return look_up(ORDER_STATUSES, ord_status)
    return look_up(ORDER_STATES, state)


def fact_name(name: str) -> str:
    """`account:paper` is `Account paper`."""
    kind, _colon, of = name.partition(":")
    if kind == "account" and of:
        return QCoreApplication.translate("Words", "Account {name}").format(name=of)
    known = FACTS.get(kind)
    title = tr(known) if known else kind.replace("_", " ").capitalize()
    return f"{title} {of}".strip()
