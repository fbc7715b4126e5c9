"""Small words for tests of alerts: a base payload with changes, read or refused."""

from decimal import Decimal

import pytest

from app.domain.alert import Alert, AlertRules, read_alert
from app.domain.signal import InvalidSignal, Signal

PAPER = AlertRules()
LIVE = AlertRules(reaches_live=True)
BASE: dict[str, object] = {"symbol": "AAPL", "action": "buy", "quantity": Decimal(10)}


def read(changed: dict[str, object] | None = None, rules: AlertRules = PAPER, /, **fields: object) -> Alert:
    """BASE with changes; a None takes a field away, as it does in a payload."""
    return read_alert({**BASE, **(changed or {}), **fields}, rules)


def signal(
    changed: dict[str, object] | None = None, rules: AlertRules = PAPER, /, **fields: object
) -> Signal:
    return read(changed, rules, **fields).signal


def refusal(
    changed: dict[str, object] | None = None, rules: AlertRules = PAPER, /, **fields: object
) -> InvalidSignal:
    with pytest.raises(InvalidSignal) as refused:
        read(changed, rules, **fields)
    return refused.value


def told(error: InvalidSignal) -> tuple[str, tuple[str, ...]]:
    return error.reason, error.fields
