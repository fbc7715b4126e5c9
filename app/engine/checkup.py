"""The setup check: each thing that must hold, with what to do where it does not.

Shared by `onefill doctor` and the window. It reads, with and without a running app, and changes nothing but
for the test signal, which is in a throw-away home. A check is a function in a table; all of it blocks. Those
that ask others are in `checkup_far`.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import apsw

from app.clock import SECOND, Clock
from app.engine.places import why_unfit
from app.ledger.backup import newest_daily
from app.ledger.counts import Counts
from app.ledger.needs import needs
from app.ledger.reader import open_read_only
from app.ledger.standing import troubles
from app.ledger.store import APPLICATION_ID, FILE_NAME, MARKER_NAME, broken_chain
from app.secrets import Secrets, SecretsError
from app.settings import ConfigError, Settings, config_path, read_settings, read_text

Level = Literal["ok", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "error")
"""The place of the worst one is doctor's exit code."""

DISK_WARNING = 1_000_000_000
DISK_ERROR = 100_000_000
"""Bytes free in the home."""
SLOW_SYNC = 0.2
"""Seconds for one synced write; an answer waits for two of them and is due within three."""
OLD_BACKUP = 3 * 24 * 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and a sentence with the remedy where it is not well."""

    check: str
    level: Level
    seen: str


Seen = Iterator[tuple[Level, str]]
Check = tuple[str, Callable[["Patient"], Seen]]


@dataclass(slots=True)
class Patient:
    """What the checks share. `running` is the running app's own status as data, or None where none runs;
    `unreachable` why it cannot be asked although one runs."""

    home: Path
    clock: Clock
    running: Mapping[str, Any] | None = None
    unreachable: str = ""
    ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Gives a running app a command and waits for its answer; raises LookupFailed where it refuses."""
    make_secrets: Callable[[], Secrets] | None = None
    settings: Settings | None = None
    connection: apsw.Connection | None = field(default=None, repr=False)
    """Of a ledger that can be read; None where it cannot, and the checks of what is in it say nothing."""

    def secrets(self) -> Secrets:
        return Secrets(self.home, os.environ) if self.make_secrets is None else self.make_secrets()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def check_up(patient: Patient, checks: Iterable[Check]) -> Iterator[Finding]:
    """Every finding, one after the other. A check that fails itself is a finding, and the next ones go on."""
    try:
        for name, check in checks:
            try:
                for level, seen in check(patient):
                    yield Finding(name, level, seen)
            except Exception as error:  # noqa: BLE001 - the check-up is for machines where things are broken
                yield Finding(name, "error", f"could not be checked: {error!r}")
    finally:
        patient.close()


# ---------------------------------------------------------------------------------- the machine


def _home(patient: Patient) -> Seen:
    home = patient.home
    unfit = why_unfit(home)
    if unfit is not None:
        yield "error", unfit
    if not home.is_dir():
        yield "ok", f"{home} is not there yet: it is made on the first start"
        return
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield "error", f"{home} cannot be written by this user: allow it, or choose another with --home"
    elif os.name == "posix" and stat.S_IMODE(home.stat().st_mode) & 0o077:
        yield "warning", f"{home} can be read by others: chmod 700 it"
    else:
        yield "ok", str(home)


def _disk(patient: Patient) -> Seen:
    home = patient.home
    if not home.is_dir():
        return
    free = shutil.disk_usage(home).free
    if free < DISK_WARNING:
        level: Level = "error" if free < DISK_ERROR else "warning"
        yield level, f"{free / 1e9:.1f} GB free on the disk of {home}: make room"
    else:
        yield "ok", f"{free / 1e9:.1f} GB free"
    try:
        took = _time_a_sync(home)
    except OSError as error:
        yield (
            "error",
            f"nothing can be written into {home} ({error.strerror or error}): allow it or make room",
        )
        return
    if took > SLOW_SYNC:
        yield "warning", f"a synced write takes {took * 1000:.0f} ms: answers may come late on this disk"
    else:
        yield "ok", f"a synced write takes {took * 1000:.1f} ms"


def _time_a_sync(home: Path) -> float:
    """The best of three; seconds. Raises OSError."""
    with tempfile.TemporaryFile(dir=home, prefix=".sync-") as file:
        times = []
        for _ in range(3):
            began = time.monotonic()
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.monotonic() - began)
    return min(times)


def _clock(patient: Patient) -> Seen:
    if patient.connection is None:
        return
    rows = patient.connection.execute("SELECT value FROM meta WHERE name = 'wall_mark'").fetchall()
    behind = int(str(rows[0][0])) - patient.clock.now() if rows else 0
    if behind > 5 * SECOND:
        yield "error", f"the clock stands {behind // SECOND} s before what was seen earlier: set it right"
    else:
        yield "ok", "not before what was seen earlier"


# ---------------------------------------------------------------------------------- the program


def _app(patient: Patient) -> Seen:
    if patient.unreachable:
        yield "error", patient.unreachable
        return
    if patient.running is None:
        yield "ok", "not running"
        return
    yield "ok", f"{patient.running['state']}, version {patient.running['version']}"
    for fact in patient.running["facts"]:
        if fact["level"] != "ok":
            yield fact["level"], f"{fact['name']}: {fact['word']}: {fact['reason']}"


def _config(patient: Patient) -> Seen:
    path = config_path(patient.home)
    try:
        text = read_text(path)
        if text is None:
            yield "ok", f"{path} is not there yet: it is written on the first start"
            return
        patient.settings = settings = read_settings(text, path)
    except ConfigError as error:
        yield "error", str(error)
        return
    live = [account.name for account in settings.accounts if account.live]
    counts = f"{_count(len(settings.sources), 'source')}, {_count(len(settings.accounts), 'account')}"
    yield "ok", f"{counts}, {'live: ' + ', '.join(live) if live else 'none of them live'}"


def _keyring(patient: Patient) -> Seen:
    state = patient.secrets().keyring_state
    if state.usable:
        yield "ok", f"secrets are kept in {state.backend}"
    else:
        yield "ok", f"no keyring ({state.reason}): secrets are kept in secrets.toml, for this user alone"


def _secrets(patient: Patient) -> Seen:
    if patient.settings is None:
        return
    secrets = patient.secrets()
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
            remedy = f"`onefill secret set {name}`"
            yield "error", f"{name} is nowhere: alerts of {source.name} cannot be let in: {remedy}"
        if found.problem:
            yield "warning", found.problem


def _notices(patient: Patient) -> Seen:
    """Whether each receiver has an address; whether it is a good one, only `onefill notice test` shows."""
    for notice in patient.settings.notices if patient.settings is not None else ():
        if notice.to == "url" and patient.secrets().find(notice.secret).value is None:
            remedy = f"`onefill secret set {notice.secret}`, then `onefill notice test {notice.name}`"
            yield "warning", f"{notice.name} has no address and is told nothing: {remedy}"


def _port(patient: Patient) -> Seen:
    if patient.settings is None or patient.running is not None or patient.unreachable:
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


# ---------------------------------------------------------------------------------- the ledger


def _ledger(patient: Patient) -> Seen:
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
        mode = connection.execute("PRAGMA journal_mode").fetchall()[0][0]
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
    elif mode != "wal":
        yield (
            "error",
            f"its journal mode reads back as {mode}, not wal: another program changed it; restart Onefill",
        )
    else:
        yield "ok", f"sound, {_count(orders, 'order')}, audit chain unbroken"
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > 64 * 1024 * 1024:
        yield "warning", f"its write-ahead log has {size // 1_000_000} MB: another program reads it for long"


def _backup(patient: Patient) -> Seen:
    if patient.connection is None:
        return
    newest = newest_daily(patient.home)
    if newest is None:
        yield "ok", "none yet: the first is made a minute after the start"
    elif patient.clock.now() - newest > OLD_BACKUP:
        days = (patient.clock.now() - newest) // (24 * 3_600 * SECOND)
        yield "warning", f"the newest is {days} days old: leave Onefill running, or `onefill backup FILE`"
    else:
        yield "ok", "made within the last days"


def _orders(patient: Patient) -> Seen:
    if patient.connection is None:
        return
    counts = Counts()
    counts.read(patient.connection, patient.clock.now())
    unresolved = counts.values()["unresolved"]
    rows = patient.connection.execute("SELECT value FROM meta WHERE name = 'trading_state'").fetchall()
    state = str(rows[0][0]) if rows else "active"
    if unresolved:
        yield "warning", f"{_count(unresolved, 'order')} of unknown fate: `onefill needs`"
    else:
        yield "ok", "none needs an answer"
    if state != "active" and patient.running is None:
        yield "warning", f"trading is {state.replace('_', ' ')}: `onefill resume` ends it"


def _accounts(patient: Patient) -> Seen:
    """What the last reconciliation of each account left open; a running app has said it already."""
    if patient.connection is None or patient.running is not None:
        return
    now = patient.clock.now()
    found = troubles(patient.connection, needs(patient.connection, now), now)
    for account, trouble in found.items():
        yield "warning", f"{account}: {trouble.word}: {trouble.reason}"
    if not found:
        yield "ok", "ledger and brokers agreed when they were compared last"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


NEAR: tuple[Check, ...] = (
    ("home", _home),
    ("disk", _disk),
    ("app", _app),
    ("config", _config),
    ("keyring", _keyring),
    ("secrets", _secrets),
    ("notices", _notices),
    ("port", _port),
    ("ledger", _ledger),
    ("backup", _backup),
    ("orders", _orders),
    ("accounts", _accounts),
    ("clock", _clock),
)
