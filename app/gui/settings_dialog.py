"""The settings editor: every key with its reason, tried as it is typed, written back with the comments kept.

The engine tries and writes (command `configure`); here is only what was typed. Secrets go to the keyring.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QListWidgetItem, QWidget

from app.gui.dialogs import ask
from app.gui.settings_draft import Section, SettingsDraft
from app.gui.settings_form import SettingsForm, one_of, title_of
from app.gui.settings_frame import SettingsFrame
from app.gui.settings_secrets import SecretsPage
from app.gui.settings_trials import try_account, try_notice, try_source
from app.gui.tool_dialog import Tools
from app.gui.words import tr

SETTLED_MS = 250
TESTS = {"sources": try_source, "accounts": try_account, "notices": try_notice}
"""By table: what its Test button does."""


class SettingsDialog(SettingsFrame):
    """`draft` is what was typed; None until the file was read."""

    def __init__(self, tools: Tools, parent: QWidget) -> None:
        super().__init__(tools, parent)
        self.draft: SettingsDraft | None = None
        self.problem: Mapping[str, Any] | None = None
        self._base = ""
        self._waiting: list[str] = []
        self._notes: list[str] = []
        self._asked = 0
        self._tried = False
        self._saving = False
        self._forms: dict[int, SettingsForm] = {}
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._try)
        self.list.currentRowChanged.connect(lambda _row: self._show_section())
        self.add.clicked.connect(lambda _checked=False: self._add(str(self.new_kind.currentData())))
        self.remove.clicked.connect(lambda _checked=False: self._remove())
        self.test.clicked.connect(lambda _checked=False: self._test())
        self.save.clicked.connect(lambda _checked=False: self._save())
        self.undo.clicked.connect(lambda _checked=False: self._undo())
        self._show_state()

    # ------------------------------------------------------------------ reading

    def start(self) -> None:
        self.open_beside((1100, 720))
        if self.draft is None:
            self.run("reads the settings", self._read())

    async def _configure(self, edits: list[list[Any]], request_id: str, **more: Any) -> dict[str, Any]:
        arguments = {"edits": edits, **more}
        return await self.tools.engine.command("configure", arguments, actor="window", request_id=request_id)

    async def _read(self, said: str = "") -> None:
        answer = await self._configure([], str(uuid.uuid4()), dry_run=True)
        if self.is_over:
            return
        self._base = str(answer["digest"])
        self.problem = answer["problem"]
        self._waiting = list(answer["waiting"])
        self.draft = SettingsDraft(answer["raw"])
        self._tried = True
        self._list_sections()
        self._show_state()
        if said:
            self.notice.say(said, "ok")

    def _list_sections(self, chosen: Section | None = None) -> None:
        """Fills the list anew; the chosen section, or the same row, stays chosen."""
        assert self.draft is not None
        row = max(0, self.list.currentRow())
        self.list.blockSignals(True)
        self.list.clear()
        while (page := self.pages.widget(0)) is not None:
            self.pages.removeWidget(page)
            page.deleteLater()
        self._forms.clear()
        for _section in self.draft.sections:
            self.list.addItem(QListWidgetItem())
        self.list.addItem(QListWidgetItem(self.tr("Secrets")))
        if chosen is not None:
            row = self.draft.sections.index(chosen)
        self.list.setCurrentRow(min(row, self.list.count() - 1))
        self.list.blockSignals(False)
        self._name_sections()
        self._show_section()

    def _name_sections(self) -> None:
        assert self.draft is not None
        wrong = self._wrong_section()
        for row, section in enumerate(self.draft.sections):
            mark = "✕ " if section is wrong else "• " if section.is_changed else ""
            text = f"{mark}{title_of(section)}"
            if section.is_dropped:
                text += " " + self.tr("(removed)")
            item = self.list.item(row)
            if item.text() != text:
                item.setText(text)

    @property
    def section(self) -> Section | None:
        """The chosen one; None for the secrets."""
        row = self.list.currentRow()
        if self.draft is None or not 0 <= row < len(self.draft.sections):
            return None
        return self.draft.sections[row]

    @property
    def form(self) -> SettingsForm | None:
        page = self.pages.currentWidget()
        return page if isinstance(page, SettingsForm) else None

    def _show_section(self) -> None:
        if self.draft is None:
            return
        section = self.section
        if section is None:
            page: QWidget = SecretsPage(self, self.draft)
        else:
            page = self._forms.get(id(section)) or self._made_form(section)
        if self.pages.indexOf(page) < 0:
            self.pages.addWidget(page)
        self.pages.setCurrentWidget(page)
        self._show_problem()
        self._show_buttons()

    def _made_form(self, section: Section) -> SettingsForm:
        form = SettingsForm(section, self._note(section), self)
        form.typed.connect(lambda name, text: self._typed(section, name, text))
        self._forms[id(section)] = form
        return form

    def _note(self, section: Section) -> str:
        if section.table.name == "sources":
            return self.tr(
                "A source keeps its name: it is part of the address. Its id names its keys and is never "
                "changed, or every old signal could get in again. For another name, add another source."
            )
        if section.table.array:
            return self.tr(
                "It keeps its name: what is in the ledger and in the keyring hangs on it. For another name, "
                "add another one."
            )
        return ""

    # ------------------------------------------------------------------ typing

    def _typed(self, section: Section, name: str, text: str) -> None:
        key = next(key for key in section.table.keys if key.name == name)
        section.type(key, text)
        self._tried = False
        self._asked += 1
        self._name_sections()
        self._show_state()
        self._settled.start()

    def _try(self) -> None:
        self._settled.stop()
        self._asked += 1
        if self.draft is not None:
            self.run("tries the settings", self._try_it(self.draft.edits(), self._asked))

    async def _try_it(self, edits: list[list[Any]], asked: int) -> None:
        answer = await self._configure(edits, str(uuid.uuid4()), base=self._base, dry_run=True)
        if asked != self._asked or self.is_over:
            return
        self._tried = True
        self.problem = answer["problem"]
        self._waiting, self._notes = list(answer["waiting"]), list(answer["notes"])
        self._show_problem()
        self._name_sections()
        self._show_state()

    def _wrong_section(self) -> Section | None:
        found = self._wrong()
        return None if found is None else found[0]

    def _wrong(self) -> tuple[Section, str] | None:
        if self.draft is None or self.problem is None:
            return None
        return self.draft.find(self.problem.get("where") or ())

    def _show_problem(self) -> None:
        form, wrong = self.form, self._wrong()
        if form is None:
            return
        here = wrong is not None and wrong[0] is form.section
        message = "" if self.problem is None else str(self.problem["message"])
        form.show_problem(wrong[1] if here and wrong is not None else "", message if here else "")

    # ------------------------------------------------------------------ state and buttons

    def _show_state(self) -> None:
        draft = self.draft
        if draft is None:
            self.state.setText(self.tr("Reading config.toml…"))
        elif self.problem is not None:
            line = self.problem.get("line")
            place = self.tr("Line {line}: ").format(line=line) if line and not draft.is_changed else ""
            self.state.setText(f"✕ {place}{self.problem['message']}")
        elif draft.is_changed:
            text = self.tr("{number} not saved yet.").format(number=_changes(draft.count))
            if self._tried:
                text += " " + " ".join(f"{note}." for note in self._notes)
            self.state.setText(text.strip())
        elif self._waiting:
            keys = ", ".join(self._waiting[:6]) + ("…" if len(self._waiting) > 6 else "")
            self.state.setText(
                self.tr("Saved, in force after a restart of Onefill: {keys}.").format(keys=keys)
            )
        else:
            self.state.setText(self.tr("What is in the file is in force."))
        self._show_buttons()

    def _show_buttons(self) -> None:
        draft, section = self.draft, self.section
        changed = draft is not None and draft.is_changed
        self.save.setEnabled(changed and self._tried and self.problem is None and not self._saving)
        self.undo.setEnabled(changed and not self._saving)
        is_block = section is not None and section.table.array
        self.remove.setVisible(is_block)
        self.test.setVisible(section is not None and section.table.name in TESTS)
        if section is not None and is_block:
            kind = one_of(section.table).lower()
            self.remove.setText(
                self.tr("Keep it")
                if section.is_dropped
                else self.tr("Re&move this {kind}…").format(kind=kind)
            )
            self.test.setText(self.tr("&Test this {kind}").format(kind=kind))
            self.test.setEnabled(not section.is_new)
            self.test.setToolTip(
                self.tr("A new one can be tested after the next start.") if section.is_new else ""
            )
        for widget in (self.add, self.new_kind, self.new_name):
            widget.setEnabled(draft is not None and not self._saving)

    # ------------------------------------------------------------------ blocks

    def _add(self, table: str) -> None:
        draft, name = self.draft, self.new_name.text().strip()
        if draft is None:
            return
        if not name:
            self.notice.say(self.tr("Give it a name first: small letters, digits, _ and -."), "warning")
            self.new_name.setFocus()
            return
        if name in draft.names(table):
            self.notice.say(self.tr("{name} is there already.").format(name=name), "warning")
            return
        self.notice.clear()
        self.new_name.clear()
        section = draft.add(table, name)
        self._list_sections(section)
        if self.form is not None:
            self.form.focus_on(section.table.keys[1 if table != "sources" else 4].name)
        self._changed()

    def _changed(self) -> None:
        self._tried = False
        self._name_sections()
        self._show_state()
        self._try()

    def _remove(self) -> None:
        section = self.section
        if section is not None:
            self.run("removes a block", self._removed(section), self.remove)

    async def _removed(self, section: Section) -> None:
        draft = self.draft
        if draft is None:
            return
        if section.is_dropped:
            section.is_dropped = False
            self._changed()
            return
        if len(draft.names(section.table.name)) <= 1:
            text = self.tr(
                "The last one stays: without any, the default one of the same kind would come back."
            )
            self.notice.say(text, "warning")
            return
        more = (
            self.tr(
                "Alerts to its address are refused from the next start on. Its signals and keys stay known."
            )
            if section.table.name == "sources"
            else self.tr("It must hold nothing that Onefill opened. Its orders stay in the ledger.")
        )
        title = title_of(section)
        question = self.tr("Remove “{title}” from the settings?").format(title=title)
        if not section.is_new and not await ask(
            self, self.tr("Settings"), question, more, self.tr("Remove it"), self.tr("Keep it")
        ):
            return
        if self.is_over or self.draft is not draft:
            return
        draft.drop(section)
        self._list_sections(section if section in draft.sections else None)
        self._changed()

    # ------------------------------------------------------------------ testing, saving, undoing

    def _test(self) -> None:
        section = self.section
        if section is not None:
            self.run(f"tests {section.name}", self._tested(section), self.test)

    async def _tested(self, section: Section) -> None:
        work = TESTS[section.table.name]
        self.notice.say(self.tr("Testing {name}…").format(name=section.name), "ok")
        text, level, link = await work(self.tools.engine, section.name)
        if not self.is_over:
            self.notice.say(text, level, link=link, link_text=self.tr("Show its story"))

    def _save(self) -> None:
        if self.draft is not None and self.save.isEnabled():
            self._saving = True
            self._show_buttons()
            self.run("saves the settings", self._saved(self.draft.edits(), str(uuid.uuid4())))

    async def _saved(self, edits: list[list[Any]], request_id: str) -> None:
        try:
            await self._configure(edits, request_id, base=self._base)
            self._notes = []
            await self._read(self.tr("Saved. It is in force after a restart of Onefill."))
        finally:
            self._saving = False
            if not self.is_over:
                self._show_buttons()

    def _undo(self) -> None:
        self.notice.clear()
        self._asked += 1
        self._settled.stop()
        self.run("reads the settings", self._read(), self.undo)

    def reject(self) -> None:
        """What was typed and not saved is asked for before it is thrown away."""
        if self.draft is not None and self.draft.is_changed and self.isVisible() and not self.is_over:
            self.run("closes the settings", self._closed(), self.close_button)
            return
        super().reject()

    async def _closed(self) -> None:
        assert self.draft is not None
        text = self.tr("{number} not saved yet.").format(number=_changes(self.draft.count))
        leave, stay = self.tr("Throw away"), self.tr("Go on editing")
        if await ask(self, self.tr("Settings"), text, self.tr("Close and throw them away?"), leave, stay):
            super().reject()

    def recolour(self) -> None:
        super().recolour()
        for form in self._forms.values():
            form.recolour()

    def end(self) -> None:
        self._asked += 1
        self._settled.stop()
        super().end()


def _changes(number: int) -> str:
    return tr("1 change is") if number == 1 else tr("{number} changes are").format(number=number)
