"""`onefill selftest`: two equal signals through the real door of a real engine, in a throw-away home."""

from __future__ import annotations

import time

import click

from app.cli.front import Failed, Front, front_options


@click.command()
@front_options
def selftest(front: Front) -> None:
    """Two equal signals to itself in a throw-away home: accepted, duplicate, one paper order."""
    from app.engine.selftest import try_whole_way

    passed = True
    began = time.monotonic()

    def say(check: str, ok: bool, seen: str) -> None:
        nonlocal passed
        passed = passed and ok
        front.emit(
            {"check": check, "ok": ok, "seen": seen}, f"{'ok  ' if ok else 'FAIL'}  {check:<10} {seen}"
        )

    try_whole_way(say)
    if not passed:
        raise Failed("the self-test failed")
    if not front.json:
        click.echo(f"passed in {time.monotonic() - began:.1f} s, nothing left behind")
