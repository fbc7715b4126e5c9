"""Backups: made, named, counted, and looked at before one is trusted again.

Of the ledger alone. The paper exchange is a broker of its own: no broker's book goes back in time with ours.
A name carries the head of the audit chain, since a chain cannot show that its own tail was cut (HOLES H23).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from app.clock import SECOND
from app.ledger.copying import FOLDER, CopyFailed, LedgerFacts, copy_ledger, read_facts, read_untouched, stamp
from app.ledger.store import APPLICATION_ID, FILE_NAME, LedgerRefused, migrations

_DAILY = re.compile(r"ledger-(?P<at>[0-9]{8}T[0-9]{6}Z)-E[0-9]+-(?:[0-9a-f]{16}|none)\.sqlite3")
_ANCHOR = re.compile(r"-(?P<anchor>E[0-9]+-[0-9a-f]{16})(?=[.-])")


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made and checked. Its audit chain's head is to be written down elsewhere too."""

    path: Path
    facts: LedgerFacts


def make_backup(home: Path, target: Path, now: int, stopped: Callable[[], bool] = lambda: False) -> Backup:
    """Copies the home's ledger to `target`; into a folder under a name of its own. Blocking.

    Raises CopyFailed.
    """
    if target.is_dir():
        return _made(home, lambda facts: target / _name(now, facts), stopped)
    if not target.parent.is_dir():
        raise CopyFailed(f"there is no folder {target.parent}")
    return _made(home, target, stopped)


def make_daily_backup(
    home: Path, now: int, keep: int, stopped: Callable[[], bool] = lambda: False
) -> tuple[Backup, list[str]]:
    """Makes a backup in the home's own folder, then removes the oldest of those above `keep`; their names.

    Raises CopyFailed.
    """
    folder = home / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        made = make_backup(home, folder, now, stopped)
        superfluous = sorted(_daily(folder), reverse=True)[keep:]
        for _, path in superfluous:
            path.unlink()
    except OSError as error:
        raise CopyFailed(f"{folder} cannot be used ({error.strerror or error}): allow it") from error
    return made, [path.name for _, path in superfluous]


def newest_daily(home: Path) -> int | None:
    """When the newest daily backup was made, as its name says (UTC microseconds); None without one."""
    found = _daily(home / FOLDER)
    return max(found)[0] if found else None


def inspect_backup(path: Path, ledger_id: str | None = None) -> LedgerFacts:
    """Looks at a file that is to be restored, changing nothing. `ledger_id` is what it must be, if known.

    Raises LedgerRefused: foreign, newer, damaged, altered since it was made.
    """
    if not path.is_file():
        raise LedgerRefused(f"there is no file {path}")
    try:
        with read_untouched(path) as connection:
            application = connection.pragma("application_id")
            version = connection.pragma("user_version")
            if application != APPLICATION_ID or not isinstance(version, int) or version < 1:
                raise LedgerRefused(f"{path} is not a backup of an Onefill ledger")
            if version > len(migrations()):
                raise LedgerRefused(
                    f"{path} was written by a newer Onefill (version {version}, this one knows"
                    f" {len(migrations())}): update first"
                )
            damage = connection.execute("PRAGMA quick_check(1)").fetchall()[0][0]
            if damage != "ok":
                raise LedgerRefused(f"{path} is damaged ({damage}): take another backup")
            facts = read_facts(connection)
    except apsw.Error as error:
        raise LedgerRefused(f"{path} cannot be read as a ledger ({error}): take another backup") from error
    if not facts.ledger_id or ledger_id not in (None, "", facts.ledger_id):
        raise LedgerRefused(
            f"{path} is the ledger of another home: restore it where it comes from, or into an empty --home"
        )
    said = _ANCHOR.search(path.name)
    if said is not None and said["anchor"] != facts.anchor:
        raise LedgerRefused(
            f"{path.name} ends its audit trail at {facts.anchor}, and its name says {said['anchor']}:"
            " it was changed after it was made; take another backup"
        )
    return facts


def _made(home: Path, target: Path | Callable[[LedgerFacts], Path], stopped: Callable[[], bool]) -> Backup:
    path, facts = copy_ledger(home / FILE_NAME, target, stopped)
    return Backup(path, facts)


def _name(now: int, facts: LedgerFacts) -> str:
    return f"ledger-{stamp(now)}-{facts.anchor}.sqlite3"


def _daily(folder: Path) -> list[tuple[int, Path]]:
    """The daily backups in a folder, with the times in their names. Other files are nobody's business."""
    if not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        match = _DAILY.fullmatch(path.name)
        if match is not None:
            at = datetime.strptime(match["at"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            found.append((int(at.timestamp()) * SECOND, path))
    return found
