"""Purge, backup, secrets and rotation as a person asks for them, of a running app or of a home at rest.

Each is done once a request id (HOLES H26), and each leaves its trace in the audit chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import structlog

from app.clock import SECOND
from app.engine import configure
from app.engine.commands import Answer, answered, once
from app.engine.credentials import Credentials
from app.engine.status import CommandRefused
from app.engine.upkeep import Upkeep, note_backup, note_purge
from app.ledger.copying import CopyFailed, LedgerFacts
from app.ledger.queries import rfc3339
from app.ledger.retention import Plan, Purged
from app.ledger.transaction import Transaction

log = structlog.get_logger(__name__)
A = TypeVar("A")

LONGEST_BAR = 32 * 24 * 3_600 * SECOND
"""A monthly bar and a day."""
NAMES = frozenset({"purge", "backup", "secret set", "source rotate", configure.NAME})


class PurgeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ages in microseconds. Bodies: by the settings unless said otherwise; keys: only if said."""

    bodies_older_than: int | Literal["forever"] | None = None
    keys_older_than: int | None = None
    why: str = ""
    dry_run: bool = False


class BackupRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`file` is absolute: the app's own folder is another than the person's."""

    file: str


class SecretRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str


class RotateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    overlap: int
    value: str | None = None


def read(kind: type[A], arguments: Mapping[str, Any]) -> A:
    """Raises CommandRefused; never with a value in it."""
    try:
        return msgspec.convert(dict(arguments), kind, strict=True)
    except msgspec.ValidationError as error:
        raise CommandRefused(f"not a request of this command: {error}") from None


@dataclass(frozen=True, slots=True)
class Keeping:
    """What these commands work with, whether an app runs or not."""

    upkeep: Upkeep
    credentials: Credentials

    async def act(self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str) -> Answer:
        """Raises CommandRefused, LedgerUnavailable."""
        match name:
            case "purge":
                return await self._purge(arguments, actor, request_id)
            case "backup":
                return await self._backup(arguments, actor, request_id)
            case "secret set":
                secret = read(SecretRequest, arguments)
                return await self.credentials.set(secret.name, secret.value, actor, request_id)
            case "source rotate":
                turn = read(RotateRequest, arguments)
                return await self.credentials.rotate(turn.source, turn.overlap, turn.value, actor, request_id)
            case configure.NAME:
                return await configure.configure(
                    self.upkeep, self.credentials.secrets, arguments, actor=actor, request_id=request_id
                )
        raise CommandRefused(f"there is no command {name!r}")

    # ------------------------------------------------------------------------------------------ purge

    async def _purge(self, arguments: Mapping[str, Any], actor: str, request_id: str) -> Answer:
        asked = read(PurgeRequest, arguments)
        bodies = asked.bodies_older_than
        if bodies is None:
            bodies = self.upkeep.settings.retention.bodies or "forever"
        age = None if bodies == "forever" else bodies
        if min(age or 0, asked.keys_older_than or 0) < 0:
            raise CommandRefused("an age is not negative")
        now = self.upkeep.clock.now()
        cutoffs = self.upkeep.cutoffs(now, age, asked.keys_older_than)
        if asked.dry_run:
            plan = await self.upkeep.measure(cutoffs)
            purged = Purged(plan.bodies, sum(plan.keys.values()))
            return await self._purge_answer(asked, plan, purged, cutoffs.bodies, cutoffs.keys)
        if not asked.why.strip():
            raise CommandRefused("a purge needs a reason: --why TEXT")
        kept = await self.upkeep.writer.run(lambda tx: answered(tx, request_id, "purge", arguments))
        if kept is not None:
            return kept
        plan, purged = await self.upkeep.purge(cutoffs, now, actor, asked.why)
        answer = await self._purge_answer(asked, plan, purged, cutoffs.bodies, cutoffs.keys)
        at = self.upkeep.clock.now()

        def effect(tx: Transaction) -> Answer:
            note_purge(tx, purged, at, actor)
            return answer

        return await self.upkeep.writer.run(lambda tx: once(tx, request_id, "purge", arguments, at, effect))

    async def _purge_answer(
        self, asked: PurgeRequest, plan: Plan, purged: Purged, bodies: int | None, keys: int | None
    ) -> Answer:
        rows = await self.upkeep.reader.rows("SELECT id, name FROM sources")
        names = {row["id"]: row["name"] for row in rows}
        return {
            "dry_run": asked.dry_run,
            "bodies": purged.bodies,
            "bodies_before": None if bodies is None else rfc3339(bodies),
            "bodies_kept": plan.bodies_kept,
            "keys": purged.keys,
            "keys_before": None if keys is None else rfc3339(keys),
            "keys_kept": plan.keys_kept,
            "keys_by_source": {names[source]: count for source, count in plan.keys.items()},
            "warning": self._warning(asked.keys_older_than if plan.keys else None),
        }

    def _warning(self, keys: int | None) -> str:
        """A watermark inside the time in which signals are fresh refuses signals that are on their way."""
        sources = self.upkeep.settings.all_sources
        freshest = max((max(source.max_age, source.max_exit_age) for source in sources), default=0)
        if keys is None or keys >= LONGEST_BAR:
            return ""
        if keys <= freshest:
            return "that is younger than signals may be: some that are on their way now will be refused"
        return "signals that state only the beginning of a bar longer than that will be refused"

    # ----------------------------------------------------------------------------------------- backup

    async def _backup(self, arguments: Mapping[str, Any], actor: str, request_id: str) -> Answer:
        target = Path(read(BackupRequest, arguments).file)
        if not target.is_absolute():
            raise CommandRefused("name the file with its whole path")
        kept = await self.upkeep.writer.run(lambda tx: answered(tx, request_id, "backup", arguments))
        if kept is not None:
            return kept
        try:
            made = await self.upkeep.backup(target)
        except CopyFailed as error:
            raise CommandRefused(str(error)) from error
        log.info("backup made", file=str(made.path), head=made.facts.anchor)
        now = self.upkeep.clock.now()
        answer = {"file": str(made.path), "head": made.facts.anchor, **counts(made.facts)}

        def effect(tx: Transaction) -> Answer:
            note_backup(tx, made, now, actor)
            return answer

        return await self.upkeep.writer.run(lambda tx: once(tx, request_id, "backup", arguments, now, effect))


def counts(facts: LedgerFacts) -> dict[str, Any]:
    """What a backup holds, as commands say it."""
    newest = None if facts.newest_at is None else rfc3339(facts.newest_at)
    return {"newest_event_at": newest, "signals": facts.signals, "orders": facts.orders}
