"""The dialog of a person's decision: what it will do, the reason, and one button that does it.

Opened with `open()` and awaited. The request id is made with the dialog, so that what is pressed twice, or
repeated after an answer got lost, acts once (HOLES H26). No button is the default: Enter does nothing.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.gui.notice import Notice
from app.gui.theme import scaled
from app.tasks import Tasks

log = structlog.get_logger(__name__)

LEAST_WHY = 3
"""Letters of a reason."""
SETTLED_MS = 250
"""After the last key: only then is the engine asked what it would do."""

Arguments = dict[str, Any]
Ask = Callable[[Arguments, str], Awaitable[Mapping[str, Any]]]


class NotReady(Exception):
    """A field is missing or cannot be read. One line, or nothing where it is plain to see."""


@dataclass(frozen=True)
class Field:
    """One thing to fill in. `read` makes the argument of the text; ValueError says why it cannot."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False
    hint: str = ""
    read: Callable[[str], Any] = str


@dataclass(frozen=True)
class Question:
    """What the dialog asks. `ask` is the engine's command; `known` tells what there is to know where the
    command itself cannot be tried; `seen` takes what the person saw from the answer of the trial."""

    title: str
    heading: str
    yes: str
    arguments: Mapping[str, Any]
    ask: Ask
    plan: Callable[[Mapping[str, Any]], str]
    known: Callable[[], Awaitable[str]] | None = None
    fields: tuple[Field, ...] = ()
    note: str = ""
    seen: Callable[[Mapping[str, Any]], Any] | None = None


class DecisionDialog(QDialog):
    """`decided` is the engine's answer, or None where the person did not do it."""

    def __init__(self, question: Question, tasks: Tasks, parent: QWidget) -> None:
        super().__init__(parent)
        self.question = question
        self.request_id = str(uuid.uuid4())
        self.answer: Mapping[str, Any] | None = None
        self._tasks = tasks
        self._tried: Arguments | None = None
        self._seen: Any = None
        self._trial = 0
        self._busy = False
        self._ended = False
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._try)
        self.setWindowTitle(question.title)
        self._build()
        self._show()

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setSpacing(10)
        heading = QLabel(self.question.heading, self)
        heading.setFont(scaled(self.font(), 1.15, bold=True))
        self.plan = QLabel(self.tr("Looking at what it would do…"), self)
        self.plan.setAccessibleName(self.tr("What it will do"))
        note = QLabel(self.question.note, self)
        note.setVisible(bool(self.question.note))
        for label in (heading, self.plan, note):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.plan.setMinimumHeight(self.fontMetrics().height() * 3)
        self.plan.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        form = QFormLayout()
        self.fields: dict[str, QLineEdit | QComboBox] = {}
        for each in self.question.fields:
            self.fields[each.name] = self._field(each)
            form.addRow(each.label, self.fields[each.name])
        self.why = QLineEdit(self)
        self.why.setMaxLength(500)
        self.why.setAccessibleName(self.tr("Reason"))
        self.why.setPlaceholderText(self.tr("Why? It stays in the audit trail."))
        self.why.textChanged.connect(self._show)
        form.addRow(self.tr("Reason"), self.why)
        self.refusal = Notice(self, can_close=False)
        self.no = QPushButton(self.tr("Leave it"), self)
        self.yes = QPushButton(self.question.yes, self)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        for button in (self.no, self.yes):
            button.setAutoDefault(False)
            button.setDefault(False)
            buttons.addWidget(button)
        self.no.clicked.connect(self.reject)
        self.yes.clicked.connect(self._do)
        for part in (heading, note, self.plan):
            column.addWidget(part)
        column.addLayout(form)
        column.addWidget(self.refusal)
        column.addLayout(buttons)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * 84)

    def _field(self, each: Field) -> QLineEdit | QComboBox:
        made: QLineEdit | QComboBox
        if each.choices:
            made = QComboBox(self)
            made.addItems(list(each.choices))
            made.setCurrentIndex(max(0, made.findText(each.value)))
            made.currentIndexChanged.connect(self._changed)
        else:
            made = QLineEdit(each.value, self)
            made.setPlaceholderText(each.hint)
            made.textChanged.connect(self._changed)
        made.setAccessibleName(each.label)
        return made

    # ------------------------------------------------------------------ what it will do

    def start(self) -> None:
        """Opens it, and asks what it would do."""
        self.open()
        (next(iter(self.fields.values()), None) or self.why).setFocus()
        self._try()

    def _arguments(self) -> Arguments:
        """Raises NotReady."""
        found = dict(self.question.arguments)
        for each in self.question.fields:
            widget = self.fields[each.name]
            text = (widget.currentText() if isinstance(widget, QComboBox) else widget.text()).strip()
            if not text:
                if each.optional:
                    continue
                raise NotReady
            try:
                found[each.name] = each.read(text)
            except ValueError as error:
                raise NotReady(f"{each.label}: {error}") from None
        return found

    def _changed(self) -> None:
        self._tried = None
        self._show()
        self._settled.start()

    def _try(self) -> None:
        self._trial += 1
        try:
            arguments = self._arguments()
        except NotReady as missing:
            self._tried = None
            self.plan.setText(str(missing) or self.tr("Fill in what is asked below."))
            self._show()
            return
        self._tasks.start("window: what a decision would do", self._look(arguments, self._trial))

    async def _look(self, arguments: Arguments, trial: int) -> None:
        try:
            if self.question.known is not None:
                text, seen = await self.question.known(), None
            else:
                answer = await self.question.ask({**arguments, "dry_run": True}, str(uuid.uuid4()))
                text = self.question.plan(answer)
                seen = None if self.question.seen is None else self.question.seen(answer)
        except Exception as error:  # noqa: BLE001 - a refusal or worse: the person must read it
            if trial == self._trial:
                self._tried = None
                self.plan.setText(self.tr("Nothing can be done:") + f" {str(error) or type(error).__name__}")
                self._show()
            return
        if trial == self._trial:
            self._tried, self._seen = arguments, seen
            self.plan.setText(text)
            self._show()

    # ------------------------------------------------------------------ doing it

    @property
    def _reason(self) -> str:
        return self.why.text().strip()

    def _show(self) -> None:
        letters = sum(character.isalnum() for character in self._reason)
        self.yes.setEnabled(not self._busy and self._tried is not None and letters >= LEAST_WHY)
        self.no.setEnabled(not self._busy)
        for widget in (self.why, *self.fields.values()):
            widget.setEnabled(not self._busy)

    def _do(self) -> None:
        if self._busy or self._tried is None:
            return
        arguments = {**self._tried, "why": self._reason}
        if self._seen is not None:
            arguments["seen"] = self._seen
        self._busy = True
        self.refusal.clear()
        self._show()
        self._tasks.start(f"window: {self.question.title}", self._ask(arguments))

    async def _ask(self, arguments: Arguments) -> None:
        try:
            self.answer = await self.question.ask(arguments, self.request_id)
        except Exception as error:  # noqa: BLE001 - as it is: the person who pressed must read it
            log.warning("a decision was not carried out", title=self.question.title, error=repr(error))
            self.refusal.say(str(error) or type(error).__name__, "error")
        finally:
            self._busy = False
            if not self._ended:
                self._show()
        if self.answer is not None:
            self.accept()

    def reject(self) -> None:
        """Escape and the close button too; not while the engine is at it, for it does it all the same."""
        if not self._busy:
            super().reject()

    def end(self) -> None:
        """Off the screen; an answer that comes after this finds nobody."""
        self._ended = True
        self._trial += 1
        self._settled.stop()
        self.hide()
        self.deleteLater()


async def decide(question: Question, tasks: Tasks, parent: QWidget) -> Mapping[str, Any] | None:
    """Shows it and returns the engine's answer, or None where the person left it."""
    dialog = DecisionDialog(question, tasks, parent)
    closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(_result: int) -> None:
        if not closed.done():
            closed.set_result(None)

    dialog.finished.connect(close)
    dialog.start()
    try:
        await closed
        return dialog.answer
    finally:
        dialog.end()
