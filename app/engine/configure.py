"""The settings as a person changes them while the program runs: tried first, then written whole, once.

Nothing takes effect before the next start: what would stop that start is refused here, in the same words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

from app.engine.commands import Answer, answered, once
from app.engine.credentials import credential_name
from app.engine.orphans import refuse_orphans
from app.engine.recovery import known_sources
from app.engine.status import CommandRefused, StartRefused
from app.engine.upkeep import Upkeep
from app.ledger.transaction import Transaction
from app.secrets import Secrets, SecretsError
from app.settings import ConfigError, Settings, check_source_ids, config_path, read_settings, read_text
from app.settings.editing import AddBlock, DropBlock, Edit, Set, Unset, edit
from app.settings.errors import Where
from app.settings.files import write_text
from app.settings.read import parse

NAME = "configure"


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`edits`: each `["set", where, value]`, `["unset", where]`, `["add", table, {...}]` or
    `["drop", table, index]`. `base`: the digest of the text that they were made for; empty for any."""

    edits: list[list[Any]] = []
    base: str = ""
    dry_run: bool = False


class Problem(msgspec.Struct, frozen=True):
    """Why a start would stop: where in the file and which key, as the start itself says it."""

    message: str
    line: int | None = None
    where: Where = ()


class Draft(msgspec.Struct, frozen=True):
    """The file after the edits. `raw` is what it says, as plain values; `notes` are for a person."""

    text: str
    raw: dict[str, Any]
    problem: Problem | None
    settings: Settings | None = None
    notes: tuple[str, ...] = ()


async def configure(
    upkeep: Upkeep,
    make_secrets: Callable[[], Secrets],
    arguments: Mapping[str, Any],
    *,
    actor: str,
    request_id: str,
) -> Answer:
    """Tries or writes. Raises CommandRefused; a trial with a mistake in it is an answer.

    The answer: `digest` and `raw` of the file as it is after it, `problem`, `notes`, and `waiting`: the keys
    in which the file differs from what is in force, all of which wait for the next start.
    """
    try:
        asked = msgspec.convert(dict(arguments), Asked, strict=True)
    except msgspec.ValidationError as error:
        raise CommandRefused(f"not a request of this command: {error}") from None
    edits = [_edit(one) for one in asked.edits]
    path = config_path(upkeep.home)
    request = {"base": asked.base, "edits": hashlib.sha256(repr(asked.edits).encode()).hexdigest()}
    if not asked.dry_run:
        kept = await upkeep.writer.run(lambda tx: answered(tx, request_id, NAME, request))
        if kept is not None:
            return kept
    try:
        text = await upkeep.on_thread(lambda: read_text(path)) or ""
    except ConfigError as error:
        raise CommandRefused(str(error)) from error
    if asked.base and asked.base != digest_of(text):
        raise CommandRefused("config.toml was changed meanwhile by somebody else: read it again")
    draft = await _drafted(upkeep, make_secrets, text, edits, path)
    if not asked.dry_run:
        if draft.problem is not None:
            raise CommandRefused(draft.problem.message)
        await _write(upkeep, path, text, draft.text)
    answer = {
        "dry_run": asked.dry_run,
        "digest": digest_of(text if asked.dry_run else draft.text),
        "raw": _plain(draft.raw),
        "problem": None if draft.problem is None else msgspec.to_builtins(draft.problem),
        "notes": list(draft.notes),
        "waiting": differences(upkeep.settings, draft),
        "changed": changes(text, draft.text, path),
    }
    if asked.dry_run:
        return answer
    now = upkeep.clock.now()

    def effect(tx: Transaction) -> Answer:
        tx.event(now, actor, "settings written", "config.toml", {"changed": answer["changed"]})
        return answer

    return await upkeep.writer.run(lambda tx: once(tx, request_id, NAME, request, now, effect))


async def _drafted(
    upkeep: Upkeep, make_secrets: Callable[[], Secrets], text: str, edits: Sequence[Edit], path: Path
) -> Draft:
    def work() -> tuple[str, dict[str, Any], Settings | None, Problem | None]:
        try:
            done = edit(text, edits, path)
            raw = parse(done, path)
        except ConfigError as error:
            return text, {}, None, _problem(error)
        try:
            return done, raw, read_settings(done, path), None
        except ConfigError as error:
            return done, raw, None, _problem(error)

    done, raw, settings, problem = await upkeep.on_thread(work)
    notes: tuple[str, ...] = ()
    if settings is not None:
        problem = await upkeep.reader.call(partial(_against_the_ledger, settings, path, done))
        notes = await upkeep.on_thread(partial(_notes, upkeep.settings, settings, make_secrets))
    return Draft(done, raw, problem, settings, notes)


def _against_the_ledger(
    settings: Settings, path: Path, text: str, connection: apsw.Connection
) -> Problem | None:
    """What the ledger has against these settings: ids of sources, accounts with something open."""
    tx = Transaction(connection, set())
    try:
        check_source_ids(settings, known_sources(tx), path, text)
        refuse_orphans(tx, {account.name: account for account in settings.accounts})
    except ConfigError as error:
        return _problem(error)
    except StartRefused as refused:
        return Problem(str(refused), None, ("accounts",))
    return None


def _notes(now: Settings, then: Settings, make_secrets: Callable[[], Secrets]) -> tuple[str, ...]:
    """What else a person has to do for the next start to be a good one. Blocking."""
    notes = []
    before = {source.name: source for source in now.sources}
    for source in then.sources:
        known = before.get(source.name)
        if source.auth == "body" and not _has_secret(make_secrets(), credential_name(source)):
            notes.append(f'Set the secret of source "{source.name}" before the next start, or it is refused')
        elif known is None and source.auth == "path":
            notes.append(f'Source "{source.name}" gets its address and token at the next start')
        elif known is not None and known.auth != source.auth:
            notes.append(f'Source "{source.name}" gets another address: every alert needs the new one')
    gone = before.keys() - {source.name for source in then.sources}
    notes += [
        f'Alerts to "{name}" are answered 404 from the next start on; its keys stay known' for name in gone
    ]
    if (now.listener.host, now.listener.port) != (then.listener.host, then.listener.port):
        notes.append("The local addresses change: whatever leads to them (a tunnel) has to follow")
    return tuple(notes)


def _has_secret(secrets: Secrets, name: str) -> bool:
    try:
        return secrets.find(name).value is not None
    except SecretsError:
        return False


async def _write(upkeep: Upkeep, path: Path, before: str, text: str) -> None:
    def work() -> None:
        # The last look at it: an editor may have saved it while the settings were tried.
        if (read_text(path) or "") != before:
            raise CommandRefused("config.toml was changed meanwhile by somebody else: read it again")
        write_text(path, text)

    try:
        await upkeep.on_thread(work)
    except ConfigError as error:
        raise CommandRefused(str(error)) from error


def _problem(error: ConfigError) -> Problem:
    return Problem(error.message, error.line, error.where)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------------------ what differs


def differences(in_force: Settings, draft: Draft) -> list[str]:
    """The keys in which the file is not what is in force: `risk.cooldown`, `sources tradingview.rate`."""
    if draft.settings is None:
        return []
    now = _flat(msgspec.to_builtins(in_force, enc_hook=str))
    then = _flat(msgspec.to_builtins(draft.settings, enc_hook=str))
    names = dict.fromkeys([*now, *then])
    # An id that the file does not have yet is made at the start.
    return [
        name
        for name in names
        if now.get(name) != then.get(name) and not (name.endswith(".id") and not then.get(name))
    ]


def changes(before: str, after: str, path: Path) -> list[str]:
    """The keys that the file itself says otherwise after an edit, for the audit trail: names, no values."""
    try:
        was, now = _flat(parse(before, path)), _flat(parse(after, path))
    except ConfigError:
        return []
    return [name for name in dict.fromkeys([*was, *now]) if was.get(name, ...) != now.get(name, ...)]


def _flat(raw: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in raw.items():
        if name == "test_source":
            continue
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
            for each in value:
                found |= _flat(each, f"{prefix}{name} {each.get('name', '')}.")
        else:
            found[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return found


def _plain(value: Any) -> Any:
    """Without Decimals, for whoever asked over a wire."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return f"{value:f}" if isinstance(value, Decimal) else value


def _edit(one: list[Any]) -> Edit:
    match one:
        case ["set", list(where), value] if where:
            return Set(tuple(where), value)
        case ["unset", list(where)] if where:
            return Unset(tuple(where))
        case ["add", str(table), dict(values)]:
            return AddBlock(table, values)
        case ["drop", str(table), int(index)]:
            return DropBlock(table, index)
    raise CommandRefused("an edit is set, unset, add or drop, with what belongs to it")
