"""What can be done to a home while no app runs on it: under the instance lock, on the ledger itself.

Nothing is connected and nothing is sent. Blocking; for the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apsw
import structlog

from app.clock import Clock
from app.engine.commands import LOCK_NAME, Answer, answered, once
from app.engine.credentials import Credentials
from app.engine.recovery import known_sources
from app.engine.retention_commands import Keeping, SecretRequest, counts, read
from app.engine.status import CommandRefused
from app.engine.upkeep import Upkeep
from app.ledger.backup import inspect_backup
from app.ledger.copying import LedgerFacts, read_facts, read_untouched
from app.ledger.errors import LedgerUnavailable
from app.ledger.lock import InstanceLock
from app.ledger.queries import rfc3339
from app.ledger.reader import Reader
from app.ledger.restore import mark_restored, restore_ledger
from app.ledger.store import FILE_NAME, MARKER_NAME, LedgerRefused, open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.secrets import Secrets
from app.settings import (
    Settings,
    check_source_ids,
    config_path,
    create_home,
    default_text,
    read_settings,
    read_text,
)

log = structlog.get_logger(__name__)


def at_rest(
    home: Path,
    name: str,
    arguments: Mapping[str, Any],
    *,
    actor: str,
    request_id: str,
    clock: Clock,
    make_secrets: Callable[[], Secrets],
) -> Answer:
    """`purge`, `backup`, `secret set` or `source rotate` with no app running.

    Raises CommandRefused, AlreadyRunning, LedgerRefused, ConfigError, SecretsError.
    """
    if not has_ledger(home):
        if name != "secret set":
            raise CommandRefused(f"there is no ledger in {home} yet: start Onefill first")
        return _set_before_the_first_start(home, read(SecretRequest, arguments), make_secrets)
    lock = InstanceLock(home / LOCK_NAME)
    lock.acquire()
    try:
        path = config_path(home)
        text = read_text(path) or default_text()
        settings = read_settings(text, path)
        connection = open_ledger(home, clock.now())
        try:
            settings = check_source_ids(settings, known_sources(Transaction(connection, set())), path, text)
        except BaseException:
            connection.close()
            raise
        return asyncio.run(
            _act(home, settings, connection, clock, make_secrets, name, arguments, actor, request_id)
        )
    finally:
        lock.release()


def has_ledger(home: Path) -> bool:
    """Whether there is one, or was."""
    return (home / FILE_NAME).exists() or (home / MARKER_NAME).exists()


async def _act(
    home: Path,
    settings: Settings,
    connection: apsw.Connection,
    clock: Clock,
    make_secrets: Callable[[], Secrets],
    name: str,
    arguments: Mapping[str, Any],
    actor: str,
    request_id: str,
) -> Answer:
    writer = Writer(connection, clock, lambda _why: None)
    reader = Reader(home / FILE_NAME)
    upkeep = Upkeep(home, settings, writer, reader, clock)
    keeping = Keeping(upkeep, Credentials(upkeep, settings.all_sources, make_secrets, apply=None))
    try:
        return await keeping.act(name, arguments, actor=actor, request_id=request_id)
    except LedgerUnavailable as error:
        raise CommandRefused(f"the ledger cannot take it now: {error}") from error
    finally:
        await upkeep.close()
        await reader.close()
        await writer.close()


def _set_before_the_first_start(
    home: Path, secret: SecretRequest, make_secrets: Callable[[], Secrets]
) -> Answer:
    """A source with its secret in the body needs it to start at all; there is no ledger to write to yet."""
    create_home(home)
    lock = InstanceLock(home / LOCK_NAME)
    lock.acquire()
    try:
        stored = make_secrets().set(secret.name, secret.value)
    finally:
        lock.release()
    return {
        "name": secret.name,
        "where": stored.where.value,
        "statement": stored.statement,
        "taken": "at the next start",
    }


# ------------------------------------------------------------------------------------------------- restore


def preview_restore(home: Path, file: Path) -> Answer:
    """What a restore would go back to, and how much came later. Changes nothing. Raises LedgerRefused."""
    facts = inspect_backup(file, _known_id(home))
    return {"file": str(file), "head": facts.anchor, **counts(facts), "lost": _lost(_current(home), facts)}


def restore(home: Path, file: Path, *, why: str, actor: str, request_id: str, now: int) -> Answer:
    """Goes back to a backup: halted, nothing waiting, nothing of the lost time admitted again (HOLES H39).

    The paper exchange keeps its own book, as every broker does. Raises CommandRefused, LedgerRefused,
    AlreadyRunning, ConfigError.
    """
    if not why.strip():
        raise CommandRefused("a restore needs a reason: --why TEXT")
    create_home(home)
    lock = InstanceLock(home / LOCK_NAME)
    lock.acquire()
    try:
        request = {"file": str(file), "why": why}
        kept = _answered(home, request_id, request)
        return kept if kept is not None else _restore(home, file, request, actor, request_id, now)
    finally:
        lock.release()


def _restore(
    home: Path, file: Path, request: Mapping[str, str], actor: str, request_id: str, now: int
) -> Answer:
    if file.resolve() == (home / FILE_NAME).resolve():
        raise LedgerRefused(f"{file} is the ledger in use: name a backup")
    facts, current = inspect_backup(file, _known_id(home)), _current(home)

    def finish(tx: Transaction, aside: str | None) -> Answer:
        marked = mark_restored(tx, now, actor)
        answer = {
            "file": str(file),
            "head": facts.anchor,
            **counts(facts),
            "lost": _lost(current, facts),
            "kept": aside,
            "denied": list(marked.denied),
            "ambiguous": list(marked.ambiguous),
            "open": list(marked.open),
            "trading_state": "halted",
            "watermark": rfc3339(now),
            "without_time": "refused",
        }
        heads = {"backup": facts.anchor, "replaced": current.anchor if current is not None else None}
        tx.event(now, actor, "restored", "ledger", {"file": file.name, "why": request["why"], **heads})
        log.info("ledger restored", file=str(file), kept=aside, **heads)
        return once(tx, request_id, "restore", request, now, lambda _: answer)

    return restore_ledger(home, file, now, finish)


def _known_id(home: Path) -> str | None:
    try:
        return (home / MARKER_NAME).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


def _current(home: Path) -> LedgerFacts | None:
    """The ledger that is there, if it can be read at all."""
    try:
        with read_untouched(home / FILE_NAME) as connection:
            return read_facts(connection)
    except apsw.Error:
        return None


def _lost(current: LedgerFacts | None, facts: LedgerFacts) -> dict[str, int] | None:
    """How many signals and orders came after the backup; None where the ledger cannot be read."""
    if current is None:
        return None
    return {"signals": current.signals - facts.signals, "orders": current.orders - facts.orders}


def _answered(home: Path, request_id: str, request: Mapping[str, str]) -> Answer | None:
    """The answer that this request has had: the restored ledger keeps it."""
    try:
        with read_untouched(home / FILE_NAME) as connection:
            return answered(Transaction(connection, set()), request_id, "restore", request)
    except apsw.Error:
        return None
