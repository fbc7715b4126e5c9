"""An upgrade between a send and its resend: what version 1 claimed is known to version 2 (HOLES H41).

Version 2 here is made up: it derives other keys and counts the comment among what an alert asks for.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.claims import rows
from app.domain import key as rules
from app.domain.canonical import Canonical
from app.domain.signal import Signal
from tests.claims.kit import Bench, said

BAR = 1_772_465_400


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on the program is of rule version 2."""

    def intent(signal: Signal) -> dict[str, str | None]:
        return {**rules._intent_v1(signal), "comment": signal.comment}

    def derived(source_id: str, signal: Signal, label: str | None) -> Canonical:
        return ["version 2", source_id, signal.symbol, signal.bar_time, label]

    def go() -> None:
        monkeypatch.setattr(rules, "_INTENT", {**rules._INTENT, 2: intent})
        monkeypatch.setattr(rules, "_DERIVED", {**rules._DERIVED, 2: derived})
        for module in (rules, rows):
            monkeypatch.setattr(module, "RULE_VERSION", 2)
        for name in ("derived_key", "window_key", "admitted_key", "intent_of", "intent_fingerprint"):
            monkeypatch.setattr(getattr(rules, name), "__defaults__", (2,))

    return go


def test_h41_a_sent_key_is_compared_by_the_rule_of_its_first_sighting(
    bench: Bench, upgrade: Callable[[], None]
) -> None:
    assert said(bench.deliver("sent-1", comment="one")) == ("accepted", None)
    upgrade()
    # Version 2 would call this another intent; what was claimed under version 1 is read by version 1.
    assert said(bench.deliver("sent-1", comment="two")) == ("duplicate", None)
    assert said(bench.deliver("sent-1", quantity="2")) == ("conflict", "intent_differs")
    assert [claim["rule_version"] for claim in bench.claims()] == [1]


def test_h41_a_new_claim_is_of_the_new_version(bench: Bench, upgrade: Callable[[], None]) -> None:
    upgrade()
    bench.deliver("sent-1", comment="one")
    assert said(bench.deliver("sent-1", comment="two")) == ("conflict", "intent_differs")
    assert [claim["rule_version"] for claim in bench.claims()] == [2]


@pytest.mark.parametrize("fields", [{"bar_time": BAR, "interval": "15"}, {}], ids=["derived", "window"])
def test_h41_a_resend_of_a_key_that_we_made_is_a_duplicate_after_the_upgrade(
    bench: Bench, upgrade: Callable[[], None], fields: dict[str, object]
) -> None:
    first = bench.deliver(None, **fields)
    bench.later(15)
    upgrade()
    again = bench.deliver(None, **fields)
    assert said(again) == ("duplicate", None)
    assert (again.claim_id, again.deliveries) == (first.claim_id, 2)
    assert len(bench.orders()) == 1
    # The rule did change: another signal's key is made by it.
    bench.later(900)
    bench.deliver(None, **({**fields, "bar_time": BAR + 900} if fields else fields))
    assert [claim["key"][:2] for claim in bench.claims()] == (["d1", "d2"] if fields else ["w1", "w2"])


def test_h41_a_resend_after_a_503_is_admitted_as_the_first_over_the_upgrade(
    bench: Bench, upgrade: Callable[[], None]
) -> None:
    bench.deliver_late(None, bar_time=BAR, interval="15")
    upgrade()
    assert said(bench.deliver(None, bar_time=BAR, interval="15")) == ("accepted", None)
    assert len(bench.claims()) == 1


def test_h41_the_client_order_id_that_an_order_has_is_not_made_anew(
    bench: Bench, upgrade: Callable[[], None]
) -> None:
    bench.deliver(None, bar_time=BAR, interval="15")
    digest = bench.claims()[0]["digest"]
    upgrade()
    bench.deliver(None, bar_time=BAR, interval="15")
    assert [claim["digest"] for claim in bench.claims()] == [digest]
