"""`python -m app serve` as a subprocess, talked to from outside: over HTTP, signals and its files.

Waits are polls with a deadline; nothing sleeps for a fixed time.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from app.control import NotRunning, Refused, ask
from app.ledger.reader import open_read_only, read
from app.secrets import Secrets

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
KILLED = 137
T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """The first result of `look` that is not None or False."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < deadline, f"waited {patience:g} s for {what}"
        time.sleep(0.02)


@dataclass
class Answer:
    """`status` 0: the connection ended without an answer."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        return str(self.body.get("status", ""))


class Program:
    """One home and the program on it. Use as a context manager: what still runs at the end is killed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        self.errors = home.parent / f"{home.name}.stderr"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait(PATIENCE)
            assert self.process.stdout is not None
            self.process.stdout.close()

    # -------------------------------------------------------------------------------------- start and end

    def write_config(self, text: str) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text(text)

    def launch(self, *, failpoint: str = "", arm: str = "") -> None:
        """`failpoint` is armed from the start; `arm` names one to be armed by `arm_now`."""
        assert self.process is None or self.process.poll() is not None
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ONEFILL_FAILPOINT": failpoint}
        start = ["-m", "app"]
        if arm:
            environment["ONEFILL_ARM"] = arm
            start = [str(Path(__file__).parent / "armed.py")]
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *start, "serve", "--home", str(self.home), "--port", "0"],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def start(self, *, failpoint: str = "", arm: str = "") -> None:
        """Starts and waits until the door is open and every account sends."""
        self.launch(failpoint=failpoint, arm=arm)
        line = self.line()
        match = re.fullmatch(r"onefill ready http://127\.0\.0\.1:(\d+) home=(.+)", line)
        assert match, f"first line {line!r}; stderr: {self.errors.read_text()}"
        assert match[2] == str(self.home)
        self.port = int(match[1])
        until(self._ready, "the accounts to be ready")

    def line(self) -> str:
        """The next line of stdout, '' where it has ended."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "no line on stdout"
        return self.process.stdout.readline().rstrip("\n")

    def arm_now(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)
        assert self.line() == "armed"

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Sends the signal and waits; the seconds that it took. The exit code is in `process.returncode`."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        return time.monotonic() - began

    def wait_killed(self) -> None:
        assert self.process is not None
        assert self.process.wait(PATIENCE) == KILLED

    def _ready(self) -> bool:
        status = self.status()
        accounts = [fact for fact in status.get("facts", []) if fact["name"].startswith("account:")]
        return bool(accounts) and all(
            fact["word"] not in ("connecting", "reconciling", "failing") for fact in accounts
        )

    # ------------------------------------------------------------------------------- talking to it, looking

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = ask(self.home, "status", request_id="status", timeout=PATIENCE)
        except (NotRunning, Refused):
            return {}
        return found

    def fact(self, name: str) -> str:
        facts: list[dict[str, str]] = self.status().get("facts", [])
        return next((fact["word"] for fact in facts if fact["name"] == name), "")

    def post(self, body: dict[str, Any], source: str = "tradingview") -> Answer:
        """One delivery as a sender makes it."""
        token = Secrets(self.home, {}, keyring=None).find(f"source.{source}.token").value
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", f"/hook/{source}/{token}", json.dumps(body))
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        except (http.client.HTTPException, OSError):
            return Answer(0)
        finally:
            connection.close()

    def rows(self, sql: str, file: str = "ledger.sqlite3") -> list[dict[str, Any]]:
        connection = open_read_only(self.home / file)
        try:
            return read(connection, sql)
        finally:
            connection.close()

    def settled_orders(self, count: int = 1) -> list[dict[str, Any]]:
        """The orders, once there are so many and none is on its way."""

        def look() -> list[dict[str, Any]] | None:
            rows = self.rows("SELECT * FROM v_orders ORDER BY number")
            on_the_way = ("PENDING", "SUBMITTING", "AMBIGUOUS", "WORKING")
            settled = len(rows) >= count and not [row for row in rows if row["state"] in on_the_way]
            return rows if settled else None

        return until(look, f"{count} settled orders")

    def exchange_orders(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM orders", "paper.sqlite3")


def alert(key: str, **fields: Any) -> dict[str, Any]:
    """A buy of one share with a key of its own that is fresh whenever it is sent."""
    body = {"symbol": "AAPL", "action": "buy", "quantity": 1, "price": 10, "key": f"key-{key}-0123456789"}
    return {**body, **fields}
