"""Tables for a terminal, and which start touches what."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.cli.front import MAX_CELL, cell, local_time, table
from app.cli.run import has_display

ROOT = Path(__file__).parents[2]


def test_a_table_is_aligned_and_numbers_stand_right() -> None:
    rows: list[dict[str, str | None]] = [
        {"id": "O1", "quantity": "1.5"},
        {"id": "O22", "quantity": None},
        {"id": "O3", "quantity": "100"},
    ]
    assert table(rows, ("id", "quantity")).splitlines() == [
        "id   quantity",
        "O1        1.5",
        "O22         -",
        "O3        100",
    ]


def test_a_cell_is_short_and_shows_what_cannot_be_printed() -> None:
    assert cell("x" * 100) == "x" * (MAX_CELL - 1) + "…"
    assert cell("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert [cell(None), cell(""), cell(0), cell(False)] == ["-", "-", "0", "False"]


def test_a_time_is_shown_in_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(time, "tzset"):
        pytest.skip("the zone cannot be set")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert local_time("2026-03-02T12:00:00.000000Z") == "2026-03-02 13:00:00+01:00"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local_time("2026-99-02T12:00:00.000000Z") is None
    assert local_time("not a time") is None


def _imported(*command: str) -> set[str]:
    code = (
        "import sys\nfrom app.cli import main\n"
        "try: main(sys.argv[1:])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("command", ["signals", "status", "halt", "url"])
def test_a_small_command_imports_neither_window_nor_listener(tmp_path: Path, command: str) -> None:
    """What makes a start slow stays out: the engine's own libraries, where a command does without."""
    heavy = {"PySide6", "qasync"} if command == "halt" else {"PySide6", "qasync", "aiohttp"}
    assert not heavy & _imported(command, "--home", str(tmp_path))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"QT_QPA_PLATFORM": "offscreen"}, True),
        ({"QT_QPA_PLATFORM": "minimal:enable_fonts"}, True),
        ({"DISPLAY": ":987"}, False),
        ({"DISPLAY": "nonsense"}, False),
        ({"DISPLAY": ":"}, False),
        ({"WAYLAND_DISPLAY": "wayland-987", "XDG_RUNTIME_DIR": "/nowhere"}, False),
    ],
)
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a display")
def test_a_display_counts_only_if_it_answers(environ: dict[str, str], expected: bool) -> None:
    assert has_display(environ) is expected


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a display")
def test_a_display_that_answers_is_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "wayland-0"))
        environ = {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": str(tmp_path)}
        assert has_display(environ) is False
        listening.listen()
        assert has_display(environ) is True
