"""The same watch over unhandled errors as without a window, and Qt's own messages beside it, into the log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import structlog
from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

from app.engine.crashes import Crashes, on_loop_error, watching

__all__ = ["errors_to_the_log", "on_loop_error"]

log = structlog.get_logger(__name__)

_LEVELS = {
    QtMsgType.QtDebugMsg: "debug",
    QtMsgType.QtInfoMsg: "info",
    QtMsgType.QtWarningMsg: "warning",
    QtMsgType.QtCriticalMsg: "error",
    QtMsgType.QtFatalMsg: "critical",
}


@contextlib.contextmanager
def errors_to_the_log() -> Iterator[Crashes]:
    """While it holds; what was there before comes back."""
    before = qInstallMessageHandler(_on_qt_message)
    try:
        with watching() as crashes:
            yield crashes
    finally:
        qInstallMessageHandler(before)


def _on_qt_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    getattr(log, _LEVELS.get(kind, "warning"))("qt", message=message, category=context.category)
