"""The hook from the outside: its addresses, and a sample alert through it."""

from __future__ import annotations

import http.client
import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from app.cli.front import Failed, Front, front_options, to_json

if TYPE_CHECKING:
    from app.settings import Settings, Source

TIMEOUT = 5.0


@click.command()
@click.argument("source", required=False)
@click.option(
    "--copied", is_flag=True, help="The public address is in the alerts now: warn once it is another."
)
@front_options
def url(front: Front, source: str | None, copied: bool) -> None:
    """Show the hook addresses, one a line: source, local address, public address.

    A dash stands where there is no public address: no tunnel of Onefill's own, or none yet. They hold the
    tokens.
    """
    settings = settings_of(front.home)
    sources = settings.all_sources
    if source is not None:
        chosen = settings.source(source)
        if chosen is None:
            raise Failed(f"there is no source {source!r}: {', '.join(each.name for each in sources)}")
        sources = (chosen,)
    running_port, base = _running(front.home)
    if running_port is None:
        base = settings.tunnel.fixed_url
    port = running_port or settings.listener.port
    if port == 0:
        raise Failed("port = 0 takes any free port, so there is no address before Onefill runs")
    if copied:
        _keep_copied(front.home, base)
    for each in sources:
        address = _address(front.home, settings, each, port)
        public = None if base is None else base + address[address.index("/hook/") :]
        if front.json:
            click.echo(to_json({"source": each.name, "local": address, "public": public}))
        else:
            click.echo(f"{each.name} {address} {public or '-'}")


@click.command()
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, help="Post it so many times.")
@front_options
def send(front: Front, file: IO[bytes], repeat: int) -> None:
    """Post a sample alert (a file, or - for stdin) to the built-in source `test`: it reaches only paper.

    Placeholders as {{ticker}} are filled in with sample values, once for all repeats.
    """
    from app.settings import TEST_SOURCE

    settings = settings_of(front.home)
    test = settings.source(TEST_SOURCE)
    if test is None:
        raise Failed("there is no account without money that a test could reach: add a paper account")
    port, _ = _running(front.home)
    if port is None:
        raise Failed(f"no app is running on {front.home}: start Onefill first")
    address = _address(front.home, settings, test, port)
    body, filled = _filled_in(file.read())
    if filled:
        click.echo(f"onefill: filled in as TradingView would: {', '.join(filled)}", err=True)
    statuses = []
    for _ in range(repeat):
        status, answer = _post(settings.listener.host, port, address, body)
        statuses.append(status)
        if front.json:
            click.echo(to_json({"http_status": status, "answer": answer}))
        else:
            click.echo(f"{status} {answer if isinstance(answer, str) else to_json(answer)}")
    if any(status != 200 for status in statuses):
        raise click.exceptions.Exit(1)


def _filled_in(body: bytes) -> tuple[bytes, list[str]]:
    """The body with each `{{placeholder}}` replaced by a sample value, and what was replaced by what."""
    from app.clock import SystemClock
    from app.domain.placeholders import fill_in

    # Finer than TradingView's whole seconds, so that each `send` is a signal of its own.
    exact = {"timenow": datetime.now(UTC).isoformat().replace("+00:00", "Z")}
    # Whatever the bytes are, they go out as they came where nothing is filled in.
    text = body.decode("utf-8", "surrogateescape")
    found = fill_in(text, SystemClock().now(), exact, unknown_too=True)
    said = [f"{name} = {value}" for name, value in found.values.items()]
    return found.text.encode("utf-8", "surrogateescape"), said


def settings_of(home: Path) -> Settings:
    from app.settings import ConfigError, config_path, read_settings, read_text

    path = config_path(home)
    try:
        text = read_text(path)
        if text is None:
            raise Failed(f"there is no {path.name} in {home} yet: start Onefill first")
        return read_settings(text, path)
    except ConfigError as error:
        raise Failed(str(error)) from error


def _keep_copied(home: Path, base: str | None) -> None:
    """A running app looks at what is kept every few seconds."""
    if base is None:
        raise Failed("there is no public address yet")
    from app.clock import SystemClock
    from app.settings import ConfigError
    from app.tunnel.memory import Copied, TunnelMemory

    try:
        TunnelMemory(home).keep_copied(Copied(base, SystemClock().now()))
    except (OSError, ConfigError) as error:
        raise Failed(f"it could not be kept: {error}") from error


def _running(home: Path) -> tuple[int | None, str | None]:
    """Port and public address of the app that runs on this home; None for what there is not."""
    from app.control import NotRunning, Refused, ask

    try:
        found = ask(home, "status", request_id=uuid.uuid4().hex, timeout=10)
    except NotRunning:
        return None, None
    except Refused as error:
        raise Failed(str(error)) from error
    port, public = found["port"], found.get("public")
    return port if isinstance(port, int) else None, public if isinstance(public, str) else None


def _address(home: Path, settings: Settings, source: Source, port: int) -> str:
    from app.secrets import Secrets, SecretsError

    host = settings.listener.host
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}/hook/{source.name}"
    if source.auth == "body":
        return address
    try:
        found = Secrets(home, os.environ).find(f"source.{source.name}.token")
    except SecretsError as error:
        raise Failed(str(error)) from error
    if found.value is None:
        raise Failed(found.problem or f"{source.name} has no token yet: it is made on the first start")
    return f"{address}/{found.value}"


def _post(host: str, port: int, address: str, body: bytes) -> tuple[int, Any]:
    """The door's status and answer. Straight to loopback: no proxy, no redirect."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        path = address[address.index("/hook/") :]
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"nothing answered on port {port} ({error})") from error
    finally:
        connection.close()
    try:
        return response.status, json.loads(content)
    except ValueError:
        return response.status, content
