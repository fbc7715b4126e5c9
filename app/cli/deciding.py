"""What the commands of a person's decisions have in common: a reason, one question, one line of refusal."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from app.cli.front import Failed


def decided(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of what a person decides: a reason, and one question (CONTRACT 2)."""
    function = click.option("--yes", is_flag=True, help="Do not ask.")(function)
    return click.option("--why", metavar="TEXT", help="The reason; it stays in the audit trail.")(function)


def reason(why: str | None) -> str:
    if why is None or not why.strip():
        raise click.UsageError("this needs a reason: --why TEXT")
    return why


def confirm(text: str, question: str, yes: bool) -> None:
    """Asks once, unless `yes`; Failed where the answer is no, or nobody is there to give one."""
    if yes:
        return
    click.echo(text, err=True)
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        pass
    raise Failed("nothing was done: answer y, or give --yes")


def actor() -> str:
    return f"command:{getpass.getuser()}"


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What is wrong with home, ledger or request is one line and exit code 1."""
    import apsw

    from app.engine import CommandRefused, StartRefused
    from app.ledger.lock import AlreadyRunning
    from app.ledger.store import LedgerRefused
    from app.secrets import SecretsError
    from app.settings import ConfigError

    try:
        yield
    except (
        CommandRefused,
        StartRefused,
        LedgerRefused,
        AlreadyRunning,
        SecretsError,
        ConfigError,
    ) as error:
        raise Failed(str(error)) from error
    except (apsw.Error, OSError) as error:
        raise Failed(f"the home cannot be used ({error})") from error


@contextlib.contextmanager
def logged(home: Path) -> Iterator[None]:
    """Lines of the log go into the home, where the app's are, and not among what a command prints."""
    if not home.is_dir():
        yield
        return
    from app.logs import start_logging

    stop_logging = start_logging(home)
    try:
        yield
    finally:
        stop_logging()
