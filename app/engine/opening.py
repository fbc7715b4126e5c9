"""The blocking half of a start: home, lock, settings, ledger, secrets. Runs on a thread of its own.

What is wrong with any of them stops the start with one line. Nothing is connected or opened to the outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import structlog

from app.clock import Clock
from app.engine import facts
from app.engine.commands import LOCK_NAME
from app.engine.credentials import Retired, read_retired
from app.engine.orphans import refuse_orphans
from app.engine.places import why_unfit
from app.engine.recovery import Recovered, known_sources, recover, register
from app.engine.status import StartRefused
from app.failpoint import failpoint
from app.ledger.errors import word_of
from app.ledger.lock import AlreadyRunning, InstanceLock
from app.ledger.store import LedgerRefused, broken_chain, open_ledger
from app.ledger.transaction import Transaction
from app.secrets import SECRETS_NAME, Secrets, SecretsError, environment_name
from app.settings import (
    ConfigError,
    Settings,
    check_source_ids,
    config_path,
    create_home,
    load_or_create,
    read_text,
    with_source_ids,
)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Opened:
    """What a start has in hand; `close` gives it back where the start does not go on."""

    lock: InstanceLock
    settings: Settings
    connection: apsw.Connection
    recovered: Recovered
    broken_event: int | None
    credentials: Mapping[str, str] = field(repr=False)
    """By source: its path token, or its body secret."""
    retired: Retired = field(repr=False)
    statements: tuple[str, ...] = ()
    """What the person should know about where secrets are."""
    new_tokens: tuple[str, ...] = ()
    """Sources that had deliveries with a token that is nowhere now."""

    def read_again(self, make_secrets: Callable[[], Secrets]) -> None:
        """Credentials as they are kept now. Blocking. Raises SecretsError."""
        self.credentials, _, _ = read_credentials(self.settings, make_secrets())

    def close(self) -> None:
        self.connection.close()
        self.lock.release()


def open_home(home: Path, clock: Clock, make_secrets: Callable[[], Secrets]) -> Opened:
    """Takes the home: lock, settings, ledger, recovery, secrets, in this order. Raises StartRefused."""
    unfit = why_unfit(home)
    if unfit is not None:
        raise StartRefused(unfit)
    try:
        create_home(home)
        lock = InstanceLock(home / LOCK_NAME)
        lock.acquire()
    except (ConfigError, AlreadyRunning) as error:
        raise StartRefused(str(error)) from error
    except OSError as error:
        raise StartRefused(
            f"{home} cannot be used ({error.strerror or error}): choose another --home"
        ) from error
    try:
        return _open_locked(home, clock, make_secrets(), lock)
    except BaseException:
        lock.release()
        raise


def _open_locked(home: Path, clock: Clock, secrets: Secrets, lock: InstanceLock) -> Opened:
    connection: apsw.Connection | None = None
    try:
        settings = load_or_create(home)
        connection = open_ledger(home, clock.now())
        tx = Transaction(connection, set())
        refuse_orphans(tx, {account.name: account for account in settings.accounts})
        settings = _with_ids(home, settings, connection)
        recovered = _recover(connection, settings, clock.now())
        broken = broken_chain(connection)
        credentials, statements, made = read_credentials(settings, secrets)
    except (ConfigError, LedgerRefused, SecretsError) as error:
        raise StartRefused(str(error)) from error
    except apsw.Error as error:
        word = word_of(error) or "failing"
        raise StartRefused(f"the ledger in {home} cannot be used ({word}: {error})") from error
    except OSError as error:
        raise StartRefused(f"{home} cannot be used ({error.strerror or error})") from error
    else:
        retired = read_retired(tx, clock.now())
        anew = tuple(name for name in made if _has_deliveries(connection, name))
        statements = (*statements, *(facts.new_token(name) for name in anew))
        opened = Opened(lock, settings, connection, recovered, broken, credentials, retired, statements, anew)
        connection = None
        return opened
    finally:
        if connection is not None:
            connection.close()


def _with_ids(home: Path, settings: Settings, connection: apsw.Connection) -> Settings:
    known = known_sources(Transaction(connection, set()))
    path = config_path(home)
    checked = check_source_ids(settings, known, path, read_text(path) or "")
    return with_source_ids(home, checked)


def _recover(connection: apsw.Connection, settings: Settings, now: int) -> Recovered:
    connection.execute("BEGIN IMMEDIATE").fetchall()
    try:
        tx = Transaction(connection, set())
        register(tx, settings.all_sources, settings.accounts)
        recovered = recover(tx, now)
        failpoint("before_recovery")
        connection.execute("COMMIT").fetchall()
        failpoint("after_recovery")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK").fetchall()
        raise
    if recovered.in_doubt:
        log.warning("orders whose sending was interrupted", orders=", ".join(recovered.in_doubt))
    return recovered


def _has_deliveries(connection: apsw.Connection, source: str) -> bool:
    sql = "SELECT 1 FROM deliveries WHERE source_id = (SELECT id FROM sources WHERE name = ?) LIMIT 1"
    return bool(connection.execute(sql, (source,)).fetchall())


def read_credentials(
    settings: Settings, secrets: Secrets
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """Each source's path token (made where there is none) or body secret, what is to be said about them, and
    the sources whose token was made.

    Raises SecretsError.
    """
    credentials: dict[str, str] = {}
    statements: list[str] = []
    made: list[str] = []
    for source in settings.all_sources:
        if source.auth == "path":
            token = secrets.hook_token(source.name)
            credentials[source.name] = token.value
            statements.append(token.statement)
            made += [source.name] if token.made else []
            continue
        name = f"source.{source.name}.secret"
        found = secrets.find(name)
        statements.append(found.problem)
        if found.value is None:
            raise SecretsError(
                f'[[sources]] "{source.name}" has auth = "body" and no secret: set {environment_name(name)},'
                f" or [{name}] in {SECRETS_NAME}"
            )
        credentials[source.name] = found.value
    return credentials, tuple(statement for statement in statements if statement), tuple(made)
