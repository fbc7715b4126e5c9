"""The claim store over the real writer: many at once, late tickets, commits that raise, a kill in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from app.claims.admission import admit
from app.claims.base import Delivery, Refusal, Verdict
from app.claims.rows import Context
from app.claims.voided import apply_voided
from app.clock import SECOND
from app.domain.alert import AlertRules, read_alert
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.ledger.errors import CommitUnknown, TicketLate
from app.ledger.store import open_ledger
from app.ledger.ticket import Outcome, Ticket
from app.ledger.transaction import Transaction
from app.listener.body import read_body
from tests.claims.kit import ADMISSION
from tests.claims.shop import RULES, Shop
from tests.ledger.bench import Gate, Ledger, look
from tests.ledger.faulty_vfs import Call, disk_broken, disk_full

# ----------------------------------------------------------------------------------------------- many at once


async def test_a_hundred_equal_deliveries_among_two_hundred_others(shop: Shop) -> None:
    works = [shop.claim(f"k{number}") for number in range(200)]
    for place in range(100):
        works.insert(place * 3, shop.claim("same-1"))
    verdicts = await asyncio.gather(*works)
    same = [verdict for verdict in verdicts if verdict.key == "same-1"]
    assert Counter(verdict.kind for verdict in same) == {"accepted": 1, "duplicate": 99}
    assert sorted(verdict.deliveries or 0 for verdict in same) == list(range(1, 101))
    assert len({verdict.claim_id for verdict in same}) == 1
    assert {verdict.kind for verdict in verdicts if verdict.key != "same-1"} == {"accepted"}
    assert shop.bench.look("SELECT count(*), count(DISTINCT claim_id) FROM orders") == [(201, 201)]
    assert shop.bench.look("SELECT count(*) FROM deliveries") == [(300,)]
    assert shop.bench.look("SELECT deliveries FROM claims WHERE key = 'same-1'") == [(100,)]
    # Only what was on disk was answered, yet not with a commit for each.
    assert shop.bench.writer.health.commits < 100


async def test_h18_a_full_disk_in_a_batch_leaves_each_verdict_true(shop: Shop) -> None:
    """SQLite rolls all of it back by itself; each is run again alone, as if for the first time."""
    shop.bench.ledger.connection.execute("PRAGMA cache_spill = 1").fetchall()
    pages = shop.bench.look("PRAGMA page_count")[0][0]
    shop.bench.ledger.connection.execute(f"PRAGMA max_page_count = {pages + 3}").fetchall()
    works = [shop.claim(f"k{number}", comment="x" * 2000) for number in range(8)]
    works.append(shop.claim("k0", comment="x" * 2000))
    found = await shop.bench.together(*works)
    kinds = [result.kind if isinstance(result, Verdict) else "refused" for result in found]
    assert "refused" in kinds
    assert "accepted" in kinds
    on_disk = {key for key, _, unanswered in shop.claims() if not unanswered}
    assert on_disk == {f"k{n}" for n, kind in enumerate(kinds[:8]) if kind == "accepted"}
    assert len(shop.deliveries()) == len(kinds) - kinds.count("refused")


# ----------------------------------------------------------------------------------------------- late tickets


async def test_h17_a_claim_that_went_late_in_its_commit_is_marked_and_its_resend_admitted(shop: Shop) -> None:
    ticket = Ticket()
    shop.expire_in_commit(ticket, 1)
    with pytest.raises(TicketLate) as late:
        await shop.claim("k1", ticket)
    assert late.value.ran
    await shop.settled()
    assert shop.claims() == [("k1", 0, 1)]
    assert shop.deliveries() == [("not_accepted", 503, "late", "k1")]
    shop.bench.clock.advance(5 * SECOND)
    again = await shop.claim("k1")
    assert (again.kind, again.deliveries) == ("accepted", 1)
    assert (await shop.claim("k1")).kind == "duplicate"
    assert shop.claims() == [("k1", 2, 0)]
    assert shop.bench.look("SELECT count(*) FROM orders") == [(1,)]


async def test_h17_what_rests_on_a_late_claim_is_late_with_it_and_nothing_else_is(shop: Shop) -> None:
    late = Ticket()
    shop.expire_in_commit(late, 2)
    refusal = shop.store.refuse(shop.delivery(), Refusal(400, "invalid", "missing_field"), None, Ticket())
    first, same, other, conflict, refused = await shop.bench.together(
        shop.claim("k1", late), shop.claim("k1"), shop.claim("k2"), shop.claim("k1", quantity="2"), refusal
    )
    assert [type(result) for result in (first, same, conflict)] == [TicketLate] * 3
    assert other.kind == "accepted"
    assert isinstance(refused, int)
    assert shop.claims() == [("k1", 0, 1), ("k2", 1, 0)]
    assert [row[0] for row in shop.deliveries()] == [
        "not_accepted", "not_accepted", "accepted", "not_accepted", "invalid",
    ]  # fmt: skip


async def test_h17_a_late_refusal_takes_no_claim_with_it(shop: Shop) -> None:
    late = Ticket()
    shop.expire_in_commit(late, 2)
    refusal = shop.store.refuse(shop.delivery(), Refusal(400, "invalid", "missing_field"), None, late)
    refused, claimed = await shop.bench.together(refusal, shop.claim("k1"))
    assert isinstance(refused, TicketLate)
    assert claimed.kind == "accepted"
    assert shop.deliveries()[0] == ("invalid", 400, "missing_field", None)


async def test_h17_one_that_never_ran_has_its_one_row_as_well(shop: Shop) -> None:
    gate = Gate()
    held = shop.bench.start(shop.bench.writer.run(gate))
    await gate.reached()
    tickets = [Ticket(), Ticket()]
    works = [
        shop.bench.start(shop.claim("k1", tickets[0])),
        shop.bench.start(shop.claim("k2", tickets[1], action="exit", quantity=None)),
    ]
    await asyncio.sleep(0)
    assert all(ticket.expire() for ticket in tickets)
    gate.open()
    await held
    results = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(result, TicketLate) and not result.ran for result in results] == [True, True]
    await shop.settled()
    assert shop.claims() == []
    assert shop.deliveries() == [("not_accepted", 503, "late", "k1"), ("not_accepted", 503, "late", "k2")]
    marked = shop.bench.look("SELECT warnings LIKE '%exit_not_placed%' FROM deliveries ORDER BY id")
    assert marked == [(0,), (1,)]
    assert (await shop.claim("k1")).kind == "accepted"


# ----------------------------------------------------------------------------------------- commits that raise


@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_h19_a_commit_that_raised_is_recorded_once_and_its_resend_admitted(
    shop: Shop, failing: int
) -> None:
    """The commit fails, and with it perhaps the first barriers."""
    left = [failing]

    def before(call: Call) -> None:
        if (call.file, call.what) == ("wal", "sync") and left[0]:
            left[0] -= 1
            raise disk_broken()

    await shop.claim("k0")
    shop.bench.disk.before = before
    results = await shop.bench.together(shop.claim("k1"), shop.claim("k1"), shop.claim("k0"))
    assert [type(result) for result in results] == [CommitUnknown] * 3
    while left[0] or shop.bench.writer.health.word != "ok":
        shop.bench.clock.advance(SECOND)
        await shop.bench.writer.probe()
    again = await shop.claim("k1")
    assert (again.kind, again.deliveries) == ("accepted", 1)
    assert shop.claims() == [("k0", 1, 0), ("k1", 1, 0)]
    assert Counter(shop.deliveries()) == {
        ("accepted", None, None, "k0"): 1,
        ("not_accepted", 503, "commit_failed", "k1"): 2,
        ("not_accepted", 503, "commit_failed", "k0"): 1,
        ("accepted", None, None, "k1"): 1,
    }


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_h19_killed_around_the_barrier_a_resend_makes_one_claim(
    ledger: Ledger, shop: Shop, nth: int
) -> None:
    """In every image of the disk, at each sync and on both sides of the barrier, the key is claimed once."""
    told: dict[str, str] = {}
    images: list[tuple[Path, dict[str, str]]] = []
    syncs = [0]

    def image() -> None:
        images.append((ledger.copy(f"killed-{len(images)}"), dict(told)))

    def before(call: Call) -> None:
        if (call.file, call.what) == ("wal", "sync"):
            syncs[0] += 1
            image()
            if syncs[0] == nth:
                raise disk_broken()

    shop.bench.disk.before = before
    shop.bench.points.update(before_barrier=image, after_barrier=image)
    for key in ("k1", "k2"):
        try:
            told[key] = (await shop.claim(key)).kind
        except CommitUnknown:
            told[key] = "503"
        image()
    shop.bench.disk.before = None
    for folder, answers in images:
        await asyncio.to_thread(_resend_both, folder, answers)


def _resend_both(folder: Path, answers: dict[str, str]) -> None:
    """What a start on this folder and a resend of both keys make of it."""
    now = ADMISSION.max_age + 1_772_465_400 * SECOND
    with contextlib.closing(open_ledger(folder, now)) as connection:
        tx = Transaction(connection, set())
        apply_voided(tx)
        context = Context("next run", lambda _account, symbol, _exchange: symbol)
        for key in ("k1", "k2"):
            raw = json.dumps({"key": key, "symbol": "AAPL", "action": "buy", "quantity": "1"}).encode()
            alert = read_alert(read_body(raw), AlertRules())
            chosen = choose_key("src", alert, HeaderKeys(), KeyPolicy())
            delivery = Delivery("src", now, 1, raw.decode(), raw_fingerprint(raw))
            kind = admit(tx, context, RULES, delivery, alert.signal, chosen).kind
            if answers.get(key) == "accepted":
                assert kind == "duplicate"
            if answers.get(key) == "503":
                assert kind == "accepted", "a 503 that was told lets the resend in"
    rows = look(folder, "SELECT key, deliveries, unanswered FROM claims ORDER BY key")
    assert [(key, unanswered) for key, _, unanswered in rows] == [("k1", 0), ("k2", 0)]
    assert look(folder, "SELECT count(*), max(generation) FROM orders") == [(2, 1)]


async def test_h18_no_room_for_the_commit_is_a_refusal_and_then_it_goes_on(shop: Shop) -> None:
    def before(call: Call) -> None:
        if (call.file, call.what) == ("wal", "write"):
            raise disk_full()

    shop.bench.disk.before = before
    with pytest.raises(CommitUnknown, match="full"):
        await shop.claim("k1")
    shop.bench.disk.before = None
    assert (await shop.claim("k1")).kind == "accepted"
    assert shop.claims() == [("k1", 1, 0)]


# ------------------------------------------------------------------------------------- after the answer, etc.


async def test_a_refusal_is_a_row_with_its_fields_and_body(shop: Shop) -> None:
    refusal = Refusal(400, "invalid", "missing_field", ("symbol",), "an order needs a symbol")
    delivery = replace(shop.delivery(b'{"a": 1}'), warnings=("age_unknown: no time",))
    ticket = Ticket()
    number = await shop.store.refuse(delivery, refusal, "k1", ticket)
    assert ticket.outcome is Outcome.ACK
    assert shop.bench.look(
        "SELECT id, verdict, http_status, reason, fields, detail, key FROM deliveries"
    ) == [(number, "invalid", 400, "missing_field", '["symbol"]', "an order needs a symbol", "k1")]
    assert shop.bench.look("SELECT warnings FROM deliveries") == [('["age_unknown: no time"]',)]
    assert shop.bench.look("SELECT body FROM bodies") == [('{"a": 1}',)]


async def test_what_was_answered_without_a_transaction_is_recorded_when_it_can(shop: Shop) -> None:
    refusal = Refusal(503, "not_accepted", "locked")
    shop.store.unanswered(shop.delivery(), refusal)
    shop.store.unanswered(shop.delivery(), refusal, "k1")
    await shop.settled()
    assert shop.deliveries() == [("not_accepted", 503, "locked", None), ("not_accepted", 503, "locked", "k1")]


async def test_h20_the_door_is_told_to_refuse_while_the_oldest_write_waits(shop: Shop) -> None:
    words = [shop.store.refuses_at_once]
    gate = Gate()
    held = shop.bench.start(shop.bench.writer.run(gate))
    await gate.reached()
    shop.bench.clock.advance(6 * SECOND)
    words.append(shop.store.refuses_at_once)
    gate.open()
    await held
    await shop.settled()
    assert [*words, shop.store.refuses_at_once] == [None, "locked", None]
