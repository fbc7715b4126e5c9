"""Paste and check: what a message would do, in words, and the wrong place marked in it.

Nothing is claimed or stored. The one way to send it from here leads to the built-in test source, which can
only reach paper (HOLES H29).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import apsw
import msgspec
from PySide6.QtCore import QTimer
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSplitter,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.domain.explain import Explanation
from app.domain.key import HeaderKeys
from app.domain.placeholders import fill_in
from app.engine.checking import Question, check_message
from app.gui.check_words import page, places, verdict_word
from app.gui.detail import Browser
from app.gui.notice import Card, ink
from app.gui.sample_outcome import outcome, sample_level, sample_text
from app.gui.theme import Tone, fixed_font, scaled
from app.gui.tool_dialog import ToolDialog, Tools
from app.settings import Settings, Source

SETTLED_MS = 200
"""After the last key: only then is it checked."""
MOST_CHARACTERS = 300_000


class Received(msgspec.Struct, frozen=True):
    """A delivery that came in: its stored body, when it came, to which source, under which header key."""

    id: str
    body: str | None
    at: int
    source_id: str
    header_key: str | None = None


def received(name: str, db: apsw.Connection) -> Received | None:
    """The delivery `D12`, or the first one of the signal `S3`. None where there is none."""
    kind, number = name[:1].upper(), name[1:]
    if kind not in ("D", "S") or not number.isdigit() or len(number) > 15:
        return None
    where = "d.id = ?" if kind == "D" else "d.claim_id = ? AND d.verdict = 'accepted'"
    rows: list[tuple[Any, ...]] = db.execute(
        "SELECT d.id, b.body, d.received_at, d.source_id, d.key, c.key_source, c.header_key "
        "FROM deliveries d LEFT JOIN bodies b ON b.delivery_id = d.id "
        "LEFT JOIN claims c ON c.id = d.claim_id "
        f"WHERE {where} ORDER BY d.id LIMIT 1",
        (int(number),),
    ).fetchall()
    if not rows:
        return None
    delivery, body, at, source_id, key, key_source, in_header = rows[0]
    header = key if key_source == "header" or in_header else None
    return Received(f"D{delivery}", body, at, source_id, header)


class CheckDialog(ToolDialog):
    """`found` is the newest explanation, None while there is nothing to check."""

    def __init__(self, tools: Tools, parent: QWidget) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Check a message"))
        self.found: Explanation | None = None
        self._received: Received | None = None
        self._asked = 0
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._check)
        self._build()
        self._lay_out()
        self.text.textChanged.connect(self._changed)
        self.source.currentIndexChanged.connect(lambda _place: self._changed())
        self.fill.toggled.connect(lambda _on: self._changed())
        self._show_nothing()

    def _build(self) -> None:
        self.add_heading(
            self.tr("What would this message do?"),
            self.tr(
                "Paste an alert's message, or fetch one that came in. It is read by the door's own rules; "
                "nothing is claimed, sent or stored."
            ),
        )
        self.source = QComboBox(self)
        self.source.setAccessibleName(self.tr("As if it came to this source"))
        for source in self.tools.engine.settings.all_sources:
            self.source.addItem(source.name)
        self.fill = QCheckBox(self.tr("&Fill in {{placeholders}} with samples"), self)
        self.fill.setChecked(True)
        self.fill.setToolTip(self.tr("As TradingView would; off: exactly this text arrives."))
        self.number = QLineEdit(self)
        self.number.setAccessibleName(self.tr("Number of a received message, as D12 or S3"))
        self.number.setPlaceholderText("D12")
        self.number.setMaximumWidth(self.fontMetrics().averageCharWidth() * 14)
        self.number.returnPressed.connect(self._fetch)
        self.fetch = self.button(self.tr("F&etch"), self._fetch, self.tr("Fetch the received message"))
        self.text = QPlainTextEdit(self)
        self.text.setFont(fixed_font(self.font()))
        self.text.setAccessibleName(self.tr("The message"))
        self.text.setPlaceholderText('{\n  "symbol": "{{ticker}}",\n  "action": "buy",\n  "quantity": "1"\n}')
        self.text.setTabChangesFocus(True)
        self.card = Card(self)
        self.verdict, self.headline, self.place = QLabel(self), QLabel(self), QLabel(self)
        self.verdict.setFont(scaled(self.font(), 1.0, bold=True))
        self.headline.setFont(scaled(self.font(), 1.2, bold=True))
        for label in (self.headline, self.place):
            label.setWordWrap(True)
        self.headline.setAccessibleName(self.tr("What it would do"))
        self.said = Browser(self)
        self.said.setFrameShape(Browser.Shape.NoFrame)
        self.said.setAccessibleName(self.tr("The explanation"))
        self.paste = self.button(self.tr("&Paste"), self._paste, self.tr("Paste from the clipboard"))
        self.send = self.button(self.tr("Send to paper as a &test"), self._send)
        self.send.setToolTip(
            self.tr("To the built-in source “test”, whose orders can only reach a paper account.")
        )
        self.close_button = self.button(self.tr("&Close"), self.reject)

    def _lay_out(self) -> None:
        above = QHBoxLayout()
        label = QLabel(self.tr("&Source"), self)
        label.setBuddy(self.source)
        came_in = QLabel(self.tr("&Received message"), self)
        came_in.setBuddy(self.number)
        left: tuple[QWidget, ...] = (label, self.source, self.fill)
        right_hand: tuple[QWidget, ...] = (came_in, self.number, self.fetch)
        for widget in left:
            above.addWidget(widget)
        above.addStretch(1)
        for widget in right_hand:
            above.addWidget(widget)
        self.column.addLayout(above)
        in_card = QVBoxLayout(self.card)
        in_card.setContentsMargins(14, 8, 10, 8)
        in_card.setSpacing(2)
        for label in (self.verdict, self.headline, self.place):
            in_card.addWidget(label)
        right = QWidget(self)
        in_right = QVBoxLayout(right)
        in_right.setContentsMargins(8, 0, 0, 0)
        in_right.addWidget(self.card)
        in_right.addWidget(self.said, 1)
        middle = QSplitter(self)
        middle.setChildrenCollapsible(False)
        middle.addWidget(self.text)
        middle.addWidget(right)
        middle.setStretchFactor(0, 1)
        middle.setStretchFactor(1, 1)
        self.column.addWidget(middle, 1)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        below.addWidget(self.paste)
        below.addStretch(1)
        below.addWidget(self.send)
        below.addWidget(self.close_button)
        self.column.addLayout(below)
        self.setTabOrder(self.source, self.fill)
        for one, other in (
            (self.fill, self.number),
            (self.number, self.fetch),
            (self.fetch, self.text),
            (self.text, self.said),
            (self.said, self.paste),
            (self.paste, self.send),
            (self.send, self.close_button),
        ):
            self.setTabOrder(one, other)

    # ------------------------------------------------------------------ what is asked

    def open_with(self, text: str = "", name: str = "", source: str = "") -> None:
        """Shows it with a message, or with the received one of this number."""
        self.open_beside((1040, 640))
        if source:
            self.source.setCurrentText(source)
        if text:
            self.text.setPlainText(text)
        if name:
            self.number.setText(name)
            self._fetch()
        self.text.setFocus()

    @property
    def _chosen(self) -> tuple[Settings, Source] | None:
        settings = self.tools.engine.settings
        source = settings.source(self.source.currentText())
        return None if source is None else (settings, source)

    def _changed(self) -> None:
        self._settled.start()

    def _paste(self) -> None:
        self.text.selectAll()
        self.text.paste()
        self.text.setFocus()

    def _fetch(self) -> None:
        name = self.number.text().strip()
        if name:
            self.run("fetches a message", self._fetched(name), self.fetch)

    async def _fetched(self, name: str) -> None:
        found = await self.tools.engine.reader.call(partial(received, name))
        if self.is_over:
            return
        if found is None:
            self.notice.say(
                self.tr("There is no message {name}: write D and its number.").format(name=name), "warning"
            )
            return
        if found.body is None:
            self.notice.say(
                self.tr("The text of {name} is not kept any more.").format(name=found.id), "warning"
            )
            return
        self.notice.clear()
        self._received = found
        for source in self.tools.engine.settings.all_sources:
            if source.id == found.source_id:
                self.source.setCurrentText(source.name)
        self.fill.setChecked(False)
        self.text.setPlainText(found.body)
        self._check()

    def _question(self) -> Question:
        text = self.text.toPlainText()
        stored = self._received
        if stored is not None and stored.body is not None and text == stored.body:
            headers = (
                HeaderKeys()
                if stored.header_key is None
                else HeaderKeys(idempotency_key=(stored.header_key,))
            )
            return Question(body=text.encode(), at=stored.at, headers=headers)
        return Question(
            body=text.encode("utf-8", "surrogatepass"),
            at=self.tools.engine.clock.now(),
            fill=self.fill.isChecked(),
        )

    def _check(self) -> None:
        self._settled.stop()
        self._asked += 1
        chosen = self._chosen
        if not self.text.toPlainText().strip() or chosen is None:
            self._show_nothing()
            return
        if self.text.document().characterCount() > MOST_CHARACTERS:
            self.text.setPlainText(self.text.toPlainText()[:MOST_CHARACTERS])
            return
        self.run("checks a message", self._checked(*chosen, self._question(), self._asked))

    async def _checked(self, settings: Settings, source: Source, question: Question, asked: int) -> None:
        work = partial(check_message, settings, source, question)
        found = await self.tools.engine.reader.call(work)
        if asked == self._asked and not self.is_over:
            self.found = found
            self._show(found)

    # ------------------------------------------------------------------ what is shown

    def _show_nothing(self) -> None:
        self.found = None
        self.verdict.clear()
        self.place.clear()
        self.headline.setText(self.tr("Nothing to check yet"))
        self.said.clear()
        self.card.set_tone(Tone.QUIET)
        self.text.setExtraSelections([])
        self._show_buttons()

    def _show(self, found: Explanation) -> None:
        word = verdict_word(found)
        self.verdict.setText(word.shown)
        self.headline.setText(found.headline)
        self.place.setText(places(found).capitalize())
        self.place.setVisible(bool(found.marks))
        self.said.setHtml(page(found, self.theme))
        self.card.set_tone(word.tone)
        self._mark(found)
        self.recolour()
        self._show_buttons()

    def _mark(self, found: Explanation) -> None:
        """The wrong places, underlined and on a ground of their own: not by colour alone."""
        theme, selections = self.theme, []
        style = QTextCharFormat()
        style.setBackground(theme.wash[Tone.BAD])
        style.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        style.setUnderlineColor(theme.solid[Tone.BAD])
        for mark in found.marks:
            cursor = QTextCursor(self.text.document())
            last = self.text.document().characterCount() - 1
            cursor.setPosition(min(self._place_in_document(mark.start), last))
            cursor.setPosition(min(self._place_in_document(mark.end), last), QTextCursor.MoveMode.KeepAnchor)
            selection = QTextEdit.ExtraSelection()
            selection.cursor = cursor
            selection.format = style
            selections.append(selection)
        self.text.setExtraSelections(selections)

    def _place_in_document(self, offset: int) -> int:
        """Qt counts in UTF-16: a sign beyond its first plane is two."""
        before = self.text.toPlainText()[:offset]
        return len(before) + sum(ord(character) > 0xFFFF for character in before)

    def _show_buttons(self) -> None:
        has_test = self.tools.engine.settings.test_source is not None
        self.send.setEnabled(has_test and self.found is not None and self.found.key is not None)

    def recolour(self) -> None:
        super().recolour()
        if self.found is not None:
            ink(self.verdict, self.theme.wash_ink[verdict_word(self.found).tone])

    # ------------------------------------------------------------------ sending it

    def _send(self) -> None:
        text = self.text.toPlainText()
        if self.fill.isChecked():
            text = fill_in(text, self.tools.engine.clock.now()).text
        self.run("sends a test", self._sent(text.encode("utf-8", "surrogatepass")), self.send)

    async def _sent(self, body: bytes) -> None:
        answer = await self.tools.engine.send_sample(body)
        orders = await outcome(self.tools.engine, answer)
        if self.is_over:
            return
        signal = answer.body.get("signal")
        self.notice.say(
            sample_text(answer, orders),
            sample_level(answer, orders),
            link=signal if isinstance(signal, str) else None,
            link_text=self.tr("Show its story"),
        )

    def end(self) -> None:
        self._asked += 1
        self._settled.stop()
        super().end()
