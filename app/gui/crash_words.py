"""What an error of the program means for signals right now, in one sentence. Pure: it reads a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.gui.words import tr

if TYPE_CHECKING:
    from app.engine import Status

Said = tuple[str, str]
"""The level (ok, warning, error), and the sentence."""


def signals_now(status: Status) -> Said:
    """Whether signals are taken, and whether orders go out; the worst that is known comes first."""
    facts = {fact.name: fact for fact in status.facts}
    if status.state != "running":
        return "error", tr("Signals are NOT being taken: Onefill is {state}.").format(state=status.state)
    for name in ("listener", "ledger"):
        fact = facts.get(name)
        if fact is not None and fact.level == "error":
            return "error", tr("Signals are NOT being taken: {why}.").format(why=fact.reason or fact.word)
    tunnel, program = facts.get("tunnel"), facts.get("program")
    if tunnel is not None and tunnel.level == "error":
        why = tunnel.reason or tunnel.word
        return "error", tr("Signals from outside do NOT reach Onefill: {why}.").format(why=why)
    if program is not None and program.level == "error":
        return "error", tr("Signals are being taken, but {why}.").format(why=program.reason or program.word)
    if status.trading_state == "halted":
        return "warning", tr("Signals are being taken and shown; nothing is placed, as trading is halted.")
    failing = [fact for name, fact in facts.items() if name.startswith("account:") and fact.level == "error"]
    if failing:
        names = ", ".join(fact.name.removeprefix("account:") for fact in failing)
        return "warning", tr("Signals are being taken; no orders go out for {names}.").format(names=names)
    if status.trading_state == "exits_only":
        return "warning", tr("Signals are being taken; exits are placed, entries are denied.")
    return "ok", tr("Signals are being taken, and orders are placed.")
