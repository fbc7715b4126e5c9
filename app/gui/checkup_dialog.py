"""The setup check: what `onefill doctor` says, on a thread, line after line, each with its remedy.

The window goes on meanwhile: nothing here waits, and a check that was left ends by itself.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QScrollArea, QWidget

from app.brokers.base import LookupFailed
from app.clock import SystemClock
from app.engine import CommandRefused
from app.engine.checkup import LEVELS as ORDER
from app.engine.checkup import Check, Finding, Patient, check_up
from app.engine.checkup_apart import APART
from app.gui.formats import visible
from app.gui.notice import ink
from app.gui.theme import scaled
from app.gui.tool_dialog import ToolDialog, Tools, quiet_label
from app.gui.words import LEVELS

ASK = 60.0
"""Seconds for the engine to answer one question of the check."""


class CheckupDialog(ToolDialog):
    """`start` runs it; `findings` are those of the run that is shown."""

    def __init__(self, tools: Tools, parent: QWidget, checks: tuple[Check, ...] = APART) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Setup check"))
        self.findings: list[Finding] = []
        self.is_running = False
        self._checks = checks
        self._run_number = 0
        self.add_heading(
            self.tr("Is everything as it must be?"),
            self.tr(
                "Home, disk, ledger, secrets, listener, tunnel, brokers, and a test signal the whole way in "
                "a home of its own. Nothing is changed, and nothing is sent to a broker."
            ),
        )
        self.summary = QLabel(self)
        self.summary.setWordWrap(True)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.summary.setFont(scaled(self.font(), 1.1, bold=True))
        self.column.addWidget(self.summary)
        self.area = QScrollArea(self)
        self.area.setWidgetResizable(True)
        self.area.setAccessibleName(self.tr("What was found"))
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rows = QWidget(self.area)
        self._grid = QGridLayout(self.rows)
        self.area.setWidget(self.rows)
        self.column.addWidget(self.area, 1)
        self.column.addWidget(self.notice)
        self.again = self.button(self.tr("&Check again"), self.start)
        self.copy_all = self.button(self.tr("C&opy as text"), self._copy)
        self.leave = self.button(self.tr("Clo&se"), self.reject)
        below = QHBoxLayout()
        for each in (self.again, self.copy_all):
            below.addWidget(each)
        below.addStretch(1)
        below.addWidget(self.leave)
        self.column.addLayout(below)

    def open_and_start(self) -> None:
        self.open_beside((860, 620))
        self.start()

    # ------------------------------------------------------------------ a run

    def start(self) -> None:
        """Unless it runs already."""
        if self.is_running or self.is_over:
            return
        self.is_running = True
        self._run_number += 1
        self.findings = []
        self._clear()
        self.again.setEnabled(False)
        self._summarise()
        loop = asyncio.get_running_loop()
        number = self._run_number

        def tell(work: Callable[[], None]) -> None:
            # After the window's end there is no loop any more to tell.
            if not self.is_over and not loop.is_closed():
                loop.call_soon_threadsafe(work)

        patient = Patient(
            self.tools.engine.home,
            SystemClock(),
            running=msgspec.to_builtins(self.tools.engine.status()),
            ask=self._asking(loop),
        )
        found = check_up(patient, self._checks)

        def run() -> None:
            for finding in found:
                if self.is_over:
                    return
                tell(lambda finding=finding: self._add(number, finding))  # type: ignore[misc]
            tell(lambda: self._done(number))

        # A daemon: a check may wait for a broker's answer, and nobody waits for that to quit.
        threading.Thread(target=run, name="setup check", daemon=True).start()

    def _asking(
        self, loop: asyncio.AbstractEventLoop
    ) -> Callable[[str, Mapping[str, Any]], Mapping[str, Any]]:
        """Asks the engine from the check's thread."""
        tasks, engine = self.tools.tasks, self.tools.engine

        def ask(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            answer: Future[Mapping[str, Any]] = Future()

            async def work() -> None:
                try:
                    done = await engine.command(
                        name, arguments, actor="window", request_id=f"setup check {uuid.uuid4().hex}"
                    )
                except CommandRefused as refused:
                    answer.set_exception(LookupFailed(str(refused)))
                except asyncio.CancelledError:
                    answer.set_exception(LookupFailed("Onefill is stopping"))
                    raise
                else:
                    answer.set_result(done)

            loop.call_soon_threadsafe(lambda: tasks.start("window: setup check asks", work()))
            try:
                return answer.result(ASK)
            except TimeoutError:
                raise LookupFailed(f"no answer within {ASK:g} s") from None

        return ask

    def _add(self, number: int, finding: Finding) -> None:
        if self.is_over or number != self._run_number:
            return
        self.findings.append(finding)
        row, word = len(self.findings), LEVELS[finding.level]
        mark = QLabel(word.shown, self.rows)
        check = QLabel(finding.check, self.rows)
        seen = quiet_label(visible(finding.seen), self.rows)
        for label in (mark, check):
            label.setFont(scaled(self.font(), 1.0, bold=finding.level != "ok"))
        seen.setObjectName("quiet" if finding.level == "ok" else "found")
        ink(mark, self.theme.ink[word.tone])
        if finding.level != "ok":
            ink(seen, self.theme.text)
        seen.setAccessibleName(f"{finding.check}: {word.shown}: {finding.seen}")
        for column, label in enumerate((mark, check, seen)):
            self._grid.addWidget(
                label, row, column, Qt.AlignmentFlag.AlignTop if column < 2 else Qt.AlignmentFlag(0)
            )
        self._grid.setColumnStretch(2, 1)
        self._grid.setRowStretch(row, 0)
        self._grid.setRowStretch(row + 1, 1)
        self._summarise()

    def _done(self, number: int) -> None:
        if self.is_over or number != self._run_number:
            return
        self.is_running = False
        self.again.setEnabled(True)
        self._summarise()

    def _summarise(self) -> None:
        worst = max((ORDER.index(each.level) for each in self.findings), default=0)
        open_ends = [each for each in self.findings if each.level != "ok"]
        if self.is_running:
            text = self.tr("Checking… {number} lines so far.").format(number=len(self.findings))
        elif not open_ends:
            text = self.tr("All {number} lines are well.").format(number=len(self.findings))
        else:
            text = self.tr("{open} of {number} lines need a look.").format(
                open=len(open_ends), number=len(self.findings)
            )
        word = LEVELS[ORDER[worst]]
        if not self.is_running:
            text = f"{word.shown}: {text}"
        self.summary.setText(text)
        ink(self.summary, self.theme.text if self.is_running else self.theme.ink[word.tone])

    def _clear(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.setParent(None)
                widget.deleteLater()

    # ------------------------------------------------------------------ the rest

    def as_text(self) -> str:
        """As `onefill doctor` prints it."""
        return "\n".join(f"{each.level:<8} {each.check:<10} {each.seen}" for each in self.findings)

    def _copy(self) -> None:
        self.copy(self.as_text(), self.tr("The lines are on the clipboard."))

    def recolour(self) -> None:
        super().recolour()
        self._summarise()
        for place, finding in enumerate(self.findings):
            for column in (0, 2):
                item = self._grid.itemAtPosition(place + 1, column)
                label = None if item is None else item.widget()
                if label is not None and column == 0:
                    ink(label, self.theme.ink[LEVELS[finding.level].tone])
                elif label is not None and finding.level != "ok":
                    ink(label, self.theme.text)
