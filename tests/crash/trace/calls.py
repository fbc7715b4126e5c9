"""What strace wrote down, read: each system call with what it was on, its bytes, and when it began and ended.

Knows nothing of ledgers. Strings and paths come in hexadecimal (`-xx`), so that no byte is guessed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

CALLS = "fsync,fdatasync,pwrite64,write,sendto,sendmsg,ftruncate,unlink"
_LINE = re.compile(r"(\d+) +(\w+)\((.*)$")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_RESULT = re.compile(r"\) += (-?\d+)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_ON = re.compile(r"\d+<((?:\\x[0-9a-f]{2})*)>")
_NUMBER = re.compile(r", (\d+)\) +=")


@cache
def why_not() -> str:
    """Why no trace can be taken here, or ''."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-D", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip()}"


def traced(command: list[str], log: Path) -> list[str]:
    """The command with strace beside it: the process keeps its own id, so that it can be ended by it."""
    flags = ["-D", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}"]
    return ["strace", *flags, "-o", str(log), *command]


@dataclass(frozen=True, slots=True)
class SystemCall:
    """`on` is the path (or what strace says of a socket); `offset` the last number of its arguments.

    `began` and `ended` are places in the log: one call was over before another began if its `ended` is less
    than the other's `began`.
    """

    thread: str
    name: str
    on: str
    data: bytes
    offset: int
    result: int
    began: int
    ended: int


def read(lines: Iterable[str]) -> list[SystemCall]:
    """Every call that ended, by the order in which they began."""
    return sorted(_ended(lines), key=lambda call: call.began)


def _ended(lines: Iterable[str]) -> Iterator[SystemCall]:
    begun: dict[str, tuple[str, str, int]] = {}
    for place, line in enumerate(lines):
        if resumed := _RESUMED.match(line):
            thread, name, rest = resumed.groups()
            first, began = begun.pop(thread)[1:]
            yield replace(_call(thread, name, first + rest, place), began=began)
        elif whole := _LINE.match(line):
            thread, name, rest = whole.groups()
            if rest.endswith("<unfinished ...>"):
                begun[thread] = (name, rest.removesuffix("<unfinished ...>").rstrip(), place)
            elif _RESULT.search(rest):
                yield _call(thread, name, rest, place)


def _call(thread: str, name: str, text: str, place: int) -> SystemCall:
    on, number, result = _ON.match(text), _NUMBER.search(text), _RESULT.search(text)
    data = b"".join(_bytes(part) for part in _STRING.findall(text))
    path = _bytes(on[1]) if on else data if name == "unlink" else b""
    return SystemCall(
        thread=thread,
        name=name,
        on=path.decode(),
        data=data,
        offset=int(number[1]) if number else 0,
        result=int(result[1]) if result else -1,
        began=place,
        ended=place,
    )


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
