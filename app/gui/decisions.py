"""A person's decisions: one action each, with a shortcut, a menu entry and a button where it makes sense.

What an action works on is what is chosen in the tab that is shown. The engine decides, by the same commands
that the command line gives; here it is only asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.execution.operator_exits import name_of
from app.gui import decision_words as say
from app.gui.actions import BusyAction
from app.gui.decision_dialog import Ask, DecisionDialog, Field, Question, decide
from app.gui.notice import Notice
from app.gui.ports import EngineView
from app.ledger.needs import Need
from app.ledger.reader import Row
from app.tasks import Tasks

ACTOR = "window"
DAY = 86_400 * 1_000_000

Offers = dict[str, dict[str, Any]]
"""What can be done about the chosen thing: the arguments by the name of the action."""


def offers_of_need(need: Need | None) -> Offers:
    """As the list of needs offers them; resolve is three actions, by its answer."""
    if need is None:
        return {}
    return {action.arguments.get("answer", action.command): dict(action.arguments) for action in need.actions}


def offers_of_order(row: Row) -> Offers:
    """For an order chosen among the orders."""
    order, state = row["id"], row["state"]
    found: Offers = {"close": {"account": row["account"], "symbol": row["symbol"]}}
    found["flatten"] = {"account": row["account"]}
    seen = {"order": order, "seen": state}
    if state in ("AMBIGUOUS", "NEEDS_OPERATOR"):
        found |= {answer: {**seen, "answer": answer} for answer in ("look_again", "not_placed", "placed")}
    if state in ("PENDING", "SUBMITTING", "WORKING"):
        found["cancel"] = seen
    if state in ("DENIED", "NOT_PLACED") or (state == "DONE" and row["filled_quantity"] == "0"):
        found["replay"] = seen
    return found


def offers_of_position(row: Row) -> Offers:
    """For what is held of one symbol: where one book alone holds it, that one is named."""
    known = {"account": row["account"], "symbol": row["symbol"]}
    book = dict(known)
    if len(row["books"]) == 1:
        (only,) = row["books"]
        book |= {"source": only["source"], "strategy": only["strategy"]}
    return {"close": known, "flatten": {"account": row["account"]}, "book": book}


def offers_of_delivery(row: Row) -> Offers:
    """For a delivery chosen among the refused ones."""
    return {"admit": {"delivery": row["id"]}} if row["verdict"] == "conflict" else {}


def _books_seen(answer: Mapping[str, Any]) -> dict[str, str]:
    """What would be closed, as the person read it: the engine refuses where it has become another."""
    return {name_of(one): one["book"] for one in answer["orders"]}


@dataclass(frozen=True)
class _Kind:
    """One action. `free`: makes sense whatever is chosen."""

    text: str
    keys: str
    ask: Callable[[dict[str, Any]], Question]
    done: say.Say
    free: bool = False


class Decisions(QObject):
    """`actions` by name, in the order of the menu."""

    def __init__(self, engine: EngineView, tasks: Tasks, notice: Notice, parent: QWidget) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = tasks
        self._notice = notice
        self._window = parent
        self._offers: Offers = {}
        self._stopping = False
        self._kinds = self._all_kinds()
        self.actions = {
            name: BusyAction(kind.text, kind.keys, self._work(name), tasks, self._failed, self)
            for name, kind in self._kinds.items()
        }
        self.offer({})

    def _all_kinds(self) -> dict[str, _Kind]:
        tr = self.tr
        return {
            "look_again": _Kind(tr("&Look again…"), "Ctrl+Shift+S", self._look_again, say.resolved),
            "placed": _Kind(tr("It is &order X…"), "Ctrl+Shift+O", self._placed, say.resolved),
            "not_placed": _Kind(tr("It was not &placed…"), "Ctrl+Shift+P", self._not_placed, say.resolved),
            "replay": _Kind(tr("Repla&y…"), "Ctrl+Shift+Y", self._replay, say.replayed),
            "admit": _Kind(tr("&Admit as new signal…"), "Ctrl+Shift+A", self._admit, say.admitted),
            "dismiss": _Kind(tr("Put a&way…"), "Ctrl+Shift+D", self._dismiss, say.put_away),
            "cancel": _Kind(tr("&Cancel order…"), "Ctrl+Shift+X", self._cancel, say.canceled),
            "close": _Kind(tr("Close posit&ion…"), "Ctrl+Shift+I", self._close, say.closed, free=True),
            "flatten": _Kind(tr("&Flatten account…"), "Ctrl+Shift+F", self._flatten, say.closed, free=True),
            "book": _Kind(tr("Set &book…"), "Ctrl+Shift+B", self._book, say.booked, free=True),
            "acknowledge": _Kind(tr("Ac&knowledge…"), "Ctrl+Shift+K", self._acknowledge, say.acknowledged),
            "purge": _Kind(tr("P&urge…"), "Ctrl+Shift+G", self._purge, say.purged, free=True),
        }

    def _failed(self, why: str) -> None:
        self._notice.say(why, "error")

    def offer(self, offers: Offers) -> None:
        """What is chosen has changed; what is in an open dialog stays as it is."""
        self._offers = offers
        for name, action in self.actions.items():
            action.allow(not self._stopping and (self._kinds[name].free or name in offers))

    def stop(self) -> None:
        """Nothing can be asked of an engine that stops; what it is at it still answers."""
        self._stopping = True
        self.offer({})
        for dialog in self._window.findChildren(DecisionDialog):
            dialog.reject()

    def _work(self, name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            kind = self._kinds[name]
            answer = await decide(kind.ask(dict(self._offers.get(name, {}))), self._tasks, self._window)
            if answer is not None:
                self._notice.say(kind.done(answer), "ok")

        return work

    def _command(self, name: str) -> Ask:
        async def ask(arguments: dict[str, Any], request_id: str) -> Mapping[str, Any]:
            return await self._engine.command(name, arguments, actor=ACTOR, request_id=request_id)

        return ask

    # ------------------------------------------------------------------ unresolved orders

    def _resolve(self, known: dict[str, Any], title: str, heading: str, yes: str, note: str) -> Question:
        order = known["order"]
        fields: tuple[Field, ...] = ()
        if known["answer"] == "placed":
            fields = (Field("broker_order_id", self.tr("The broker's id of the order")),)

        async def tell() -> str:
            return await self._engine.reader.call(lambda c: say.what_is_known(c, order))

        return Question(
            title=title,
            heading=heading.format(order=order),
            yes=yes,
            arguments=known,
            ask=self._command("resolve"),
            plan=say.resolved,
            known=tell,
            fields=fields,
            note=note,
        )

    def _look_again(self, known: dict[str, Any]) -> Question:
        note = self.tr("The broker is asked by every way there is. Nothing is sent.")
        title, yes = self.tr("Look again"), self.tr("Look again")
        return self._resolve(known, title, self.tr("Ask the broker again about {order}?"), yes, note)

    def _placed(self, known: dict[str, Any]) -> Question:
        note = self.tr(
            "The broker is asked for the order with that id; account, symbol, side and quantity must agree."
        )
        heading = self.tr("Which of the broker's orders is {order}?")
        return self._resolve(known, self.tr("It is this order"), heading, self.tr("It is this order"), note)

    def _not_placed(self, known: dict[str, Any]) -> Question:
        note = self.tr(
            "The broker is asked once more first. If it does not have the order, it ends as not placed and "
            "is not sent again unless you replay it."
        )
        heading = self.tr("Was {order} not placed?")
        return self._resolve(known, self.tr("Not placed"), heading, self.tr("It was not placed"), note)

    # ------------------------------------------------------------------ signals and orders

    def _replay(self, known: dict[str, Any]) -> Question:
        heading = self.tr("Send {order} again?").format(order=known["order"])
        return Question(
            self.tr("Replay"), heading, self.tr("Send it again"), known, self._command("replay"), say.replayed
        )

    def _admit(self, known: dict[str, Any]) -> Question:
        heading = self.tr("Admit {delivery} as a new signal?").format(delivery=known["delivery"])
        return Question(
            self.tr("Admit"), heading, self.tr("Admit it"), known, self._command("admit"), say.admitted
        )

    def _dismiss(self, known: dict[str, Any]) -> Question:
        heading = self.tr("Put {ids} away?").format(ids=", ".join(known["ids"]))
        note = self.tr("It no longer stands in Needs you. Nothing is sent, and nothing is deleted.")
        return Question(
            self.tr("Put away"),
            heading,
            self.tr("Put away"),
            known,
            self._command("dismiss"),
            say.put_away,
            note=note,
        )

    def _cancel(self, known: dict[str, Any]) -> Question:
        heading = self.tr("Cancel {order}?").format(order=known["order"])
        return Question(
            self.tr("Cancel order"),
            heading,
            self.tr("Cancel it"),
            known,
            self._command("cancel"),
            say.canceled,
        )

    # ------------------------------------------------------------------ positions

    @property
    def _accounts(self) -> tuple[str, ...]:
        names = (fact.name.partition(":") for fact in self._engine.status().facts)
        return tuple(name for kind, _colon, name in names if kind == "account")

    def _account(self, known: Mapping[str, Any]) -> Field:
        return Field("account", self.tr("Account"), known.get("account", ""), choices=self._accounts)

    def _symbol(self, known: Mapping[str, Any]) -> Field:
        return Field("symbol", self.tr("Symbol"), known.get("symbol", ""))

    def _close(self, known: dict[str, Any]) -> Question:
        return Question(
            title=self.tr("Close position"),
            heading=self.tr("Close our books on one symbol?"),
            yes=self.tr("Close it"),
            arguments={},
            ask=self._command("close"),
            plan=say.closed,
            seen=_books_seen,
            fields=(self._account(known), self._symbol(known)),
            note=self.tr("By market orders of our own, also while halted. What is not ours is not touched."),
        )

    def _flatten(self, known: dict[str, Any]) -> Question:
        return Question(
            title=self.tr("Flatten account"),
            heading=self.tr("Close all our books in one account?"),
            yes=self.tr("Close all of it"),
            arguments={},
            ask=self._command("flatten"),
            plan=say.closed,
            seen=_books_seen,
            fields=(self._account(known),),
            note=self.tr("By market orders of our own, also while halted. What is not ours is not touched."),
        )

    def _book(self, known: dict[str, Any]) -> Question:
        optional = self.tr("empty where only one can be meant")
        return Question(
            title=self.tr("Set book"),
            heading=self.tr("Say what a book of ours holds?"),
            yes=self.tr("Set the book"),
            arguments={},
            ask=self._command("book"),
            plan=say.booked,
            fields=(
                self._account(known),
                self._symbol(known),
                Field("source", self.tr("Source"), known.get("source", ""), optional=True, hint=optional),
                Field(
                    "strategy", self.tr("Strategy"), known.get("strategy", ""), optional=True, hint=optional
                ),
                Field(
                    "quantity",
                    self.tr("Quantity"),
                    known.get("quantity", ""),
                    hint=self.tr("negative if it is short"),
                ),
            ),
            seen=lambda answer: answer["was"],
        )

    def _acknowledge(self, known: dict[str, Any]) -> Question:
        """An account's number is typed by hand, as it lets money loose; a difference is only looked at."""
        account, symbol = known["account"], known.get("drift")
        if symbol is not None:
            heading = self.tr("Is the difference on {symbol} in {account} none of ours?")
            return Question(
                title=self.tr("None of ours"),
                heading=heading.format(symbol=symbol, account=account),
                yes=self.tr("It is none of ours"),
                arguments={"account": account, "drift": symbol},
                ask=self._command("acknowledge"),
                plan=say.acknowledged,
                note=self.tr("Nothing is sent. What is not ours is counted as such and never touched."),
            )
        return Question(
            title=self.tr("Acknowledge account"),
            heading=self.tr("May {account} send orders to account {number}?").format(
                account=account, number=known["identity"]
            ),
            yes=self.tr("It may send"),
            arguments={"account": account},
            ask=self._command("acknowledge"),
            plan=say.acknowledged,
            fields=(Field("identity", self.tr("The account's number, typed"), hint=known["identity"]),),
            note=self.tr("Compare it with the broker's own page. Nothing is sent by this itself."),
        )

    # ------------------------------------------------------------------ retention

    def _purge(self, known: dict[str, Any]) -> Question:
        return Question(
            title=self.tr("Purge"),
            heading=self.tr("Delete what is old?"),
            yes=self.tr("Delete it"),
            arguments={},
            ask=self._command("purge"),
            plan=say.purged,
            fields=(
                Field(
                    "bodies_older_than",
                    self.tr("Bodies older than, days"),
                    optional=True,
                    hint=self.tr("empty: as the settings say"),
                    read=self._days,
                ),
                Field(
                    "keys_older_than",
                    self.tr("Keys older than, days"),
                    optional=True,
                    hint=self.tr("empty: none"),
                    read=self._days,
                ),
            ),
            note=self.tr("Messages and keys of that age; a signal older than a deleted key is refused."),
        )

    def _days(self, text: str) -> int:
        """Microseconds. Raises ValueError."""
        if not (text.isascii() and text.isdigit() and len(text) <= 5):
            raise ValueError(self.tr("a whole number of days"))
        return int(text) * DAY
