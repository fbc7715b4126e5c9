"""The commands that only read: they open the ledger themselves, read-only, whether an app runs or not."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from app.cli.front import Failed, Front, cell, front_options, read_since, table, whole
from app.cli.story import story_text, warnings_of

TABLES: dict[str, tuple[str, ...]] = {
    "signals": ("id", "first_seen", "source", "symbol", "action", "quantity", "deliveries", "outcome", "key"),
    "deliveries": (
        "id",
        "received_at",
        "source",
        "verdict",
        "http_status",
        "reason",
        "signal",
        "ack_ms",
        "warnings",
    ),
    "orders": (
        "id",
        "signal",
        "updated_at",
        "account",
        "symbol",
        "side",
        "quantity",
        "state",
        "ord_status",
        "filled_quantity",
        "average_price",
        "reason",
    ),
    "fills": ("at", "account", "order_id", "symbol", "side", "quantity", "price", "fee", "exec_id"),
    "positions": ("account", "symbol", "source", "strategy", "quantity"),
    "events": ("id", "at", "actor", "what", "subject", "detail"),
}
"""The columns that fit a terminal; --json has all."""
NEEDS = 20
FIRST = 5
"""How many of what needs a person `status` tells: as JSON, as text."""


@contextlib.contextmanager
def ledger_of(home: Path) -> Iterator[Any]:
    """A read-only connection in one read transaction. Failed where there is no ledger, or none of ours."""
    import apsw

    from app.ledger.reader import open_read_only
    from app.ledger.store import APPLICATION_ID, FILE_NAME, MARKER_NAME

    path = home / FILE_NAME
    if not path.exists() and (home / MARKER_NAME).exists():
        raise Failed(
            f"the ledger {path} is missing, and {MARKER_NAME} says that there was one: put it back, or go "
            f"back to a copy in {home / 'backups'} with `onefill restore FILE`"
        )
    if not path.exists():
        raise Failed(f"there is no ledger in {home} yet: start Onefill first, or name another --home")
    try:
        connection = open_read_only(path)
        try:
            if connection.execute("PRAGMA application_id").fetchall() != [(APPLICATION_ID,)]:
                raise Failed(f"{path} is not an Onefill ledger")
            with connection:
                yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise Failed(f"the ledger {path} cannot be read ({error})") from error


def _narrowed(since_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--limit N` and `--since T`, as every command that shows what the window shows takes them."""
    limit = click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="So many.")
    since = click.option("--since", metavar="T", callback=read_since, help=since_help)
    return lambda function: limit(since(function))


def _listing(name: str, since_help: str = "90d, 15m or RFC 3339.") -> click.Command:
    from app.cli import COMMANDS

    def show_rows(front: Front, limit: int, since: int | None) -> None:
        from app.ledger import queries

        with ledger_of(front.home) as connection:
            rows = queries.select(connection, name, limit=limit, since=since)
        for row in rows:
            del row["number"]
            if name == "deliveries" and not front.json:
                row["warnings"] = "; ".join(warnings_of(row))
        front.emit_rows(rows, TABLES[name], f"no {name}")

    function = _narrowed(since_help)(front_options(show_rows))
    return click.command(name, help=COMMANDS[name][1])(function)


signals = _listing("signals")
deliveries = _listing("deliveries")
orders = _listing("orders")
fills = _listing("fills")
positions = _listing("positions", "A position has no date: all are shown.")
events = _listing("events")


@click.command()
@click.argument("name", metavar="ID")
@front_options
def show(front: Front, name: str) -> None:
    """Show one signal's (S12), order's (O12) or delivery's (D12) whole story."""
    from app.ledger import queries

    with ledger_of(front.home) as connection:
        try:
            story = queries.story(connection, name.strip().upper())
        except LookupError as error:
            raise Failed(str(error)) from error
    front.emit(story, story_text(story))


@click.command()
@_narrowed("What needs you since then; 90d, 15m or RFC 3339.")
@front_options
def status(front: Front, limit: int, since: int | None) -> None:
    """Show whether it runs, and how well; without a running app, what the ledger knows."""
    from app.control import NotRunning, Refused, ask

    home = front.home
    try:
        found = ask(home, "status", request_id=uuid.uuid4().hex, timeout=10)
    except NotRunning:
        found = _at_rest(home)
    except Refused as error:
        raise Failed(str(error)) from error
    from app.ledger.queries import rfc3339

    needs = [need for need in _needs(home) if since is None or need["since"] >= rfc3339(since)]
    found["needs"], found["turned_away"] = needs[: min(limit, NEEDS)], _turned_away(home)
    front.emit(found, _status_text(found))


def _needs(home: Path) -> list[dict[str, Any]]:
    """What needs a person; none where the ledger cannot be read, which the facts say already."""
    from app.cli.operator import needs_of

    try:
        return needs_of(home)
    except Failed:
        return []


def _turned_away(home: Path) -> dict[str, int]:
    """By reason, of the last day: requests that failed authentication and have no row."""
    from app.clock import SystemClock
    from app.ledger.counts import Counts

    try:
        with ledger_of(home) as connection:
            counts = Counts()
            counts.read_strangers(connection, SystemClock().now())
    except Failed:
        return {}
    return counts.turned_away


def _at_rest(home: Path) -> dict[str, Any]:
    from app.clock import SystemClock
    from app.ledger.counts import Counts
    from app.ledger.needs import needs
    from app.ledger.reader import read

    with ledger_of(home) as connection:
        counts = Counts()
        counts.read(connection, SystemClock().now())
        kept = read(connection, "SELECT value FROM meta WHERE name = 'trading_state'")
        waiting = len(needs(connection, SystemClock().now()))
    return {
        "state": "not running",
        "home": str(home),
        "trading_state": kept[0]["value"] if kept else "active",
        "counts": {**counts.values(), "needs": waiting},
    }


def _status_text(found: dict[str, Any]) -> str:
    lines = [f"Onefill  {found['state']}  home {found['home']}"]
    if "facts" in found:
        now, minute, ever = (
            found[name] for name in ("loop_lag_ms", "loop_lag_max_ms", "loop_lag_max_since_start_ms")
        )
        lines = [
            f"Onefill {found['version']}  {found['state']}  port {found['port']}  home {found['home']}",
            *_fact_lines(found["facts"]),
            f"loop lag {now:.0f} ms, at most {minute:.0f} ms in a minute, {ever:.0f} ms since the start",
        ]
    else:
        lines.append(f"trading {found['trading_state'].replace('_', ' ')}")
    lines.append(
        ", ".join(f"{name.replace('_', ' ')} {cell(number)}" for name, number in found["counts"].items())
    )
    if found["turned_away"]:
        from app.ledger.counts import STRANGE

        reasons = [
            f"{number} with {STRANGE[name]}"
            if name in STRANGE
            else f"{number} for {_OTHERWISE.get(name, name)}"
            for name, number in found["turned_away"].items()
        ]
        lines.append(f"turned away within a day, nothing kept: {', '.join(reasons)}")
    if found["needs"]:
        from app.cli.operator import needs_text

        lines.append(f"needs you: {found['counts'].get('needs', len(found['needs']))} (onefill needs)")
        lines.append(needs_text(found["needs"][:FIRST], actions=False))
    return "\n".join(lines)


_OTHERWISE = {
    "path": "no hook's path",
    "method": "another method than POST",
    "browser": "a browser",
    "host": "another host",
    "malformed": "what is not HTTP",
}


def _fact_lines(facts: list[dict[str, Any]]) -> list[str]:
    """A line a fact, its reason whole."""
    shown = table(facts, ("name", "word", "level")).splitlines()[1:]
    widest = max(len(line) for line in shown)
    return [f"{line.ljust(widest)}  {whole(fact['reason'])}" for line, fact in zip(shown, facts, strict=True)]


@click.command()
@front_options
def version(front: Front) -> None:
    """Show the version and what it is built of."""
    import platform
    from importlib import metadata

    import apsw

    from app import __version__

    built = {"version": __version__, "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in ("apsw", "aiohttp", "PySide6-Essentials", "qasync", "msgspec"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            built[name] = metadata.version(name)
    rest = ", ".join(f"{name} {number}" for name, number in built.items() if name != "version")
    front.emit(built, f"onefill {__version__} ({rest})")
