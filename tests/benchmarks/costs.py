"""What each step of one delivery costs alone: processor time on its thread, the median of many.

Alone is less than together: what the steps wait for each other, for the disk and for the interpreter is not
in here, and neither are the loop's and aiohttp's own work.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
import msgspec
import structlog

from app.claims import admission
from app.claims.base import Admission, Delivery, Verdict
from app.claims.rows import Context
from app.clock import SECOND, SystemClock
from app.domain.alert import AlertRules, read_alert
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.ledger.transaction import Transaction
from app.listener import answers
from app.listener.body import read_body
from app.listener.connection import to_response
from app.listener.redaction import redact
from app.logs import start_logging
from tests.benchmarks.alerts import Alerts
from tests.benchmarks.homes import make_home, open_prepared

BATCH = 32
"""Claims in one transaction."""

RULES = AlertRules(reaches_live=False, needs_quantity=True, places_brackets=False)
POLICY = KeyPolicy(body_key_is_label=False, refuse_without_time=False)


class Cost(msgspec.Struct, frozen=True):
    """Microseconds. `where`: the thread that pays, or `hostile` for a body that nobody sends by mistake."""

    step: str
    where: str
    us: float


def measure(*, rounds: int) -> list[Cost]:
    alerts = Alerts("costs")
    with tempfile.TemporaryDirectory() as folder, _ledger(Path(folder)) as ledger:
        found = [*_on_the_loop(alerts, rounds), *_log_line(Path(folder), rounds)]
        found += _on_the_writer(ledger, alerts, rounds)
    for sign in (b":", b"=", b'"', b"{"):
        found.append(_alone(f"redact, 64 KiB of {sign!r}", "hostile", partial(redact, sign * 65_536), 3))
    return found


def _alone(step: str, where: str, work: Callable[[], object], rounds: int, times: int = 1) -> Cost:
    work()
    spent = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        for _ in range(times):
            work()
        spent.append((time.thread_time_ns() - began) / 1e3 / times)
    return Cost(step, where, statistics.median(spent))


# --------------------------------------------------------------------------------------------------- the loop


def _on_the_loop(alerts: Alerts, rounds: int) -> Iterator[Cost]:
    raw = alerts.next()
    fields = read_body(raw)
    alert = read_alert(fields, RULES)
    headers = HeaderKeys()
    outcome = {"state": "PENDING", "orders": [{"account": "paper", "state": "PENDING"}]}
    verdict = Verdict(
        "accepted", 1, claim_id=1, key="k" * 40, key_source="derived", outcome=outcome, first_received_at=1
    )
    answer = answers.of_verdict(verdict, 200)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("read the body (strict JSON)", lambda: read_body(raw)),
        ("of it json.loads alone", lambda: json.loads(raw)),
        ("read the alert", lambda: read_alert(fields, RULES)),
        ("choose the key", lambda: choose_key("source", alert, headers, POLICY)),
        ("fingerprint of the bytes", lambda: raw_fingerprint(raw)),
        (f"redact the body ({len(raw)} bytes)", lambda: redact(raw)),
        ("answer", lambda: to_response(answers.of_verdict(verdict, 200), answer.encoded())),
    ]
    for step, work in steps:
        yield _alone(step, "loop", work, rounds, 20)


def _log_line(folder: Path, rounds: int) -> Iterator[Cost]:
    """The line that a refused delivery leaves: what the loop pays, and all of it with the log's thread."""
    log = structlog.get_logger("app.listener.server")

    def line() -> None:
        log.info("delivery answered", source="tv", status=200, verdict="accepted", reason=None, ms=1.2)

    times = 50
    stop = start_logging(folder)
    try:
        yield _alone("log line of a refused one, its part on the loop", "loop", line, rounds, times)
    finally:
        stop()
    stop = start_logging(folder)
    began = time.process_time_ns()
    for _ in range(times * rounds):
        line()
    stop()
    spent = time.process_time_ns() - began
    yield Cost("log line of a refused one, with its own thread", "log", spent / 1e3 / times / rounds)


# ------------------------------------------------------------------------------------------------- the writer


@contextmanager
def _ledger(home: Path) -> Iterator[apsw.Connection]:
    make_home(home)
    opened = open_prepared(home)
    try:
        yield opened.connection
    finally:
        opened.close()


def _on_the_writer(connection: apsw.Connection, alerts: Alerts, rounds: int) -> Iterator[Cost]:
    context = Context("run", lambda account, symbol, exchange: symbol)
    rule = Admission("benchmark", "tradingview", ("paper",), 90 * SECOND, 900 * SECOND, 60 * SECOND, False, 0)
    clock = SystemClock()
    ids: list[int] = []

    def claim() -> None:
        raw = alerts.next()
        alert = read_alert(read_body(raw), RULES)
        key = choose_key("benchmark", alert, HeaderKeys(), POLICY)
        delivery = Delivery("benchmark", clock.now(), clock.boot(), raw.decode(), raw_fingerprint(raw))
        todo.append((delivery, alert.signal, key))

    todo: list[tuple[Delivery, object, object]] = []
    spent: dict[str, list[float]] = {"claim": [], "answered": [], "commit": [], "wall": []}
    for _ in range(max(3, rounds // 4)):
        todo.clear()
        for _ in range(BATCH):
            claim()
        connection.execute("BEGIN IMMEDIATE", can_cache=False)
        began = time.thread_time_ns()
        for delivery, signal, key in todo:
            tx = Transaction(connection, set())
            connection.execute("SAVEPOINT operation", can_cache=False)
            verdict = admission.admit(tx, context, rule, delivery, signal, key)  # type: ignore[arg-type]
            connection.execute("RELEASE operation", can_cache=False)
            ids.append(verdict.delivery_id)
        claimed = time.thread_time_ns()
        tx = Transaction(connection, set())
        connection.execute("SAVEPOINT operation", can_cache=False)
        for number in ids[-BATCH:]:
            tx.change(
                "deliveries",
                "UPDATE deliveries SET http_status = ?, ack_us = ? WHERE id = ?",
                (200, 1_000, number),
            )
        connection.execute("RELEASE operation", can_cache=False)
        answered, wall = time.thread_time_ns(), time.perf_counter_ns()
        connection.execute("COMMIT", can_cache=False)
        spent["claim"].append((claimed - began) / 1e3 / BATCH)
        spent["answered"].append((answered - claimed) / 1e3 / BATCH)
        spent["commit"].append((time.thread_time_ns() - answered) / 1e3 / BATCH)
        spent["wall"].append((time.perf_counter_ns() - wall) / 1e3)
    median = {name: statistics.median(values) for name, values in spent.items()}
    yield Cost("the claim's transaction (one savepoint)", "writer", median["claim"])
    yield Cost("status and milliseconds, after the answer", "writer", median["answered"])
    yield Cost(f"COMMIT, a {BATCH}th of its processor time", "writer", median["commit"])
    yield Cost(f"COMMIT of {BATCH}, as it takes (sync included)", "disk", median["wall"])
