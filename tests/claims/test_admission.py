"""The claim's transaction by sentences: order of the checks, rows, duplicates, watermark, freshness."""

import json
from dataclasses import replace

import pytest

from app.claims.rows import EXIT_NOT_PLACED
from app.clock import SECOND
from app.domain.key import claim_digest
from app.ledger.restore import REFUSE_WITHOUT_TIME, lift_refusal
from tests.claims.kit import ADMISSION, MINUTE, Bench, columns, said, warnings_of

TIME = "2026-03-02T15:30:00Z"
"""The kit's clock at its start."""


# ------------------------------------------------------------------------------------------------ claimed now


def test_a_first_delivery_is_claimed_with_its_order_its_row_and_its_event(bench: Bench) -> None:
    verdict = bench.deliver("k1", exchange="NASDAQ", bar_time=TIME, interval="15", quantity="1.50")
    assert (verdict.kind, verdict.claim_id, verdict.deliveries) == ("accepted", 1, 1)
    assert (verdict.key, verdict.key_source) == ("k1", "body")
    assert verdict.outcome is not None
    assert verdict.outcome["state"] == "PENDING"
    (claim,) = bench.claims()
    assert claim["digest"] == verdict.digest == claim_digest("tv-id", "k1", None)
    assert (claim["symbol"], claim["action"], claim["quantity"]) == ("AAPL", "buy", "1.5")
    assert (claim["deliveries"], claim["unanswered"], claim["epoch"]) == (1, 0, None)
    assert claim["first_received_at"] == claim["admitted_at"] == verdict.admitted_at == bench.clock.now()
    (order,) = bench.orders()
    assert (order["claim_id"], order["account"], order["leg"], order["generation"]) == (1, "paper", 1, 1)
    assert (order["state"], order["purpose"], order["side"], order["quantity"]) == (
        "PENDING", "undecided", None, None,
    )  # fmt: skip
    assert order["not_after"] == bench.clock.now() + ADMISSION.max_order_age
    (delivery,) = bench.deliveries()
    assert (delivery["id"], delivery["verdict"], delivery["claim_id"]) == (verdict.delivery_id, "accepted", 1)
    (event,) = bench.events("claimed")
    assert (event["subject"], event["actor"], event["detail"]["digest"]) == (
        "S1", "source:tv", claim["digest"].hex(),
    )  # fmt: skip


def test_a_row_has_no_status_before_it_was_answered(bench: Bench) -> None:
    bench.deliver("k1")
    bench.deliver("k1")
    bench.deliver("k1", quantity="2")
    bench.deliver("k2", fired_at="2026-03-02T14:00:00Z")
    assert columns(bench.deliveries(), "verdict", "http_status", "ack_us") == [
        ("accepted", None, None), ("duplicate", None, None), ("conflict", None, None), ("stale", None, None),
    ]  # fmt: skip


def test_every_delivery_keeps_its_body(bench: Bench) -> None:
    bench.deliver("k1")
    bench.deliver("k1", quantity="2")
    bodies = bench.rows("SELECT delivery_id, body FROM bodies ORDER BY delivery_id")
    assert [json.loads(row["body"])["quantity"] for row in bodies] == ["1", "2"]


def test_each_account_of_the_source_gets_one_leg_of_its_own(bench: Bench) -> None:
    bench.set(accounts=("paper", "second"))
    bench.hold("3", account="second")
    verdict = bench.deliver("k1", action="sell")
    assert columns(bench.orders(), "account", "leg", "instrument", "purpose", "claim_id") == [
        ("paper", 1, "AAPL@paper", "undecided", 1), ("second", 1, "AAPL@second", "exit", 1),
    ]  # fmt: skip
    assert verdict.outcome is not None
    assert [order["account"] for order in verdict.outcome["orders"]] == ["paper", "second"]


@pytest.mark.parametrize(
    ("fields", "book", "purpose"),
    [
        ({"action": "exit"}, "0", "exit"),
        ({"action": "cancel"}, "0", "cancel"),
        ({"action": "buy"}, "0", "undecided"),
        ({"action": "buy"}, "5", "undecided"),
        ({"action": "buy"}, "-5", "exit"),
        ({"action": "sell"}, "5", "exit"),
        ({"action": "sell"}, "0", "undecided"),
        ({"action": "sell", "reduceOnly": True}, "0", "exit"),
        ({"action": "sell", "market_position": "flat"}, "0", "exit"),
        ({"action": "reverse"}, "5", "undecided"),
    ],
)
def test_what_the_door_takes_for_an_exit(
    bench: Bench, fields: dict[str, object], book: str, purpose: str
) -> None:
    if book != "0":
        bench.hold(book)
    bench.deliver("k1", **fields)
    assert bench.orders()[0]["purpose"] == purpose


def test_a_target_nearer_to_zero_than_before_is_an_exit(bench: Bench) -> None:
    position = {"market_position": "long", "prev_market_position": "long", "prev_market_position_size": "5"}
    bench.deliver("k1", action="sell", market_position_size="2", **position)
    bench.deliver("k2", action="buy", market_position_size="7", **position)
    assert columns(bench.orders(), "purpose") == [("exit",), ("undecided",)]


def test_the_book_that_counts_is_that_of_source_and_strategy(bench: Bench) -> None:
    bench.hold("5")
    bench.deliver("k1", action="sell", strategy="another")
    assert bench.orders()[0]["purpose"] == "undecided"


# ------------------------------------------------------------------------------------------------- duplicates


def test_a_repeat_is_a_duplicate_with_the_count_and_the_first_sighting(bench: Bench) -> None:
    first = bench.deliver("k1")
    bench.later(5)
    second = bench.deliver("k1", quantity="1.00", price="101", comment="again")
    bench.later(5)
    third = bench.deliver("k1")
    assert [v.kind for v in (second, third)] == ["duplicate", "duplicate"]
    assert (second.deliveries, third.deliveries) == (2, 3)
    assert {v.claim_id for v in (first, second, third)} == {1}
    assert second.first_received_at == third.first_received_at == first.admitted_at
    assert second.admitted_at is None
    assert second.outcome == first.outcome
    assert len(bench.orders()) == len(bench.claims()) == 1
    assert bench.rows("SELECT deliveries FROM v_signals") == [{"deliveries": 3}]


def test_conflicting_and_stale_deliveries_do_not_count(bench: Bench) -> None:
    bench.deliver("k1")
    bench.deliver("k1", quantity="2")
    bench.later(700)
    assert said(bench.deliver("k1")) == ("conflict", "key_reused")
    assert bench.claims()[0]["deliveries"] == 1


def test_the_outcome_is_as_it_stands_now(bench: Bench) -> None:
    bench.deliver("k1")
    bench.write(lambda tx: tx.execute("UPDATE orders SET state = 'DENIED', reason = 'COOLDOWN' WHERE id = 1"))
    outcome = bench.deliver("k1").outcome
    assert outcome is not None
    assert (outcome["state"], outcome["orders"][0]["reason"]) == ("DENIED", "COOLDOWN")


def test_two_sources_may_use_one_key(bench: Bench) -> None:
    """Namespaces keep them apart (HOLES H12)."""
    other = replace(ADMISSION, source_id="other-id", source="other")
    assert bench.deliver("42").kind == "accepted"
    assert bench.deliver("42", admission=other).kind == "accepted"
    first, second = bench.claims()
    assert first["digest"] != second["digest"]


# ------------------------------------------------------------------------------------ the order of the checks


def test_a_known_key_comes_before_watermark_and_age(bench: Bench) -> None:
    bench.deliver("k1", fired_at=TIME)
    bench.later(3600)
    bench.watermark(bench.clock.now())
    bench.set(entries_per_minute=1)
    bench.deliver("k9")
    assert said(bench.deliver("k1", fired_at=TIME)) == ("conflict", "key_reused")
    assert bench.deliver(None, fired_at=TIME, bar_time=TIME, interval="15").kind == "stale"


def test_an_old_duplicate_is_still_a_duplicate(bench: Bench) -> None:
    fields = {"fired_at": TIME, "bar_time": TIME, "interval": "15"}
    bench.deliver("k1", **fields)
    bench.later(90 * 24 * 3600)
    bench.watermark(bench.clock.now())
    assert bench.deliver("k1", **fields).kind == "duplicate"


def test_the_watermark_comes_before_the_age(bench: Bench) -> None:
    bench.watermark(bench.clock.now() - 3600 * SECOND)
    old = bench.deliver("k1", fired_at="2026-03-02T14:00:00Z")
    assert said(old) == ("stale", "before_watermark")


def test_the_age_comes_before_the_rate(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver("k1")
    assert said(bench.deliver("k2", fired_at="2026-03-02T14:00:00Z")) == ("stale", "stale")
    assert said(bench.deliver("k3")) == ("not_accepted", "rate")


def test_what_is_refused_claims_nothing(bench: Bench) -> None:
    bench.deliver("k1", fired_at="2026-03-02T14:00:00Z")
    assert bench.claims() == bench.orders() == bench.events("claimed") == []
    (row,) = bench.deliveries()
    assert (row["claim_id"], row["key"], row["verdict"]) == (None, "k1", "stale")
    assert bench.deliver("k1", fired_at=TIME).kind == "accepted"


# -------------------------------------------------------------------------------------------------- watermark


@pytest.mark.parametrize(("younger_by", "kind"), [(1, "accepted"), (0, "stale"), (-1, "stale")])
def test_h40_a_time_that_is_not_younger_than_the_watermark_is_refused(
    bench: Bench, younger_by: int, kind: str
) -> None:
    bench.watermark(bench.clock.now() - younger_by)
    verdict = bench.deliver("k1", fired_at=TIME)
    assert verdict.kind == kind
    assert bench.deliver("k2").kind == "accepted"


def test_h40_a_purged_signal_of_an_open_bar_cannot_come_back(bench: Bench) -> None:
    """The bar's age is nothing while it is open, at every receipt: its own time must be asked."""
    fields = {"bar_time": "2026-03-02T00:00:00Z", "interval": "1D"}
    bench.deliver("k1", **fields)
    purged = bench.claims()[0]["signal_time"]
    bench.later(60)
    bench.watermark(purged)
    bench.later(60)
    assert said(bench.deliver("k2", **fields)) == ("stale", "before_watermark")


def test_h39_after_a_restore_signals_without_a_time_are_refused_until_a_person_lifts_it(bench: Bench) -> None:
    bench.deliver("k1")
    bench.write(lambda tx: tx.set_meta(REFUSE_WITHOUT_TIME, "1"))
    assert said(bench.deliver("k2")) == ("stale", "before_watermark")
    assert said(bench.deliver("k3", action="exit")) == ("stale", "before_watermark")
    assert bench.deliver("k1").kind == "duplicate"
    assert bench.deliver("k4", fired_at=TIME).kind == "accepted"
    assert bench.deliver("k5", bar_time="2026-03-02T15:15:00Z", interval="15").kind == "accepted"
    bench.write(lambda tx: lift_refusal(tx, 1, "me", "looked at it"))
    assert bench.deliver("k2").kind == "accepted"


def test_h40_the_time_that_is_kept_is_what_the_signal_says(bench: Bench) -> None:
    bench.deliver("k1", fired_at="2026-03-02T15:29:00Z", bar_time="2026-03-02T15:15:00Z", interval="15")
    bench.deliver("k2", bar_time="2026-03-02T15:15:00Z", interval="15")
    bench.deliver("k3")
    kept = [row["signal_time"] for row in bench.claims()]
    now = bench.clock.now()
    assert kept == [now - MINUTE, now - 15 * MINUTE, None]


# -------------------------------------------------------------------------------------------------- freshness


@pytest.mark.parametrize(
    ("action", "age", "kind"),
    [
        ("buy", 90, "accepted"),
        ("buy", 90.001, "stale"),
        ("exit", 91, "accepted"),
        ("exit", 900, "accepted"),
        ("exit", 900.001, "stale"),
        ("cancel", 900, "accepted"),
        ("buy", -30, "accepted"),
    ],
)
def test_entries_and_exits_have_limits_of_their_own(bench: Bench, action: str, age: float, kind: str) -> None:
    fired_at = (bench.clock.now() - round(age * SECOND)) // 1000
    assert bench.deliver("k1", action=action, fired_at=str(fired_at)).kind == kind


def test_a_side_against_the_book_has_the_exits_limit(bench: Bench) -> None:
    fields = {"action": "sell", "fired_at": "2026-03-02T15:25:00Z"}
    assert bench.deliver("k1", **fields).kind == "stale"
    bench.hold("5")
    assert bench.deliver("k1", **fields).kind == "accepted"


def test_an_age_that_nobody_knows_is_not_stale(bench: Bench) -> None:
    assert bench.deliver("k1").kind == "accepted"
    assert bench.deliver("k2", bar_time="2020-03-02T15:15:00Z").kind == "accepted"


def test_without_a_fire_time_the_close_of_the_bar_counts(bench: Bench) -> None:
    bar = {"bar_time": "2026-03-02T15:15:00Z", "interval": "15"}
    bench.later(90)
    assert bench.deliver("k1", **bar).kind == "accepted"
    bench.later(1)
    assert said(bench.deliver("k2", **bar)) == ("stale", "stale")
    assert bench.deliver("k3", **bar, fired_at="2026-03-02T15:31:30Z").kind == "accepted"


def test_a_refusal_says_the_age_and_the_limit(bench: Bench) -> None:
    verdict = bench.deliver("k1", fired_at="2026-03-02T15:28:00Z")
    assert verdict.detail == "age 120.0 s, limit 90 s for an entry"


def test_h10_a_refused_exit_is_marked_and_an_entry_is_not(bench: Bench) -> None:
    bench.deliver("k1", action="exit", fired_at="2026-03-02T15:00:00Z")
    bench.deliver("k2", fired_at="2026-03-02T15:00:00Z")
    bench.deliver("k3")
    bench.deliver("k3", action="exit")
    bench.deliver("k4", action="exit")
    marked = [EXIT_NOT_PLACED in warnings_of(row) for row in bench.deliveries()]
    assert marked == [True, False, False, True, False]
