"""A running engine tells a real service, once, over a restart; and its door and lanes know nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from app.clock import SECOND, ManualClock
from app.engine import CommandRefused, Engine, Fact, checkup
from app.engine import notices as room
from app.engine.checkup import Patient, check_up
from app.engine.notices import of_facts, of_needs
from app.ledger.needs import Need
from app.notify import Message, Pace
from app.notify.item import CRITICAL, WARNING
from app.notify.outbox import Times
from app.secrets import Secrets
from tests.engine.kit import send, settled, until, word
from tests.notify.service import Service, service

QUICK = Pace(
    beat=0.02,
    save=0.05,
    times=Times(
        batch=SECOND // 5, gap=SECOND // 10, urgent_gap=SECOND // 10, again=(SECOND // 10,), patience=0
    ),
)
CONFIG = """
[[notices]]
name = "phone"
to = "url"
kinds = ["critical", "needs_you", "drift", "account", "unwell", "stopping"]

[[notices]]
name = "all"
to = "url"
kinds = ["filled", "refused"]

[[notices]]
name = "desktop"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.notify.notifier.Pace", lambda: QUICK)
    monkeypatch.setattr(room, "LOOK_EVERY", SECOND // 20)


@contextlib.asynccontextmanager
async def telling(home: Path, phone: Service, everything: Service) -> AsyncIterator[Engine]:
    await asyncio.to_thread(_configure, home)
    environ = {
        "ONEFILL_SECRET_NOTICE_PHONE_URL": phone.url(),
        "ONEFILL_SECRET_NOTICE_ALL_URL": everything.url(),
    }
    engine = Engine(home, port=0, secrets=lambda: Secrets(home, environ, keyring=None))
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "account:paper") == "ready")
        yield engine
    finally:
        manners = engine.manners
        await engine.stop()
        assert manners is not None
        notifier = manners.notices._notifier
        assert notifier is not None
        for thread in [thread for courier in notifier.couriers.values() for thread in courier.threads]:
            await asyncio.to_thread(thread.join, 10)


def _configure(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG)


async def came(there: Service, words: str) -> None:
    await until_true(lambda: words in there.text)


async def until_true(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what another thread does
            await asyncio.sleep(0.01)


async def lost_exit(engine: Engine, key: str) -> None:
    """An exit that reads as one and is refused: it stands in Needs you, critical."""
    status, _ = await send(engine, key, action="exit", trailing_stop=5)
    assert status == 400


async def test_a_refused_exit_is_told_once_and_not_again_by_the_next_run(tmp_path: Path) -> None:
    with service() as phone, service() as everything:
        async with telling(tmp_path / "home", phone, everything) as engine:
            await lost_exit(engine, "one")
            await came(phone, "reads as an exit")
            await came(everything, "An alert from test was refused: invalid")
        assert phone.came[0]["title"] == "Onefill needs you now"
        assert phone.came[0]["type"] == "failure"
        async with telling(tmp_path / "home", phone, everything) as engine:
            await lost_exit(engine, "two")
            await came(phone, "D2: ")
        assert len(phone.came) == 2
        assert "D2" not in phone.came[0]["message"]
        assert phone.came[1]["title"] == "Onefill needs you now", "the first one is not told again"


async def test_fills_are_told_to_whoever_wants_them_and_to_nobody_else(tmp_path: Path) -> None:
    with service() as phone, service() as everything:
        async with telling(tmp_path / "home", phone, everything) as engine:
            for number in range(12):
                await send(engine, f"fill-{number}")
            await settled(engine, 12)
            await came(everything, "is filled: buy 1 AAPL at 10 in paper, from test.")
            await until_true(lambda: sum(_fills(message["message"]) for message in everything.came) >= 12)
        assert sum(_fills(message["message"]) for message in everything.came) == 12
        assert len(everything.came) <= 6, "a burst is a few messages"
        assert phone.came == []


def _fills(text: str) -> int:
    named = text.count("is filled:")
    more = next((line for line in text.splitlines() if line.startswith("And ")), "")
    return named + (int(more.split()[1]) if more else 0)


async def test_receivers_that_hang_and_fail_slow_neither_the_door_nor_a_lane(tmp_path: Path) -> None:
    with service() as hanging, service() as failing:
        hanging.mood, failing.mood = "hang", "refuse"
        async with telling(tmp_path / "home", hanging, failing) as engine:
            await lost_exit(engine, "first")
            await until_true(lambda: bool(hanging.tries and failing.tries))
            loop = asyncio.get_running_loop()
            longest = 0.0
            for number in range(25):
                before = loop.time()
                status, _ = await send(engine, f"meanwhile-{number}")
                longest = max(longest, loop.time() - before)
                assert status == 200
            orders = await settled(engine, 25)
            assert {order["ord_status"] for order in orders} == {"Filled"}
            assert longest < 2.0, "the door's own deadline"
            await until(engine, lambda: word(engine.status(), "notices") == "failing")
            fact = next(fact for fact in engine.status().facts if fact.name == "notices")
            assert (fact.level, "500" in fact.reason) == ("warning", True)
            assert failing.url() not in fact.reason
            assert "s3cr3t" not in msgspec.json.encode(engine.status()).decode()
            hanging.released.set()


async def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with service() as phone, service() as everything:
        async with telling(tmp_path / "home", phone, everything) as engine:
            assert engine._opened is not None
            connection = engine._opened.connection
            pages = connection.execute("PRAGMA page_count").fetchall()[0][0]
            connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            status, _ = await send(engine, "full", extras=["x" * 1_000] * 50)
            assert status == 503
            await came(phone, "Ledger: full.")
            connection.execute("PRAGMA max_page_count = 1000000").fetchall()
            await came(phone, "Ledger: well again.")


async def test_a_program_that_stops_itself_says_so_last(tmp_path: Path) -> None:
    with service() as phone, service() as everything:
        async with telling(tmp_path / "home", phone, everything) as engine:
            engine._give_up("another program has taken the home")
            assert engine.stop_requested.is_set()
        await came(phone, "another program has taken the home")
        assert phone.came[0]["title"] == "Onefill has stopped itself"


async def test_an_ordinary_stop_tells_nobody(tmp_path: Path) -> None:
    with service() as phone, service() as everything:
        async with telling(tmp_path / "home", phone, everything) as engine:
            engine.request_stop("menu")
        assert phone.came == everything.came == []


async def test_the_command_sends_a_test_and_says_by_name_what_came_of_it(tmp_path: Path) -> None:
    shown: list[Message] = []

    def show(message: Message) -> bool:
        shown.append(message)
        return True

    with service() as phone, service() as everything:
        everything.mood = "refuse"
        async with telling(tmp_path / "home", phone, everything) as engine:
            assert engine.manners is not None
            engine.manners.notices.show_on_desktop(show)
            answer = await engine.command("notice test", {}, actor="test", request_id="1")
            sent = {each["name"]: each["sent"] for each in answer["notices"]}
            assert sent == {"phone": True, "all": False, "desktop": True}
            assert len(shown) == len(phone.came) == 1
            await engine.command("notice test", {"name": "phone"}, actor="test", request_id="2")
            assert len(phone.came) == 2
            with pytest.raises(CommandRefused, match="there is no"):
                await engine.command("notice test", {"name": "nobody"}, actor="test", request_id="3")


def test_what_needs_a_person_by_kind() -> None:
    def need(kind: str, severity: str) -> Need:
        return Need(kind=kind, severity=severity, subject="O1", text="t", since="")  # type: ignore[arg-type]

    found = of_needs(
        [
            need("exit_lost", "critical"),
            need("conflict", "warning"),
            need("drift", "warning"),
            need("x", "info"),
        ]
    )
    assert [(item.kind, item.rank) for item in found] == [
        ("critical", CRITICAL),
        ("needs_you", WARNING),
        ("drift", WARNING),
    ]


def test_what_of_the_facts_is_news() -> None:
    facts = [
        Fact("listener", "open", "ok", "listening"),
        Fact("tunnel", "down", "error", "cloudflared: it ended"),
        Fact("tunnel", "starting", "warning", "cloudflared: starting"),
        Fact("account:paper", "reconciling", "warning", "comparing"),
        Fact("account:live", "failing", "error", "the broker could not be reached"),
        Fact("account:other", "other account", "warning", "another account answers: PA999 not PA111"),
        Fact("trading", "halted", "warning", "every order is denied"),
        Fact("loop", "slow", "error", "the program stood still"),
        Fact("backup", "failing", "warning", "no backup could be made today"),
        Fact("program", "stopping", "error", "the disk is gone"),
        Fact("program", "broken", "error", "a part died"),
    ]
    found = of_facts(facts)
    assert [(item.kind, item.key) for item in found] == [
        ("unwell", "fact tunnel"),
        ("account", "fact account:live"),
        ("account", "fact account:other"),
        ("unwell", "fact backup"),
        ("stopping", "fact program"),
        ("unwell", "fact program"),
    ]
    assert not any("PA999" in item.text for item in found), "whose account it is goes to nobody"


async def test_an_address_that_is_set_counts_for_the_next_notice(tmp_path: Path) -> None:
    with service() as phone:
        home = tmp_path / "home"
        await asyncio.to_thread(_configure, home)
        engine = Engine(home, port=0, secrets=lambda: Secrets(home, {}, keyring=None))
        await engine.start()
        try:
            arguments = {"name": "notice.phone.url", "value": phone.url()}
            answer = await engine.command("secret set", arguments, actor="test", request_id="1")
            assert answer["taken"] == "now"
            answer = await engine.command("notice test", {"name": "phone"}, actor="test", request_id="2")
            assert answer["notices"] == [{"name": "phone", "sent": True, "why": ""}]
        finally:
            await engine.stop()
    assert len(phone.came) == 1


def test_the_check_up_says_which_receiver_has_no_address(tmp_path: Path) -> None:
    home = tmp_path / "home"
    _configure(home)
    environ = {"ONEFILL_SECRET_NOTICE_ALL_URL": "json://127.0.0.1/x"}
    patient = Patient(home, ManualClock(), make_secrets=lambda: Secrets(home, environ, keyring=None))
    found = [each for each in check_up(patient, checkup.NEAR) if each.check == "notices"]
    assert [each.level for each in found] == ["warning"]
    assert found[0].seen.startswith("phone has no address")
    assert "onefill secret set notice.phone.url" in found[0].seen
