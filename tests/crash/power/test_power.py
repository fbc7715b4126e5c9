"""A power cut at every write and every sync of the ledger and of the paper exchange, each by itself (H42).

After each: start, recovery, resolver, every alert sent again. Acknowledged claims are there, no order is
doubled, and how many there are is exact. Other seed: ONEFILL_SEED=7 pytest tests/crash/power.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from app.brokers import paper_file
from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.ledger import store
from app.ledger.store import FILE_NAME as LEDGER_FILE
from tests.crash.power.cuts import Cut, Film
from tests.crash.power.disk import Disk, Luck
from tests.crash.power.restart import restart
from tests.crash.power.shop import ALERTS, made, trade

pytestmark = pytest.mark.timeout(180)

SEED = int(os.environ.get("ONEFILL_SEED", "1"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: what is durable is the model's to say, and a run syncs often."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        yield Path(name)


async def filmed(folder: Path, lies_about: tuple[str, ...] = ()) -> Film:
    home = folder / "home"
    await made(home)
    before = Path(shutil.copytree(home, folder / "before"))
    disk = Disk(lies_about)
    try:
        await trade(home, disk)
    finally:
        disk.close()
    return Film.of(before, disk)


async def wrong_after(
    film: Film, cuts: Iterable[Cut], folder: Path
) -> tuple[int, list[tuple[Cut, list[str]]]]:
    """How many pictures that differ were started on, and what was wrong with which."""
    tried, wrong = 0, []
    for cut in cuts:
        home = folder / "cut"
        if not film.develop(cut, home):
            continue
        tried += 1
        lines = await restart(home, film.answered(cut), film.placed(cut))
        if lines:
            wrong.append((cut, lines))
        shutil.rmtree(home)
    return tried, wrong


# ------------------------------------------------------------------ what must hold


async def test_the_run_holds_all_that_a_cut_can_hurt(folder: Path) -> None:
    """Else the cuts below would prove less than they say."""
    film = await filmed(folder)
    for calls, name in ((film.ledger, LEDGER_FILE), (film.paper, PAPER_FILE)):
        kinds = Counter((call.path.name.removeprefix(name), call.what) for call in calls)
        assert kinds["-wal", "create"] == kinds["-wal", "folder"] == kinds["-wal", "delete"] == 1
        assert kinds["-wal", "sync"] > 20
        assert kinds["", "sync"] > 1, "no checkpoint but the last"
        restarts = [
            call for call in calls if (call.what, call.offset) == ("write", 0) and "-wal" in call.path.name
        ]
        assert len(restarts) > 1, "the log was never begun anew"
    assert {mark.name for mark in film.marks if mark.kind == "answered"} == {alert.key for alert in ALERTS}
    placed = [mark.name for mark in film.marks if mark.kind == "placed"]
    assert len(placed) == len(set(placed)) == 2 * sum(bool(alert.side) for alert in ALERTS)


async def test_the_disk_remembers_every_byte(folder: Path) -> None:
    """With all luck, after the last call, the model holds what the real files hold."""
    home = folder / "home"
    await made(home)
    disk = Disk()
    try:
        await trade(home, disk)
    finally:
        disk.close()
    film = Film.of(home, disk)
    film.develop(Cut(len(film.ledger), len(film.paper), Luck.ALL, Luck.ALL, 0), folder / "developed")
    for name in (LEDGER_FILE, PAPER_FILE):
        assert (folder / "developed" / name).read_bytes() == (home / name).read_bytes()
    assert not list((folder / "developed").glob("*-wal"))


async def test_h42_after_a_power_cut_nothing_acknowledged_is_lost_and_nothing_doubled(folder: Path) -> None:
    film = await filmed(folder)
    tried, wrong = await wrong_after(film, film.some_cuts(SEED, 30), folder)
    assert wrong == []
    assert tried > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_h42_every_power_cut(folder: Path) -> None:
    film = await filmed(folder)
    tried, wrong = await wrong_after(film, film.every_cut(SEED), folder)
    assert wrong == []
    assert tried > 3_000


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_h42_a_power_cut_during_the_restart_after_a_power_cut(folder: Path) -> None:
    film = await filmed(folder)
    rng = random.Random(SEED)
    tried = 0
    for number, cut in enumerate(rng.sample(list(film.every_cut(SEED)), 24)):
        home = folder / f"first-{number}"
        if not film.develop(cut, home):
            continue
        answered, placed = film.answered(cut), film.placed(cut)
        before = Path(shutil.copytree(home, folder / f"before-{number}"))
        disk = Disk()
        try:
            assert await restart(home, answered, placed, disk) == []
        finally:
            disk.close()
        again = Film.of(before, disk)
        for second in again.some_cuts(SEED + number, 40):
            if again.develop(second, folder / "second"):
                tried += 1
                held = answered | again.answered(second), placed | again.placed(second)
                assert await restart(folder / "second", *held) == [], (cut, second)
                shutil.rmtree(folder / "second")
    assert tried > 1_000


# ------------------------------------------------------------------ what must fail


async def test_control_with_synchronous_normal_the_ledger_loses_what_was_acknowledged(folder: Path) -> None:
    def configured(connection: apsw.Connection) -> None:
        configure(connection)
        connection.execute("PRAGMA synchronous = NORMAL").fetchall()

    configure = store.configure
    with patch.object(store, "configure", configured):
        film = await filmed(folder)
    assert await first_wrong(film, folder) == "S2"


async def test_h42_control_with_synchronous_normal_the_exchange_loses_what_it_confirmed(folder: Path) -> None:
    settings = [("synchronous", "NORMAL", 1) if s[0] == "synchronous" else s for s in paper_file.SETTINGS]
    with patch.object(paper_file, "SETTINGS", tuple(settings)):
        film = await filmed(folder)
    assert await first_wrong(film, folder) == "S3"


@pytest.mark.parametrize(("lying", "lost"), [(LEDGER_FILE, "S2"), (PAPER_FILE, "S3")])
async def test_h42_control_a_disk_that_ignores_syncs_is_found_out(
    folder: Path, lying: str, lost: str
) -> None:
    film = await filmed(folder, lies_about=(lying,))
    assert await first_wrong(film, folder) == lost


async def first_wrong(film: Film, folder: Path) -> str:
    """The claim that the first complaint names; cuts at the same moment, none but synced writes kept."""
    for ledger, paper in film.moments():
        cut = Cut(ledger, paper, Luck.NOTHING, Luck.NOTHING, 0)
        if film.develop(cut, folder / "cut"):
            lines = await restart(folder / "cut", film.answered(cut), film.placed(cut))
            shutil.rmtree(folder / "cut")
            if lines:
                return lines[0][:2]
    return "nothing was wrong"
