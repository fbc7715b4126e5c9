"""One line that says what just happened or what is wrong; it waits for nobody and takes no focus itself."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QMoveEvent, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget

from app.gui.theme import Theme, Tone, theme_of
from app.gui.words import LEVELS


class Card(QFrame):
    """A ground in the wash of a tone with a bar of its full colour at the left."""

    BAR = 4

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tone: Tone | None = None
        self._loud = False

    def set_tone(self, tone: Tone | None, *, loud: bool = False) -> None:
        """`loud`: the full colour as ground, for what must not be overlooked."""
        if (tone, loud) != (self._tone, self._loud):
            self._tone, self._loud = tone, loud
            self.update()

    @property
    def theme(self) -> Theme:
        return theme_of(self.palette())

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._tone is None:
            return
        theme, painter = self.theme, QPainter(self)
        # A wash lets through what is under it, and a notice may lie over the tabs.
        painter.fillRect(self.rect(), self.palette().color(QPalette.ColorRole.Window))
        grounds = theme.solid if self._loud else theme.wash
        painter.fillRect(self.rect(), grounds[self._tone])
        painter.fillRect(0, 0, self.BAR, self.height(), theme.solid[self._tone])
        painter.end()


def ink(label: QWidget, colour: QColor) -> None:
    """Writes a label in this colour."""
    palette = label.palette()
    if palette.color(QPalette.ColorRole.WindowText) != colour:
        palette.setColor(QPalette.ColorRole.WindowText, colour)
        label.setPalette(palette)


class Notice(Card):
    """Hidden while there is nothing to say. `asked` is the link in it, where it has one."""

    asked = Signal(str)
    said = Signal()

    def __init__(self, parent: QWidget | None = None, *, can_close: bool = True) -> None:
        super().__init__(parent)
        self._level = "ok"
        self._glyph, self.label = QLabel(self), QLabel(self)
        self._glyph.setAccessibleName("")
        self.label.setWordWrap(True)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.show_button = QToolButton(self)
        self.show_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.show_button.setAccessibleName(self.tr("Show what this message is about"))
        self.show_button.hide()
        self.close_button = QToolButton(self)
        self.close_button.setText("✕")
        self.close_button.setAutoRaise(True)
        self.close_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.close_button.setAccessibleName(self.tr("Close this message"))
        self.close_button.setToolTip(self.tr("Close this message"))
        self.close_button.setVisible(can_close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 5, 8, 5)
        layout.addWidget(self._glyph)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.show_button)
        layout.addWidget(self.close_button)
        self._link: str | None = None
        self._state: str | None = None
        self.close_button.clicked.connect(self.clear)
        self.show_button.clicked.connect(self._ask)
        self.hide()

    @property
    def text(self) -> str:
        return "" if self.isHidden() else self.label.text()

    @property
    def level(self) -> str:
        return self._level

    def say(
        self,
        text: str,
        level: str = "ok",
        *,
        link: str | None = None,
        link_text: str = "",
        state: str | None = None,
    ) -> None:
        """`level`: ok, warning, error. `link` is handed to `asked` when its button is pressed.

        `state`: the trading state that the text tells of; it goes when that is no longer so.
        """
        word = LEVELS[level]
        self._level, self._link, self._state = level, link, state
        self._glyph.setText(word.glyph)
        self.label.setText(text)
        self.setAccessibleName(text)
        self.show_button.setText(link_text)
        self.show_button.setVisible(link is not None)
        self.set_tone(word.tone)
        self._colour()
        self.show()
        self.said.emit()

    def show_state(self, trading_state: str) -> None:
        """What is told of another state is not true any more."""
        if self._state is not None and self._state != trading_state:
            self.clear()

    def clear(self) -> None:
        self._state = None
        self.hide()
        self.label.clear()

    def _ask(self) -> None:
        if self._link is not None:
            self.asked.emit(self._link)

    def _colour(self) -> None:
        ink(self._glyph, self.theme.wash_ink[LEVELS[self._level].tone])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()


class NoticePlace(QWidget):
    """Keeps one line free for a notice. A longer one lies over what is below: nothing moves either way."""

    def __init__(self, notice: Notice, parent: QWidget) -> None:
        super().__init__(parent)
        self._notice = notice
        notice.setParent(parent)
        notice.hide()
        margins = (
            notice.contentsMargins() if (layout := notice.layout()) is None else layout.contentsMargins()
        )
        line = max(notice.close_button.sizeHint().height(), notice.show_button.sizeHint().height())
        self.setFixedHeight(line + margins.top() + margins.bottom())
        notice.said.connect(self._place)

    def _place(self) -> None:
        place = self.geometry()
        needed = self._notice.heightForWidth(place.width())
        self._notice.setGeometry(place.x(), place.y(), place.width(), max(place.height(), needed))
        self._notice.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def moveEvent(self, event: QMoveEvent) -> None:
        super().moveEvent(event)
        self._place()
