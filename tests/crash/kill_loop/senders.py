"""Senders that behave as senders do: new keys, repeats, two copies at once, conflicts, and the same key again
for as long as nobody answered. What each was told is written down for the checker.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYMBOLS = ("AAPL", "MSFT", "TSLA", "NVDA")
TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class Alert:
    """An entry of a quantity that no other has, or an exit."""

    key: str
    symbol: str
    action: str
    quantity: str

    @property
    def body(self) -> bytes:
        asked = {"quantity": self.quantity} if self.action == "buy" else {}
        fields = {"key": self.key, "symbol": self.symbol, "action": self.action, "price": "10", **asked}
        return json.dumps(fields).encode()

    def other(self) -> bytes:
        """The same key asking for something else."""
        fields = {"key": self.key, "symbol": self.symbol, "action": "buy", "quantity": "777", "price": "10"}
        return json.dumps(fields).encode()


class Senders:
    """All senders of a loop, over restarts. `acks` is what each was told, or status 0, as check.py reads it;
    the same is appended to `path`."""

    def __init__(self, seed: int, path: Path) -> None:
        self.acks: list[dict[str, Any]] = []
        self.unanswered: dict[str, Alert] = {}
        self.surprises: list[str] = []
        self._seed = seed
        self._path = path
        self._numbers = itertools.count(1)
        self._answered: list[Alert] = []
        self._lock = threading.Lock()

    def send_until_dead(self, port: int, hook: str, rng: random.Random, stop: threading.Event) -> None:
        """One sender with two connections, until the program is gone or `stop` is set."""
        connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT) for _ in range(2)]
        try:
            while not stop.is_set() and self._once(connections, hook, rng):
                pass
        finally:
            for connection in connections:
                connection.close()

    def send_again(self, port: int, hook: str) -> None:
        """Every key that has no answer yet, until it has one. The program must be there."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            for _ in range(3):
                for alert in list(self.unanswered.values()):
                    assert self._deliver([connection], hook, [(alert, alert.body)]), "the program is gone"
            assert not self.unanswered, f"never answered: {self.unanswered}"
        finally:
            connection.close()

    def _once(self, connections: Sequence[http.client.HTTPConnection], hook: str, rng: random.Random) -> bool:
        kind = rng.random()
        with self._lock:
            known = rng.choice(self._answered) if self._answered else None
            again = rng.choice(list(self.unanswered.values())) if self.unanswered else None
        if again is not None and kind > 0.8:
            return self._deliver(connections[:1], hook, [(again, again.body)])
        if known is not None and kind < 0.15:
            return self._deliver(connections[:1], hook, [(known, known.body)])
        if known is not None and kind < 0.25:
            return self._deliver(connections[:1], hook, [(known, known.other())])
        alert = self._new(rng)
        copies = 2 if kind < 0.5 else 1
        return self._deliver(connections[:copies], hook, [(alert, alert.body)] * copies)

    def _new(self, rng: random.Random) -> Alert:
        with self._lock:
            number = next(self._numbers)
        action = "exit" if rng.random() < 0.05 else "buy"
        return Alert(f"kill-{self._seed}-{number:06}", rng.choice(SYMBOLS), action, f"{number}")

    def _deliver(
        self,
        connections: Sequence[http.client.HTTPConnection],
        hook: str,
        alerts: Sequence[tuple[Alert, bytes]],
    ) -> bool:
        """Sends each on a connection of its own, all before the first answer is read. False if one broke."""
        for alert, body in alerts:
            if body == alert.body:
                with self._lock:
                    self.unanswered.setdefault(alert.key, alert)
        whole = True
        for connection, (_, body) in zip(connections, alerts, strict=True):
            try:
                connection.request("POST", hook, body)
            except (OSError, http.client.HTTPException):
                whole = False
        for connection, (alert, body) in zip(connections, alerts, strict=True):
            try:
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                whole = False
                self._note(alert, body, 0, {})
            else:
                self._note(alert, body, response.status, answer)
        return whole

    def _note(self, alert: Alert, body: bytes, status: int, answer: dict[str, Any]) -> None:
        row: dict[str, Any] = {"key": alert.key, "status": status, "answer": answer.get("status", "")}
        row["signal"] = answer.get("signal")
        if alert.action == "buy":
            row |= {"symbol": alert.symbol, "side": "buy", "quantity": alert.quantity}
        is_itself = body == alert.body
        with self._lock:
            self.acks.append(row)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if status == 200 and is_itself:
                if self.unanswered.pop(alert.key, None) is not None:
                    self._answered.append(alert)
            elif status not in ((0, 503) if is_itself else (0, 422, 503)):
                self.surprises.append(f"{alert.key}: {status} {answer}")
