"""The key lab by clicks: numbers and examples of another key, and nothing changed by it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.gui.keylab_dialog import KeyLabDialog
from app.gui.window import Window
from tests.gui.hands import click, press, until
from tests.gui.real import fill
from tests.gui.setup_kit import choose, nameless, real, tab_stops, there


def open_lab(window: Window) -> KeyLabDialog:
    press(window, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
    (dialog,) = window.setup.dialogs
    assert isinstance(dialog, KeyLabDialog)
    return dialog


def numbers(dialog: KeyLabDialog) -> dict[str, str]:
    return {name: pair[0].text() for name, pair in dialog.numbers.items()}


async def test_another_key_is_tried_on_what_came_in(qapp: QApplication, tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        await fill(desk.engine)
        sql = "SELECT (SELECT count(*) FROM claims) AS c, (SELECT count(*) FROM deliveries) AS d"
        before = await desk.engine.reader.rows(sql)
        dialog = open_lab(desk.window)
        await until(lambda: dialog.tried is not None)
        assert [numbers(dialog)[name] for name in ("signals", "caught", "swallowed", "let_through")] == [
            "4",
            "2",
            "0",
            "0",
        ]
        assert "6 deliveries" in dialog.read_of.text()
        assert "No difference" in there(dialog.examples.topLevelItem(0)).text(0)

        press(dialog.fields["position"], Qt.Key.Key_Space)
        press(dialog.fields["order_id"], Qt.Key.Key_Space)
        await until(lambda: numbers(dialog)["conflicts"].startswith("! "))
        assert there(dialog.examples.topLevelItem(0)).text(0) == "≠ conflict"

        click(dialog.usual)
        await until(lambda: numbers(dialog)["conflicts"] == "0")
        press(dialog.fields["fired_at"], Qt.Key.Key_Space)
        choose(dialog.window_all, "10 seconds")
        await until(lambda: dialog.composition.window == 10_000_000)
        click(dialog.usual)
        assert dialog.composition.window is None
        assert await desk.engine.reader.rows(sql) == before


async def test_an_example_opens_its_story(qapp: QApplication, tmp_path: Path) -> None:
    async with real(tmp_path) as desk:
        await fill(desk.engine)
        dialog = open_lab(desk.window)
        await until(lambda: dialog.tried is not None)
        press(dialog.fields["position"], Qt.Key.Key_Space)
        await until(lambda: "conflict" in there(dialog.examples.topLevelItem(0)).text(0))
        dialog.examples.setCurrentItem(there(dialog.examples.topLevelItem(0)))
        press(dialog.examples, Qt.Key.Key_Return)
        await until(lambda: desk.window.detail.page is not None)
        assert desk.window.detail.title.text().startswith("D")


async def test_an_empty_ledger_says_so_and_controls_have_names(window: Window) -> None:
    dialog = open_lab(window)
    await until(lambda: dialog.tried is not None)
    assert numbers(dialog)["signals"] == "0"
    assert "0 deliveries" in dialog.read_of.text()
    assert nameless(dialog) == []
    stops = tab_stops(dialog, dialog.source)
    assert [
        each for each in (*dialog.fields.values(), dialog.body_key, dialog.usual) if each not in stops
    ] == []


async def test_it_can_be_closed_while_it_reads(window: Window) -> None:
    dialog = open_lab(window)
    press(dialog, Qt.Key.Key_Escape)
    assert window.setup.dialogs == ()
