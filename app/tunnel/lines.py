"""The last lines that a tunnel's program printed: bounded and blanked before anything keeps or shows them.

Fed from the thread that drains the program, read on the loop. However much comes, no more than this is kept.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence

from app.logs import redact

KEPT = 200
WIDTH = 500
"""Characters of a line."""
LONGEST = 8_192
"""Bytes of a line that are read; the rest of it is passed over."""
MARGIN = 1_024
"""Of a line that was cut so much of the end goes too: a secret may be cut in two there."""
A_CHUNK = 300
"""Lines of one chunk that are read, first and last; a program that floods is not followed."""
BLANK = "***"

_NAMED = re.compile(
    r"(?i)((?:token|secret|passw|authorization|api[_-]?key|credential)[\w-]{0,24}[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
    r"(?:(?:bearer|basic)\s)?)"
    r"(?!\s)[^\s\"',}]{6,}"
)
_JWT = re.compile(r"\beyJ[\w-]{10,}(?:\.[\w-]+)*")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class Lines:
    """`secrets` are blanked besides what looks like one. The newest match of each pattern in `watch` is kept
    for as long as the program runs; lines that match `noise` are only watched, not kept."""

    def __init__(
        self,
        secrets: Sequence[str] = (),
        watch: Sequence[re.Pattern[str]] = (),
        noise: re.Pattern[str] | None = None,
    ) -> None:
        self._secrets = sorted((secret for secret in secrets if len(secret) > 3), key=len, reverse=True)
        self._watched: dict[re.Pattern[str], re.Match[str] | None] = dict.fromkeys(watch)
        self._noise = noise
        self._kept: deque[str] = deque(maxlen=KEPT)
        self._part = bytearray()
        self._over = False
        self._lock = threading.Lock()
        self.passed_over = 0
        """Lines that came too many at once."""

    def feed(self, data: bytes) -> None:
        """Any piece of the output. One thread only."""
        pieces = data.split(b"\n")
        if len(pieces) > 2 * A_CHUNK:
            self.passed_over += len(pieces) - 2 * A_CHUNK
            pieces = pieces[:A_CHUNK] + pieces[-A_CHUNK:]
        for piece in pieces[:-1]:
            self._add(piece)
            self._end_line()
        self._add(pieces[-1])

    def close(self) -> None:
        """No more comes: what is there of a last line is one."""
        if self._part:
            self._end_line()

    def last(self, number: int = KEPT) -> list[str]:
        """The newest lines, oldest first."""
        with self._lock:
            return list(self._kept)[-number:]

    def find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """In the newest line that has it: of all lines for a watched pattern, else of those that are kept."""
        if pattern in self._watched:
            return self._watched[pattern]
        return next((found for line in reversed(self.last()) if (found := pattern.search(line))), None)

    def _add(self, piece: bytes) -> None:
        room = LONGEST - len(self._part)
        self._over = self._over or len(piece) > room
        self._part += piece[: max(0, room)]

    def _end_line(self) -> None:
        text = self.blank(self._part.decode("utf-8", "replace")).rstrip()
        if self._over:
            text = text[:-MARGIN]
        self._part.clear()
        self._over = False
        if not text:
            return
        text = text[:WIDTH]
        for pattern in self._watched:
            self._watched[pattern] = pattern.search(text) or self._watched[pattern]
        if self._noise is None or not self._noise.search(text):
            with self._lock:
                self._kept.append(text)

    def blank(self, text: str) -> str:
        text = _CONTROL.sub("", text)
        for secret in self._secrets:
            text = text.replace(secret, BLANK)
        return _JWT.sub(BLANK, _NAMED.sub(rf"\g<1>{BLANK}", redact(text)))
