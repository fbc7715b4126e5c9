"""Paste and check by clicks and keys: words, the marked place, a received message, and the test to paper."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.gui.check_dialog import CheckDialog
from app.gui.samples import ALERT_MESSAGE
from app.gui.window import Window
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.real import fill
from tests.gui.setup_kit import choose, nameless, real, tab_stops, there, write

BUY = '{"key": "demo-1", "symbol": "AAPL", "action": "buy", "quantity": "10", "price": "189.25"}'


def marked(dialog: CheckDialog) -> list[str]:
    return [each.cursor.selectedText() for each in dialog.text.extraSelections()]


async def opened(window: Window) -> CheckDialog:
    press(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    (dialog,) = window.setup.dialogs
    assert isinstance(dialog, CheckDialog)
    await until(dialog.isVisible)
    return dialog


async def counts(window: Window, engine: StandIn) -> list[dict[str, object]]:
    sql = "SELECT (SELECT count(*) FROM deliveries) AS d, (SELECT count(*) FROM claims) AS c"
    return await engine.reader.rows(sql)


async def test_a_pasted_message_is_told_in_words_and_nothing_is_stored(
    window: Window, engine: StandIn
) -> None:
    before = await counts(window, engine)
    dialog = await opened(window)
    assert not dialog.isModal()
    QGuiApplication.clipboard().setText(BUY)
    click(dialog.paste)
    await until(lambda: dialog.headline.text() == "Buy 10 AAPL at market on paper")
    assert "is a duplicate, for ever" in dialog.said.toPlainText()
    assert "Accepted" in dialog.verdict.text()
    assert marked(dialog) == []
    assert await counts(window, engine) == before
    assert engine.samples == 0


async def test_the_wrong_place_is_marked_and_goes_away_when_it_is_mended(window: Window) -> None:
    dialog = await opened(window)
    write(dialog.text, BUY.replace('"buy"', '"bay"'))
    await until(lambda: marked(dialog) == ['"action": "bay"'])
    assert dialog.place.text() == "Line 1, column 37"
    assert "none of those" in dialog.headline.text()
    assert not dialog.send.isEnabled()
    write(dialog.text, BUY.replace('"10",', '"10",,'))
    await until(lambda: "JSON is broken" in dialog.headline.text())
    write(dialog.text, BUY)
    await until(lambda: marked(dialog) == [] and dialog.found is not None)
    write(dialog.text, "")
    await until(lambda: dialog.headline.text() == "Nothing to check yet")


async def test_a_sign_beyond_the_first_plane_does_not_shift_the_mark(window: Window) -> None:
    dialog = await opened(window)
    dialog.text.setPlainText('{"comment": "\U0001f680\U0001f680", "symbol": "AAPL", "action": "bay"}')
    await until(lambda: marked(dialog) == ['"action": "bay"'])


async def test_placeholders_are_filled_in_unless_it_is_to_be_taken_as_it_is(window: Window) -> None:
    dialog = await opened(window)
    dialog.text.setPlainText(ALERT_MESSAGE)
    await until(lambda: dialog.found is not None and dialog.found.is_good)
    press(dialog.fill, Qt.Key.Key_Space)
    await until(lambda: "placeholder was not filled in" in dialog.headline.text())
    assert len(marked(dialog)) == ALERT_MESSAGE.count("{{")


async def test_another_source_is_asked_by_its_own_rules(window: Window) -> None:
    dialog = await opened(window)
    write(dialog.text, BUY)
    choose(dialog.source, "test")
    await until(lambda: dialog.found is not None)
    assert "source test" not in dialog.headline.text()
    assert [dialog.source.itemText(place) for place in range(dialog.source.count())] == [
        "tradingview",
        "test",
    ]


async def test_escape_closes_it_and_it_comes_back_empty_and_only_once(window: Window) -> None:
    dialog = await opened(window)
    write(dialog.text, BUY)
    assert await opened(window) is dialog
    press(dialog, Qt.Key.Key_Escape)
    assert window.setup.dialogs == ()
    again = await opened(window)
    assert again is not dialog
    assert again.text.toPlainText() == ""


async def test_halt_stays_in_reach_by_its_key(window: Window, engine: StandIn) -> None:
    dialog = await opened(window)
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    press(dialog, Qt.Key.Key_H, keys)
    await until(lambda: engine.trading_state == "halted")


async def test_every_control_has_a_name_and_tab_reaches_it(window: Window) -> None:
    dialog = await opened(window)
    write(dialog.text, BUY)
    await until(dialog.send.isEnabled)
    assert nameless(dialog) == []
    stops = tab_stops(dialog, dialog.source)
    wanted = [dialog.source, dialog.fill, dialog.number, dialog.fetch, dialog.text, dialog.paste, dialog.send]
    assert [each for each in wanted if each not in stops] == []
    assert not dialog.send.isDefault()
    assert not dialog.send.autoDefault()


async def test_an_unknown_number_is_said(window: Window) -> None:
    dialog = await opened(window)
    write(dialog.number, "D99")
    press(dialog.number, Qt.Key.Key_Return)
    await until(lambda: "There is no message D99" in dialog.notice.text)
    assert dialog.isVisible()


async def test_h29_a_test_goes_to_paper_by_the_built_in_source_alone(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with real(tmp_path) as desk:
        dialog = there(desk.window.setup.open_check(BUY))
        await until(dialog.send.isEnabled)
        click(dialog.send)
        await until(lambda: "accepted as S1" in dialog.notice.text)
        (row,) = await desk.engine.reader.rows("SELECT source, symbol FROM v_signals")
        assert row == {"source": "test", "symbol": "AAPL"}


async def test_a_received_message_is_fetched_and_judged_as_of_its_time(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with real(tmp_path) as desk:
        await fill(desk.engine)
        window = desk.window
        window.show_view("signals")
        await until(lambda: window.current.model.rowCount() == 4)
        window.current.table.choose(0)
        press(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        (dialog,) = window.setup.dialogs
        assert isinstance(dialog, CheckDialog)
        await until(lambda: dialog.found is not None)
        assert '"order_id": "SL"' in dialog.text.toPlainText()
        assert dialog.source.currentText() == "tradingview"
        assert "duplicate of S4" in dialog.headline.text()
