"""The key lab: another way to make keys, tried on the signals in the ledger. Read only.

What it counts is shown beside what the program's own rule does with the same deliveries, with examples.
"""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.clock import SECOND
from app.domain.explain import rfc_3339, span
from app.domain.keylab import FIELDS, USUAL, BodyKey, Composition, Example, Seen, Verdict
from app.domain.number import plain
from app.engine.keylab import MOST, Past, read_past, try_composition
from app.gui.formats import grouped, local_time
from app.gui.notice import ink
from app.gui.theme import Tone, scaled
from app.gui.tool_dialog import ToolDialog, Tools, quiet_label
from app.gui.words import tr

SETTLED_MS = 200
MINUTE = 60 * SECOND


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


NAMES: dict[str, str] = {
    "strategy": _("strategy"),
    "exchange": _("exchange"),
    "symbol": _("symbol"),
    "interval": _("interval"),
    "bar_time": _("bar time"),
    "action": _("action"),
    "order_id": _("order id"),
    "label": _("label"),
    "position": _("position before and after"),
    "quantity": _("quantity"),
    "price": _("price"),
    "fired_at": _("fire time"),
}
BODY_KEYS: tuple[tuple[BodyKey, str], ...] = (
    ("identity", _("is the signal's identity")),
    ("label", _("is only a label")),
    ("ignore", _("is not looked at")),
)
WINDOWS: tuple[tuple[int | None, str], ...] = (
    (None, _("for ever")),
    (10 * SECOND, _("10 seconds")),
    (45 * SECOND, _("45 seconds")),
    (5 * MINUTE, _("5 minutes")),
    (60 * MINUTE, _("1 hour")),
    (24 * 60 * MINUTE, _("1 day")),
)
COUNTS: tuple[tuple[str, str, Tone | None], ...] = (
    ("signals", _("Signals"), None),
    ("caught", _("Copies kept out"), None),
    ("swallowed", _("Signals swallowed: never traded"), Tone.BAD),
    ("let_through", _("Copies let through: traded twice"), Tone.BAD),
    ("conflicts", _("Conflicts: refused and shown to you"), Tone.HELD),
    ("refused", _("No key could be made"), Tone.HELD),
)


class KeyLabDialog(ToolDialog):
    """`own` and `tried` are the newest verdicts, None before there are any."""

    def __init__(self, tools: Tools, parent: QWidget) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Key lab"))
        self.own: Verdict | None = None
        self.tried: Verdict | None = None
        self._past: Past | None = None
        self._reading = 0
        self._asked = 0
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._try)
        self._build()
        self._lay_out()
        for box in self.fields.values():
            box.toggled.connect(lambda _on: self._changed())
        for combo in (self.body_key, self.window_all, self.timeless):
            combo.currentIndexChanged.connect(lambda _place: self._changed())
        self.source.currentIndexChanged.connect(lambda _place: self._read())

    def _build(self) -> None:
        self.add_heading(
            self.tr("What if keys were made otherwise?"),
            self.tr(
                "Tried on the deliveries in the ledger: what was taken for one signal counts as one. "
                "Nothing is changed by it; what the program does is set under the source in Settings."
            ),
        )
        self.source = QComboBox(self)
        self.source.setAccessibleName(self.tr("Source"))
        for source in self.tools.engine.settings.all_sources:
            self.source.addItem(source.name)
        self.fields: dict[str, QCheckBox] = {}
        for name in FIELDS:
            box = QCheckBox(tr(NAMES.get(name, name)), self)
            box.setChecked(name in USUAL)
            self.fields[name] = box
        self.body_key = self._combo(self.tr("A key in the message"), BODY_KEYS)
        self.window_all = self._combo(self.tr("A key is known"), WINDOWS)
        self.timeless = self._combo(self.tr("Without a bar time it is known"), WINDOWS)
        self.progress = QProgressBar(self)
        self.progress.setAccessibleName(self.tr("Reading"))
        self.progress.setTextVisible(True)
        self.read_of = quiet_label("", self)
        self.usual = self.button(self.tr("&As the program does"), self._as_usual)
        self.again = self.button(self.tr("&Read again"), self._read)
        self.close_button = self.button(self.tr("&Close"), self.reject)
        self.examples = QTreeWidget(self)
        self.examples.setAccessibleName(self.tr("Examples"))
        self.examples.setRootIsDecorated(False)
        self.examples.setUniformRowHeights(True)
        self.examples.setHeaderLabels(
            [self.tr("What"), self.tr("Signal"), self.tr("Came"), self.tr("Asked for"), self.tr("After")]
        )
        self.examples.itemActivated.connect(self._show_story)
        self.numbers: dict[str, tuple[QLabel, QLabel]] = {}

    def _combo(self, name: str, rows: tuple[tuple[object, str], ...]) -> QComboBox:
        made = QComboBox(self)
        made.setAccessibleName(name)
        for value, title in rows:
            made.addItem(tr(title), value)
        return made

    def _lay_out(self) -> None:
        left = QVBoxLayout()
        left.setSpacing(10)
        form = QFormLayout()
        form.addRow(self.tr("&Source"), self.source)
        left.addLayout(form)
        made_of = QLabel(self.tr("A derived key is made of"), self)
        made_of.setFont(scaled(self.font(), 1.0, bold=True))
        left.addWidget(made_of)
        grid = QGridLayout()
        grid.setVerticalSpacing(4)
        for place, box in enumerate(self.fields.values()):
            grid.addWidget(box, place // 2, place % 2)
        left.addLayout(grid)
        more = QFormLayout()
        more.setVerticalSpacing(8)
        more.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        more.addRow(self.tr("A key &in the message"), self.body_key)
        more.addRow(self.tr("A key is &known"), self.window_all)
        more.addRow(self.tr("&Without a bar time"), self.timeless)
        left.addLayout(more)
        left.addWidget(self.usual)
        left.addStretch(1)
        right = QVBoxLayout()
        right.setSpacing(8)
        table = QGridLayout()
        table.setVerticalSpacing(4)
        table.setHorizontalSpacing(18)
        for column, title in ((1, self.tr("Tried")), (2, self.tr("The program"))):
            head = quiet_label(title, self)
            head.setAlignment(Qt.AlignmentFlag.AlignRight)
            table.addWidget(head, 0, column)
        for row, (name, title, _tone) in enumerate(COUNTS, 1):
            table.addWidget(QLabel(tr(title), self), row, 0)
            pair = (QLabel(self), QLabel(self))
            for column, label in enumerate(pair, 1):
                label.setAlignment(Qt.AlignmentFlag.AlignRight)
                table.addWidget(label, row, column)
            pair[0].setFont(scaled(self.font(), 1.15, bold=True))
            pair[0].setAccessibleName(tr(title))
            self.numbers[name] = pair
        table.setColumnStretch(0, 1)
        right.addLayout(table)
        right.addWidget(self.examples, 1)
        right.addWidget(self.read_of)
        right.addWidget(self.progress)
        middle = QHBoxLayout()
        middle.setSpacing(20)
        middle.addLayout(left, 2)
        middle.addLayout(right, 3)
        self.column.addLayout(middle, 1)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        below.addWidget(self.again)
        below.addStretch(1)
        below.addWidget(self.close_button)
        self.column.addLayout(below)

    # ------------------------------------------------------------------ the past

    def start(self) -> None:
        self.open_beside((1040, 680))
        self._show_composition(Composition())
        if self._past is None:
            self._read()

    def _read(self) -> None:
        source = self.tools.engine.settings.source(self.source.currentText())
        if source is None:
            return
        self._reading += 1
        self._past = self.own = self.tried = None
        self.progress.setRange(0, 0)
        self.progress.show()
        self._show_numbers()
        self.run("reads the past for the key lab", self._read_past(self._reading), self.again)

    async def _read_past(self, reading: int) -> None:
        engine = self.tools.engine
        source = engine.settings.source(self.source.currentText())
        assert source is not None
        past = Past(source.id, [])
        async for past in read_past(engine.reader, engine.settings, source):
            if reading != self._reading or self.is_over:
                return
            self.read_of.setText(self.tr("{number} deliveries read…").format(number=grouped(past.total)))
        own = await try_composition(engine.reader, past, self._own(source.body_key == "label"))
        if reading != self._reading or self.is_over:
            return
        self._past, self.own = past, own
        self.progress.hide()
        self.read_of.setText(self._told(past))
        self._try()

    def _told(self, past: Past) -> str:
        text = self.tr("{number} deliveries of the past.").format(number=grouped(len(past.seen)))
        if past.total >= MOST:
            text += " " + self.tr("Only the newest {most} are looked at.").format(most=grouped(MOST))
        left_out = past.without_body + past.unreadable
        if left_out:
            text += " " + self.tr(
                "{number} are left out: their text is not kept or not readable any more."
            ).format(number=grouped(left_out))
        return text

    @staticmethod
    def _own(body_key_is_label: bool) -> Composition:
        return Composition(body_key="label" if body_key_is_label else "identity")

    # ------------------------------------------------------------------ the composition

    @property
    def composition(self) -> Composition:
        return Composition(
            fields=frozenset(name for name, box in self.fields.items() if box.isChecked()),
            body_key=self.body_key.currentData(),
            window=self.window_all.currentData(),
            timeless_window=self.timeless.currentData(),
        )

    def _as_usual(self) -> None:
        source = self.tools.engine.settings.source(self.source.currentText())
        self._show_composition(self._own(source is not None and source.body_key == "label"))

    def _show_composition(self, composition: Composition) -> None:
        for name, box in self.fields.items():
            box.setChecked(name in composition.fields)
        for combo, value in (
            (self.body_key, composition.body_key),
            (self.window_all, composition.window),
            (self.timeless, composition.timeless_window),
        ):
            combo.setCurrentIndex(next(row for row in range(combo.count()) if combo.itemData(row) == value))

    def _changed(self) -> None:
        self._settled.start()

    def _try(self) -> None:
        self._settled.stop()
        self._asked += 1
        if self._past is not None:
            self.run("tries keys", self._try_it(self._past, self.composition, self._asked))

    async def _try_it(self, past: Past, composition: Composition, asked: int) -> None:
        def is_wanted() -> bool:
            return asked == self._asked and not self.is_over

        found = await try_composition(self.tools.engine.reader, past, composition, is_wanted)
        if found is not None and is_wanted():
            self.tried = found
            self._show_numbers()

    # ------------------------------------------------------------------ what is shown

    def _show_numbers(self) -> None:
        for name, _title, tone in COUNTS:
            tried, own = self.numbers[name]
            for label, verdict in ((tried, self.tried), (own, self.own)):
                count = None if verdict is None else getattr(verdict, name)
                marked = tone is not None and bool(count)
                label.setText("" if count is None else f"! {grouped(count)}" if marked else grouped(count))
                ink(label, self.theme.ink[tone] if marked and tone is not None else self.theme.text)
        self.examples.clear()
        if self.tried is not None:
            self._show_examples(self.tried)

    def _show_examples(self, found: Verdict) -> None:
        rows: tuple[tuple[str, list[Example]], ...] = (
            (self.tr("✕ swallowed"), found.swallowed_examples),
            (self.tr("✕ let through"), found.let_through_examples),
            (self.tr("≠ conflict"), found.conflict_examples),
        )
        for what, examples in rows:
            for each in examples:
                self.examples.addTopLevelItem(_item(what, each))
        if not self.examples.topLevelItemCount():
            self.examples.addTopLevelItem(QTreeWidgetItem([self.tr("No difference to what was done.")]))
            self.examples.setFirstColumnSpanned(0, self.examples.rootIndex(), True)
        for column in range(4):
            self.examples.resizeColumnToContents(column)

    def _show_story(self, item: QTreeWidgetItem) -> None:
        name = item.data(0, Qt.ItemDataRole.UserRole)
        if isinstance(name, str):
            self.tools.show_thing(name)

    def recolour(self) -> None:
        super().recolour()
        self._show_numbers()

    def end(self) -> None:
        self._reading += 1
        self._asked += 1
        self._settled.stop()
        super().end()


def _item(what: str, example: Example) -> QTreeWidgetItem:
    other, one = example.other, example.one
    after = "" if one is None else f"S{one.signal_id}, D{one.delivery}, {span(other.at - one.at)}"
    made = QTreeWidgetItem(
        [
            what,
            f"S{other.signal_id}, D{other.delivery}",
            local_time(rfc_3339(other.at)),
            _asked_for(other),
            after,
        ]
    )
    made.setData(0, Qt.ItemDataRole.UserRole, f"D{other.delivery}")
    made.setToolTip(3, _asked_for(other))
    return made


def _asked_for(seen: Seen) -> str:
    signal = seen.alert.signal
    parts = [signal.action.value, "" if signal.quantity is None else plain(signal.quantity), signal.symbol]
    parts += [signal.order_id or "", "" if signal.target is None else f"→ {plain(signal.target)}"]
    return " ".join(part for part in parts if part)
