"""The commands that change something: to the running app over its control channel, with a request id."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Callable
from typing import Any

import click

from app.cli.front import Failed, Front, front_options, table


def request_id_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever got no answer asks again with the same id: then it is done once (HOLES H26)."""
    return click.option(
        "--request-id",
        default=lambda: uuid.uuid4().hex,
        show_default=False,
        metavar="ID",
        help="Repeat a request that got no answer: with its id it acts once.",
    )(function)


@click.command()
@click.option("--exits-only", is_flag=True, help="Entries are denied, exits still go out.")
@request_id_option
@front_options
def halt(front: Front, exits_only: bool, request_id: str) -> None:
    """Stop trading: nothing goes out, and nothing is kept for `resume`."""
    _set_trading_state(front, "halt", {"exits_only": exits_only}, request_id)


@click.command()
@click.option(
    "--accept-without-time",
    is_flag=True,
    help="After a restore: admit signals that state no time again, once none of the lost time can come back.",
)
@click.option("--why", metavar="TEXT", help="The reason for that.")
@request_id_option
@front_options
def resume(front: Front, accept_without_time: bool, why: str | None, request_id: str) -> None:
    """Trade again."""
    if accept_without_time and not (why or "").strip():
        raise click.UsageError("--accept-without-time needs a reason: --why TEXT")
    arguments = {"accept_without_time": True, "why": why} if accept_without_time else {}
    _set_trading_state(front, "resume", arguments, request_id)


@click.command()
@click.argument("account", required=False)
@request_id_option
@front_options
def reconcile(front: Front, account: str | None, request_id: str) -> None:
    """Compare ledger and broker now, for one account or for all, and print the report.

    Exit code 0 where the comparison was done, whatever it found: the last line says whether they differ.
    """
    from app.control import NotRunning, Refused, ask

    try:
        answer = ask(front.home, "reconcile", {"account": account}, request_id=request_id)
    except NotRunning:
        from app.cli.operator import ask_the_broker

        answer = ask_the_broker(front.home, "reconcile", {"account": account}, request_id)
    except Refused as error:
        raise Failed(str(error)) from error
    lines = [_report(report) for report in answer["reports"]]
    if any(_differs(report) for report in answer["reports"]):
        lines.append("ledger and broker differ: `onefill needs` has what can be done about it")
    front.emit(answer, "\n".join(lines))


def _set_trading_state(front: Front, name: str, arguments: dict[str, Any], request_id: str) -> None:
    from app.control import NotRunning, Refused, ask

    try:
        answer = ask(front.home, name, arguments, request_id=request_id)
    except NotRunning:
        answer = _on_the_ledger(front, name, arguments, request_id)
    except Refused as error:
        raise Failed(str(error)) from error
    front.emit(answer, _state_text(answer))


def _on_the_ledger(front: Front, name: str, arguments: dict[str, Any], request_id: str) -> dict[str, Any]:
    import apsw

    from app.clock import SystemClock
    from app.engine import CommandRefused
    from app.engine.commands import on_the_ledger
    from app.ledger.lock import AlreadyRunning
    from app.ledger.store import LedgerRefused

    try:
        return on_the_ledger(
            front.home,
            name,
            arguments,
            actor=f"command:{getpass.getuser()}",
            request_id=request_id,
            now=SystemClock().now(),
        )
    except (CommandRefused, LedgerRefused, AlreadyRunning) as error:
        raise Failed(str(error)) from error
    except apsw.Error as error:
        raise Failed(f"the ledger cannot be written ({error})") from error


def _state_text(answer: dict[str, Any]) -> str:
    lines = [
        f"trading is {answer['trading_state'].replace('_', ' ')} (was {answer['was'].replace('_', ' ')})"
    ]
    notes = {
        "in_flight": "sent, not known yet whether the broker has them",
        "resting": "at the broker, may still fill (onefill cancel ORDER ends one)",
        "waiting": "wait here",
    }
    lines += [f"  {note}: {', '.join(answer[name])}" for name, note in notes.items() if answer[name]]
    if answer.get("without_time") == "refused":
        lines.append("  signals without a time are refused since the restore: --accept-without-time ends it")
    return "\n".join(lines)


def _differs(report: dict[str, Any]) -> bool:
    return any(finding["severity"] != "info" for finding in report["findings"])


def _report(report: dict[str, Any]) -> str:
    numbers = f"{report['matched']} orders matched, {report['fills_added']} fills added"
    lines = [f"{report['account']}: {report['result']}, {numbers}"]
    if report["reason"]:
        lines.append(f"  {report['reason']}")
    if report["positions"]:
        lines.append(table(report["positions"], ("symbol", "expected", "broker")))
    lines += [
        f"  {finding['severity']}: {finding['kind']} {finding['subject']} {finding['detail']}"
        for finding in report["findings"]
    ]
    return "\n".join(lines)
