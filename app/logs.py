"""The log: lines as data into the home, warnings to stderr, and nothing that is secret in either.

Set up once by whoever starts an engine. Writing happens on a thread of its own, since a full pipe on stderr
must not hold the loop.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import re
import sys
import traceback
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog

FILE_NAME = "onefill.log"
MAX_BYTES = 5_000_000
KEPT_FILES = 3
BLANK = "***"

_SECRET_FIELD = re.compile(r"secret|token|passphrase|password|api_?key|authorization|key_id", re.IGNORECASE)
_HOOK_PATH = re.compile(r"(/hook/[^/\s?#'\"]+/)[^/\s?#'\"]+")

_Event = MutableMapping[str, Any]


def redact(text: str) -> str:
    """`text` without the token of any hook address in it."""
    return _HOOK_PATH.sub(rf"\g<1>{BLANK}", text)


def _redact_value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return BLANK if _SECRET_FIELD.search(name) else redact(value)
    if isinstance(value, dict):
        return {key: _redact_value(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(name, inner) for inner in value]
    if isinstance(value, int | float | bool | None):
        return value
    return redact(repr(value))


def _redact_event(_logger: Any, _method: str, event: _Event) -> _Event:
    for name in list(event):
        if not name.startswith("_"):
            event[name] = _redact_value("" if name == "event" else name, event[name])
    return event


def _hold_exception(_logger: Any, _method: str, event: _Event) -> _Event:
    """Only takes hold of the exception: its trace is made on the writing thread, as that reads files."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, BaseException):
        error = (type(error), error, error.__traceback__)
    if isinstance(error, tuple) and error[0] is not None:
        event["_exc_info"] = error
    return event


def _format_exception(_logger: Any, _method: str, event: _Event) -> _Event:
    error = event.pop("_exc_info", None)
    if error is not None:
        event["exception"] = redact("".join(traceback.format_exception(*error)).rstrip())
    return event


_SHARED: tuple[Any, ...] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _hold_exception,
    _redact_event,
)


def start_logging(home: Path | None, *, stderr: TextIO | None = None) -> Callable[[], None]:
    """Sends INFO and above to `onefill.log` in the home, WARNING and above to stderr; returns what ends it.

    Other libraries' log lines take the same way. Call the returned function last: it writes what waits, and
    ends the thread.
    """
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handlers: list[logging.Handler] = []
    # Frozen without a console there is no stderr.
    if (console := stderr or sys.stderr) is not None:
        handlers.append(_console(console))
    if home is not None:
        handlers.append(_file(home / FILE_NAME))
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
    sender = _Sender(lines)
    listener = logging.handlers.QueueListener(lines, *handlers, respect_handler_level=True)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    root.addHandler(sender)
    listener.start()

    def stop() -> None:
        root.removeHandler(sender)
        root.setLevel(before)
        listener.stop()
        for handler in handlers:
            handler.close()
        structlog.reset_defaults()

    return stop


class _Sender(logging.handlers.QueueHandler):
    """Hands the record over whole: the formatters on the other side need its data, not its text."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


def _formatter(*last: Any) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _format_exception, *last],
    )


def _console(stream: TextIO) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_formatter(_as_line))
    return handler


def _as_line(_logger: Any, _method: str, event: _Event) -> str:
    """`12:00:01 warning: checkpoint failed (error=...)`: short, for a person at a terminal."""
    at = str(event.pop("timestamp", ""))[11:19]
    level, what, trace = event.pop("level", ""), event.pop("event", ""), event.pop("exception", "")
    event.pop("logger", None)
    rest = ", ".join(f"{name}={value}" for name, value in event.items())
    line = f"{at} {level}: {what}" + (f" ({rest})" if rest else "")
    return f"{line}\n{trace}" if trace and level in ("error", "critical") else line


def _file(path: Path) -> logging.Handler:
    handler = _PrivateFile(path, maxBytes=MAX_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True)
    handler.setFormatter(_formatter(structlog.processors.JSONRenderer()))
    return handler


class _PrivateFile(logging.handlers.RotatingFileHandler):
    def _open(self) -> Any:
        def private(name: str, flags: int) -> int:
            return os.open(name, flags, 0o600)

        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=private)
