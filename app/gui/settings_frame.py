"""The parts of the settings editor and where they stand. Nothing is done here."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.gui.settings_form import one_of
from app.gui.tool_dialog import ToolDialog, Tools
from app.settings.keys import TABLES


class SettingsFrame(ToolDialog):
    def __init__(self, tools: Tools, parent: QWidget) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Settings"))
        self._build()
        self._lay_out()

    def plain_button(self, text: str) -> QPushButton:
        made = QPushButton(text, self)
        made.setAutoDefault(False)
        return made

    def _build(self) -> None:
        self.add_heading(
            self.tr("Settings"),
            self.tr(
                "They are kept in config.toml in the home, with your own comments. Nothing changes before "
                "the next start, and what would stop that start is not saved."
            ),
        )
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Sections"))
        self.list.setMaximumWidth(self.fontMetrics().averageCharWidth() * 40)
        self.pages = QStackedWidget(self)
        self.new_kind = QComboBox(self)
        self.new_kind.setAccessibleName(self.tr("What to add"))
        for table in TABLES:
            if table.array:
                self.new_kind.addItem(self.tr("new {kind}").format(kind=one_of(table).lower()), table.name)
        self.new_name = QLineEdit(self)
        self.new_name.setAccessibleName(self.tr("Name of what is added"))
        self.new_name.setPlaceholderText(self.tr("its name"))
        self.add = self.plain_button(self.tr("&Add"))
        self.remove = self.plain_button(self.tr("Re&move"))
        self.test = self.plain_button(self.tr("&Test"))
        self.state = QLabel(self)
        self.state.setWordWrap(True)
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state.setAccessibleName(self.tr("State of the settings"))
        self.save = self.plain_button(self.tr("&Save"))
        self.undo = self.plain_button(self.tr("&Undo changes"))
        self.close_button = self.button(self.tr("C&lose"), self.reject)

    def _lay_out(self) -> None:
        left = QVBoxLayout()
        left.setSpacing(8)
        left.addWidget(self.list, 1)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.new_kind)
        row.addWidget(self.new_name, 1)
        row.addWidget(self.add)
        left.addLayout(row)
        right = QVBoxLayout()
        right.setSpacing(8)
        right.addWidget(self.pages, 1)
        actions = QHBoxLayout()
        actions.addWidget(self.test)
        actions.addWidget(self.remove)
        actions.addStretch(1)
        right.addLayout(actions)
        middle = QHBoxLayout()
        middle.setSpacing(16)
        middle.addLayout(left)
        middle.addLayout(right, 1)
        self.column.addLayout(middle, 1)
        self.column.addWidget(self.state)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        below.addWidget(self.undo)
        below.addStretch(1)
        below.addWidget(self.save)
        below.addWidget(self.close_button)
        self.column.addLayout(below)
