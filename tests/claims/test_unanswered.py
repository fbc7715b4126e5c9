"""What a sender was told 503 for: marked, never placed, and admitted again by a resend (HOLES H17, H19)."""

from typing import Any

import pytest

from app.claims.base import Verdict
from app.claims.rows import EXIT_NOT_PLACED
from app.claims.voided import VOIDED, apply_voided, mark_unanswered
from app.domain.order import State
from app.ledger import orders
from app.ledger.transaction import Transaction
from tests.claims.kit import ADMISSION, Alert, Bench, columns, said, warnings_of


def deliver_undone(bench: Bench, alert: Alert) -> Verdict:
    """COMMIT raised and nothing of it is on disk; then the barrier runs."""
    with bench.undone() as tx:
        verdict = bench.admit(tx, alert)
    bench.refused(alert, verdict)
    return verdict


def deny(bench: Bench, order_id: int, reason: str = "STALE") -> None:
    def write(tx: Transaction) -> None:
        tx.execute("UPDATE orders SET state = 'DENIED', reason = ? WHERE id = ?", (reason, order_id))

    bench.write(write)


# ------------------------------------------------------------------------------------------- taken back, once


def test_h17_a_late_claim_stays_and_is_marked(bench: Bench) -> None:
    verdict = bench.deliver_late("k1")
    (claim,) = bench.claims()
    assert (claim["unanswered"], claim["deliveries"]) == (1, 0)
    (row,) = bench.deliveries()
    assert columns([row], "verdict", "http_status", "reason", "claim_id") == [
        ("not_accepted", 503, "late", 1)
    ]
    (event,) = bench.events(VOIDED)
    assert event["subject"] == "S1"
    assert verdict.digest is not None
    assert event["detail"] == {"digest": verdict.digest.hex(), "admitted_at": verdict.admitted_at}


def test_h17_a_late_duplicate_does_not_count(bench: Bench) -> None:
    bench.deliver("k1")
    bench.deliver_late("k1")
    assert bench.claims()[0]["deliveries"] == 1
    assert bench.claims()[0]["unanswered"] == 0
    assert bench.events(VOIDED) == []
    assert bench.deliver("k1").deliveries == 2


@pytest.mark.parametrize(
    ("second", "word"),
    [
        ({"quantity": "2"}, "conflict"),
        ({"fired_at": "2026-03-02T14:00:00Z"}, "stale"),
        ({}, "not_accepted"),
    ],
)
def test_h17_a_late_refusal_was_answered_503_like_any(
    bench: Bench, second: dict[str, Any], word: str
) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver("k1")
    alert = bench.alert("k1" if word == "conflict" else "k2", **second)
    verdict = bench.decide(alert)
    assert verdict.kind == word
    bench.refused(alert, verdict)
    assert columns(bench.deliveries(), "verdict", "http_status", "reason")[1] == ("not_accepted", 503, "late")
    assert bench.claims()[0]["deliveries"] == 1


@pytest.mark.parametrize(
    "fields", [{}, {"action": "exit"}, {"quantity": "2"}, {"fired_at": "2026-03-02T14:00:00Z"}]
)
@pytest.mark.parametrize("before", [None, "answered", "late"])
def test_h19_taking_back_twice_is_taking_back_once(
    bench: Bench, before: str | None, fields: dict[str, Any]
) -> None:
    """The barrier may run again although it was committed."""
    if before is not None:
        (bench.deliver if before == "answered" else bench.deliver_late)("k1")
    alert = bench.alert("k1", **fields)
    verdict = bench.decide(alert)
    bench.refused(alert, verdict)
    once = everything(bench)
    bench.refused(alert, verdict)
    bench.refused(alert, verdict)
    assert everything(bench) == once


def everything(bench: Bench) -> list[list[dict[str, Any]]]:
    tables = ("claims", "orders", "deliveries", "bodies", "events")
    return [bench.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("fields", [{}, {"quantity": "2"}])
def test_h19_a_commit_that_was_undone_leaves_one_row_and_no_claim(
    bench: Bench, times: int, fields: dict[str, Any]
) -> None:
    bench.deliver("k0")
    alert = bench.alert("k1", **fields)
    verdict = deliver_undone(bench, alert)
    for _ in range(times - 1):
        bench.refused(alert, verdict)
    assert len(bench.claims()) == 1
    assert columns(bench.deliveries(), "verdict", "http_status", "reason", "key", "claim_id") == [
        ("accepted", None, None, "k0", 1), ("not_accepted", 503, "commit_failed", "k1", None),
    ]  # fmt: skip
    assert len(bench.rows("SELECT * FROM bodies")) == 2
    (event,) = bench.events(VOIDED)
    assert event["subject"] == "D2", "S2 will be another claim"


def test_h19_a_batch_that_was_undone_is_recorded_row_by_row(bench: Bench) -> None:
    """One of it had a row of another kind, and the barrier itself runs twice."""
    alerts = [bench.alert("k1"), bench.alert("k1"), bench.alert("k1", quantity="2"), bench.alert("k2")]
    verdicts: list[Verdict] = []
    with bench.undone() as tx:
        for alert in alerts:
            verdicts.append(bench.admit(tx, alert))
            tx.insert("deliveries", {"received_at": 1, "source_id": "tv-id", "verdict": "invalid"})
    for _ in range(2):
        with bench.transaction() as tx:
            for alert, verdict in zip(alerts, verdicts, strict=True):
                mark_unanswered(tx, alert.delivery, verdict)
    assert columns(bench.deliveries(), "verdict", "key") == [
        ("not_accepted", k) for k in ("k1", "k1", "k1", "k2")
    ]
    assert bench.claims() == []
    assert [bench.deliver(key).kind for key in ("k1", "k2")] == ["accepted", "accepted"]


def test_h19_a_batch_that_stands_is_taken_back_row_by_row(bench: Bench) -> None:
    alerts = [bench.alert("k1"), bench.alert("k1"), bench.alert("k1", quantity="2")]
    with bench.transaction() as tx:
        verdicts = [bench.admit(tx, alert) for alert in alerts]
    for _ in range(2):
        with bench.transaction() as tx:
            for alert, verdict in zip(alerts, verdicts, strict=True):
                mark_unanswered(tx, alert.delivery, verdict)
    assert columns(bench.claims(), "deliveries", "unanswered") == [(0, 1)]
    assert {row["verdict"] for row in bench.deliveries()} == {"not_accepted"}
    assert bench.deliver("k1").deliveries == 1


def test_h10_an_exit_that_was_answered_503_is_marked(bench: Bench) -> None:
    bench.deliver_late("k1", action="exit")
    deliver_undone(bench, bench.alert("k2", action="exit"))
    bench.deliver_late("k3")
    assert [EXIT_NOT_PLACED in warnings_of(row) for row in bench.deliveries()] == [True, True, False]


# ---------------------------------------------------------------------------------------------------- resends


def test_h17_a_resend_is_admitted_as_if_it_were_the_first(bench: Bench) -> None:
    bench.deliver_late("k1", price="100")
    bench.later(40)
    verdict = bench.deliver("k1", price="105")
    assert (verdict.kind, verdict.claim_id, verdict.deliveries) == ("accepted", 1, 1)
    (claim,) = bench.claims()
    assert (claim["unanswered"], claim["admitted_at"]) == (0, bench.clock.now())
    assert '"price":"105"' in claim["signal"]
    (order,) = bench.orders()
    assert (order["generation"], order["state"]) == (1, "PENDING")
    assert order["not_after"] == bench.clock.now() + ADMISSION.max_order_age
    bench.later(5)
    assert bench.deliver("k1").kind == "duplicate"
    assert bench.claims()[0]["deliveries"] == 2


def test_h17_of_two_resends_one_is_admitted(bench: Bench) -> None:
    bench.deliver_late("k1")
    with bench.transaction() as tx:
        found = [bench.admit(tx, bench.alert("k1")).kind for _ in range(2)]
    assert found == ["accepted", "duplicate"]
    assert len(bench.orders()) == 1


def test_h17_a_resend_that_is_answered_503_too_can_be_sent_again(bench: Bench) -> None:
    for _ in range(3):
        bench.deliver_late("k1")
        bench.later(5)
    assert columns(bench.claims(), "deliveries", "unanswered") == [(0, 1)]
    assert bench.deliver("k1").deliveries == 1
    assert len(bench.orders()) == 1


def test_h19_a_resend_whose_commit_was_undone_leaves_the_claim_as_it_was(bench: Bench) -> None:
    bench.deliver_late("k1")
    bench.later(5)
    deliver_undone(bench, bench.alert("k1"))
    assert columns(bench.claims(), "deliveries", "unanswered") == [(0, 1)]
    assert bench.deliver("k1").kind == "accepted"


def test_h17_a_resend_with_another_intent_is_a_conflict(bench: Bench) -> None:
    bench.deliver_late("k1")
    assert said(bench.deliver("k1", quantity="2")) == ("conflict", "intent_differs")
    assert bench.claims()[0]["unanswered"] == 1
    assert bench.deliver("k1").kind == "accepted"


@pytest.mark.parametrize(
    "fields", [{"bar_time": "2026-03-02T16:15:00Z", "interval": "15"}, {"fired_at": "2026-03-02T16:30:00Z"}]
)
def test_h17_the_times_of_a_delivery_that_was_answered_503_bind_nobody(
    bench: Bench, fields: dict[str, Any]
) -> None:
    """The same intent is an admission, an hour later too: nothing was placed that it could repeat."""
    bench.deliver_late("TP1")
    bench.later(3600)
    assert bench.deliver("TP1", **fields).kind == "accepted"
    assert bench.deliver("TP1", **fields).kind == "duplicate"


def test_h17_a_resend_has_an_age_of_its_own(bench: Bench) -> None:
    bench.deliver_late("k1", fired_at="2026-03-02T15:30:00Z")
    bench.later(91)
    assert said(bench.deliver("k1", fired_at="2026-03-02T15:30:00Z")) == ("stale", "stale")
    assert bench.claims()[0]["unanswered"] == 1
    assert bench.deliver("k1", fired_at="2026-03-02T15:31:00Z").kind == "accepted"


def test_h17_a_resend_is_limited_like_a_first_one(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver_late("k1")
    bench.deliver("k2")
    assert said(bench.deliver("k1")) == ("not_accepted", "rate")
    bench.later(60)
    assert bench.deliver("k1").kind == "accepted"


def test_h17_a_resend_after_the_order_was_denied_gets_a_new_generation(bench: Bench) -> None:
    bench.set(accounts=("paper", "second"))
    bench.deliver_late("k1")
    deny(bench, 1)
    bench.later(61)
    verdict = bench.deliver("k1")
    assert verdict.kind == "accepted"
    assert columns(bench.orders(), "account", "generation", "state") == [
        ("paper", 1, "DENIED"), ("second", 1, "PENDING"), ("paper", 2, "PENDING"),
    ]  # fmt: skip
    assert {row["not_after"] for row in bench.orders() if row["state"] == "PENDING"} == {
        bench.clock.now() + ADMISSION.max_order_age
    }
    assert verdict.outcome is not None
    assert [order["state"] for order in verdict.outcome["orders"]] == ["PENDING", "PENDING"]


def test_h17_a_waiting_reason_ends_with_the_resend(bench: Bench) -> None:
    bench.deliver_late("k1", action="sell")
    bench.write(lambda tx: tx.execute("UPDATE orders SET reason = 'WAITING_FOR_RESEND' WHERE id = 1"))
    bench.hold("5")
    bench.deliver("k1", action="sell")
    (order,) = bench.orders()
    assert (order["reason"], order["purpose"]) == (None, "exit")


def test_a_resend_of_something_that_was_sent_after_all_is_a_duplicate_of_it(bench: Bench) -> None:
    """It cannot happen while the barrier holds; if it does, there are never two orders."""
    bench.deliver_late("k1")
    bench.write(_send_first_order)
    verdict = bench.deliver("k1")
    assert (verdict.kind, verdict.deliveries) == ("duplicate", 1)
    assert len(bench.orders()) == 1


def _send_first_order(tx: Transaction) -> None:
    orders.move(tx, orders.get(tx, 1), State.SUBMITTING, at=1, actor="test")
    tx.execute(
        "INSERT INTO attempts (order_id, number, at, identity, endpoint, request, arrival_deadline) "
        "VALUES (1, 1, 1, '', '', '{}', 1)"
    )


# --------------------------------------------------------------------------------------------------- at start


def reappear(bench: Bench, verdict: Verdict) -> None:
    """The claim whose commit had raised is on disk after all, as if it had never been marked."""

    def write(tx: Transaction) -> None:
        tx.execute("UPDATE claims SET unanswered = 0, deliveries = 1 WHERE id = ?", (verdict.claim_id,))
        sql = "UPDATE deliveries SET verdict = 'accepted', http_status = NULL, reason = NULL WHERE id = ?"
        tx.execute(sql, (verdict.delivery_id,))

    bench.write(write)


def test_h19_at_start_what_was_refused_is_refused_again(bench: Bench) -> None:
    verdict = bench.deliver_late("k1")
    reappear(bench, verdict)
    assert bench.restart() == 1
    assert columns(bench.claims(), "deliveries", "unanswered") == [(0, 1)]
    assert columns(bench.deliveries(), "verdict", "http_status", "reason") == [("not_accepted", 503, "late")]
    assert bench.deliver("k1").kind == "accepted"


def test_h19_a_claim_admitted_again_since_then_is_left_alone(bench: Bench) -> None:
    bench.deliver_late("k1")
    bench.deliver("k1")
    bench.deliver("k1")
    once = everything(bench)[:4]
    assert bench.restart() == 0
    assert everything(bench)[:4] == once


@pytest.mark.parametrize("seconds", [0, 5])
def test_h19_a_claim_made_anew_under_the_same_digest_is_left_alone(bench: Bench, seconds: float) -> None:
    """The commit was undone and the resend claimed the key; even in the very same microsecond."""
    undone = deliver_undone(bench, bench.alert("k1"))
    bench.later(seconds)
    again = bench.deliver("k1")
    assert again.digest == undone.digest
    assert bench.restart() == 0
    assert columns(bench.claims(), "deliveries", "unanswered") == [(1, 0)]


def test_h19_only_the_admission_that_was_meant_is_marked(bench: Bench) -> None:
    verdict = bench.deliver("k1")
    assert verdict.digest is not None
    detail = {"digest": verdict.digest.hex(), "admitted_at": bench.clock.now() - 1}
    bench.write(lambda tx: tx.event(1, "onefill", VOIDED, "S1", detail))
    assert bench.restart() == 0
    assert bench.claims()[0]["unanswered"] == 0


def test_h19_what_was_sent_after_all_is_left_alone(bench: Bench) -> None:
    verdict = bench.deliver_late("k1")
    reappear(bench, verdict)
    bench.write(_send_first_order)
    assert bench.restart() == 0
    assert bench.claims()[0]["unanswered"] == 0


def test_a_start_reads_each_event_once(bench: Bench) -> None:
    verdict = bench.deliver_late("k1")
    assert bench.restart() == 0
    reappear(bench, verdict)
    assert bench.restart() == 0, "the first start has seen that it was marked"


def test_an_empty_ledger_has_nothing_to_mark(bench: Bench) -> None:
    assert bench.write(apply_voided) == 0
    assert bench.write(apply_voided) == 0
