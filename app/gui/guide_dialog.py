"""The first steps: address, message, test signal, and seeing it arrive. Short, and it can be skipped.

Each step says by itself when it is done, from what happened and not from what was read.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QLineEdit, QPushButton, QWidget

from app.gui.formats import without_token
from app.gui.notice import ink
from app.gui.sample_outcome import outcome, sample_level, sample_text
from app.gui.theme import Tone, scaled
from app.gui.tool_dialog import ToolDialog, Tools, quiet_label

ADDRESS, MESSAGE, SEND, ARRIVE = range(4)


class GuideDialog(ToolDialog):
    """`copy_address` and `copy_message` do what the buttons of the main window do."""

    def __init__(
        self,
        tools: Tools,
        copy_message: Callable[[], object],
        copy_address: Callable[[], object],
        open_builder: Callable[[], object],
        parent: QWidget,
    ) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("First steps"))
        self._signal: str | None = None
        self.add_heading(
            self.tr("From an alert to an order, in four steps"),
            self.tr("On the paper account: no money is involved. You find this again under Help."),
        )
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self.marks: list[QLabel] = []
        self.address = QLineEdit(self)
        self.address.setReadOnly(True)
        self.address.setAccessibleName(self.tr("Hook address, its token blanked"))
        self.copy_address = self.button(self.tr("Copy &address"), lambda: self._do(copy_address, ADDRESS))
        self.copy_message = self.button(self.tr("Copy &message"), lambda: self._do(copy_message, MESSAGE))
        self.builder = self.button(self.tr("Alert &builder…"), open_builder)
        self.send = self.button(self.tr("Send &test signal"), self._send)
        self.show_story = self.button(self.tr("Sh&ow its story"), self._show_story)
        self.show_story.setEnabled(False)
        self.arrived = quiet_label("", self)
        self._step(
            self.tr("Where alerts go"),
            self.tr(
                "TradingView posts to this address; the token in it is a password. From outside a tunnel "
                "has to lead to it."
            ),
            self.address,
            (self.copy_address,),
        )
        self._step(
            self.tr("What an alert says"),
            self.tr("Paste this into the alert's message field, or build one for your own case."),
            None,
            (self.copy_message, self.builder),
        )
        self._step(
            self.tr("Try it without TradingView"),
            self.tr("A sample alert through the real door, to the built-in source “test”."),
            None,
            (self.send,),
        )
        self._step(self.tr("See it arrive"), "", self.arrived, (self.show_story,))
        self.column.addLayout(self._grid)
        self.column.addStretch(1)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        below.addStretch(1)
        self.skip = self.button(self.tr("&Skip"), self.reject)
        below.addWidget(self.skip)
        self.column.addLayout(below)
        self._say_arrived("")

    def _step(self, title: str, why: str, field: QWidget | None, buttons: tuple[QPushButton, ...]) -> None:
        row = 3 * len(self.marks)
        mark = QLabel(f"{len(self.marks) + 1}", self)
        mark.setFont(scaled(self.font(), 1.4, bold=True))
        mark.setMinimumWidth(self.fontMetrics().averageCharWidth() * 4)
        head = QLabel(title, self)
        head.setFont(scaled(self.font(), 1.1, bold=True))
        self.marks.append(mark)
        self._grid.addWidget(mark, row, 0)
        self._grid.addWidget(head, row, 1)
        column = QHBoxLayout()
        column.setSpacing(8)
        for button in buttons:
            column.addWidget(button)
        self._grid.addLayout(column, row, 2, 2, 1)
        if why:
            self._grid.addWidget(quiet_label(why, self), row + 1, 1)
        if field is not None:
            self._grid.addWidget(field, row + (2 if why else 1), 1, 1, 2 if why else 1)
        self._grid.setRowMinimumHeight(row + 2, 14)

    # ------------------------------------------------------------------ the steps

    def start(self) -> None:
        addresses = self.tools.engine.hook_addresses()
        if addresses:
            self.address.setText(without_token(addresses[0].public or addresses[0].local))
            self.address.setCursorPosition(0)
        self.open_beside((760, 480))
        self.copy_address.setFocus()

    def _do(self, work: Callable[[], object], step: int) -> None:
        work()
        self._done(step)
        said = (
            self.tr("The address is on the clipboard, token included: treat it like a password.")
            if step == ADDRESS
            else self.tr(
                "The alert message is on the clipboard: paste it into the message field of the alert."
            )
        )
        self.notice.say(said, "ok")

    def _done(self, step: int) -> None:
        mark = self.marks[step]
        mark.setText("✓")
        mark.setAccessibleName(self.tr("Step {number}: done").format(number=step + 1))
        ink(mark, self.theme.ink[Tone.GOOD])
        if step == ARRIVE:
            self.skip.setText(self.tr("Clo&se"))

    def _send(self) -> None:
        self._say_arrived(self.tr("Sent; waiting for it…"))
        self.run("sends a test signal", self._sent(), self.send)

    async def _sent(self) -> None:
        engine = self.tools.engine
        answer = await engine.send_sample()
        orders = await outcome(engine, answer)
        if self.is_over:
            return
        signal = answer.body.get("signal")
        self._signal = signal if isinstance(signal, str) else None
        text, level = sample_text(answer, orders), sample_level(answer, orders)
        if level == "error":
            self.notice.say(text, level)
            self._say_arrived("")
            return
        self._done(SEND)
        self._say_arrived(text)
        self.show_story.setEnabled(self._signal is not None)
        if self._signal is not None:
            self._done(ARRIVE)

    def _say_arrived(self, text: str) -> None:
        self.arrived.setText(
            text or self.tr("It comes up under Signals in the window, with its order under Orders.")
        )

    def _show_story(self) -> None:
        if self._signal is not None:
            self.tools.show_thing(self._signal)
