"""What there is to tell goes to real services, in their moods, over a restart, and the loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.clock import SECOND, SystemClock
from app.ledger.errors import LedgerUnavailable
from app.notify import Event, Item, Looked, Message, Notifier, Pace
from app.notify.item import CRITICAL
from app.notify.outbox import Times
from app.secrets import Secrets
from app.settings import Notice
from app.settings.notices import KINDS
from app.tasks import Tasks
from tests.notify.service import Service, service

PACE = Pace(
    beat=0.02,
    send=5,
    last=2,
    save=0.05,
    times=Times(
        batch=SECOND // 10, gap=SECOND // 10, urgent_gap=SECOND // 10, again=(SECOND // 20,), patience=0
    ),
)


@dataclass
class World:
    """What there is to tell, and what a run keeps for the next one."""

    home: Path
    standing: list[Item] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    head: int = 0
    kept: str | None = None
    keeps: int = 0
    ledger_is_down: bool = False
    environ: dict[str, str] = field(default_factory=dict)

    async def look(self, since: Mapping[str, int]) -> Looked:
        if self.ledger_is_down:
            raise LedgerUnavailable("full", "the disk is full")
        after = since.get("E", self.head)
        return Looked(
            list(self.standing), [each for each in self.events if each.number > after], {"E": self.head}
        )

    async def keep(self, text: str) -> None:
        if self.ledger_is_down:
            raise LedgerUnavailable("full", "the disk is full")
        self.kept, self.keeps = text, self.keeps + 1


def receiver(name: str, to: Service | None, world: World) -> Notice:
    if to is not None:
        world.environ[f"ONEFILL_SECRET_NOTICE_{name.upper()}_URL"] = to.url()
    return Notice(name=name, to="url" if to else "desktop", kinds=KINDS, quiet=None)


@contextlib.asynccontextmanager
async def running(world: World, *notices: Notice, pace: Pace = PACE) -> AsyncIterator[Notifier]:
    made = Notifier(
        notices,
        world.look,
        world.keep,
        SystemClock(),
        lambda: Secrets(world.home, world.environ, keyring=None),
        lambda: None,
        kept=world.kept,
        pace=pace,
    )
    tasks = Tasks()
    tasks.start("notices", made.run())
    try:
        yield made
    finally:
        await tasks.stop()
        await made.stop()
        for thread in [thread for courier in made.couriers.values() for thread in courier.threads]:
            await asyncio.to_thread(thread.join, 10)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what another thread does
            await asyncio.sleep(0.01)


def need(number: int, **more: object) -> Item:
    kind = str(more.get("kind", "needs_you"))
    return Item(f"O{number}", kind, f"O{number} needs you.", CRITICAL if kind == "critical" else 1)


async def test_a_burst_arrives_as_one_message_and_once_over_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path)
    with service() as there:
        phone = receiver("phone", there, world)
        world.standing = [need(number) for number in range(1, 41)]
        async with running(world, phone):
            await until(lambda: there.came)
            await until(lambda: world.kept and '"O40"' in world.kept)
        assert [message["title"] for message in there.came] == ["Onefill: 40 things need you"]
        world.standing.append(need(41))
        async with running(world, phone):
            await until(lambda: len(there.came) == 2)
        assert "O41 needs you." in there.came[1]["message"]
        assert there.came[1]["title"] == "Onefill needs you"


async def test_one_receiver_that_hangs_or_fails_keeps_no_other_from_being_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    with service() as good, service() as bad, service() as hanging:
        bad.mood, hanging.mood = "refuse", "hang"
        notices = [receiver(*each, world) for each in (("a", hanging), ("b", bad), ("c", good))]
        async with running(world, *notices) as notifier:
            world.standing = [need(1, kind="critical")]
            await until(lambda: good.came)
            await until(lambda: bad.tries > 2)
            assert "b: " in notifier.trouble
            assert "500" in notifier.trouble
            assert "c: " not in notifier.trouble
            bad.mood = "well"
            await until(lambda: bad.came and not notifier.trouble)
            hanging.released.set()
            await until(lambda: hanging.came)
    assert len(good.came) == len(bad.came) == 1


async def test_the_loop_goes_on_while_a_receiver_hangs(tmp_path: Path) -> None:
    world = World(tmp_path)
    with service() as hanging:
        hanging.mood = "hang"
        async with running(world, receiver("phone", hanging, world)):
            world.standing = [need(1)]
            await until(lambda: hanging.tries)
            loop, largest = asyncio.get_running_loop(), 0.0
            for _ in range(50):
                before = loop.time()
                await asyncio.sleep(0.005)
                largest = max(largest, loop.time() - before)
            hanging.released.set()
    assert largest < 1.0


async def test_what_happened_is_told_once_over_a_restart_and_nothing_of_before_the_first_start(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, head=7, events=[Event("E", 7, "filled", "O7 filled.")])
    with service() as there:
        phone = receiver("phone", there, world)
        async with running(world, phone):
            await until(lambda: world.kept)
            world.events.append(Event("E", 8, "filled", "O8 filled."))
            world.head = 8
            await until(lambda: there.came)
            await until(lambda: world.kept and '"E":8' in world.kept)
        world.events.append(Event("E", 9, "filled", "O9 filled."))
        world.head = 9
        async with running(world, phone):
            await until(lambda: len(there.came) == 2)
    assert ["O7" in there.text, there.text.count("O8 filled"), there.text.count("O9 filled")] == [False, 1, 1]


async def test_a_ledger_that_is_down_is_no_end_of_anything_and_what_was_told_is_kept_later(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    with service() as there:
        async with running(world, receiver("phone", there, world)):
            world.standing = [need(1)]
            await until(lambda: there.came)
            world.ledger_is_down = True
            kept = world.keeps
            await asyncio.sleep(0.2)
            assert world.keeps == kept
            world.ledger_is_down = False
            await until(lambda: world.kept and '"O1"' in world.kept)
        assert len(there.came) == 1


async def test_what_is_remembered_and_unreadable_is_no_reason_not_to_tell(tmp_path: Path) -> None:
    world = World(tmp_path, kept="{broken", standing=[need(1)])
    with service() as there:
        async with running(world, receiver("phone", there, world)):
            await until(lambda: there.came)


async def test_this_screen_is_told_once_a_window_is_there(tmp_path: Path) -> None:
    world = World(tmp_path, standing=[need(1)])
    shown: list[Message] = []
    async with running(world, receiver("desktop", None, world)) as notifier:
        await asyncio.sleep(0.3)
        assert notifier.trouble == ""

        def show(message: Message) -> bool:
            shown.append(message)
            return True

        notifier.show_on_desktop(show)
        await until(lambda: shown)
    assert shown[0].keys == ("O1",)


async def test_the_last_thing_is_told_at_a_stop_and_a_stop_waits_for_nobody_who_hangs(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = Pace(beat=60, send=30, last=0.5)
    with service() as good, service() as hanging:
        hanging.mood = "hang"
        notices = (receiver("good", good, world), receiver("bad", hanging, world))
        async with running(world, *notices, pace=slow) as notifier:
            await asyncio.sleep(0.05)
            world.standing = [Item("stop", "stopping", "The disk is gone.", CRITICAL)]
            before = asyncio.get_running_loop().time()
            await notifier.stop()
            assert asyncio.get_running_loop().time() - before < 5
            await until(lambda: good.came)
            hanging.released.set()
    assert good.came[0]["title"] == "Onefill has stopped itself"


async def test_a_test_says_by_name_what_arrived(tmp_path: Path) -> None:
    world = World(tmp_path)
    with service() as good, service() as bad:
        bad.mood = "refuse"
        notices = [receiver("a", good, world), receiver("b", bad, world), receiver("c", None, world)]
        async with running(world, *notices) as notifier:
            answers = await notifier.test(["a", "b", "c"])
    assert answers["a"] == ""
    assert "500" in answers["b"]
    assert "no window" in answers["c"]
    assert good.came[0]["title"] == "Onefill: a test notice"


async def test_what_is_no_news_is_not_read_again(tmp_path: Path) -> None:
    """Thousands of rows may lie between two fills: reading goes on behind them, for this run and the next."""
    world = World(tmp_path, head=5)
    with service() as there:
        async with running(world, receiver("phone", there, world)):
            await until(lambda: world.kept and '"E":5' in world.kept)
            world.head = 40_000
            await until(lambda: world.kept and '"E":40000' in world.kept)
    assert there.came == []


async def test_a_test_that_arrives_sends_what_waited_at_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    patient = replace(PACE, times=replace(PACE.times, again=(3_600 * SECOND,)))
    with service() as there:
        there.mood = "refuse"
        async with running(world, receiver("phone", there, world), pace=patient) as notifier:
            world.standing = [need(1)]
            await until(lambda: notifier.trouble)
            there.mood = "well"
            assert await notifier.test(["phone"]) == {"phone": ""}
            assert notifier.trouble == ""
            await until(lambda: "O1 needs you." in there.text)


async def test_a_run_in_which_nothing_is_told_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with running(world, receiver("desktop", None, world), pace=replace(PACE, save=0)) as notifier:
        notifier.show_on_desktop(lambda _message: True)
        await until(lambda: world.keeps)
        await asyncio.sleep(0.2)
        first = world.keeps
        world.standing = [need(1)]
        await until(lambda: world.kept and '"O1"' in world.kept)
        await asyncio.sleep(0.2)
        told = world.keeps
    # The place of reading is kept once, as soon as it is known.
    assert (first, told) == (1, 2)
