"""The Needs you tab: worst first, loud while anything is in it, quiet when nothing is."""

from __future__ import annotations

from app.clock import SECOND
from app.gui.window import Window
from app.ledger.transaction import Transaction
from tests.gui import rows
from tests.gui.hands import click, until
from tests.gui.kit import StandIn


async def two_needs(engine: StandIn) -> None:
    """A conflict, which is a warning, then an order that only a person can decide."""
    at = engine.clock.now()

    def write(tx: Transaction) -> None:
        first = rows.add_signal(tx, at, key="k1", key_source="body")
        rows.add_conflict(tx, first, at + SECOND)
        rows.lose_for_good(tx, rows.add_signal(tx, at + 2 * SECOND, symbol="BTCUSDT"), at + 3 * SECOND)

    await engine.write(write)


async def test_the_first_tab_is_quiet_while_nothing_needs_anybody(window: Window) -> None:
    assert window.tabs.tabText(0) == "Needs you"
    assert window.tabs.widget(0) is window.needs
    window.show_view("needs")
    await until(lambda: window.needs.is_empty)
    assert not window.attention.is_loud
    assert not window.needs.bar.isVisible()
    assert window.windowTitle() == "Onefill"


async def test_what_needs_a_person_is_loud_in_tab_title_and_band(window: Window, engine: StandIn) -> None:
    assert window.current is not window.needs
    await two_needs(engine)
    await until(lambda: window.attention.is_loud)
    assert window.tabs.tabText(0) == "! Needs you (2)"
    assert window.windowTitle() == "(2 need you) Onefill"
    assert "Nobody knows whether the broker has O2" in window.attention.label.text
    assert "All that needs you: 2." in window.attention.label.text


async def test_the_band_leads_to_the_worst_row_and_its_story(window: Window, engine: StandIn) -> None:
    await two_needs(engine)
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    assert window.current is window.needs
    model = window.needs.model
    assert [model.index(row, 0).data() for row in range(2)] == ["✕ Critical", "! Warning"]
    assert model.index(0, 2).data() == "O2"
    assert "only you can decide" in window.needs.bar.label.text()
    await until(lambda: window.detail.page)
    assert window.detail.page is not None
    assert window.detail.page.id == "O2"
    window.needs.table.choose(1)
    await until(lambda: window.detail.page and window.detail.page.id == "D2")
    assert "asks for something else" in window.needs.bar.label.text()


async def test_the_chosen_row_stays_chosen_when_something_worse_comes(
    window: Window, engine: StandIn
) -> None:
    at = engine.clock.now()
    await engine.write(lambda tx: rows.add_conflict(tx, rows.add_signal(tx, at), at + SECOND))
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    assert window.needs.need is not None
    assert window.needs.need.subject == "D2"
    await engine.write(lambda tx: rows.lose_for_good(tx, rows.add_signal(tx, at + 1), at + 2))
    await until(lambda: window.needs.model.rowCount() == 2)
    assert window.needs.need.subject == "D2"
    assert window.needs.table.currentIndex().row() == 1


async def test_it_is_quiet_again_when_the_last_thing_is_settled(window: Window, engine: StandIn) -> None:
    at = engine.clock.now()
    await engine.write(lambda tx: rows.add_conflict(tx, rows.add_signal(tx, at), at + SECOND))
    await until(lambda: window.windowTitle() == "(1 needs you) Onefill")
    await engine.write(lambda tx: tx.change("deliveries", "UPDATE deliveries SET needs = NULL"))
    await until(lambda: not window.attention.is_loud)
    assert window.tabs.tabText(0) == "Needs you"
    assert window.windowTitle() == "Onefill"


async def test_a_note_is_counted_and_not_shouted(window: Window, engine: StandIn) -> None:
    at = engine.clock.now()

    def second_signal(tx: Transaction) -> None:
        repeat = rows.add_duplicate(tx, rows.add_signal(tx, at), at + 60 * SECOND)
        tx.change("deliveries", "UPDATE deliveries SET needs = 'look' WHERE id = ?", (repeat,))

    await engine.write(second_signal)
    await until(lambda: window.tabs.tabText(0) == "Needs you (1)")
    assert not window.attention.is_loud


async def test_h10_an_exit_answered_503_begins_to_need_somebody_by_time_alone(
    window: Window, engine: StandIn
) -> None:
    at = engine.clock.now()

    def told_503(tx: Transaction) -> None:
        lost = rows.add_delivery(tx, at, "not_accepted", status=503, reason="ledger_full", key="x1")
        tx.change("deliveries", "UPDATE deliveries SET needs = 'exit' WHERE id = ?", (lost,))

    await engine.write(told_503)
    await until(lambda: window.needs.is_empty)
    engine.clock.advance(61 * SECOND)
    for _ in range(10):
        window._tick()
    await until(lambda: window.attention.is_loud)
    assert "answered 503" in window.attention.label.text


async def test_differences_with_the_broker_open_the_reconciliation_that_found_them(
    window: Window, engine: StandIn
) -> None:
    at = engine.clock.now()

    def drift(tx: Transaction) -> int:
        rows.fill(tx, rows.add_signal(tx, at, symbol="BTCUSDT", quantity="0.01"), at + 1)
        finding = ("warning", "drift", "BTCUSDT", "ours 0.01, the broker's 0.045")
        held = [{"symbol": "BTCUSDT", "expected": "0.01", "broker": "0.045"}]
        return rows.add_reconciliation(tx, at + SECOND, "FINDINGS", [finding], positions=held)

    run = await engine.write(drift)
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    await until(lambda: window.detail.page and window.detail.page.id == f"R{run}")
    assert "our books held 0.01 BTCUSDT in paper, the broker 0.045." in window.needs.bar.label.text()
