"""The support bundle by a button: asks where to, writes it beside the window, and says what is in it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtWidgets import QFileDialog, QWidget

from app.clock import SECOND, SystemClock
from app.engine.checkup import NEAR, Patient, check_up
from app.engine.support import Bundle, make_bundle
from app.gui.ports import EngineView
from app.secrets import Secrets

ENDING = ".zip"


async def save_bundle(engine: EngineView, parent: QWidget) -> Bundle | None:
    """None where the person left it. Raises SupportFailed."""
    target = await choose_bundle(parent, engine.clock.now())
    if target is None:
        return None
    status = msgspec.to_builtins(engine.status())
    return await asyncio.to_thread(write_bundle, engine.home, target, status)


def write_bundle(home: Path, target: Path, status: dict[str, Any]) -> Bundle:
    """Blocking. Raises SupportFailed, also where there is such a file already."""
    patient = Patient(home, SystemClock(), running=status)
    findings = list(check_up(patient, NEAR))
    return make_bundle(home, target, findings, status, Secrets(home, os.environ), patient.settings)


async def choose_bundle(parent: QWidget, now: int) -> Path | None:
    """Where to, without a nested loop."""
    day = datetime.fromtimestamp(now // SECOND, UTC).strftime("%Y-%m-%d-%H%M%S")
    dialog = QFileDialog(parent, parent.tr("Save a support bundle"))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    # Qt's own question about a file that is there would be a nested loop; it is refused in words instead.
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
    dialog.setNameFilters([f"ZIP (*{ENDING})"])
    dialog.setDirectory(str(Path.home()))
    dialog.setDefaultSuffix(ENDING.removeprefix("."))
    dialog.selectFile(f"onefill-support-{day}{ENDING}")
    closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def close(result: int) -> None:
        if not closed.done():
            closed.set_result(result)

    dialog.finished.connect(close)
    dialog.open()
    try:
        return Path(dialog.selectedFiles()[0]) if await closed else None
    finally:
        dialog.hide()
        dialog.deleteLater()
