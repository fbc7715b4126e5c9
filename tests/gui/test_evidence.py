"""What a person decides by: a suggested verdict, two messages side by side, why repeats come, a whole run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.clock import SECOND
from app.gui.conflict import Line, compare
from app.gui.duplicates import Cause, Repeat, burst_hint, cause_of
from app.gui.report_page import reconciliation_page
from app.gui.theme import light_palette, theme_of
from app.gui.verdict import suggest
from app.gui.window import Window
from app.ledger.queries import rfc3339
from tests.gui import rows
from tests.gui.hands import click, until
from tests.gui.kit import StandIn
from tests.gui.test_views import row_center

NOW = 1_772_465_400 * SECOND


def at(seconds: float) -> str:
    return rfc3339(NOW + round(seconds * SECOND))


def order(
    *,
    looks: list[tuple[float, str]] = (),  # type: ignore[assignment]
    bytes_left: int | None = 1,
    side: str = "buy",
    until: float = 120,
) -> dict[str, Any]:
    attempt = {"number": 1, "at": at(0), "bytes_left": bytes_left, "arrival_deadline": at(until)}
    return {
        "side": side,
        "quantity": "10",
        "filled_quantity": "0",
        "attempts": [attempt],
        "evidence": [{"at": at(seconds), "result": result} for seconds, result in looks],
    }


def position(difference: str, asked: float = 300) -> dict[str, Any]:
    state = "agrees" if difference == "0" else "differs"
    return {"state": state, "difference": difference, "as_of": at(asked)}


@pytest.mark.parametrize(
    ("case", "held", "now", "answer", "words"),
    [
        (order(looks=[(1, "found")]), None, 10, "look_again", "showed it at"),
        (order(bytes_left=0), None, 10, "not_placed", "Nothing of it had left"),
        (order(looks=[(200, "absent")]), position("10"), 400, "placed", "exactly this order more"),
        (order(looks=[(200, "absent")], side="sell"), position("-10"), 400, "placed", "exactly this order"),
        (order(looks=[(20, "absent")]), position("0", 30), 60, "look_again", "may still arrive until"),
        (order(looks=[(200, "absent"), (260, "absent")]), position("0"), 400, "not_placed", "last 2 looks"),
        # A failed look says nothing, and what came before it does not count any more.
        (order(looks=[(200, "absent"), (260, "failed")]), position("0"), 400, "look_again", "look failed"),
        # Absent, but a part of it may be there.
        (order(looks=[(200, "absent")]), position("4"), 400, "look_again", "does not decide"),
        # Absent before it could no longer arrive.
        (order(looks=[(100, "absent")]), position("0"), 400, "look_again", "does not decide"),
        # The positions were read before it was sent, or nobody knows them.
        (order(looks=[(200, "absent")]), position("10", -5), 400, "look_again", "does not decide"),
        (order(looks=[(200, "absent")]), None, 400, "look_again", "does not decide"),
        (
            order(looks=[(200, "absent")]),
            {"state": "moved", "difference": None, "as_of": at(300)},
            400,
            "look_again",
            "does not decide",
        ),
    ],
)
def test_the_suggested_verdict(
    case: dict[str, Any], held: dict[str, Any] | None, now: float, answer: str, words: str
) -> None:
    verdict = suggest(case, held, at(now))
    assert verdict.answer == answer
    assert words in verdict.text


async def test_an_order_in_doubt_shows_what_was_sent_each_look_and_the_positions(
    window: Window, engine: StandIn
) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW, symbol="MSFT", quantity="5"))
    await engine.write(lambda tx: rows.lose_for_good(tx, claim, NOW))
    await engine.write(
        lambda tx: rows.add_reconciliation(
            tx, NOW + 950 * SECOND, positions=[{"symbol": "MSFT", "expected": "0", "broker": "5"}]
        )
    )
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    await until(lambda: window.detail.page and "EVIDENCE ON O1" in window.detail.text.toPlainText())
    text = " ".join(window.detail.text.toPlainText().split())
    for words in (
        "Suggested: It is order X. The broker holds exactly this order more than we expect",
        "terms instrument MSFT, quantity 5",
        "has left us yes",
        "answer connection reset after the request was sent",
        "may arrive until",
        "by id – Absent",
        "open orders ? Look failed timed out after 3 s",
        "we expect without it 0",
        "the broker says 5",
    ):
        assert words in text, words
    assert text.index("EVIDENCE") < text.index("TIMELINE")
    shown = [name for name, button in window.needs.bar.buttons.items() if button.isVisible()]
    assert shown == ["look_again", "placed", "not_placed"]


# ------------------------------------------------------------------------------------------- two messages


def test_fields_that_made_the_conflict_come_first_and_digits_stay() -> None:
    first = '{"symbol": "AAPL", "quantity": 1.50, "price": 187.2, "extras": {"a": null}, "secret": "***"}'
    now = '{"symbol": "AAPL", "quantity": 15, "price": 187.3, "extras": {"a": true}, "tif": "day"}'
    assert compare(first, now, ["quantity", "tif"]) == [
        Line("quantity", "1.50", "15", True),
        Line("tif", None, "day", True),
        Line("price", "187.2", "187.3", False),
        Line("extras.a", "null", "true", False),
        Line("secret", "***", None, False),
        Line("symbol", "AAPL", "AAPL", False),
    ]


@pytest.mark.parametrize("body", [None, "BUY AAPL", "[1]", '{"a": '])
def test_what_is_no_object_is_shown_whole(body: str | None) -> None:
    assert compare(body, '{"a": 1}', []) is None


async def test_a_conflict_shows_both_messages_and_is_admitted_with_a_reason(
    window: Window, engine: StandIn
) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW, symbol="AAPL", quantity="10", key="k1"))
    await engine.write(
        lambda tx: rows.add_delivery(
            tx,
            NOW + SECOND,
            "conflict",
            claim=claim,
            key="k1",
            status=422,
            reason="intent_differs",
            fields=["quantity"],
            body='{"secret": "***", "symbol": "AAPL", "action": "buy", "quantity": 99}',
        )
    )
    window.show_view("refused")
    await until(lambda: window.current.is_shown_as_table)
    click(window.current.table.viewport(), row_center(window, 0))
    await until(lambda: window.detail.page and "THE TWO MESSAGES" in window.detail.text.toPlainText())
    text = " ".join(window.detail.text.toPlainText().split())
    assert "accepted: D1" in text
    assert "≠ quantity 10 99" in text
    assert "= symbol AAPL AAPL" in text
    assert window.current.offers is not None
    assert window.current.offers.buttons[0].isEnabled()


# ------------------------------------------------------------------------------------------- repeats

FILL = '{"symbol": "AAPL", "action": "buy", "order_id": "Long", "market_position": "long", "fired_at": "1"}'
CALL = '{"symbol": "AAPL", "action": "buy", "fired_at": "1"}'
LATER = CALL.replace('"1"', '"2"')


@pytest.mark.parametrize(
    ("repeat", "cause"),
    [
        (Repeat("tv", 5 * SECOND, 503, CALL, CALL), Cause.RESEND),
        (Repeat("tv", 5 * SECOND, None, CALL, CALL), Cause.RESEND),
        (Repeat("tv", 6 * SECOND, 200, CALL, CALL), Cause.RESEND),
        (Repeat("tv", SECOND, 200, CALL, LATER), Cause.TWO_ALERTS),
        (Repeat("tv", SECOND // 10, 200, CALL, CALL), Cause.TWO_ALERTS),
        (Repeat("tv", SECOND, 200, FILL, CALL), Cause.TWO_KINDS),
        (Repeat("tv", 20 * SECOND, 200, CALL, LATER), Cause.EVERY_TICK),
        (Repeat("tv", 3_600 * SECOND, 200, CALL, CALL), Cause.REPLAYED),
        (Repeat("tv", 45 * SECOND, 200, CALL, CALL), None),
        (Repeat("tv", 45 * SECOND, 200, None, None), None),
        (Repeat("tv", SECOND, 200, None, None), Cause.TWO_ALERTS),
    ],
)
def test_the_likely_cause_of_a_repeat(repeat: Repeat, cause: Cause | None) -> None:
    assert cause_of(repeat) is cause


def test_a_burst_is_worth_a_word_and_two_are_not() -> None:
    two = [Repeat("tv", SECOND, 200, CALL, LATER)] * 2
    assert burst_hint(two) == ""
    many = [*two, *two, Repeat("other", SECOND, 503, CALL, CALL)]
    hint = burst_hint(many)
    assert hint.startswith("4 repeats from tv within the last hour. None was placed twice. Likely two alerts")


async def test_a_burst_of_repeats_is_explained_below_the_refused(window: Window, engine: StandIn) -> None:
    now = engine.clock.now()
    claim = await engine.write(lambda tx: rows.add_signal(tx, now - 60 * SECOND, symbol="AAPL"))
    for place in range(4):
        await engine.write(
            lambda tx, p=place: rows.add_duplicate(tx, claim, now - 60 * SECOND + p * SECOND // 2)  # type: ignore[misc]
        )
    hour = now // 3_600_000_000 * 3_600_000_000
    await engine.write(
        lambda tx: tx.change(
            "unauthenticated",
            "INSERT INTO unauthenticated (hour, reason, count) VALUES (?, 'source_or_token', 12)",
            (hour,),
        )
    )
    window.show_view("refused")
    hint = getattr(window.current, "hint")  # noqa: B009
    await until(lambda: "4 repeats from tradingview" in hint.text)
    assert window.current.offers is not None
    away = "Turned away in 24 hours, nothing kept: 12 with a wrong token or an unknown source"
    assert window.current.offers.note.text() == away
    click(window.current.table.viewport(), row_center(window, 0))
    await until(lambda: window.detail.page and "Likely" in window.detail.text.toPlainText())


# ------------------------------------------------------------------------------------------- a run


def page(report: dict[str, Any], findings: list[dict[str, Any]] = (), result: str = "OK") -> str:  # type: ignore[assignment]
    row = {
        "id": "R7",
        "account": "alpaca",
        "cause": "timer",
        "started_at": at(0),
        "ended_at": at(1.5),
        "result": result,
        "report": json.dumps(report),
        "findings": len(findings),
        "number": 7,
    }
    return reconciliation_page(row, findings, theme_of(light_palette())).html


def test_a_section_that_was_not_read_is_unknown_and_positions_are_not_flat() -> None:
    html = page(
        {"sections": {"open_orders": "ok", "positions": "timed out after 10 s"}, "positions": []},
        result="PARTIAL",
    )
    assert "UNKNOWN" in html
    assert "timed out after 10 s" in html
    assert "They are not taken for flat" in html
    assert "Neither side held anything" not in html


def test_findings_stand_by_severity_and_positions_side_by_side() -> None:
    findings = [
        {"severity": name, "kind": f"kind_{name}", "subject": f"O{place}", "detail": "<b>x</b>"}
        for place, name in enumerate(("info", "critical", "warning"))
    ]
    html = page(
        {
            "colour": "red",
            "positions": [
                {
                    "symbol": "AAPL",
                    "expected": "10",
                    "broker": "12",
                    "external": "2",
                    "drift": "explained_external",
                },
                {"symbol": "MSFT", "expected": "5", "broker": "0", "drift": "unexplained"},
            ],
            "ghosts": ["O4"],
            "unknown_at_us": [{"broker_order_id": "b-9", "symbol": "TSLA", "guess": "manual"}],
        },
        findings,
        "FINDINGS",
    )
    assert html.index("kind critical") < html.index("kind warning") < html.index("kind info")
    assert "1 CRITICAL, 1 WARNING, 1 NOTE" in html
    assert "<b>x</b>" not in html
    for words in ("Needs a look now", "Another&#x27;s, explained", "Unexplained", "broker order id b-9"):
        assert words in html, words
    assert html.index("CALLED ABSENT") < html.index("NOT OURS, NOT TOUCHED")
