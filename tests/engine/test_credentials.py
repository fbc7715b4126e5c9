"""Secrets set and tokens rotated while it runs: taken at once, the old one for a while, no value anywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import pytest

from app.clock import SECOND, ManualClock
from app.engine import CommandRefused, Engine
from app.engine.at_rest import at_rest
from app.secrets import Secrets
from tests.engine.kit import rows, running

HOUR = 3_600 * SECOND
BODY_SOURCE = """
[[sources]]
name = "tradingview"

[[sources]]
name = "mailer"
auth = "body"
"""


def secrets_of(home: Path) -> Secrets:
    return Secrets(home, {}, keyring=None)


async def ask(engine: Engine, name: str, arguments: dict[str, Any], request_id: str = "r") -> dict[str, Any]:
    return await engine.command(name, arguments, actor="command:me", request_id=request_id)


def address(engine: Engine, source: str = "test") -> str:
    return next(each.local for each in engine.hook_addresses() if each.source == source)


async def status_of(address: str, body: dict[str, Any] | None = None) -> int:
    """What the door says to an alert that it cannot read: 400 if it was let in."""
    async with aiohttp.ClientSession() as session, session.post(address, json=body or {}) as response:
        return response.status


async def test_a_rotated_token_is_taken_at_once_and_the_old_one_stays_valid_for_its_overlap(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "home", clock) as engine:
        old = address(engine)
        answer = await ask(engine, "source rotate", {"source": "test", "overlap": 24 * HOUR})
        new = address(engine)
        assert new != old
        assert answer["taken"] == "now"
        assert answer["old_valid_until"] == "2026-03-03T15:30:00.000000Z"
        assert [await status_of(new), await status_of(old)] == [400, 400]
        clock.advance(24 * HOUR - 1)
        assert await status_of(old) == 400
        clock.advance(1)
        assert [await status_of(new), await status_of(old)] == [400, 404]


async def test_the_overlap_holds_over_a_restart_and_a_second_rotation(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        first = address(engine).rpartition("/")[2]
        await ask(engine, "source rotate", {"source": "test", "overlap": 2 * HOUR}, "1")
        second = address(engine).rpartition("/")[2]
    clock.advance(HOUR)
    async with running(home, clock) as engine:
        base = address(engine).rpartition("/")[0]
        assert await status_of(f"{base}/{first}") == 400
        await ask(engine, "source rotate", {"source": "test", "overlap": 2 * HOUR}, "2")
        third = address(engine).rpartition("/")[2]
        assert len({first, second, third}) == 3
        for token in (first, second, third):
            assert await status_of(f"{base}/{token}") == 400
        clock.advance(HOUR)
        assert [await status_of(f"{base}/{token}") for token in (first, second, third)] == [404, 400, 400]


async def test_without_an_overlap_the_old_one_is_out_at_once(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ManualClock()) as engine:
        old = address(engine)
        await ask(engine, "source rotate", {"source": "test", "overlap": 0})
        assert [await status_of(address(engine)), await status_of(old)] == [400, 404]
        assert await engine.reader.rows("SELECT * FROM retired_credentials") == []


async def test_other_sources_keep_theirs(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ManualClock()) as engine:
        other = address(engine, "tradingview")
        await ask(engine, "source rotate", {"source": "test", "overlap": HOUR})
        assert address(engine, "tradingview") == other
        assert await status_of(other) == 400
        # What was rotated away lets nobody into another source.
        token = address(engine, "test").rpartition("/")[2]
        assert await status_of(f"{other.rpartition('/')[0]}/{token}") == 404


async def test_no_value_is_in_the_ledger_or_in_an_answer(tmp_path: Path) -> None:
    home = tmp_path / "home"
    value = "a-value-of-my-own-0123456789-abcdefghij"
    async with running(home, ManualClock()) as engine:
        old = address(engine).rpartition("/")[2]
        answers = [
            await ask(engine, "source rotate", {"source": "test", "overlap": HOUR}, "1"),
            await ask(engine, "secret set", {"name": "source.test.token", "value": value}, "2"),
            await ask(engine, "secret set", {"name": "account.alpaca.secret_key", "value": value}, "3"),
        ]
        new = address(engine).rpartition("/")[2]
        assert new == value
        whats = [row["what"] for row in await rows(engine, "events") if row["actor"] == "command:me"]
        assert whats == ["secret set", "secret set", "source rotate"]
    content = (home / "ledger.sqlite3").read_bytes()
    for secret in (old, new):
        assert secret not in str(answers)
        assert secret.encode() not in content


async def test_h26_the_same_request_rotates_once(tmp_path: Path) -> None:
    async with running(tmp_path / "home", ManualClock()) as engine:
        arguments = {"source": "test", "overlap": HOUR}
        answers = await asyncio.gather(*(ask(engine, "source rotate", arguments, "same") for _ in range(3)))
        token = address(engine)
        assert await ask(engine, "source rotate", arguments, "same") == answers[0]
        assert address(engine) == token
        assert len(await engine.reader.rows("SELECT * FROM retired_credentials")) == 1


async def test_a_secret_that_is_set_is_taken_at_once_where_it_is_a_sources(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(BODY_SOURCE)
    await asyncio.to_thread(lambda: secrets_of(home).set("source.mailer.secret", "the old secret"))
    async with running(home, ManualClock()) as engine:
        hook = address(engine, "mailer")
        assert await status_of(hook, {"secret": "the old secret"}) == 400
        arguments = {"name": "source.mailer.secret", "value": "the new secret"}
        assert (await ask(engine, "secret set", arguments, "1"))["taken"] == "now"
        assert await status_of(hook, {"secret": "the old secret"}) == 401
        assert await status_of(hook, {"secret": "the new secret"}) == 400
        with pytest.raises(CommandRefused, match="on stdin"):
            await ask(engine, "source rotate", {"source": "mailer", "overlap": HOUR}, "2")
        turn = {"source": "mailer", "overlap": HOUR, "value": "the third secret"}
        await ask(engine, "source rotate", turn, "3")
        assert await status_of(hook, {"secret": "the new secret"}) == 400
        assert await status_of(hook, {"secret": "the third secret"}) == 400
        later = {"name": "account.alpaca.key_id", "value": "key"}
        assert (await ask(engine, "secret set", later, "4"))["taken"] == "at the next start"


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("source rotate", {"source": "nobody", "overlap": 0}, "no source 'nobody'"),
        ("source rotate", {"source": "test", "overlap": -1}, "between 0s and 31d"),
        ("source rotate", {"source": "test", "overlap": 32 * 24 * HOUR}, "between 0s and 31d"),
        ("source rotate", {"source": "test", "overlap": 0, "value": "short"}, "32 to 256"),
        ("secret set", {"name": "source.test.token", "value": "short"}, "32 to 256"),
        ("secret set", {"name": "nothing", "value": "x"}, "not a name of a secret"),
        ("secret set", {"name": "source.a.secret", "value": "two\nlines"}, "one line"),
        ("secret set", {"name": "source.a.secret", "value": 5}, "not a request"),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_changes_nothing(
    tmp_path: Path, name: str, arguments: dict[str, Any], reason: str
) -> None:
    async with running(tmp_path / "home", ManualClock()) as engine:
        before = address(engine)
        with pytest.raises(CommandRefused, match=reason) as refusal:
            await ask(engine, name, arguments)
        assert "short" not in str(refusal.value)
        assert address(engine) == before
        assert await status_of(before) == 400


async def test_what_comes_from_the_environment_is_changed_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = "t" * 40
    async with running(home, ManualClock()):
        pass
    engine = Engine(
        home,
        ManualClock(),
        port=0,
        secrets=lambda: Secrets(home, {"ONEFILL_SECRET_SOURCE_TEST_TOKEN": token}, keyring=None),
    )
    await engine.start()
    try:
        with pytest.raises(CommandRefused, match="ONEFILL_SECRET_SOURCE_TEST_TOKEN"):
            await ask(engine, "source rotate", {"source": "test", "overlap": 0})
        said = await ask(engine, "secret set", {"name": "source.test.token", "value": "u" * 40}, "2")
        assert "comes before it" in said["statement"]
        assert address(engine).endswith(token)
    finally:
        await engine.stop()


async def test_a_store_that_fails_shuts_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    async with running(home, ManualClock()) as engine:
        old = address(engine)
        await asyncio.to_thread((home / "secrets.toml").chmod, 0o644)
        with pytest.raises(CommandRefused, match="can be read by others"):
            await ask(engine, "source rotate", {"source": "test", "overlap": HOUR})
        assert await status_of(old) == 400


async def test_at_rest_the_next_start_takes_it(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()

    def command(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return at_rest(
            home,
            name,
            arguments,
            actor="command:me",
            request_id=name,
            clock=clock,
            make_secrets=lambda: secrets_of(home),
        )

    async with running(home, clock) as engine:
        old = address(engine).rpartition("/")[2]
    answer = await asyncio.to_thread(command, "source rotate", {"source": "test", "overlap": HOUR})
    assert answer["taken"] == "at the next start"
    async with running(home, clock) as engine:
        base, _, new = address(engine).rpartition("/")
        assert new != old
        assert [await status_of(f"{base}/{token}") for token in (old, new)] == [400, 400]
        clock.advance(HOUR)
        assert await status_of(f"{base}/{old}") == 404


async def test_a_secret_can_be_set_before_the_first_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(BODY_SOURCE)

    def set_it() -> dict[str, Any]:
        return at_rest(
            home,
            "secret set",
            {"name": "source.mailer.secret", "value": "known to the sender"},
            actor="command:me",
            request_id="1",
            clock=ManualClock(),
            make_secrets=lambda: secrets_of(home),
        )

    assert (await asyncio.to_thread(set_it))["taken"] == "at the next start"
    assert not (home / "ledger.sqlite3").exists()
    async with running(home, ManualClock()) as engine:
        assert await status_of(address(engine, "mailer"), {"secret": "known to the sender"}) == 400


async def test_digests_whose_time_is_over_are_let_go(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        for number in range(3):
            await ask(engine, "source rotate", {"source": "test", "overlap": HOUR}, str(number))
            clock.advance(2 * HOUR)
    connection = apsw.Connection(str(home / "ledger.sqlite3"))
    kept = connection.execute("SELECT count(*) FROM retired_credentials").fetchall()
    connection.close()
    assert kept == [(1,)]
