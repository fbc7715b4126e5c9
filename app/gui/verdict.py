"""What the evidence on an order of unknown fate points to, in a sentence. A suggestion: a person decides.

Pure. Nothing here counts as proof; that is app/domain/absence.py, and the broker is asked first.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.domain.sizing import WIDE
from app.gui.formats import local_time, moment
from app.gui.words import tr

Answer = Literal["look_again", "placed", "not_placed"]


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


BUTTONS = {
    "look_again": _("Look again"),
    "placed": _("It is order X"),
    "not_placed": _("It was not placed"),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` is the button that fits."""

    answer: Answer
    text: str


def suggest(order: dict[str, Any], position: dict[str, Any] | None, now: str) -> Verdict:
    """`order` with its attempts and looks as `queries.story` gives them, `position` as `positions` does.

    `now` is RFC 3339.
    """
    attempts, looks = order["attempts"], order["evidence"]
    found = [look for look in looks if look["result"] == "found"]
    if found:
        text = tr("The broker showed it at {time}. Look again, and it is taken over.")
        return Verdict("look_again", text.format(time=local_time(found[-1]["at"])))
    if attempts and all(each["bytes_left"] == 0 for each in attempts):
        return Verdict("not_placed", tr("Nothing of it had left this computer."))
    explained = None if position is None else _explained(order, position)
    if explained is True:
        text = tr("The broker holds exactly this order more than we expect: it looks filled. Find it there.")
        return Verdict("placed", text)
    last = max((each["arrival_deadline"] for each in attempts if each["arrival_deadline"]), default=None)
    if last is not None and moment(last) > moment(now):
        text = tr("It may still arrive until {time}. Wait for that, then look again.")
        return Verdict("look_again", text.format(time=local_time(last)))
    absent = _absent_in_a_row(looks, last)
    if absent and explained is False:
        text = tr(
            "The last {number} looks after it could still arrive have not found it, and the positions agree "
            "without it: it looks not placed."
        )
        return Verdict("not_placed", text.format(number=absent))
    if looks and looks[-1]["result"] == "failed":
        return Verdict("look_again", tr("The last look failed, which says nothing. Look again."))
    return Verdict(
        "look_again", tr("What is known does not decide it. Look again, and look at the broker's page.")
    )


def _explained(order: dict[str, Any], position: dict[str, Any]) -> bool | None:
    """Whether the broker's position holds this order too; None where that cannot be told."""
    if position["state"] not in ("agrees", "differs") or order["quantity"] is None or order["side"] is None:
        return None
    asked = moment(position["as_of"])
    if any(asked < moment(each["at"]) for each in order["attempts"]):
        return None
    rest = WIDE.subtract(Decimal(order["quantity"]), Decimal(order["filled_quantity"]))
    signed = rest if order["side"] == "buy" else -rest
    difference = Decimal(position["difference"])
    return True if difference == signed else False if difference == 0 else None


def _absent_in_a_row(looks: list[dict[str, Any]], after: str | None) -> int:
    """Looks behind the last moment of arrival that did not find it, since the last one that failed."""
    number = 0
    for look in looks:
        if look["result"] != "absent":
            number = 0
        elif after is None or moment(look["at"]) > moment(after):
            number += 1
    return number
