"""The program as it is, a process of its own, on a throw-away home with an account at the exchange.

Started, killed and asked from outside, as a user would: by its hook, its commands and its files. Nothing of
the user's own home, keyring or environment is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from app.drill.judge import Row, read
from app.drill.server import SimulatedExchange
from app.secrets import Secrets

T = TypeVar("T")
SOURCE = "drill"
NUMBER = "PA1000001"
PATIENCE = 40.0
"""Seconds until what a drill waits for must have happened."""
KEYS = {"KEY_ID": "drill-key", "SECRET_KEY": "drill-secret"}

CONFIG = """
[[sources]]
name = "drill"
accounts = ["venue"]

[[accounts]]
name = "venue"
broker = "alpaca"
base_url = "{url}"

[execution]
request_timeout = "2s"
max_order_age = "{max_order_age}"

[reconciliation]
interval = "15s"
absent_min_age = "2s"
arrival_bound = "1s"
resolve_deadline = "60s"
"""
"""What takes minutes where money is traded takes seconds here. Nothing else differs from a user's program."""


class TooLate(Exception):
    """What a drill waited for did not come. One line."""


class House:
    """One home and the program on it."""

    def __init__(self, folder: Path, exchange: SimulatedExchange, max_order_age: str = "60s") -> None:
        self.home = folder / "home"
        self.exchange = exchange
        self._log = folder / "program.log"
        self._max_order_age = max_order_age
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0

    async def start(self, failpoint: str = "") -> None:
        """Starts it and waits until its door is open. `failpoint`: where it ends as by kill -9."""
        await self._on_thread(self._write_config)
        log = await self._on_thread(self._log.open, "ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command("serve", "--port", "0"),
                env=self._environment(failpoint),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        finally:
            await self._on_thread(log.close)
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                line = (await self._process.stdout.readline()).decode()
        except TimeoutError:
            line = ""
        match = re.match(r"onefill ready http://127\.0\.0\.1:(\d+) ", line)
        if match is None:
            raise TooLate(
                f"the program did not start; its log ends with: {await self._on_thread(self._last)}"
            )
        self._port = int(match[1])

    async def killed(self) -> None:
        """Until it has ended by itself, at its failpoint."""
        assert self._process is not None
        try:
            async with asyncio.timeout(PATIENCE):
                await self._process.wait()
        except TimeoutError:
            raise TooLate("the program did not come by the place where it was to be killed") from None

    async def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            # Who presses Ctrl-C cancels twice; the process is as good as gone, and must be gone.
            with contextlib.suppress(asyncio.CancelledError):
                await self._process.wait()
            await self._process.wait()

    async def command(self, *arguments: str) -> int:
        """A command of the program, as typed; its exit code."""
        process = await asyncio.create_subprocess_exec(
            *self._command(*arguments),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait()

    async def post(self, body: dict[str, Any]) -> tuple[int, str]:
        """One delivery as a sender makes it: HTTP status and word. Status 0: no answer came."""
        token = await self._on_thread(self._token)
        url = f"http://127.0.0.1:{self._port}/hook/{SOURCE}/{token}"
        limit = aiohttp.ClientTimeout(total=10)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.post(url, json=body) as answer,
            ):
                said = await answer.json()
                return answer.status, str(said.get("status", ""))
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return 0, "no answer"

    async def has_ledger(self) -> bool:
        return await self._on_thread((self.home / "ledger.sqlite3").exists)

    async def rows(self, sql: str) -> list[Row]:
        return await self._on_thread(read, self.home / "ledger.sqlite3", sql)

    async def until(
        self, look: Callable[[list[Row]], bool], sql: str, what: str, patience: float = PATIENCE
    ) -> list[Row]:
        """The rows once they are as wanted. Raises TooLate."""
        try:
            async with asyncio.timeout(patience):
                while True:
                    found = await self.rows(sql)
                    if look(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TooLate(f"waited {patience:g} s for {what}") from None

    # -------------------------------------------------------------------------------------------------

    def _command(self, *arguments: str) -> list[str]:
        start = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "app"]
        return [*start, *arguments, "--home", str(self.home)]

    def _environment(self, failpoint: str = "") -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ONEFILL_")}
        keys = {f"ONEFILL_SECRET_ACCOUNT_VENUE_{name}": value for name, value in KEYS.items()}
        return {
            **kept,
            **keys,
            "ONEFILL_FAILPOINT": failpoint,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }

    def _write_config(self) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        config = self.home / "config.toml"
        if not config.exists():
            config.write_text(CONFIG.format(url=self.exchange.url, max_order_age=self._max_order_age))

    def _token(self) -> str:
        return Secrets(self.home, {}, keyring=None).find(f"source.{SOURCE}.token").value or ""

    def _last(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"

    async def _on_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)
