"""One home through crashes: alerts sent, the program ended somewhere, started, all sent again, counted.

How many orders there must be is read from both files as the crash left them (HOLES H35).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.check import violations
from tests.crash.launched import Launched
from tests.crash.program import KILLED, Answer, Program, until

NO_LIMITS = "[risk]\nmax_orders_per_minute = 0\n"
ON_THE_WAY = (
    "state IN ('PENDING', 'SUBMITTING', 'AMBIGUOUS') "
    "OR (state = 'WORKING' AND (type = 'market' OR cancel_requested = 1))"
)


@dataclass(frozen=True, slots=True)
class Alert:
    """`side` is that of the one order that it may become, '' for a cancel."""

    key: str
    symbol: str
    side: str
    fields: dict[str, Any]

    @property
    def body(self) -> dict[str, Any]:
        return {"key": self.key, "symbol": self.symbol, "price": 10, **self.fields}


ENTRY = Alert("entry-0001", "AAPL", "buy", {"action": "buy", "quantity": 2})
RESTING = Alert(
    "resting-0002", "MSFT", "buy", {"action": "buy", "quantity": 3, "type": "limit", "limit_price": 9}
)
CANCEL = Alert("cancel-0003", "MSFT", "", {"action": "cancel"})
EXIT = Alert("exit-0004", "AAPL", "sell", {"action": "exit"})
ALERTS = (ENTRY, RESTING, CANCEL, EXIT)


@dataclass(slots=True)
class Left:
    """What a crash left: each key's order state (None: no claim), and the exchange's orders by symbol and
    side."""

    states: dict[str, str | None]
    placed: Counter[tuple[str, str]]

    def expected(
        self, ended: dict[str, str | None], now: Counter[tuple[str, str]]
    ) -> dict[str, tuple[str, int]]:
        """State and number of orders that each key must end with."""
        return {alert.key: self._expected(alert, now) for alert in ALERTS}

    def _expected(self, alert: Alert, now: Counter[tuple[str, str]]) -> tuple[str, int]:
        state, there = self.states.get(alert.key), self.placed[alert.symbol, alert.side]
        if not alert.side:
            return "DONE", 0
        if state in ("SUBMITTING", "AMBIGUOUS"):
            return ("DONE", 1) if there else ("NOT_PLACED", 0)
        if state in (None, "PENDING"):
            # An exit sells what its entry bought; where that one proved absent there is nothing to do.
            return "DONE", now["AAPL", "buy"] if alert is EXIT else 1
        return state if state == "NOT_PLACED" else "DONE", there


@dataclass
class Story:
    """Drives one program on one home."""

    home: Path
    acks: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[Left] = field(default_factory=list)

    def run(self, *starts: tuple[str, str]) -> list[bool]:
        """One start for each (place, variant), armed there, and a last one of the product as it is. Whether
        each place was reached."""
        reached = []
        for place, variant in starts:
            with Launched(self.home, variant=variant) as program:
                if not self.home.exists():
                    program.write_config(NO_LIMITS)
                program.launch(failpoint=place)
                self._send_all(program)
                reached.append(self._over(program))
            self.crashes.append(self._left(program))
        with Launched(self.home) as program:
            program.start()
            self._send_all(program)
            assert program.end() < 5
            assert program.process is not None
            assert program.process.returncode == 0
        return reached

    def check(self) -> None:
        """What must hold at the end: exact counts, and all that the stranger's checker looks at."""
        end, crash = self._left(Launched(self.home)), self.crashes[-1]
        for alert in ALERTS:
            state, count = crash.expected(end.states, end.placed)[alert.key]
            ended = end.states[alert.key], end.placed[alert.symbol, alert.side]
            assert ended == (state, count), f"{alert.key} was {crash.states.get(alert.key)}"
        assert violations(self.home, self.acks) == []

    def _send_all(self, program: Program) -> None:
        if not program.port or program.process is None:
            line = program.line()
            if not line:
                return
            program.port = int(line.split(":")[2].split()[0])
        for alert in ALERTS:
            answer = program.post(alert.body)
            if answer.status == 503:
                answer = program.post(alert.body)
            self._note(alert, answer)
            if answer.status == 0:
                return
            self._settle(program)

    def _note(self, alert: Alert, answer: Answer) -> None:
        if answer.status:
            assert answer.status == 200, answer
            self.acks.append(
                {"key": alert.key, "status": 200, "answer": answer.word, "signal": answer.body["signal"]}
            )

    def _settle(self, program: Program) -> None:
        """Until nothing is on its way, or the program is dead."""

        def look() -> bool:
            assert program.process is not None
            if program.process.poll() is not None:
                return True
            return not program.rows(f"SELECT 1 FROM orders WHERE {ON_THE_WAY} LIMIT 1")

        until(look, "the orders to settle")

    def _over(self, program: Program) -> bool:
        """Whether the program died where it should; one that still runs is stopped in good order."""
        assert program.process is not None
        if program.process.poll() is None and self.acks and self.acks[-1]["key"] == ALERTS[-1].key:
            program.end()
        code = program.process.wait(20)
        assert code in (0, KILLED), program.errors.read_text()
        return code == KILLED

    def _left(self, program: Program) -> Left:
        signals = program.rows(
            "SELECT s.key, o.state FROM v_signals s LEFT JOIN v_orders o ON o.signal = s.id"
        )
        rows = program.exchange_orders() if (self.home / "paper.sqlite3").exists() else []
        return Left(
            {row["key"]: row["state"] for row in signals},
            Counter((row["symbol"], row["side"]) for row in rows),
        )
