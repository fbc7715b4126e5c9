"""The alert builder: from a few choices to the message for the alert dialog, a Pine script, the address.

What it makes is checked by the door's own rules before it can be copied.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from PySide6.QtCore import QT_TRANSLATE_NOOP, QTimer
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app.domain.alert_builder import (
    OF_A_STRATEGY,
    SECRET_HERE,
    Choice,
    Size,
    SourceRules,
    Template,
    message,
    pine,
    problem,
    sizes,
)
from app.domain.explain import Explanation
from app.domain.number import NumberError, read_number
from app.engine.checking import Question, check_message
from app.gui.check_words import verdict_word
from app.gui.formats import without_token
from app.gui.notice import Card, ink
from app.gui.samples import PINE_INDICATOR, PINE_STRATEGY
from app.gui.theme import Tone, fixed_font
from app.gui.tool_dialog import ToolDialog, Tools, quiet_label
from app.gui.words import tr
from app.settings import SignalSizing, Source

SETTLED_MS = 150


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


TEMPLATES: dict[Template, tuple[str, str]] = {
    Template.STRATEGY: (
        _("A strategy: each order that it fills"),
        _("One alert on the strategy; every fill becomes an order. The usual choice for a strategy."),
    ),
    Template.FOLLOW: (
        _("A strategy: follow its position"),
        _("Every alert states the position that the strategy holds now: one that was lost is made up for."),
    ),
    Template.BUY: (_("An indicator: buy"), _("A condition that opens a position or adds to it.")),
    Template.SELL: (
        _("An indicator: sell"),
        _("Sells what is held; a short only where the account allows it."),
    ),
    Template.EXIT: (_("An indicator: close"), _("Closes what this strategy's own book holds, never more.")),
    Template.TARGET: (
        _("An indicator: a position of this size"),
        _("Whatever is held before: the order is the difference to it."),
    ),
}
SIZES: dict[Size, str] = {
    Size.STRATEGY: _("as the strategy says"),
    Size.FIXED: _("this quantity"),
    Size.ACCOUNT: _("as the account's setting `sizing` says"),
    Size.ALL: _("all that is held"),
}
SIDES = {"long": _("long"), "short": _("short"), "flat": _("nothing (flat)")}


def rules_of(tools: Tools, source: Source) -> SourceRules:
    """What of the settings decides which messages a source takes."""
    accounts = [each for each in tools.engine.settings.accounts if each.name in source.accounts]
    return SourceRules(
        secret_in_body=source.auth == "body",
        accounts_size=not any(isinstance(each.sizing, SignalSizing) for each in accounts),
        allow_short=all(each.allow_short for each in accounts),
    )


class BuilderDialog(ToolDialog):
    """`check` opens the checker with a message and a source."""

    def __init__(self, tools: Tools, check: Callable[[str, str, str], object], parent: QWidget) -> None:
        super().__init__("", tools, parent)
        self.setWindowTitle(self.tr("Alert builder"))
        self._open_check = check
        self._asked = 0
        self._checking = False
        self._found: Explanation | None = None
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._check)
        self._build()
        self._lay_out()
        self._offer_sizes()
        for combo in (self.source, self.template, self.sizing, self.side):
            combo.currentIndexChanged.connect(lambda _place: self._changed())
        for field in (self.strategy, self.quantity):
            field.textChanged.connect(lambda _text: self._changed())
        self._changed()

    def _build(self) -> None:
        self.add_heading(
            self.tr("Build an alert"),
            self.tr(
                "Choose what it is for; copy the address and the message into TradingView's alert dialog."
            ),
        )
        self.source = self._combo(self.tr("Source"))
        for source in self.tools.engine.settings.sources:
            self.source.addItem(source.name)
        self.template = self._combo(self.tr("What the alert is for"))
        for template, (title, _why) in TEMPLATES.items():
            self.template.addItem(tr(title), template)
        self.why = quiet_label("", self)
        self.strategy = QLineEdit("my-strategy", self)
        self.strategy.setAccessibleName(self.tr("Name of the strategy"))
        self.strategy.setToolTip(
            self.tr("Names the book that its orders act on: the same in all alerts of one strategy.")
        )
        self.sizing = self._combo(self.tr("Size of the order"))
        self.quantity = QLineEdit("1", self)
        self.quantity.setAccessibleName(self.tr("Quantity"))
        self.side = self._combo(self.tr("Side of the position"))
        for side, title in SIDES.items():
            self.side.addItem(tr(title), side)
        self.address = QLineEdit(self)
        self.address.setReadOnly(True)
        self.address.setAccessibleName(self.tr("Hook address, its token blanked"))
        self.copy_address = self.button(self.tr("Copy &address"), self._copy_address)
        self.message = self._code(self.tr("The message"))
        self.pine = self._code(self.tr("The Pine script"))
        self.tabs = QTabWidget(self)
        self.tabs.addTab(self.message, self.tr("&Message for the alert dialog"))
        self.tabs.addTab(self.pine, self.tr("Pine &v6 example"))
        self.copy_code = self.button(self.tr("&Copy message"), self._copy_code)
        self.tabs.currentChanged.connect(lambda _place: self._name_copy())
        self.open_check = self.button(self.tr("C&heck it…"), self._to_the_checker)
        self.close_button = self.button(self.tr("Cl&ose"), self.reject)
        self.card, self.verdict, self.headline = Card(self), QLabel(self), QLabel(self)
        self.headline.setWordWrap(True)
        self.headline.setAccessibleName(self.tr("What it would do"))
        self.steps = quiet_label("", self)

    def _combo(self, name: str) -> QComboBox:
        made = QComboBox(self)
        made.setAccessibleName(name)
        return made

    def _code(self, name: str) -> QPlainTextEdit:
        made = QPlainTextEdit(self)
        made.setReadOnly(True)
        made.setTabChangesFocus(True)
        made.setFont(fixed_font(self.font()))
        made.setAccessibleName(name)
        made.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        return made

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(self.tr("&Source"), self.source)
        form.addRow(self.tr("&For"), self.template)
        form.addRow(self.tr("Strate&gy"), self.strategy)
        form.addRow(self.tr("Position"), self.side)
        form.addRow(self.tr("S&ize"), self.sizing)
        form.addRow(self.tr("&Quantity"), self.quantity)
        self._form = form
        left = QVBoxLayout()
        left.setSpacing(8)
        left.addLayout(form)
        left.addSpacing(8)
        left.addWidget(self.why)
        left.addSpacing(4)
        left.addWidget(self.steps)
        left.addStretch(1)
        address = QHBoxLayout()
        address.setSpacing(8)
        label = QLabel(self.tr("Webhook &URL"), self)
        label.setBuddy(self.address)
        address.addWidget(label)
        address.addWidget(self.address, 1)
        address.addWidget(self.copy_address)
        in_card = QHBoxLayout(self.card)
        in_card.setContentsMargins(14, 6, 10, 6)
        in_card.addWidget(self.verdict)
        in_card.addWidget(self.headline, 1)
        right = QVBoxLayout()
        right.setSpacing(8)
        right.addLayout(address)
        right.addWidget(self.tabs, 1)
        right.addWidget(self.card)
        middle = QHBoxLayout()
        middle.setSpacing(18)
        middle.addLayout(left, 2)
        middle.addLayout(right, 3)
        self.column.addLayout(middle, 1)
        self.column.addWidget(self.notice)
        below = QHBoxLayout()
        below.addStretch(1)
        for button in (self.copy_code, self.open_check, self.close_button):
            below.addWidget(button)
        self.column.addLayout(below)

    # ------------------------------------------------------------------ the choice

    @property
    def _source(self) -> Source | None:
        return self.tools.engine.settings.source(self.source.currentText())

    @property
    def choice(self) -> Choice:
        try:
            quantity = read_number(self.quantity.text().strip())
        except NumberError:
            quantity = Decimal(0)
        return Choice(
            Template(self.template.currentData()),
            self.strategy.text(),
            Size(self.sizing.currentData() or Size.FIXED),
            quantity,
            str(self.side.currentData()),
        )

    def _offer_sizes(self) -> None:
        """Only sizes that the door would take from this source."""
        source = self._source
        if source is None:
            return
        wanted = sizes(Template(self.template.currentData()), rules_of(self.tools, source))
        if [self.sizing.itemData(place) for place in range(self.sizing.count())] == list(wanted):
            return
        self.sizing.blockSignals(True)
        self.sizing.clear()
        for size in wanted:
            self.sizing.addItem(tr(SIZES[size]), size)
        self.sizing.blockSignals(False)

    def _changed(self) -> None:
        self._offer_sizes()
        choice, source = self.choice, self._source
        is_target = choice.template is Template.TARGET
        is_flat = is_target and choice.side == "flat"
        self._form.setRowVisible(self.side, is_target)
        self._form.setRowVisible(self.sizing, self.sizing.count() > 1 or not is_target)
        self._form.setRowVisible(self.quantity, choice.size is Size.FIXED and not is_flat)
        self.sizing.setEnabled(self.sizing.count() > 1)
        self.why.setText(tr(TEMPLATES[choice.template][1]))
        self._show_address()
        wrong = problem(choice) or ("" if source else self.tr("There is no source yet: add one in Settings"))
        if wrong or source is None:
            self._asked += 1
            self._show_wrong(wrong)
            return
        rules = rules_of(self.tools, source)
        self.message.setPlainText(message(choice, rules))
        self.pine.setPlainText(pine(choice, rules, PINE_STRATEGY, PINE_INDICATOR))
        self._show_steps(choice, rules)
        # What was not checked is not copied.
        self._allow(False)
        self._checking = True
        self._settled.start()

    @property
    def is_checking(self) -> bool:
        """Whether the verdict that is shown is not yet that of the message beside it."""
        return self._checking

    def _show_wrong(self, wrong: str) -> None:
        self._settled.stop()
        self._checking = False
        self._found = None
        self.message.clear()
        self.pine.clear()
        self.verdict.setText("✕")
        self.headline.setText(wrong)
        self.card.set_tone(Tone.BAD)
        self._allow(False)

    def _allow(self, allowed: bool) -> None:
        self.copy_code.setEnabled(allowed)
        self.open_check.setEnabled(allowed)

    def _show_address(self) -> None:
        address = next(
            (each for each in self.tools.engine.hook_addresses() if each.source == self.source.currentText()),
            None,
        )
        self._address = None if address is None else address.public or address.local
        self.address.setText("" if self._address is None else without_token(self._address))
        self.address.setCursorPosition(0)
        self.copy_address.setEnabled(self._address is not None)

    def _show_steps(self, choice: Choice, rules: SourceRules) -> None:
        of_strategy = choice.template in OF_A_STRATEGY
        condition = (
            self.tr("Condition: the strategy, “Order fills only” (not together with alert() calls).")
            if of_strategy
            else self.tr(
                "Condition: the indicator's, “Once per bar close”. With the Pine example: “Any alert() call”."
            )
        )
        steps = [
            self.tr("In TradingView: Create alert."),
            condition,
            self.tr("Notifications: Webhook URL, paste the address."),
            self.tr("Message: remove what is there, paste the message."),
        ]
        if rules.secret_in_body:
            steps.append(self.tr("Put the source's secret in the place of the words in capitals."))
        self.steps.setText("\n".join(f"{number}. {text}" for number, text in enumerate(steps, 1)))

    # ------------------------------------------------------------------ checked before it is copied

    def _check(self) -> None:
        source = self._source
        if source is None:
            return
        self._asked += 1
        at = self.tools.engine.clock.now()
        text = self.message.toPlainText().replace(SECRET_HERE, "sample")
        question = Question(body=text.encode(), at=at, fill=True)
        self.run("checks a built message", self._checked(source, question, self._asked))

    async def _checked(self, source: Source, question: Question, asked: int) -> None:
        settings = self.tools.engine.settings
        # Without the ledger: an earlier test with the same sample values would make it a duplicate.
        found = await self.tools.engine.reader.call(
            partial(_without_ledger, partial(check_message, settings, source, question))
        )
        if asked != self._asked or self.is_over:
            return
        self._found, self._checking = found, False
        word = verdict_word(found)
        self.verdict.setText(word.shown)
        self.headline.setText(self.tr("With sample values: {what}").format(what=found.headline))
        self.card.set_tone(word.tone)
        self.recolour()
        self._allow(found.is_good)

    def recolour(self) -> None:
        super().recolour()
        if self._found is not None:
            ink(self.verdict, self.theme.wash_ink[verdict_word(self._found).tone])

    # ------------------------------------------------------------------ copying

    def _name_copy(self) -> None:
        is_pine = self.tabs.currentWidget() is self.pine
        self.copy_code.setText(self.tr("&Copy script") if is_pine else self.tr("&Copy message"))

    def _copy_code(self) -> None:
        if self.tabs.currentWidget() is self.pine:
            self.copy(
                self.pine.toPlainText(),
                self.tr("The script is on the clipboard: paste it into the Pine editor."),
            )
        else:
            said = self.tr("The message is on the clipboard: paste it into the message field of the alert.")
            self.copy(self.message.toPlainText(), said)

    def _copy_address(self) -> None:
        if self._address is not None:
            said = self.tr("The address is on the clipboard, token included: treat it like a password.")
            self.copy(self._address, said)

    def _to_the_checker(self) -> None:
        self._open_check(self.message.toPlainText(), "", self.source.currentText())

    def end(self) -> None:
        self._asked += 1
        self._settled.stop()
        super().end()


def _without_ledger(work: Callable[[], Explanation], _db: object) -> Explanation:
    return work()
