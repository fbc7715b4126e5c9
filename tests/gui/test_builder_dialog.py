"""The alert builder by clicks and keys: what is copied passes the checker, and the address comes with it."""

from __future__ import annotations

import json

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.gui.builder_dialog import TEMPLATES, BuilderDialog
from app.gui.check_dialog import CheckDialog
from app.gui.window import Window
from app.gui.words import tr
from tests.gui.hands import click, press, until
from tests.gui.kit import TOKEN, StandIn
from tests.gui.setup_kit import choose, nameless, tab_stops, write


async def opened(window: Window) -> BuilderDialog:
    press(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    (dialog,) = window.setup.dialogs
    assert isinstance(dialog, BuilderDialog)
    await until(lambda: dialog.copy_code.isEnabled() and dialog.verdict.text())
    return dialog


async def test_each_template_is_accepted_and_can_be_copied(window: Window) -> None:
    dialog = await opened(window)
    for template in reversed(TEMPLATES):
        title = tr(TEMPLATES[template][0])
        choose(dialog.template, title)
        # The verdict of the one before stands until the new message was checked.
        await until(lambda: not dialog.is_checking)
        assert "Accepted" in dialog.verdict.text(), title
        click(dialog.copy_code)
        copied = json.loads(QGuiApplication.clipboard().text())
        assert copied["symbol"] == "{{ticker}}"
        assert copied["strategy"] == "my-strategy"
        assert "clipboard" in dialog.notice.text


async def test_name_and_quantity_go_into_the_message_and_nonsense_is_not_copied(window: Window) -> None:
    dialog = await opened(window)
    choose(dialog.template, "An indicator: buy")
    write(dialog.strategy, "breakout")
    write(dialog.quantity, "2.50")
    await until(lambda: '"quantity": "2.5"' in dialog.message.toPlainText())
    await until(lambda: "Buy 2.5 SAMPLE" in dialog.headline.text())
    assert '"strategy": "breakout"' in dialog.message.toPlainText()
    write(dialog.quantity, "two")
    assert "above zero" in dialog.headline.text()
    assert not dialog.copy_code.isEnabled()
    assert dialog.message.toPlainText() == ""
    write(dialog.quantity, "3")
    await until(dialog.copy_code.isEnabled)


async def test_a_flat_target_asks_for_no_quantity(window: Window) -> None:
    dialog = await opened(window)
    choose(dialog.template, "a position of this size")
    assert dialog.side.isVisible()
    assert dialog.quantity.isVisible()
    choose(dialog.side, "nothing")
    assert not dialog.quantity.isVisible()
    await until(lambda: '"market_position": "flat"' in dialog.message.toPlainText())
    await until(lambda: "Close all SAMPLE" in dialog.headline.text())


async def test_the_pine_script_and_the_address_are_copied_the_token_only_there(window: Window) -> None:
    dialog = await opened(window)
    assert TOKEN not in dialog.address.text()
    click(dialog.copy_address)
    assert QGuiApplication.clipboard().text().endswith(f"/hook/tradingview/{TOKEN}")
    dialog.tabs.setCurrentWidget(dialog.pine)
    assert dialog.copy_code.text() == "&Copy script"
    click(dialog.copy_code)
    script = QGuiApplication.clipboard().text()
    assert script.startswith("//@version=6")
    assert TOKEN not in script
    assert "//@strategy_alert_message {" in script


async def test_what_was_built_goes_to_the_checker_with_its_source(window: Window) -> None:
    dialog = await opened(window)
    click(dialog.open_check)
    check = next(each for each in window.setup.dialogs if isinstance(each, CheckDialog))
    assert check.text.toPlainText() == dialog.message.toPlainText()
    await until(lambda: check.found is not None and check.found.is_good)


async def test_every_control_has_a_name_and_tab_reaches_it(window: Window, engine: StandIn) -> None:
    dialog = await opened(window)
    assert nameless(dialog) == []
    stops = tab_stops(dialog, dialog.source)
    wanted = [dialog.source, dialog.template, dialog.strategy, dialog.copy_address, dialog.copy_code]
    assert [each for each in wanted if each not in stops] == []
