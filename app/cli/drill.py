"""`onefill drill`: the faults of real brokers, made on purpose, and the proof that no order was doubled.

Each drill has the real program in a process of its own, a throw-away home, and an exchange of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from app.cli.front import Failed, Front, count_of, front_options

if TYPE_CHECKING:
    from app.drill.story import Story, Told

AT_ONCE = 4
"""Drills that run at the same time; most of each is waiting."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--list", "only_list", is_flag=True, help="Show the drills and do nothing.")
@click.option("--all", "everything", is_flag=True, help="Run every drill there is.")
@front_options
def drill(front: Front, names: tuple[str, ...], only_list: bool, everything: bool) -> None:
    """Lose answers, break connections, kill the program: against a simulated exchange, in a throw-away home.

    Prints what was done, what the exchange has in its book, how each order ended, and the proof. Without a
    NAME: a dozen of them, in about a minute. Exit code 1 where anything was doubled or not as it has to be.
    """
    from app.drill.stories import STORIES

    known = {story.name: story for story in STORIES}
    if strange := [name for name in names if name not in known]:
        raise click.BadParameter(f"no drill is called {strange[0]}: see onefill drill --list")
    if only_list:
        rows = [{"name": story.name, "title": story.title, "default": story.told_first} for story in STORIES]
        front.emit_rows(rows, ("name", "title"), "none")
        return
    chosen = [known[name] for name in dict.fromkeys(names)]
    chosen = chosen or [story for story in STORIES if everything or story.told_first]
    began = time.monotonic()
    if not front.json:
        click.echo(_head(len(chosen)))
    told = asyncio.run(_run(front, chosen))
    _conclude(front, told, time.monotonic() - began)


def _head(count: int) -> str:
    return (
        f"{count_of(count, 'drill')}. Each starts the program itself (onefill serve) in a folder that is\n"
        "thrown away, with an account at an exchange on this machine: it has Alpaca's wire format, keeps\n"
        "a book of its own, and does wrong what is said below. Waits that take minutes with money take\n"
        "seconds here; nothing else differs. The proof is counted in the exchange's book.\n"
    )


async def _run(front: Front, stories: Sequence[Story]) -> list[Told]:
    told = []
    async for one in _in_order(stories):
        front.emit(asdict(one) | {"ok": one.is_well}, _text(one))
        told.append(one)
    return told


async def _in_order(stories: Sequence[Story]) -> AsyncIterator[Told]:
    """Several at once, told in the order of the list."""
    from app.drill.story import tell
    from app.tasks import Tasks

    room, tasks = asyncio.Semaphore(AT_ONCE), Tasks()

    async def in_turn(story: Story) -> Told:
        async with room:
            return await tell(story)

    running = [tasks.start(story.name, in_turn(story)) for story in stories]
    try:
        for task in running:
            yield await task
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await tasks.stop()


def _text(told: Told) -> str:
    lines = [f"{'ok  ' if told.is_well else 'FAIL'}  {told.name}: {told.title} ({told.seconds} s)"]
    for head, sentences in (
        ("done", told.did),
        ("exchange", told.exchange or ["nothing ever arrived"]),
        ("Onefill", told.orders),
        ("proof", [told.proof]),
        ("doubled", told.doubled),
        ("WRONG", told.wrong),
    ):
        for number, sentence in enumerate(sentences):
            lines.append(f"      {head if number == 0 else '':<9} {sentence}")
    return "\n".join(lines) + "\n"


def _conclude(front: Front, told: Sequence[Told], seconds: float) -> None:
    failed = [one for one in told if not one.is_well]
    doubled = sum(len(one.doubled) for one in told)
    if failed:
        names = ", ".join(one.name for one in failed)
        raise Failed(f"{len(failed)} of {len(told)} drills did not end as they have to: {names}")
    if not front.json:
        click.echo(f"{len(told)} drills in {seconds:.0f} s: {doubled} orders doubled, lost or made up")
