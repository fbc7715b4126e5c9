"""The log holds what happened, for people and for programs, and no token."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
from pathlib import Path

import structlog

from app.logs import FILE_NAME, redact, start_logging

TOKEN = "A" * 43


def _write(home: Path) -> tuple[list[dict[str, object]], str]:
    console = io.StringIO()
    stop = start_logging(home, stderr=console)
    try:
        log = structlog.get_logger("app.somewhere")
        log.info("door open", port=8787)
        log.warning("request refused", path=f"/hook/tv/{TOKEN}?x=1", token=TOKEN, nested={"secret": "abc"})
        logging.getLogger("aiohttp.server").error("bad request %s", f"POST /hook/tv/{TOKEN} HTTP/1.1")
        try:
            raise ValueError(f"in /hook/tv/{TOKEN}")
        except ValueError:
            log.exception("failed")
        try:
            raise KeyError(f"/hook/tv/{TOKEN}")
        except KeyError:
            logging.getLogger("other").exception("failed too")
    finally:
        stop()
    lines = (home / FILE_NAME).read_text().splitlines()
    return [json.loads(line) for line in lines], console.getvalue()


def test_the_file_has_every_line_as_data_and_stderr_the_warnings(tmp_path: Path) -> None:
    lines, console = _write(tmp_path)
    assert [line["event"] for line in lines] == [
        "door open",
        "request refused",
        "bad request POST /hook/tv/*** HTTP/1.1",
        "failed",
        "failed too",
    ]
    assert lines[0]["port"] == 8787
    assert lines[0]["level"] == "info"
    assert "ValueError" in str(lines[3]["exception"])
    assert "KeyError" in str(lines[4]["exception"])
    assert "door open" not in console
    assert "warning: request refused" in console


def test_no_token_and_no_secret_reaches_a_line(tmp_path: Path) -> None:
    lines, console = _write(tmp_path)
    written = json.dumps(lines) + console
    assert TOKEN not in written
    assert "abc" not in written
    assert "/hook/tv/***" in written


def test_the_file_is_its_users_alone(tmp_path: Path) -> None:
    _write(tmp_path)
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_an_address_without_a_token_stays_as_it_is() -> None:
    assert redact("POST /hook/tv and /healthz") == "POST /hook/tv and /healthz"
    assert redact(f"http://127.0.0.1:1/hook/tv/{TOKEN}/") == "http://127.0.0.1:1/hook/tv/***/"
