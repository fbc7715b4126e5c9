"""The support bundle: what somebody who helps needs to see, and nothing that could be used against the user.

Versions, the setup check, the settings, the log, orders and the audit trail. No alert bodies and no secrets:
every secret that this home knows is looked for by value and blanked, account numbers are shortened. Blocking;
changes nothing but the file that it writes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apsw

from app import __version__
from app.clock import SystemClock
from app.engine import crashes
from app.engine.checkup import NEAR, Finding, Patient, check_up
from app.ledger.reader import open_read_only, read
from app.ledger.store import FILE_NAME as LEDGER_FILE
from app.logs import FILE_NAME as LOG_FILE
from app.logs import KEPT_FILES, redact
from app.secrets import Secrets, SecretsError
from app.settings import Settings, config_path, read_text

MOST_EVENTS = 2_000
"""Of the audit trail, the newest."""
SHORTEST = 6
"""Characters of a secret that is looked for by value: a shorter one would blank ordinary words."""
BLANK = "***"

_LISTS = {
    "events": f"SELECT * FROM v_events ORDER BY id DESC LIMIT {MOST_EVENTS}",
    "deliveries": "SELECT id, received_at, source, verdict, http_status, reason, signal, ack_ms "
    "FROM v_deliveries ORDER BY id DESC LIMIT 500",
    "orders": "SELECT * FROM v_orders ORDER BY id DESC LIMIT 500",
    "reconciliations": "SELECT * FROM reconciliations ORDER BY id DESC LIMIT 50",
    "findings": "SELECT * FROM findings ORDER BY id DESC LIMIT 200",
    "attempts": "SELECT order_id, number, at, ended_at, bytes_left, reply FROM attempts "
    "ORDER BY id DESC LIMIT 200",
    "evidence": "SELECT * FROM evidence ORDER BY id DESC LIMIT 500",
}


class SupportFailed(Exception):
    """No bundle was made; one line says why."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """`files` are the names inside, for the person to look through before it is sent."""

    path: Path
    files: tuple[str, ...]
    not_found: tuple[str, ...] = ()
    """Names of secrets that have no value where the bundle was made: they could not be looked for."""


class Scrubber:
    """Takes out what must not leave: secrets by value, hook tokens by shape, account numbers in part."""

    def __init__(self, secrets: Iterable[str], account_numbers: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        # As they stand in JSON too, and the longest first: one may be a part of another.
        known |= {json.dumps(secret)[1:-1] for secret in known}
        self._secrets = sorted(known, key=len, reverse=True)
        self._numbers = sorted({n for n in account_numbers if len(n) >= SHORTEST}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, BLANK)
        for number in self._numbers:
            text = text.replace(number, f"...{number[-3:]}")
        # What may be written into an address: user and password, and keys among its questions.
        text = re.sub(r"(\w+://)[^/\s\"'@]+@", rf"\1{BLANK}@", text)
        return redact(text)


def make_bundle(
    home: Path,
    target: Path,
    findings: Iterable[Finding],
    status: Mapping[str, Any] | None,
    secrets: Secrets,
    settings: Settings | None,
) -> Bundle:
    """Writes the bundle to `target`, whole or not at all. Raises SupportFailed."""
    if target.exists():
        raise SupportFailed(f"{target} exists: name another file")
    found = list(findings)
    values, not_found = known_secrets(secrets, settings)
    scrub = Scrubber(values, account_numbers(home))
    files: list[str] = []
    handle, partial = -1, ""
    try:
        handle, partial = tempfile.mkstemp(prefix=".support-", dir=target.parent)
        with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in _contents(home, found, status):
                archive.writestr(name, scrub(text))
                files.append(name)
        os.replace(partial, target)
    except OSError as error:
        raise SupportFailed(f"{target} cannot be written ({error.strerror or error})") from error
    finally:
        if partial and os.path.exists(partial):
            os.unlink(partial)
    return Bundle(target, tuple(files), tuple(not_found))


def _contents(
    home: Path, found: list[Finding], status: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    yield "versions.json", _as_text(versions())
    yield "checks.jsonl", _as_lines(asdict(finding) for finding in found)
    if status is not None:
        yield "status.json", _as_text(dict(status))
    text = read_text(config_path(home))
    if text is not None:
        yield "config.toml", text
    logs = (LOG_FILE, *(f"{LOG_FILE}.{number}" for number in range(1, KEPT_FILES + 1)))
    for name in (*logs, crashes.FILE_NAME, crashes.EARLIER_NAME):
        path = home / name
        if path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace")
    yield from _of_ledger(home)


def _of_ledger(home: Path) -> Iterator[tuple[str, str]]:
    path = home / LEDGER_FILE
    if not path.is_file():
        return
    try:
        connection = open_read_only(path)
    except apsw.Error as error:
        yield "ledger.txt", f"cannot be read: {error}"
        return
    try:
        for name, sql in _LISTS.items():
            try:
                yield f"{name}.jsonl", _as_lines(read(connection, sql))
            except apsw.Error as error:
                yield f"{name}.txt", f"cannot be read: {error}"
    finally:
        connection.close()


def versions() -> dict[str, str]:
    """What this is, and what it runs on."""
    return {
        "onefill": __version__,
        "python": sys.version,
        "frozen": str(getattr(sys, "frozen", False)),
        "system": platform.platform(),
        "sqlite": apsw.sqlite_lib_version(),
    }


def bundle_of_running(
    home: Path, status: Mapping[str, Any], secrets: Secrets, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """A bundle that the running program makes itself: some secrets are in its environment alone, and none of
    them leaves it. `arguments` are the absolute path `file`. Blocking. Raises SupportFailed."""
    file = arguments.get("file")
    if not isinstance(file, str) or not Path(file).is_absolute() or arguments.keys() != {"file"}:
        raise SupportFailed("not a request of this command: it needs file, an absolute path")
    patient = Patient(home, SystemClock(), running=status, make_secrets=lambda: secrets)
    findings = list(check_up(patient, NEAR))
    made = make_bundle(home, Path(file), findings, status, secrets, patient.settings)
    return {"file": str(made.path), "files": list(made.files)}


def known_secrets(secrets: Secrets, settings: Settings | None) -> tuple[list[str], list[str]]:
    """Every secret that this process can read, so that it can be looked for by value; and the names of those
    in the settings that it finds nowhere."""
    names: list[str] = []
    if settings is not None:
        names += [
            f"source.{source.name}.{kind}" for source in settings.all_sources for kind in ("token", "secret")
        ]
        names += [
            f"account.{a.name}.{field}" for a in settings.accounts for field in ("key_id", "secret_key")
        ]
        names += ["tunnel.token", *(notice.secret for notice in settings.notices)]
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        try:
            value = secrets.find(name).value
        except SecretsError:
            value = None
        if value is None:
            missing.append(name)
        else:
            found.append(value.strip())
    # And whatever else there is: not every name is in the settings.
    return [value for value in (*found, *secrets.plain_values()) if value], missing


def account_numbers(home: Path) -> list[str]:
    """The brokers' own numbers of our accounts, as the ledger has them."""
    path = home / LEDGER_FILE
    if not path.is_file():
        return []
    try:
        connection = open_read_only(path)
    except apsw.Error:
        return []
    try:
        rows = read(
            connection, "SELECT DISTINCT identity FROM accounts UNION SELECT DISTINCT identity FROM attempts"
        )
    except apsw.Error:
        return []
    finally:
        connection.close()
    return [str(row["identity"]) for row in rows if row["identity"]]


def _as_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def _as_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
