"""The help: contents and search at the left, the page at the right. It reads files, beside the loop, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import (
    QBrush,
    QDesktopServices,
    QFontMetrics,
    QKeyEvent,
    QPalette,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QSplitter,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from app.gui.help_text import Page, find, load
from app.gui.theme import fixed_font
from app.gui.tool_dialog import ToolDialog, Tools, quiet_label

FIRST = "start"
_NAME = Qt.ItemDataRole.UserRole
_BLOCKS = 4
"""Pixels between the words and the lines of a table."""
_NARROWEST, _WIDEST = 110, 320
"""Pixels of a table's first column."""


class HelpDialog(ToolDialog):
    """`open_at` shows a page, and what is looked for in it. `pages` come a moment after it was made."""

    def __init__(self, tools: Tools, parent: QWidget, read: Callable[[], Sequence[Page]] = load) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Help"))
        self.pages: list[Page] = []
        self.shown = ""
        self._wish = (FIRST, "")
        self._read = read
        self.search = QLineEdit(self)
        self.search.setPlaceholderText(self.tr("Search the help"))
        self.search.setAccessibleName(self.tr("Search the help"))
        self.search.setClearButtonEnabled(True)
        self.contents = QListWidget(self)
        self.contents.setAccessibleName(self.tr("Contents"))
        self.contents.setWordWrap(True)
        self.contents.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.found = quiet_label("", self)
        self.text = QTextBrowser(self)
        self.text.setAccessibleName(self.tr("Help page"))
        self.text.setOpenLinks(False)
        self.text.setFrameShape(QTextBrowser.Shape.NoFrame)
        self.text.document().setDocumentMargin(16)
        self._build()
        self.search.textChanged.connect(self._searched)
        self.search.returnPressed.connect(self.find_next)
        self.contents.currentItemChanged.connect(lambda item, _before: self._chosen(item))
        self.text.anchorClicked.connect(self._follow)
        self.run("reads the help", self._load())

    def _build(self) -> None:
        left, right = QWidget(self), QWidget(self)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        label = QLabel(self.tr("Cont&ents"), left)
        label.setBuddy(self.contents)
        for widget in (self.search, self.found, label):
            column.addWidget(widget)
        column.addWidget(self.contents, 1)
        beside = QVBoxLayout(right)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.addWidget(self.text, 1)
        splitter = QSplitter(Qt.Orientation.Horizontal, self)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(left)
        splitter.addWidget(right)
        splitter.setStretchFactor(0, 0)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([self.fontMetrics().averageCharWidth() * 36, 800])
        self.column.addWidget(splitter, 1)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        self.next = self.button(self.tr("Find &next"), self.find_next)
        self.leave = self.button(self.tr("Clo&se"), self.reject)
        below.addWidget(self.next)
        below.addStretch(1)
        below.addWidget(self.leave)
        self.column.addLayout(below)

    async def _load(self) -> None:
        pages = list(await asyncio.to_thread(self._read))
        if self.is_over:
            return
        self.pages = pages
        if not pages:
            self.notice.say(self.tr("This build has no help pages: see the README."), "warning")
        self._list()
        self.open_at(*self._wish)

    # ------------------------------------------------------------------ what the person asks

    def open_at(self, name: str, words: str = "") -> None:
        """A page of the contents; `words` are searched for in it."""
        self._wish = (name, words)
        if not self.pages:
            return
        self.search.setText("")
        self._choose(name)
        page = next((page for page in self.pages if page.name == name), None)
        if words and page is not None and page.count(words):
            self.search.setText(words)
            self._choose(name)

    def find_next(self) -> None:
        """The next place of the words, from the top again after the last one."""
        words = self.search.text().strip()
        if words and not self.text.find(words):
            self.text.moveCursor(QTextCursor.MoveOperation.Start)
            self.text.find(words)

    def _searched(self, _text: str) -> None:
        kept = self.shown
        self._list()
        if not any(self._name(row) == kept for row in range(self.contents.count())):
            self.contents.setCurrentRow(0)
        else:
            self._choose(kept)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        self.find_next()

    def _list(self) -> None:
        words = self.search.text().strip()
        found = find(self.pages, words)
        self.contents.blockSignals(True)
        self.contents.clear()
        for page, number in found:
            item = QListWidgetItem(f"{page.title} ({number})" if number else page.title)
            item.setData(_NAME, page.name)
            self.contents.addItem(item)
        self.contents.blockSignals(False)
        number = sum(each for _page, each in found)
        self.found.setText("")
        if words:
            none = self.tr("Nowhere. Try a shorter word.")
            self.found.setText(self.tr("{n} places").format(n=number) if found else none)

    def _name(self, row: int) -> str:
        return str(self.contents.item(row).data(_NAME))

    def _choose(self, name: str) -> None:
        for row in range(self.contents.count()):
            if self._name(row) == name:
                self.contents.setCurrentRow(row)
                return

    def _chosen(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        self._show(str(item.data(_NAME)))
        self.find_next()

    def _follow(self, url: QUrl) -> None:
        """Another page of the help, or the browser for what is elsewhere."""
        if url.scheme() in ("http", "https"):
            QDesktopServices.openUrl(url)
            return
        name = url.path().removesuffix(".md")
        if any(page.name == name for page in self.pages):
            self.open_at(name)

    # ------------------------------------------------------------------ the page

    def _show(self, name: str, *, anew: bool = False) -> None:
        page = next((page for page in self.pages if page.name == name), None)
        if page is None or (name == self.shown and not anew):
            return
        self.shown = name
        document = self.text.document()
        document.setMarkdown(page.text, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        self._dress(document)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)

    def _dress(self, document: QTextDocument) -> None:
        """Tables with thin lines and room, in the colours of the palette."""
        line = QBrush(self.theme.line)
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                table = frame.format().toTableFormat()
                table.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
                table.setBorder(1)
                table.setBorderBrush(line)
                table.setBorderCollapse(True)
                table.setCellPadding(_BLOCKS)
                table.setCellSpacing(0)
                table.setTopMargin(2 * _BLOCKS)
                table.setBottomMargin(2 * _BLOCKS)
                first = QTextLength(QTextLength.Type.FixedLength, self._widest_word(frame))
                rest = QTextLength(QTextLength.Type.VariableLength, 0)
                table.setColumnWidthConstraints([first] + [rest] * (frame.columns() - 1))
                frame.setFormat(table)

    def _widest_word(self, table: QTextTable) -> int:
        """Pixels that the first column needs so that no code is cut off."""
        metrics = QFontMetrics(fixed_font(self.font()))
        texts = (table.cellAt(row, 0).firstCursorPosition().block().text() for row in range(table.rows()))
        words = [word for text in texts for word in text.split()]
        widest = max((metrics.horizontalAdvance(word) for word in words), default=0)
        return min(_WIDEST, max(_NARROWEST, widest)) + 4 * _BLOCKS

    def recolour(self) -> None:
        super().recolour()
        if self.shown:
            place = self.text.verticalScrollBar().value()
            # Links have the colour that the palette had when the page was made.
            self.text.setPalette(QPalette(self.palette()))
            self._show(self.shown, anew=True)
            self.text.verticalScrollBar().setValue(place)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_F and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self.search.setFocus()
            self.search.selectAll()
            return
        super().keyPressEvent(event)

    def start(self) -> None:
        self.open_beside((1080, 720))
        self.contents.setFocus()
