"""`onefill doctor`: one line for each thing that must hold, with what to do where it does not.

Reads only, and works with and without a running app. A check is a function in the table below.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from app.cli.front import Front, count_of, front_options

DISK_WARNING = 1_000_000_000
DISK_ERROR = 100_000_000
"""Bytes free in the home."""

LEVELS = ("ok", "warning", "error")
"""The exit code is the place of the worst one."""

Finding = tuple[str, str]
"""Level, and a sentence."""


@dataclass(slots=True)
class Patient:
    """What the checks share: the home, the settings once they were read, and the running app's own word."""

    home: Path
    settings: Any = None
    running: dict[str, Any] | None = None
    connection: Any = field(default=None, repr=False)
    """Of a ledger that can be read; None where it cannot, and the checks of what is in it say nothing."""

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@click.command()
@front_options
@click.pass_context
def doctor(ctx: click.Context, front: Front) -> None:
    """Check everything, one line each; exit 0 healthy, 1 degraded, 2 failing."""
    patient = Patient(front.home)
    worst = 0
    try:
        for name, check in CHECKS:
            for level, seen in check(patient):
                worst = max(worst, LEVELS.index(level))
                front.emit({"check": name, "level": level, "seen": seen}, f"{level:<8} {name:<10} {seen}")
    finally:
        patient.close()
    ctx.exit(worst)


def _home(patient: Patient) -> Iterator[Finding]:
    home = patient.home
    if not home.is_dir():
        yield "ok", f"{home} is not there yet: it is made on the first start"
        return
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield "error", f"{home} cannot be written by this user: allow it, or choose another with --home"
    elif os.name == "posix" and stat.S_IMODE(home.stat().st_mode) & 0o077:
        yield "warning", f"{home} can be read by others: chmod 700 it"
    else:
        yield "ok", str(home)
    free = shutil.disk_usage(home).free
    level = "error" if free < DISK_ERROR else "warning" if free < DISK_WARNING else "ok"
    yield level, f"{free / 1e9:.1f} GB free on its disk"


def _app(patient: Patient) -> Iterator[Finding]:
    from app.control import NotRunning, Refused, ask

    try:
        patient.running = ask(patient.home, "status", request_id=uuid.uuid4().hex, timeout=10)
    except NotRunning:
        yield "ok", "not running"
    except Refused as error:
        yield "error", str(error)
    else:
        yield "ok", f"{patient.running['state']}, version {patient.running['version']}"
        for fact in patient.running["facts"]:
            if fact["level"] != "ok":
                yield fact["level"], f"{fact['name']}: {fact['word']}: {fact['reason']}"


def _config(patient: Patient) -> Iterator[Finding]:
    from app.settings import ConfigError, config_path, read_settings, read_text

    path = config_path(patient.home)
    try:
        text = read_text(path)
        if text is None:
            yield "ok", f"{path} is not there yet: it is written on the first start"
            return
        patient.settings = read_settings(text, path)
    except ConfigError as error:
        yield "error", str(error)
        return
    sources, accounts = len(patient.settings.sources), len(patient.settings.accounts)
    live = sum(account.live for account in patient.settings.accounts)
    yield "ok", f"{count_of(sources, 'source')}, {count_of(accounts, 'account')}, {live} of them live"


def _ledger(patient: Patient) -> Iterator[Finding]:
    import apsw

    from app.ledger.reader import open_read_only
    from app.ledger.store import APPLICATION_ID, FILE_NAME, MARKER_NAME, broken_chain

    path = patient.home / FILE_NAME
    if not path.exists():
        if (patient.home / MARKER_NAME).exists():
            yield "error", f"{path} is missing: put it back or restore a backup"
        else:
            yield "ok", f"{path} is not there yet: it is made on the first start"
        return
    try:
        patient.connection = connection = open_read_only(path)
        if connection.execute("PRAGMA application_id").fetchall() != [(APPLICATION_ID,)]:
            patient.close()
            yield "error", f"{path} is not an Onefill ledger: move it away"
            return
        result = connection.execute("PRAGMA quick_check(1)").fetchall()[0][0]
        broken = broken_chain(connection)
        orders = int(str(connection.execute("SELECT count(*) FROM orders").fetchall()[0][0]))
    except apsw.Error as error:
        patient.close()
        yield "error", f"{path} cannot be read ({error}): restore a backup"
        return
    if result != "ok":
        patient.close()
        yield "error", f"{path} is damaged ({result}): restore a backup"
    elif broken is not None:
        yield "error", f"the audit chain is broken at event E{broken}: the file was changed from outside"
    else:
        yield "ok", f"sound, {count_of(orders, 'order')}, audit chain unbroken"
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > 64 * 1024 * 1024:
        yield "warning", f"its write-ahead log has {size // 1_000_000} MB: another program reads it for long"


def _orders(patient: Patient) -> Iterator[Finding]:
    if patient.connection is None:
        return
    from app.clock import SystemClock
    from app.ledger.counts import Counts

    counts = Counts()
    counts.read(patient.connection, SystemClock().now())
    unresolved = counts.values()["unresolved"]
    rows = patient.connection.execute("SELECT value FROM meta WHERE name = 'trading_state'").fetchall()
    state = rows[0][0] if rows else "active"
    if unresolved:
        yield "warning", f"{count_of(unresolved, 'order')} of unknown fate: `onefill needs`"
    else:
        yield "ok", "none needs an answer"
    if state != "active" and patient.running is None:
        yield "warning", f"trading is {state.replace('_', ' ')}: `onefill resume` ends it"


def _accounts(patient: Patient) -> Iterator[Finding]:
    """What the last reconciliation of each account left open; a running app has said it already."""
    if patient.connection is None or patient.running is not None:
        return
    from app.clock import SystemClock
    from app.ledger.needs import needs
    from app.ledger.standing import troubles

    now = SystemClock().now()
    found = troubles(patient.connection, needs(patient.connection, now), now)
    for account, trouble in found.items():
        yield "warning", f"{account}: {trouble.word}: {trouble.reason}"
    if not found:
        yield "ok", "ledger and brokers agreed when they were compared last"


def _clock(patient: Patient) -> Iterator[Finding]:
    from app.clock import SECOND, SystemClock

    if patient.connection is None:
        return
    rows = patient.connection.execute("SELECT value FROM meta WHERE name = 'wall_mark'").fetchall()
    behind = int(rows[0][0]) - SystemClock().now() if rows else 0
    if behind > 5 * SECOND:
        yield "error", f"the clock stands {behind // SECOND} s before what was seen earlier: set it right"
    else:
        yield "ok", "not before what was seen earlier"


def _secrets(patient: Patient) -> Iterator[Finding]:
    from app.secrets import Secrets, SecretsError

    if patient.settings is None:
        return
    secrets = Secrets(patient.home, os.environ)
    for source in patient.settings.all_sources:
        name = f"source.{source.name}.{'token' if source.auth == 'path' else 'secret'}"
        try:
            found = secrets.find(name)
        except SecretsError as error:
            yield "error", str(error)
            continue
        if found.value is not None:
            plain = str(found.where) == "file"
            yield "ok", f"{name} is in {'secrets.toml, as plain text' if plain else f'the {found.where}'}"
        elif source.auth == "path":
            yield "ok", f"{name} is made on the first start"
        else:
            yield "error", f"{name} is nowhere: alerts of {source.name} cannot be let in"
        if found.problem:
            yield "warning", found.problem


def _port(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None or patient.running is not None:
        return
    listener = patient.settings.listener
    if listener.port == 0:
        yield "ok", "any free port is taken at the start"
        return
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listener.host, listener.port))
        except OSError as error:
            why = f"port {listener.port} cannot be opened ({error.strerror})"
            yield "error", f"{why}: stop what has it, set another in the config, or start with --port N"
        else:
            yield "ok", f"port {listener.port} is free"


CHECKS: tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...] = (
    ("home", _home),
    ("app", _app),
    ("config", _config),
    ("secrets", _secrets),
    ("port", _port),
    ("ledger", _ledger),
    ("orders", _orders),
    ("accounts", _accounts),
    ("clock", _clock),
)
