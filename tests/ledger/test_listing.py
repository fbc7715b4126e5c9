"""Finding rows: by words, columns, chips and times, in any order; and that a search can be ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.clock import SECOND
from app.ledger.listing import CHUNK, LISTINGS, Search, chip_counts, matching, rows_of, words_of
from app.ledger.queries import select, shape_of
from app.ledger.reader import SearchEnded, Searches, open_read_only
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from tests.gui import rows
from tests.gui.day import needing, trading_day

NOW = 1_772_465_400 * SECOND


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("listing")
    connection = open_ledger(home, NOW)
    with connection:
        tx = Transaction(connection, set())
        trading_day(tx, NOW, quiet_rows=20)
        needing(tx, NOW)
    yield home / FILE_NAME
    connection.close()


@pytest.fixture
def reading(ledger: Path) -> Iterator[apsw.Connection]:
    connection = open_read_only(ledger)
    yield connection
    connection.close()


def found(connection: apsw.Connection, view: str, search: Search) -> list[dict[str, object]]:
    return rows_of(connection, view, matching(connection, view, search))


@pytest.mark.parametrize("view", LISTINGS)
def test_without_a_filter_it_is_the_view_itself(reading: apsw.Connection, view: str) -> None:
    plain = found(reading, view, Search())
    assert plain == select(reading, view, limit=10_000)
    assert plain


@pytest.mark.parametrize("view", LISTINGS)
def test_every_column_sorts_both_ways(reading: apsw.Connection, view: str) -> None:
    everything = list(matching(reading, view, Search()))
    for column in LISTINGS[view].columns:
        down = list(matching(reading, view, Search(sort=column)))
        up = list(matching(reading, view, Search(sort=column, descending=False)))
        assert sorted(down) == sorted(everything)
        assert down == up[::-1], column


def test_quantities_sort_as_numbers(reading: apsw.Connection) -> None:
    shown = found(reading, "orders", Search(sort="quantity", descending=False))
    quantities = [float(str(row["quantity"])) for row in shown if row["quantity"] is not None]
    assert quantities == sorted(quantities)
    assert 2.0 in quantities
    assert 10.0 in quantities


@pytest.mark.parametrize(
    ("view", "text", "column", "wanted"),
    [
        ("signals", "btc", "symbol", {"BTCUSDT"}),
        ("signals", "symbol:AAPL action:exit", "action", {"exit"}),
        ("signals", "outcome:denied", "outcome", {"DENIED"}),
        ("signals", "OUTCOME:ambig", "outcome", {"AMBIGUOUS"}),
        ("orders", "state:DENIED", "state", {"DENIED"}),
        ("orders", '"max=5000"', "state", {"DENIED"}),
        ("refused", "conflict tv-7f38", "key", {"tv-7f38"}),
        ("refused", "leverage", "reason", {"unsupported_field"}),
        ("priced_fills", "side:sell", "side", {"sell"}),
        ("events", "actor:window", "actor", {"window"}),
        ("reconciliations", "result:FINDINGS", "result", {"FINDINGS"}),
    ],
)
def test_words_and_columns(
    reading: apsw.Connection, view: str, text: str, column: str, wanted: set[str]
) -> None:
    shown = found(reading, view, Search(text=text))
    assert {row[column] for row in shown} == wanted
    assert len(shown) < len(matching(reading, view, Search()))


def test_an_orders_state_is_found_by_the_word_that_its_row_shows(reading: apsw.Connection) -> None:
    """Who types `denied` at 3 a.m. and finds nothing believes that nothing was denied."""
    shown = found(reading, "orders", Search(text="denied"))
    assert shown
    assert {row["state"] for row in shown} >= {"DENIED"}
    assert found(reading, "orders", Search(text="state:DENIED"))
    assert all("DENIED" in f"{row['state']} {row['reason']}".upper() for row in shown)


def test_an_id_is_found_by_its_name(reading: apsw.Connection) -> None:
    assert [row["id"] for row in found(reading, "orders", Search(text="id:12"))][-1] == "O12"
    assert "S7" in [row["id"] for row in found(reading, "signals", Search(text="S7"))]


@pytest.mark.parametrize("text", ["%", "_", "100%'", "'; DROP TABLE claims; --", '"zzz', "\\", "zzz"])
def test_what_is_typed_is_text_and_nothing_else(reading: apsw.Connection, text: str) -> None:
    for view in LISTINGS:
        matches = matching(reading, view, Search(text=text))
        assert len(matches) < len(matching(reading, view, Search()))


def test_an_underscore_is_an_underscore(reading: apsw.Connection) -> None:
    reasons = {row["reason"] for row in found(reading, "refused", Search(text="missing_field"))}
    assert reasons == {"missing_field"}
    assert not matching(reading, "refused", Search(text="missing%field"))


def test_quotes_keep_words_together() -> None:
    assert words_of('a "b c" d') == ["a", "b c", "d"]
    assert words_of('open "quote') == ["open", '"quote']
    assert words_of("it's C:\\x") == ["it's", "C:\\x"]


@pytest.mark.parametrize("view", LISTINGS)
def test_chips_count_what_they_find(reading: apsw.Connection, view: str) -> None:
    counts = chip_counts(reading, view)
    for chip in LISTINGS[view].chips:
        assert counts[chip] == len(matching(reading, view, Search(chips=frozenset({chip}))))


def test_a_signals_chips_follow_the_views_outcome(reading: apsw.Connection) -> None:
    outcomes = {
        "unresolved": {"NEEDS_OPERATOR", "AMBIGUOUS"},
        "waiting": {"SUBMITTING", "PENDING"},
        "working": {"WORKING"},
        "denied": {"DENIED", "NOT_PLACED"},
        "done": {"DONE"},
    }
    every = select(reading, "signals", limit=1_000)
    for chip, states in outcomes.items():
        shown = found(reading, "signals", Search(chips=frozenset({chip})))
        assert shown == [row for row in every if row["outcome"] in states]
        assert shown
    both = found(reading, "signals", Search(chips=frozenset({"denied", "waiting"})))
    assert both == [row for row in every if row["outcome"] in {"DENIED", "NOT_PLACED", "PENDING"}]


def test_times_include_the_first_moment_and_exclude_the_last(reading: apsw.Connection) -> None:
    every = select(reading, "signals", limit=1_000)
    at = sorted({str(row["first_seen"]) for row in every})
    sql = "SELECT DISTINCT first_received_at AS at FROM claims ORDER BY at"
    moments: list[Any] = [row[0] for row in reading.execute(sql).fetchall()]
    shown = found(reading, "signals", Search(since=moments[3], until=moments[7]))
    assert {str(row["first_seen"]) for row in shown} == set(at[3:7])


def test_what_does_not_exist_is_an_error(reading: apsw.Connection) -> None:
    with pytest.raises(ValueError, match="no column"):
        matching(reading, "orders", Search(sort="digest"))
    with pytest.raises(ValueError, match="no chip"):
        matching(reading, "orders", Search(chips=frozenset({"x"})))


def test_a_number_that_is_gone_is_left_out(reading: apsw.Connection) -> None:
    assert [row["number"] for row in rows_of(reading, "signals", [2, 999_999, 1])] == [2, 1]


def test_more_numbers_than_are_taken_at_once(tmp_path: Path) -> None:
    connection = open_ledger(tmp_path, NOW)
    with connection:
        rows.many_signals(Transaction(connection, set()), NOW, 20_000)
    numbers = matching(connection, "signals", Search(sort="time", descending=False))
    assert list(numbers) == list(range(1, 20_001))
    assert len("".join(map(str, numbers))) > CHUNK
    connection.close()


def test_the_priced_fills_have_the_signals_price(reading: apsw.Connection) -> None:
    assert shape_of("priced_fills").columns == shape_of("fills").columns
    for row in select(reading, "priced_fills", limit=100):
        assert row["reference"] == rows.PRICES[row["symbol"]]


async def test_a_search_that_nobody_waits_for_is_ended(ledger: Path) -> None:
    searches = Searches(ledger)
    running = threading.Event()

    def endless(connection: apsw.Connection) -> object:
        running.set()
        sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        return connection.execute(sql).fetchall()

    def end() -> None:
        running.wait()
        searches.end()

    ending = threading.Thread(target=end)
    ending.start()
    try:
        with pytest.raises(SearchEnded):
            await searches.call(endless)
        assert len(await searches.call(lambda c: matching(c, "signals", Search()))) > 20
    finally:
        ending.join()
        searches.close()
    with pytest.raises(SearchEnded):
        await searches.call(lambda c: matching(c, "signals", Search()))
