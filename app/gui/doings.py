"""What a person can do from the window: each doing is one action, with a shortcut, a menu entry and a button.

The engine acts; here it is asked, once a press, and what came of it is said.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.gui.actions import BusyAction
from app.gui.dialogs import ask
from app.gui.notice import Notice
from app.gui.ports import EngineView
from app.gui.sample_outcome import outcome, sample_level, sample_text
from app.gui.trading_bar import command_text
from app.tasks import Tasks

ACTOR = "window"


class Doings(QObject):
    """Halt, exits only, resume, the test signal, a reconciliation."""

    def __init__(self, engine: EngineView, tasks: Tasks, notice: Notice, parent: QWidget) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = tasks
        self._notice = notice
        self._window = parent
        self._stopping = False
        self.halt = self._action(self.tr("&Halt"), "Ctrl+Shift+H", self._halt)
        self.exits_only = self._action(self.tr("&Exits only"), "Ctrl+Shift+E", self._exits_only)
        self.resume = self._action(self.tr("&Resume…"), "Ctrl+Shift+R", self._resume)
        self.test_signal = self._action(self.tr("Send &test signal"), "Ctrl+T", self._send_sample)
        self.reconcile = self._action(self.tr("Reconcile &now"), "Ctrl+Shift+N", self._reconcile)

    def _action(self, text: str, keys: str, work: Callable[[], Awaitable[None]]) -> BusyAction:
        return BusyAction(text, keys, work, self._tasks, self._failed, self)

    def _failed(self, why: str) -> None:
        self._notice.say(why, "error")

    def show_state(self, trading_state: str) -> None:
        """Only what changes something can be pressed; Halt always can while not halted."""
        self.halt.allow(not self._stopping and trading_state != "halted")
        self.exits_only.allow(not self._stopping and trading_state != "exits_only")
        self.resume.allow(not self._stopping and trading_state != "active")
        self._notice.show_state(trading_state)

    def _say_state(self, answer: Mapping[str, Any], level: str) -> None:
        self._notice.say(command_text(answer), level, state=str(answer.get("trading_state", "")))

    def stop(self) -> None:
        """Nothing can be asked of an engine that stops."""
        self._stopping = True
        for action in (self.halt, self.exits_only, self.resume, self.test_signal, self.reconcile):
            action.allow(False)

    async def _command(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """One request id a press: were the same press delivered twice, it would act once."""
        return await self._engine.command(name, arguments, actor=ACTOR, request_id=str(uuid.uuid4()))

    async def _halt(self) -> None:
        answer = await self._command("halt", {"exits_only": False})
        self._say_state(answer, "warning")

    async def _exits_only(self) -> None:
        """At once where it tightens, after a question where it lets exits out of a halt."""
        if self._engine.status().trading_state == "halted" and not await ask(
            self._window,
            self.tr("Exits only"),
            self.tr("Let exits out again?"),
            self.tr(
                "Trading is halted now. Entries stay denied; exits will be placed as signals ask for them."
            ),
            self.tr("Exits only"),
            self.tr("Stay halted"),
        ):
            return
        answer = await self._command("halt", {"exits_only": True})
        self._say_state(answer, "warning")

    async def _resume(self) -> None:
        status = self._engine.status()
        waiting = status.counts.get("waiting", 0)
        more = self.tr("Entries and exits will be placed as signals ask for them.")
        if waiting:
            more += " " + self.tr("{number} orders wait and may be sent at once.").format(number=waiting)
        agreed = await ask(
            self._window,
            self.tr("Resume trading"),
            self.tr("Resume trading?"),
            more,
            self.tr("Resume trading"),
            self.tr("Stay as it is"),
        )
        if agreed:
            answer = await self._command("resume", {})
            self._say_state(answer, "ok")

    async def _reconcile(self) -> None:
        answer = await self._command("reconcile", {})
        reports = answer.get("reports", [])
        differing = sum(1 for each in reports if isinstance(each, dict) and each.get("result") != "OK")
        if differing:
            text = self.tr("Reconciled: {number} of {all} accounts do not agree. See Reconciliation.")
            self._notice.say(text.format(number=differing, all=len(reports)), "warning")
        else:
            self._notice.say(self.tr("Reconciled: our books agree with the broker's."), "ok")

    async def _send_sample(self) -> None:
        answer = await self._engine.send_sample()
        orders = await outcome(self._engine, answer)
        signal = answer.body.get("signal")
        self._notice.say(
            sample_text(answer, orders),
            sample_level(answer, orders),
            link=signal if isinstance(signal, str) else None,
            link_text=self.tr("Show its story"),
        )
