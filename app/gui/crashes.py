"""Nothing fails unseen: errors of slots, threads, tasks and Qt itself go to the log.

Frozen without a console there is no stderr, so the log is the only place.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import structlog
from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

log = structlog.get_logger(__name__)

_LEVELS = {
    QtMsgType.QtDebugMsg: "debug",
    QtMsgType.QtInfoMsg: "info",
    QtMsgType.QtWarningMsg: "warning",
    QtMsgType.QtCriticalMsg: "error",
    QtMsgType.QtFatalMsg: "critical",
}


@contextlib.contextmanager
def errors_to_the_log() -> Iterator[None]:
    """While it holds; what was there before comes back."""
    excepthook, thread_hook = sys.excepthook, threading.excepthook
    sys.excepthook = _on_error
    threading.excepthook = _on_thread_error
    before = qInstallMessageHandler(_on_qt_message)
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook = excepthook, thread_hook
        qInstallMessageHandler(before)


def on_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler."""
    error = context.get("exception")
    log.error("error on the loop", what=context.get("message"), error=repr(error), exc_info=error)


def _on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("unhandled error", error=repr(error), exc_info=(kind, error, trace))


def _on_thread_error(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    name = arguments.thread.name if arguments.thread else None
    log.critical("unhandled error in a thread", thread=name, error=repr(error), exc_info=error)


def _on_qt_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    getattr(log, _LEVELS.get(kind, "warning"))("qt", message=message, category=context.category)
