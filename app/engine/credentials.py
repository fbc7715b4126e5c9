"""Tokens and secrets while the program runs: set, rotated, taken by the door at once.

A value is never written into the ledger, the log or an answer. Of what is rotated away the ledger keeps the
digest for as long as it stays valid.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from app.clock import SECOND
from app.engine.commands import Answer, answered, once
from app.engine.status import CommandRefused
from app.engine.upkeep import Upkeep
from app.ledger.queries import rfc3339
from app.ledger.transaction import Transaction, Value
from app.listener.auth import Credential, secret_digest
from app.secrets import Secrets, SecretsError, Stored, Where, environment_name
from app.settings import Source

Retired = Mapping[str, Sequence[Credential]]
"""By source id: what was rotated away and is valid until it expires."""

TOKEN_BYTES = 32
MAX_OVERLAP = 31 * 24 * 3_600 * SECOND


def credential_name(source: Source) -> str:
    """`source.tradingview.token`, or `.secret` where the secret comes in the body."""
    return f"source.{source.name}.{'token' if source.auth == 'path' else 'secret'}"


def read_retired(tx: Transaction, now: int) -> Retired:
    found: dict[str, list[Credential]] = {}
    sql = "SELECT source_id, digest, expires_at FROM retired_credentials WHERE expires_at > ?"
    for source_id, digest, expires_at in tx.execute(sql, (now,)):
        found.setdefault(source_id, []).append(Credential(digest, expires_at))
    return found


def retire(tx: Transaction, source_id: str, digest: bytes, expires_at: int, now: int) -> None:
    """Keeps one more digest, and lets go of those whose time is over."""
    sql = "DELETE FROM retired_credentials WHERE expires_at <= ? OR (source_id = ? AND digest = ?)"
    tx.change("retired_credentials", sql, (now, source_id, digest))
    if expires_at > now:
        row: dict[str, Value] = {"source_id": source_id, "digest": digest, "expires_at": expires_at}
        tx.insert("retired_credentials", row)


class Credentials:
    """`apply` makes a running door take what is kept now; without a running app there is nothing to apply."""

    def __init__(
        self,
        upkeep: Upkeep,
        sources: Sequence[Source],
        make_secrets: Callable[[], Secrets],
        apply: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._upkeep = upkeep
        self._sources = {source.name: source for source in sources}
        self._make_secrets = make_secrets
        self._apply = apply

    def secrets(self) -> Secrets:
        """What is kept now. Blocking."""
        return self._make_secrets()

    async def set(self, name: str, value: str, actor: str, request_id: str) -> Answer:
        """Keeps a secret. Raises CommandRefused."""
        request = {"name": name}
        kept = await self._upkeep.writer.run(partial(_answered, request_id, "secret set", request))
        if kept is not None:
            return kept
        stored = await self._store(name, value)
        of_a_source = name in map(credential_name, self._sources.values())
        if of_a_source:
            await self._take()
        # The address of a notice is read for each one.
        at_once = of_a_source or name.startswith("notice.")
        answer = {
            "name": name,
            "where": stored.where.value,
            "statement": stored.statement,
            "taken": "now" if at_once and self._apply is not None else "at the next start",
        }
        return await self._finish(request_id, "secret set", request, actor, name, answer)

    async def rotate(
        self, source_name: str, overlap: int, value: str | None, actor: str, request_id: str
    ) -> Answer:
        """Gives a source another token or secret; the old one is valid for `overlap` microseconds more.

        `value` is needed for a secret that comes in the body, since the sender has to know it; a token is
        made. Raises CommandRefused.
        """
        source = self._sources.get(source_name)
        if source is None:
            raise CommandRefused(f"there is no source {source_name!r}: {', '.join(self._sources)}")
        if not 0 <= overlap <= MAX_OVERLAP:
            raise CommandRefused("an overlap is between 0s and 31d")
        name, request = credential_name(source), {"source": source_name, "overlap": overlap}
        kept = await self._upkeep.writer.run(partial(_answered, request_id, "source rotate", request))
        if kept is not None:
            return kept
        old = await self._current(name)
        new = value or (randomness.token_urlsafe(TOKEN_BYTES) if source.auth == "path" else None)
        if new is None:
            raise CommandRefused(f"{source_name} has its secret in the body: give the new one on stdin")
        if new == old:
            raise CommandRefused(f"{name} is that already")
        now = self._upkeep.clock.now()
        until = now + overlap
        # First, so that a kill before the new one is kept shuts nobody out.
        await self._upkeep.writer.run(
            partial(retire, source_id=source.id, digest=secret_digest(old), expires_at=until, now=now)
        )
        stored = await self._store(name, new)
        await self._take()
        answer = {
            "source": source_name,
            "name": name,
            "where": stored.where.value,
            "statement": stored.statement,
            "old_valid_until": rfc3339(until),
            "taken": "at the next start" if self._apply is None else "now",
        }
        return await self._finish(request_id, "source rotate", request, actor, source_name, answer)

    async def _current(self, name: str) -> str:
        try:
            found = await self._upkeep.on_thread(lambda: self._make_secrets().find(name))
        except SecretsError as error:
            raise CommandRefused(str(error)) from error
        if found.where is Where.ENVIRONMENT:
            raise CommandRefused(f"{name} comes from {environment_name(name)}: change it there")
        if found.value is None:
            raise CommandRefused(found.problem or f"there is no {name} yet: start Onefill first")
        return found.value

    async def _store(self, name: str, value: str) -> Stored:
        try:
            return await self._upkeep.on_thread(lambda: self._make_secrets().set(name, value))
        except SecretsError as error:
            raise CommandRefused(str(error)) from error

    async def _take(self) -> None:
        if self._apply is None:
            return
        try:
            await self._apply()
        except SecretsError as error:
            raise CommandRefused(f"it is kept, and taken at the next start: {error}") from error

    async def _finish(
        self,
        request_id: str,
        what: str,
        request: Mapping[str, object],
        actor: str,
        subject: str,
        answer: Answer,
    ) -> Answer:
        now = self._upkeep.clock.now()

        def effect(tx: Transaction) -> Answer:
            told = ("name", "where", "old_valid_until")
            detail = {key: answer[key] for key in told if key in answer}
            tx.event(now, actor, what, subject, detail)
            return answer

        return await self._upkeep.writer.run(lambda tx: once(tx, request_id, what, request, now, effect))


def _answered(request_id: str, name: str, request: Mapping[str, object], tx: Transaction) -> Answer | None:
    return answered(tx, request_id, name, request)
