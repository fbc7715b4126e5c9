"""One section of the settings as a form: each key with its field, its reason beside it, and what is wrong.

Made from the table of keys. Nothing is checked or written here.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QGridLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.gui.notice import ink
from app.gui.settings_draft import NAMED, OURS, Section
from app.gui.theme import Tone, scaled, theme_of
from app.gui.tool_dialog import quiet_label
from app.settings.forms import choices, default_text
from app.settings.table import Key, Table


class Combo(QComboBox):
    """Turning the wheel over it scrolls the form: it must not change a setting on the way."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class Row:
    """A key's label, field, reason, and the line for what is wrong with it."""

    def __init__(self, key: Key, section: Section, parent: QWidget) -> None:
        self.key = key
        self.label = QLabel(spoken(key.name), parent)
        self.label.setFont(scaled(parent.font(), 1.0, bold=True))
        self.label.setToolTip(f"{section.table.title} {key.name}")
        self.why = quiet_label(key.why, parent)
        self.problem = QLabel(parent)
        self.problem.setWordWrap(True)
        self.problem.setTextFormat(Qt.TextFormat.PlainText)
        self.problem.hide()
        self.field = self._field(section, parent)
        self.field.setAccessibleName(spoken(key.name))
        self.field.setAccessibleDescription(key.why)
        self.label.setBuddy(self.field)

    def _field(self, section: Section, parent: QWidget) -> QLineEdit | QComboBox:
        text, words = section.text(self.key), choices(self.key)
        locked = self.key.name in OURS or (self.key.name in NAMED and section.table.array)
        if not words or locked:
            line = QLineEdit(text, parent)
            default = default_text(self.key)
            line.setPlaceholderText(
                parent.tr("made at the next start")
                if self.key.name in OURS
                else parent.tr("{default} (default)").format(default=default)
                if default
                else parent.tr("nothing (default)")
            )
            line.setReadOnly(locked)
            line.setCursorPosition(0)
            return line
        combo = Combo(parent)
        combo.addItem(parent.tr("{default} (default)").format(default=default_text(self.key)), "")
        for word in words:
            combo.addItem(word, word)
        if text not in ("", *words):
            combo.addItem(text, text)
        combo.setCurrentIndex(combo.findData(text))
        return combo

    @property
    def text(self) -> str:
        if isinstance(self.field, QComboBox):
            return str(self.field.currentData())
        return self.field.text()

    def say(self, problem: str) -> None:
        """What is wrong with the key; nothing where nothing is."""
        self.problem.setText(f"✕ {problem}" if problem else "")
        self.problem.setVisible(bool(problem))
        self.field.setAccessibleDescription(problem or self.key.why)


class SettingsForm(QScrollArea):
    """`typed` brings a key's name and its new text."""

    typed = Signal(str, str)

    def __init__(self, section: Section, note: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.section = section
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inner = QWidget(self)
        column = QVBoxLayout(inner)
        column.setContentsMargins(2, 2, 12, 2)
        title = QLabel(title_of(section), inner)
        title.setFont(scaled(self.font(), 1.2, bold=True))
        column.addWidget(title)
        column.addWidget(quiet_label(section.table.why, inner))
        if note:
            said = QLabel(note, inner)
            said.setWordWrap(True)
            said.setTextFormat(Qt.TextFormat.PlainText)
            column.addWidget(said)
        grid = QGridLayout()
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(1, 2)
        grid.setColumnStretch(2, 4)
        self.rows: dict[str, Row] = {}
        for place, key in enumerate(section.table.keys):
            row = Row(key, section, inner)
            self.rows[key.name] = row
            top = Qt.AlignmentFlag.AlignTop
            grid.addWidget(row.label, 3 * place, 0, top)
            grid.addWidget(row.field, 3 * place, 1, top)
            grid.addWidget(row.why, 3 * place, 2, top)
            grid.addWidget(row.problem, 3 * place + 1, 1, 1, 2)
            grid.setRowMinimumHeight(3 * place + 2, 8)
            self._listen(row)
        column.addLayout(grid)
        column.addStretch(1)
        self.setWidget(inner)
        self.recolour()

    def _listen(self, row: Row) -> None:
        def changed(_value: object = None) -> None:
            self.typed.emit(row.key.name, row.text)

        if isinstance(row.field, QComboBox):
            row.field.currentIndexChanged.connect(changed)
        else:
            row.field.textEdited.connect(changed)

    def show_problem(self, key: str, problem: str) -> None:
        """At one key; at none, nothing is shown here."""
        for name, row in self.rows.items():
            row.say(problem if name == key else "")

    def focus_on(self, key: str) -> None:
        row = self.rows.get(key) or next(iter(self.rows.values()))
        self.ensureWidgetVisible(row.field)
        row.field.setFocus()

    def recolour(self) -> None:
        theme = theme_of(self.palette())
        for row in self.rows.values():
            ink(row.problem, theme.ink[Tone.BAD])


def spoken(name: str) -> str:
    """A key as a person reads it."""
    return name.replace("_", " ").capitalize()


def title_of(section: Section) -> str:
    """`Risk`, `Source tradingview`."""
    name = section.table.name
    if not section.table.array:
        return spoken(name)
    return f"{one_of(section.table)} {section.name}"


def one_of(table: Table) -> str:
    """What one block of an array is called: `Source`."""
    return spoken(table.name.removesuffix("s"))
