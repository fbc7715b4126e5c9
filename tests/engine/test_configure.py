"""Settings changed while the program runs: tried, refused as a start would, written once, and never lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.engine import Engine
from app.engine.status import CommandRefused
from app.settings import config_path, read_settings
from tests.engine.kit import rows, running, send, settled

SET = ["set", ["risk", "cooldown"], "5s"]


async def ask(engine: Engine, edits: list[Any], request_id: str = "r-1", **more: Any) -> dict[str, Any]:
    return await engine.command("configure", {"edits": edits, **more}, actor="window", request_id=request_id)


async def text_of(home: Path) -> str:
    return await asyncio.to_thread(config_path(home).read_text, "utf-8")


async def test_a_trial_says_what_would_be_and_writes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        before = await text_of(tmp_path)
        answer = await ask(engine, [SET], dry_run=True)
        assert answer["problem"] is None
        assert answer["raw"]["risk"]["cooldown"] == "5s"
        assert answer["waiting"] == ["risk.cooldown"]
        assert answer["changed"] == ["risk.cooldown"]
        assert await text_of(tmp_path) == before
        assert [each for each in await rows(engine, "events") if each["what"] == "settings written"] == []


async def test_what_is_written_keeps_the_comments_and_stands_in_the_audit_trail_without_values(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as engine:
        before = await text_of(tmp_path)
        read = await ask(engine, [], dry_run=True)
        answer = await ask(engine, [SET], base=read["digest"])
        after = await text_of(tmp_path)
        assert set(before.split("\n")) - set(after.split("\n")) == {'cooldown = "0s"'}
        assert (await ask(engine, [], dry_run=True))["digest"] == answer["digest"]
        (event,) = [each for each in await rows(engine, "events") if each["what"] == "settings written"]
        assert "risk.cooldown" in event["detail"]
        assert "5s" not in event["detail"]
        assert engine.settings.risk.cooldown == 0
    assert (await asyncio.to_thread(read_settings, after)).risk.cooldown == 5_000_000


async def test_h26_the_same_request_writes_once_and_is_answered_as_before(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        first = await ask(engine, [SET])
        await ask(engine, [["set", ["risk", "cooldown"], "9s"]], "r-2")
        assert await ask(engine, [SET]) == first
        assert 'cooldown = "9s"' in await text_of(tmp_path)
        with pytest.raises(CommandRefused, match="already used"):
            await ask(engine, [["set", ["risk", "cooldown"], "7s"]])


@pytest.mark.parametrize(
    ("edit", "where", "said"),
    [
        (["set", ["risk", "cooldown"], "soon"], ("risk", "cooldown"), "not a time"),
        (["set", ["sources", 0, "accounts"], ["gone"]], ("sources", 0, "accounts"), 'no account "gone"'),
        (["set", ["sources", 0, "name"], "test"], ("sources", 0, "name"), "built in"),
        (
            ["set", ["sources", 0, "id"], "another"],
            ("sources", 0, "id"),
            "every old signal could get in again",
        ),
        (
            ["set", ["accounts", 0, "base_url"], "https://u:p@x.example"],
            ("accounts", 0, "base_url"),
            "must hold no",
        ),
    ],
)
async def test_what_would_stop_the_next_start_is_refused_with_its_field(
    tmp_path: Path, edit: list[Any], where: tuple[Any, ...], said: str
) -> None:
    async with running(tmp_path) as engine:
        before = await text_of(tmp_path)
        problem = (await ask(engine, [edit], dry_run=True))["problem"]
        assert tuple(problem["where"]) == where
        assert said in problem["message"]
        assert problem["line"]
        with pytest.raises(CommandRefused, match=said):
            await ask(engine, [edit])
        assert await text_of(tmp_path) == before


async def test_an_account_with_something_open_is_not_taken_away(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        await send(engine, "open-1")
        await settled(engine, 1)
        edits = [
            ["add", "accounts", {"name": "second"}],
            ["set", ["sources", 0, "accounts"], ["second"]],
            ["drop", "accounts", 0],
        ]
        problem = (await ask(engine, edits, dry_run=True))["problem"]
        assert (
            'has no [[accounts]] "paper" any more, and the ledger has open there: 1 AAPL'
            in problem["message"]
        )


async def test_a_file_that_was_changed_by_hand_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        read = await ask(engine, [], dry_run=True)
        by_hand = (await text_of(tmp_path)) + "\n# by hand\n"
        await asyncio.to_thread(config_path(tmp_path).write_text, by_hand, "utf-8")
        with pytest.raises(CommandRefused, match="changed meanwhile"):
            await ask(engine, [SET], base=read["digest"])
        assert await text_of(tmp_path) == by_hand


async def test_a_file_that_is_broken_by_hand_is_said_and_left(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        await asyncio.to_thread(config_path(tmp_path).write_text, "[risk\n", "utf-8")
        answer = await ask(engine, [], dry_run=True)
        assert answer["problem"]["line"] == 1
        assert answer["waiting"] == []


async def test_a_new_source_says_what_it_still_needs(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        answer = await ask(engine, [["add", "sources", {"name": "mail", "auth": "body"}]], dry_run=True)
        assert answer["notes"] == ['Set the secret of source "mail" before the next start, or it is refused']
        await engine.command(
            "secret set",
            {"name": "source.mail.secret", "value": "hush-hush-hush"},
            actor="window",
            request_id="s",
        )
        answer = await ask(engine, [["add", "sources", {"name": "mail", "auth": "body"}]], dry_run=True)
        assert answer["notes"] == []
        assert "sources mail.auth" in answer["waiting"]


@pytest.mark.parametrize("edits", [[["burn"]], [["set", [], 1]], [["drop", "sources", "one"]], "all"])
async def test_what_is_no_edit_is_refused(tmp_path: Path, edits: Any) -> None:
    async with running(tmp_path) as engine:
        with pytest.raises(CommandRefused):
            await ask(engine, edits)


async def test_an_account_tells_who_it_is_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        answer = await engine.command("test account", {"account": "paper"}, actor="window", request_id="t")
        assert (answer["account"], answer["live"], answer["cash"]) == ("paper", False, "100000")
        assert answer["identity"]
        with pytest.raises(CommandRefused, match="no account 'gone' in force"):
            await engine.command("test account", {"account": "gone"}, actor="window", request_id="u")
