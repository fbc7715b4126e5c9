"""The settings editor by clicks and keys on a real engine: tried as typed, saved with the comments."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QMessageBox

from app.gui.settings_dialog import SettingsDialog
from app.gui.settings_draft import SettingsDraft
from app.gui.settings_form import one_of, spoken
from app.gui.settings_secrets import SecretsPage, secret_names
from app.settings import config_path, default_text
from app.settings.keys import TABLES
from app.settings.read import parse
from tests.gui.hands import click, press, until
from tests.gui.setup_kit import Desk, choose, nameless, real, tab_stops, there, write


@contextlib.asynccontextmanager
async def editing(home: Path) -> AsyncIterator[tuple[Desk, SettingsDialog]]:
    async with real(home) as desk:
        press(desk.window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
        (dialog,) = desk.window.setup.dialogs
        assert isinstance(dialog, SettingsDialog)
        await until(lambda: dialog.draft is not None)
        yield desk, dialog


async def text_of(home: Path) -> str:
    return await asyncio.to_thread(config_path(home).read_text, "utf-8")


def turn_to(dialog: SettingsDialog, title: str) -> None:
    titles = [dialog.list.item(row).text() for row in range(dialog.list.count())]
    dialog.list.setCurrentRow(next(row for row, each in enumerate(titles) if title in each))


def field(dialog: SettingsDialog, key: str) -> QLineEdit | QComboBox:
    return there(dialog.form).rows[key].field


def line(dialog: SettingsDialog, key: str) -> QLineEdit:
    found = field(dialog, key)
    assert isinstance(found, QLineEdit)
    return found


def question() -> QMessageBox | None:
    boxes = [each for each in QApplication.topLevelWidgets() if isinstance(each, QMessageBox)]
    return next((each for each in boxes if each.isVisible()), None)


async def answer(text: str) -> None:
    await until(question)
    box = there(question())
    click(next(button for button in box.buttons() if button.text() == text))
    await until(lambda: question() is None)


async def test_every_key_of_every_table_is_there_with_its_reason(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        for row, table in enumerate(TABLES):
            dialog.list.setCurrentRow(row)
            form = there(dialog.form)
            assert list(form.rows) == [key.name for key in table.keys]
            for key in table.keys:
                assert form.rows[key.name].why.text() == key.why
                assert form.rows[key.name].field.accessibleName() == spoken(key.name)
            assert nameless(dialog) == []


async def test_a_mistake_is_shown_at_its_key_as_it_is_typed_and_is_not_saved(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (_, dialog):
        turn_to(dialog, "Risk")
        write(line(dialog, "cooldown"), "3 parsecs")
        await until(lambda: "not a time" in there(dialog.form).rows["cooldown"].problem.text())
        assert dialog.state.text().startswith("✕ ")
        assert dialog.list.currentItem().text() == "✕ Risk"
        assert not dialog.save.isEnabled()
        write(line(dialog, "cooldown"), "3s")
        await until(dialog.save.isEnabled)
        assert there(dialog.form).rows["cooldown"].problem.isHidden()
        assert dialog.list.currentItem().text() == "• Risk"


async def test_what_is_saved_keeps_the_comments_and_waits_for_a_restart(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (desk, dialog):
        before = await text_of(tmp_path)
        assert dialog.state.text() == "What is in the file is in force."
        turn_to(dialog, "Risk")
        write(line(dialog, "cooldown"), "3s")
        turn_to(dialog, "Account paper")
        choose(there(field(dialog, "allow_short")), "yes")  # type: ignore[arg-type]
        await until(dialog.save.isEnabled)
        click(dialog.save)
        await until(lambda: "Saved" in dialog.notice.text)
        after = await text_of(tmp_path)
        gone, come = (
            set(before.split("\n")) - set(after.split("\n")),
            set(after.split("\n")) - set(before.split("\n")),
        )
        assert gone == {'cooldown = "0s"', "allow_short = false"}
        assert come == {'cooldown = "3s"', "allow_short = true"}
        assert dialog.state.text() == (
            "Saved, in force after a restart of Onefill: accounts paper.allow_short, risk.cooldown."
        )
        assert not desk.engine.settings.accounts[0].allow_short
        assert not dialog.save.isEnabled()


async def test_an_emptied_field_gives_the_default_back(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        turn_to(dialog, "Risk")
        assert line(dialog, "cooldown").placeholderText() == "0s (default)"
        write(line(dialog, "cooldown"), "")
        press(line(dialog, "cooldown"), Qt.Key.Key_Backspace)
        await until(dialog.save.isEnabled)
        click(dialog.save)
        await until(lambda: "Saved" in dialog.notice.text)
        assert "cooldown" not in parse(await text_of(tmp_path), tmp_path)["risk"]


async def test_a_source_is_added_set_up_and_removed_again(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        click(dialog.add)
        assert "Give it a name" in dialog.notice.text
        write(dialog.new_name, "swing")
        click(dialog.add)
        assert dialog.list.currentItem().text() == "• Source swing"
        assert not dialog.test.isEnabled()
        await until(lambda: "gets its address and token at the next start" in dialog.state.text())
        write(line(dialog, "max_age"), "30s")
        await until(dialog.save.isEnabled)
        click(dialog.save)
        await until(lambda: "Saved" in dialog.notice.text)
        sources = parse(await text_of(tmp_path), tmp_path)["sources"]
        assert [(each["name"], each["max_age"]) for each in sources] == [
            ("tradingview", "90s"),
            ("swing", "30s"),
        ]
        turn_to(dialog, "Source swing")
        click(dialog.remove)
        await answer("Remove it")
        await until(lambda: dialog.list.currentItem().text() == "• Source swing (removed)")
        await until(dialog.save.isEnabled)
        click(dialog.save)
        await until(lambda: dialog.draft is not None and len(dialog.draft.of("sources")) == 1)
        assert [each["name"] for each in parse(await text_of(tmp_path), tmp_path)["sources"]] == [
            "tradingview"
        ]


async def test_every_kind_of_block_can_be_added(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        for table in (table for table in TABLES if table.array):
            choose(dialog.new_kind, one_of(table).lower())
            write(dialog.new_name, "another")
            click(dialog.add)
            assert dialog.list.currentItem().text() == f"• {one_of(table)} another"
        await until(dialog.save.isEnabled)
        click(dialog.save)
        await until(lambda: "Saved" in dialog.notice.text)
        raw = parse(await text_of(tmp_path), tmp_path)
        assert all(raw[table.name][-1]["name"] == "another" for table in TABLES if table.array)


async def test_a_bad_name_is_refused_and_a_rename_is_explained(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        write(dialog.new_name, "Swing Trades")
        click(dialog.add)
        await until(lambda: "small letters" in dialog.state.text())
        assert not dialog.save.isEnabled()
        click(dialog.undo)
        await until(lambda: dialog.draft is not None and not dialog.draft.is_changed)
        turn_to(dialog, "Source tradingview")
        for key in ("name", "id"):
            before = line(dialog, key).text()
            assert before
            QTest.keyClicks(line(dialog, key), "x")
            assert line(dialog, key).text() == before
        assert dialog.draft is not None
        assert not dialog.draft.is_changed
        inner = there(there(dialog.form).widget())
        assert any("keeps its name" in label.text() for label in inner.findChildren(type(dialog.state)))


async def test_the_last_account_stays(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (_, dialog):
        turn_to(dialog, "Account paper")
        click(dialog.remove)
        await until(lambda: "The last one stays" in dialog.notice.text)
        assert dialog.draft is not None
        assert not dialog.draft.is_changed


async def test_a_secret_goes_to_its_store_and_is_nowhere_else(qapp: QApplication, tmp_path: Path) -> None:
    async with editing(tmp_path) as (desk, dialog):
        dialog.list.setCurrentRow(dialog.list.count() - 1)
        page = dialog.pages.currentWidget()
        assert isinstance(page, SecretsPage)
        assert page.value.echoMode() is QLineEdit.EchoMode.Password
        page.name.setEditText("account.alpaca.secret_key")
        write(page.value, "hush-hush-hush")
        click(page.keep)
        assert page.value.text() == ""
        await until(lambda: "account.alpaca.secret_key" in dialog.notice.text)
        assert "hush" not in dialog.notice.text
        assert "hush" not in await text_of(tmp_path)
        assert "hush" in await asyncio.to_thread((tmp_path / "secrets.toml").read_text, "utf-8")
        assert "hush" not in str(await desk.engine.reader.rows("SELECT detail FROM events"))
        assert nameless(dialog) == []


async def test_a_source_of_paper_is_tested_with_a_signal_and_an_account_by_its_number(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (desk, dialog):
        turn_to(dialog, "Source tradingview")
        click(dialog.test)
        await until(lambda: "accepted as S1" in dialog.notice.text)
        assert await desk.engine.reader.rows("SELECT source FROM v_signals") == [{"source": "tradingview"}]
        turn_to(dialog, "Account paper")
        click(dialog.test)
        await until(lambda: "paper answers: account" in dialog.notice.text)
        assert "no money" in dialog.notice.text


async def test_what_is_not_saved_is_asked_for_before_it_is_thrown_away(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (desk, dialog):
        before = await text_of(tmp_path)
        turn_to(dialog, "Risk")
        write(line(dialog, "cooldown"), "3s")
        press(dialog, Qt.Key.Key_Escape)
        await answer("Go on editing")
        assert dialog.isVisible()
        await until(dialog.close_button.isEnabled)
        click(dialog.close_button)
        await answer("Throw away")
        await until(lambda: desk.window.setup.dialogs == ())
        assert await text_of(tmp_path) == before


async def test_a_file_changed_by_an_editor_meanwhile_is_not_written_over(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (_, dialog):
        turn_to(dialog, "Risk")
        write(line(dialog, "cooldown"), "3s")
        await until(dialog.save.isEnabled)
        by_hand = await text_of(tmp_path) + "# by hand\n"
        await asyncio.to_thread(config_path(tmp_path).write_text, by_hand, "utf-8")
        click(dialog.save)
        await until(lambda: "changed meanwhile" in dialog.notice.text)
        assert await text_of(tmp_path) == by_hand
        click(dialog.undo)
        await until(lambda: dialog.draft is not None and not dialog.draft.is_changed)


async def test_tab_reaches_every_field_and_nothing_is_hit_by_enter(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with editing(tmp_path) as (_, dialog):
        turn_to(dialog, "Risk")
        stops = tab_stops(dialog, dialog.list)
        assert [each for each in there(dialog.form).rows.values() if each.field not in stops] == []
        write(line(dialog, "cooldown"), "3s")
        await until(dialog.save.isEnabled)
        press(line(dialog, "cooldown"), Qt.Key.Key_Return)
        assert dialog.draft is not None
        assert dialog.draft.is_changed
        assert dialog.isVisible()


# --------------------------------------------------------------------------------------------- what was typed


def test_a_draft_finds_the_section_that_a_problem_names_after_removals() -> None:
    raw = parse(default_text() + '\n[[sources]]\nname = "second"\n', Path("config.toml"))
    draft = SettingsDraft(raw)
    first, second = draft.of("sources")
    assert draft.drop(first)
    found = there(draft.find(["sources", 0, "rate"]))
    assert (found[0].name, found[1]) == ("second", "rate")
    assert not draft.drop(second)
    third = draft.add("sources", "third")
    assert there(draft.find(["sources", 1])) == (third, "")
    assert draft.edits() == [["add", "sources", {"name": "third"}], ["drop", "sources", 0]]
    assert draft.find(["nowhere", 0]) is None


def test_typing_a_value_back_is_no_change() -> None:
    draft = SettingsDraft(parse(default_text(), Path("config.toml")))
    (risk,) = draft.of("risk")
    key = next(key for key in risk.table.keys if key.name == "cooldown")
    risk.type(key, "5s")
    assert draft.edits() == [["set", ["risk", "cooldown"], "5s"]]
    risk.type(key, "0s")
    assert not draft.is_changed


@pytest.mark.parametrize(("broker", "wanted"), [("paper", []), ("alpaca", ["key_id", "secret_key"])])
def test_the_secrets_that_are_needed_are_named(broker: str, wanted: list[str]) -> None:
    draft = SettingsDraft({"accounts": [{"name": "one", "broker": broker}], "sources": [{"name": "tv"}]})
    assert secret_names(draft) == ["source.tv.token", *(f"account.one.{each}" for each in wanted)]
    more = SettingsDraft({"tunnel": {"kind": "ngrok"}, "notices": [{"name": "me", "to": "url"}]})
    assert {"notice.me.url", "tunnel.token"} <= set(secret_names(more))
