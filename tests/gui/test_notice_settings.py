"""Receivers of notices in the settings editor: added, tested by a button, their address kept as a secret."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.gui.settings_secrets import secret_names
from app.notify import Message
from tests.gui.hands import click, until
from tests.gui.setup_kit import there, write
from tests.gui.test_settings_dialog import editing, turn_to


async def test_the_button_sends_a_test_and_says_what_came_of_it(qapp: QApplication, tmp_path: Path) -> None:
    shown: list[Message] = []

    def show(message: Message) -> bool:
        shown.append(message)
        return True

    async with editing(tmp_path / "home") as (desk, dialog):
        turn_to(dialog, "Notice desktop")
        click(dialog.test)
        await until(lambda: "no window that could show it" in dialog.notice.text)
        assert dialog.notice.level == "error"
        there(desk.engine.manners).notices.show_on_desktop(show)
        await until(dialog.test.isEnabled)
        click(dialog.test)
        await until(lambda: "has taken the test notice" in dialog.notice.text)
        assert [message.title for message in shown] == ["Onefill: a test notice"]


async def test_a_receiver_is_added_and_its_address_is_named_among_the_secrets(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path / "home") as (_desk, dialog):
        dialog.new_kind.setCurrentIndex(dialog.new_kind.findData("notices"))
        write(dialog.new_name, "phone")
        click(dialog.add)
        draft = there(dialog.draft)
        assert draft.names("notices") == ["desktop", "phone"]
        section = draft.of("notices")[-1]
        key = next(key for key in section.table.keys if key.name == "to")
        section.type(key, "url")
        assert "notice.phone.url" in secret_names(draft)
        assert "notice.desktop.url" not in secret_names(draft)
