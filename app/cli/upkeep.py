"""Keeping house: purge, export, backup, restore, secrets and tokens.

To the running app over its control channel; with none running, on the home itself under the instance lock. A
secret's value comes on stdin, never as an argument that every process on the machine could read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from app.cli.change import request_id_option
from app.cli.deciding import actor, confirm, decided, logged, reason, refusals
from app.cli.front import Failed, Front, front_options, local_time, read_since

LONG = 900.0
"""Seconds that a purge or a copy of a large ledger may take; a later answer is had with the request id."""


def _age(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Callback of an option: `90d` as microseconds, or `forever`."""
    from app.settings import parse_duration

    if value is None or value == "forever":
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _span(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """As `_age`, without `forever`."""
    found = _age(ctx, parameter, value)
    if isinstance(found, str):
        raise click.BadParameter("not a time: write a number and its unit, as 90d")
    return found


# --------------------------------------------------------------------------------------------------- purge


@click.command()
@click.option("--bodies-older-than", metavar="T", callback=_age, help="Default: [retention] bodies (90d).")
@click.option("--keys-older-than", metavar="T", callback=_span, help="Forget keys, too; default: none.")
@click.option("--dry-run", is_flag=True, help="Count, change nothing.")
@decided
@request_id_option
@front_options
def purge(
    front: Front,
    bodies_older_than: int | str | None,
    keys_older_than: int | None,
    dry_run: bool,
    why: str | None,
    yes: bool,
    request_id: str,
) -> None:
    """Drop old bodies and, if asked for, forget old keys. Orders, signals and the audit trail stay."""
    ages = {"bodies_older_than": bodies_older_than, "keys_older_than": keys_older_than}
    counted = _ask(front, "purge", {**ages, "dry_run": True}, request_id)
    if dry_run:
        front.emit(counted, _purge_text(counted))
        return
    why = reason(why)
    confirm(_purge_text(counted), "Purge this?", yes)
    done = _ask(front, "purge", {**ages, "why": why}, request_id)
    front.emit(done, _purge_text(done))


def _purge_text(found: dict[str, Any]) -> str:
    goes, stays = ("would go", "would stay") if found["dry_run"] else ("gone", "kept")
    lines = []
    if found["bodies_before"] is not None:
        lines.append(
            f"bodies received until {_local(found['bodies_before'])}: {found['bodies']} {goes}, "
            f"{found['bodies_kept']} {stays} (orders that are not over, conflicts)"
        )
    if found["keys_before"] is not None:
        lines.append(
            f"keys of signals until {_local(found['keys_before'])}: {found['keys']} {goes}, "
            f"{found['keys_kept']} {stays} (no time of their own, orders that are not over, conflicts)"
        )
        lines += [f"  {source}: {count}" for source, count in found["keys_by_source"].items()]
        if found["keys_by_source"]:
            lines.append("  signals of that time and older are refused by these sources from then on")
    if found["warning"]:
        lines.append(f"WARNING: {found['warning']}")
    return "\n".join(lines) or "nothing to purge: bodies are kept for ever, and no age of keys was given"


# ---------------------------------------------------------------------------------------- export and backup


@click.command()
@click.argument("file", metavar="FILE.csv|.jsonl")
@click.option("--view", help="One of the views; .csv has one (orders), .jsonl all where none is named.")
@click.option("--since", metavar="T", callback=read_since, help="90d, 15m or RFC 3339.")
@front_options
def export(front: Front, file: str, view: str | None, since: int | None) -> None:
    """Write what the ledger says into a file: UTC times, decimals as text, oldest first."""
    from app.ledger.export import ExportFailed
    from app.ledger.export import export as write
    from app.ledger.store import FILE_NAME

    ledger = front.home / FILE_NAME
    if not ledger.exists():
        raise Failed(f"there is no ledger in {front.home} yet: start Onefill first, or name another --home")
    target = _path(file)
    try:
        counts = write(ledger, target, view=view, since=since)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except ExportFailed as error:
        raise Failed(str(error)) from error
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    front.emit({"file": str(target), "rows": counts}, f"{target}: {text}")


@click.command()
@click.argument("file", metavar="FILE")
@request_id_option
@front_options
def backup(front: Front, file: str, request_id: str) -> None:
    """Copy the ledger, whole and checked, into a new file or folder. The paper exchange is no part of it."""
    done = _ask(front, "backup", {"file": str(_path(file))}, request_id)
    front.emit(done, f"{done['file']}: {_held(done)}, audit trail up to {done['head']}")


@click.command()
@click.argument("file", metavar="FILE")
@decided
@request_id_option
@front_options
def restore(front: Front, file: str, why: str | None, yes: bool, request_id: str) -> None:
    """Go back to a backup. Trading is halted then, nothing waits, and nothing is placed twice."""
    from app.clock import SystemClock
    from app.control import NotRunning, Refused, ask
    from app.engine.at_rest import preview_restore
    from app.engine.at_rest import restore as go_back

    why = reason(why)
    home, path = front.home, _path(file)
    try:
        ask(home, "status", request_id=request_id, timeout=10)
    except NotRunning:
        pass
    except Refused as error:
        raise Failed(str(error)) from error
    else:
        raise Failed(f"Onefill is running on {home}: stop it first")
    with refusals(), logged(home):
        seen = preview_restore(home, path)
        confirm(_before_restore(seen), "Go back to it?", yes)
        done = go_back(home, path, why=why, actor=actor(), request_id=request_id, now=SystemClock().now())
    front.emit(done, _after_restore(done))


def _before_restore(seen: dict[str, Any]) -> str:
    lost = seen["lost"]
    later = (
        "what came later cannot be counted: the ledger that is there cannot be read"
        if lost is None
        else f"{lost['signals']} signals and {lost['orders']} orders that came later will not be known"
    )
    return "\n".join(
        (
            f"{seen['file']}: {_held(seen)}, up to {_local(seen['newest_event_at'])}",
            f"  {later}; the ledger that is there is kept beside it",
            "  waiting orders are denied, trading is halted, signals of the time until now are refused",
        )
    )


def _after_restore(done: dict[str, Any]) -> str:
    lines = [f"went back to {done['file']}: {_held(done)}"]
    if done["kept"]:
        lines.append(f"  the ledger that was there: {done['kept']}")
    notes = {
        "denied": "waited, denied now",
        "ambiguous": "were being sent: the broker is asked at the next start",
        "open": "were at the broker: it is asked at the next start",
    }
    lines += [f"  {note}: {', '.join(done[name])}" for name, note in notes.items() if done[name]]
    lines += [
        "  trading is halted: start Onefill, look at its reconciliation and positions, then `onefill resume`",
        "  signals without a time are refused until `onefill resume --accept-without-time --why TEXT`",
        "  every order id is looked up at the broker before it is sent; the paper exchange kept its own book",
    ]
    return "\n".join(lines)


def _held(found: dict[str, Any]) -> str:
    return f"{found['signals']} signals, {found['orders']} orders"


# ------------------------------------------------------------------------------------------------- secrets


@click.group()
def secret() -> None:
    """Secrets without a window."""


@secret.command("set")
@click.argument("name")
@request_id_option
@front_options
def secret_set(front: Front, name: str, request_id: str) -> None:
    """Keep a secret (source.NAME.token, source.NAME.secret, account.NAME.FIELD); its value comes on stdin."""
    done = _ask(front, "secret set", {"name": name, "value": _value(name)}, request_id)
    front.emit(done, f"{done['statement']} It is taken {done['taken']}.")


@click.group()
def source() -> None:
    """Sources without a window."""


@source.command("rotate")
@click.argument("name")
@click.option("--overlap", default="24h", show_default=True, callback=_span, help="The old one stays valid.")
@request_id_option
@front_options
def source_rotate(front: Front, name: str, overlap: int, request_id: str) -> None:
    """Give a source a new token. Where its secret is in the body, the new one comes on stdin."""
    from app.cli.hook import settings_of

    found = settings_of(front.home).source(name)
    value = _value(f"source.{name}.secret") if found is not None and found.auth == "body" else None
    arguments = {"source": name, "overlap": overlap, "value": value}
    done = _ask(front, "source rotate", arguments, request_id)
    lines = [f"{done['statement']} It is taken {done['taken']}."]
    lines.append(f"the old one is valid until {_local(done['old_valid_until'])}")
    if value is None:
        lines.append(f"the new address: onefill url {name}")
    front.emit(done, "\n".join(lines))


def _value(name: str) -> str:
    """One line of stdin; at a terminal it is not shown while it is typed."""
    if sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, err=True))
    return sys.stdin.read(4_096).removesuffix("\n").removesuffix("\r")


# ------------------------------------------------------------------------------------------ asking the app


def _ask(front: Front, name: str, arguments: dict[str, Any], request_id: str) -> dict[str, Any]:
    from app.control import NotRunning, Refused, ask

    try:
        answer: dict[str, Any] = ask(front.home, name, arguments, request_id=request_id, timeout=LONG)
    except NotRunning:
        return _at_rest(front.home, name, arguments, request_id)
    except Refused as error:
        raise Failed(str(error)) from error
    return answer


def _at_rest(home: Path, name: str, arguments: dict[str, Any], request_id: str) -> dict[str, Any]:
    from app.clock import SystemClock
    from app.engine.at_rest import at_rest
    from app.secrets import Secrets

    with refusals(), logged(home):
        return at_rest(
            home,
            name,
            arguments,
            actor=actor(),
            request_id=request_id,
            clock=SystemClock(),
            make_secrets=lambda: Secrets(home, os.environ),
        )


def _path(file: str) -> Path:
    return Path(file).expanduser().absolute()


def _local(text: str | None) -> str:
    return "-" if text is None else local_time(text) or text
