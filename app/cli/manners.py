"""`onefill notice` and `onefill autostart`: who is told, and whether Onefill starts with the computer."""

from __future__ import annotations

import os
import uuid

import click

from app.cli.front import Failed, Front, front_options


@click.group()
def notice() -> None:
    """Send a test notice."""


@notice.command("test")
@click.argument("name", required=False)
@front_options
@click.pass_context
def notice_test(ctx: click.Context, front: Front, name: str | None) -> None:
    """Send a test to one receiver of [[notices]], or to all; exit code 1 where one did not arrive."""
    from app.control import NotRunning, Refused, ask

    arguments = {} if name is None else {"name": name}
    try:
        answer = ask(front.home, "notice test", arguments, request_id=uuid.uuid4().hex)
    except NotRunning as error:
        raise Failed("notices are sent by the running program: start Onefill first") from error
    except Refused as error:
        raise Failed(str(error)) from error
    for each in answer["notices"]:
        said = "sent" if each["sent"] else f"did not arrive: {each['why']}"
        front.emit(each, f"{each['name']}: {said}")
    ctx.exit(0 if all(each["sent"] for each in answer["notices"]) else 1)


@click.command()
@click.argument("wish", type=click.Choice(["on", "off", "status"]), default="status")
@front_options
def autostart(front: Front, wish: str) -> None:
    """Start at login, hidden in the tray: on, off, or how it is now."""
    from app.engine.autostart import AutostartFailed, command
    from app.engine.autostart import autostart as of_this_system

    here = of_this_system(command(front.home, os.environ))
    try:
        state = here.on() if wish == "on" else here.off() if wish == "off" else here.status()
    except AutostartFailed as error:
        raise Failed(str(error)) from error
    front.emit({"autostart": state.word, "said": state.said}, f"{state.word}: {state.said}")
