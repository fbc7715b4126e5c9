"""Export of what a view shows: its rows, in its order, as CSV or JSON lines; written on its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app.gui.actions import BusyAction
from app.gui.formats import grouped
from app.gui.notice import Notice
from app.gui.tab import LedgerTab
from app.ledger.export import KINDS, export_rows
from app.ledger.listing import BATCH, Search, matching, rows_of
from app.ledger.reader import Row, Searches
from app.ledger.store import FILE_NAME
from app.tasks import Tasks

if TYPE_CHECKING:
    from app.gui.window import Window


class Exporting(QObject):
    """`action` asks for a file and writes what the view shows at that moment."""

    def __init__(self, home: Path, tasks: Tasks, notice: Notice, window: Window) -> None:
        super().__init__(window)
        self._ledger = home / FILE_NAME
        self._notice = notice
        self._window = window
        self.action = BusyAction(
            self.tr("&Export what is shown…"), "Ctrl+E", self._export, tasks, self._failed, self
        )

    def _failed(self, why: str) -> None:
        self._notice.say(why, "error")

    async def _export(self) -> None:
        view = self._window.current
        asked = view.filter.search(view.sources.clock.now())
        target = await choose_file(self._window, self.tr("Export what is shown"), view.definition.name)
        if target is None:
            return
        self._notice.say(self.tr("Writing {file}…").format(file=target.name), "ok")
        number = await self._write(view, target, asked)
        text = self.tr("{number} rows written to {file}.")
        self._notice.say(text.format(number=grouped(number), file=str(target)), "ok")

    async def _write(self, view: LedgerTab, target: Path, asked: Search) -> int:
        name, columns = view.definition.view, [column.name for column in view.definition.columns]
        lines = [] if view.definition.is_listing else list(view.lines())

        def write(connection: apsw.Connection) -> int:
            if not view.definition.is_listing:
                return export_rows(target, name, (_plain(line.row) for line in lines), columns)
            return export_rows(target, name, _rows(connection, name, asked), columns)

        searches = Searches(self._ledger)
        try:
            return await searches.call(write)
        finally:
            searches.close()


def _rows(connection: apsw.Connection, view: str, asked: Search) -> Iterator[Row]:
    numbers = matching(connection, view, asked)
    for start in range(0, len(numbers), BATCH):
        for row in rows_of(connection, view, numbers[start : start + BATCH]):
            del row["number"]
            yield row


def _plain(row: Row) -> Row:
    inner = ("number", "key_of_row", "need", "word")
    return {
        name: value if isinstance(value, str | int | float | None) else msgspec.json.encode(value).decode()
        for name, value in row.items()
        if name not in inner
    }


async def choose_file(parent: QWidget, title: str, name: str) -> Path | None:
    """Where to, without a nested loop; None where the person left it."""
    dialog = QFileDialog(parent, title)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters([f"CSV (*{KINDS[0]})", f"JSON lines (*{KINDS[1]})"])
    dialog.setDefaultSuffix(KINDS[0].removeprefix("."))
    dialog.selectFile(f"onefill-{name}{KINDS[0]}")
    closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def close(result: int) -> None:
        if not closed.done():
            closed.set_result(result)

    dialog.finished.connect(close)
    dialog.open()
    try:
        if not await closed:
            return None
        chosen = Path(dialog.selectedFiles()[0])
        if chosen.suffix in KINDS:
            return chosen
        suffix = KINDS[1] if KINDS[1] in dialog.selectedNameFilter() else KINDS[0]
        return chosen.with_name(chosen.name + suffix)
    finally:
        dialog.hide()
        dialog.deleteLater()
