"""The checker against the real door: what it says is what the door answers, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import msgspec
import pytest

from app.clock import SECOND, ManualClock
from app.domain.alert_builder import SECRET_HERE
from app.domain.explain import Explanation
from app.domain.key import HeaderKeys
from app.domain.times import read_time
from app.engine.checking import Question, check_message
from app.settings import read_settings
from tests.cases.test_cases import CASES, COMES_AFTER, Case, line, settings_of
from tests.execution.kit import desk
from tests.listener.kit import HOOK, admission, opened, post, source

CONFIG = '[[sources]]\nname = "tv"\nid = "tv-id"\n{more}\n[[accounts]]\nname = "paper"\nsizing = "{sizing}"\n'
AT = read_time("2026-03-02T15:30:10Z")
BUY = {"symbol": "AAPL", "action": "buy", "quantity": "10", "price": "189.25"}


def asked(
    body: str | bytes, *, at: int = AT, more: str = "", sizing: str = "signal", fill: bool = False
) -> Explanation:
    """Without a ledger."""
    settings = read_settings(CONFIG.format(more=more, sizing=sizing))
    raw = body.encode() if isinstance(body, str) else body
    return check_message(settings, settings.sources[0], Question(body=raw, at=at, fill=fill))


def secret_of(case: Case) -> str | None:
    found: str | None = case["source"].get("secret")
    return found


@pytest.mark.parametrize("name", list(CASES))
async def test_every_case_is_explained_as_the_door_then_answers_it(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    settings = await asyncio.to_thread(read_settings, settings_of(case))
    async with line(tmp_path, name) as way:
        question = Question(
            body=case["body"].encode(),
            at=way.desk.clock.now(),
            accepts=lambda secret: secret == secret_of(case),
        )
        # The starting book moves the clock's deliveries, not the ledger's rows that the door counts.
        before = await way.rows(
            "SELECT (SELECT count(*) FROM deliveries) AS d, (SELECT count(*) FROM claims) AS c"
        )
        found = await way.desk.reader.call(
            lambda db: check_message(settings, settings.sources[0], question, db)
        )
        after = await way.rows(
            "SELECT (SELECT count(*) FROM deliveries) AS d, (SELECT count(*) FROM claims) AS c"
        )
        response = await way.post(name)
    assert before == after
    assert (found.http_status, found.status) == (response.status, response.json["status"])
    if response.status == 200:
        assert found.key == response.json.get("key", found.key)
        assert found.key_source == response.json.get("key_source", found.key_source)
        assert (found.status == "duplicate") == (name in COMES_AFTER)
    else:
        assert found.reason == response.reason
        assert list(found.fields) == response.json.get("fields", [])
    for warning in response.json.get("warnings", []):
        sentence = warning.partition(": ")[2]
        assert sentence[1:] in found.text, warning


BODIES = {
    "comma": '{"symbol": "AAPL", "action": "buy", "quantity": "10",}',
    "twice": '{"symbol": "AAPL", "symbol": "AAPL", "action": "buy", "quantity": "10"}',
    "quantity_word": json.dumps({**BUY, "quantity": "ten"}),
    "two_symbols": json.dumps({**BUY, "ticker": "MSFT"}),
    "future": json.dumps({**BUY, "fired_at": "2026-03-02T15:40:00Z"}),
    "stale": json.dumps({**BUY, "fired_at": "2026-03-02T15:00:00Z"}),
    "naive": json.dumps({**BUY, "time": "2026-03-02T15:30:00"}),
    "leverage": json.dumps({**BUY, "leverage": 5}),
    "key_too_long": json.dumps({**BUY, "key": "k" * 300}),
    "list": json.dumps([BUY]),
    "text": "AAPL crossed its mean",
    "nothing": "   ",
    "nested": json.dumps({"ticker": "AAPL", "strategy": {"order_action": "bay", "order_contracts": 1}}),
    "no_size": json.dumps({"symbol": "AAPL", "action": "buy"}),
    "placeholder": json.dumps({**BUY, "symbol": "{{ticker}}"}),
    "reverse_flat": json.dumps({**BUY, "action": "reverse", "sentiment": "flat"}),
    "utf_16": "{}".encode("utf-16").decode("latin-1"),
    "too_big": json.dumps({**BUY, "comment": "x" * 70_000}),
    "good": json.dumps({**BUY, "key": "good-1"}),
    "exit": json.dumps(
        {"symbol": "AAPL", "action": "exit", "key": "exit-1", "fired_at": "2026-03-02T15:29:00Z"}
    ),
}


@pytest.mark.parametrize("auth", ["path", "body"])
async def test_other_bodies_are_answered_as_explained(tmp_path: Path, auth: str) -> None:
    text = CONFIG.format(more=f'auth = "{auth}"', sizing="signal")
    settings = await asyncio.to_thread(read_settings, text)
    clock = ManualClock(AT)
    access = source(id="tv-id", auth=auth, admission=admission("tv-id", "tv"))
    async with (
        desk(tmp_path, text, clock=clock) as open_desk,
        opened(open_desk.store, clock, tv=access) as door,
    ):
        for name, body in BODIES.items():
            raw = body.encode("latin-1" if name == "utf_16" else "utf-8")
            question = Question(body=raw, at=clock.now())
            found = await open_desk.reader.call(
                partial(check_message, settings, settings.sources[0], question)
            )
            response = await post(door, raw, HOOK if auth == "path" else "/hook/tv")
            assert (found.http_status, found.status) == (response.status, response.json["status"]), name
            if response.status != 200:
                assert found.reason == response.reason, name
                if auth == "path":
                    assert list(found.fields) == response.json.get("fields", []), name
            await open_desk.writer.run(lambda _: None)


async def test_a_known_key_is_a_duplicate_and_another_order_under_it_a_conflict(tmp_path: Path) -> None:
    text = CONFIG.format(more="", sizing="signal")
    settings = await asyncio.to_thread(read_settings, text)
    clock = ManualClock(AT)
    async with (
        desk(tmp_path, text, clock=clock) as open_desk,
        opened(open_desk.store, clock, tv=source(id="tv-id", admission=admission("tv-id", "tv"))) as door,
    ):
        await post(door, json.dumps({**BUY, "key": "demo-1"}).encode(), HOOK)
        await open_desk.writer.run(lambda _: None)
        clock.advance(20 * SECOND)

        async def ask(**changes: object) -> Explanation:
            said = {**BUY, "key": "demo-1", **changes}
            body = json.dumps({name: value for name, value in said.items() if value is not None}).encode()
            question = Question(body=body, at=clock.now())
            return await open_desk.reader.call(
                lambda db: check_message(settings, settings.sources[0], question, db)
            )

        again = await ask()
        assert (again.http_status, again.status) == (200, "duplicate")
        assert again.headline == "Nothing: it is a duplicate of S1"
        assert "S1 (Buy 10 AAPL at market on paper), which came 20 s before" in again.text
        other = await ask(quantity="11")
        assert (other.http_status, other.status, other.reason) == (422, "conflict", "intent_differs")
        assert other.fields == ("quantity",)
        assert len(other.marks) == 1
        aliased = await ask(quantity=None, qty="11")
        assert (aliased.fields, len(aliased.marks)) == (("quantity",), 1)
        assert await ask(key="demo-2", quantity="11") != other


def test_a_header_key_counts_as_at_the_door() -> None:
    settings = read_settings(CONFIG.format(more="", sizing="signal"))
    body = json.dumps(BUY).encode()
    headers = HeaderKeys(idempotency_key=("h-1",))
    found = check_message(settings, settings.sources[0], Question(body=body, at=AT, headers=headers))
    assert (found.key, found.key_source) == ("h-1", "header")


def test_what_is_stale_says_what_it_would_have_been() -> None:
    found = asked(BODIES["stale"])
    assert (found.http_status, found.status) == (422, "stale")
    assert "It would have been: Buy 10 AAPL at market on paper" in found.text


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("comma", ","),
        ("quantity_word", '"quantity": "ten"'),
        ("leverage", '"leverage": 5'),
        ("nested", '"order_action": "bay"'),
        ("placeholder", '"symbol": "{{ticker}}"'),
    ],
)
def test_the_wrong_place_is_marked(name: str, marked: str) -> None:
    body = BODIES[name]
    found = asked(body)
    assert [body[mark.start : mark.end] for mark in found.marks] == [marked]


def test_a_template_is_filled_in_and_said_so_and_a_misspelt_placeholder_is_named_in_the_original() -> None:
    template = (
        '{"symbol": "{{ticker}}", "action": "{{strategy.order.action}}", "qty": "{{strategy.contracts}}"}'
    )
    found = asked(template, fill=True)
    assert found.reason == "unsubstituted_placeholder"
    assert [template[mark.start : mark.end] for mark in found.marks] == ['"qty": "{{strategy.contracts}}"']
    good = asked(template.replace("strategy.contracts", "strategy.order.contracts"), fill=True)
    assert good.headline == "Buy 1 SAMPLE at market on paper"
    assert "alerts of a strategy only" in good.text


def test_broken_json_behind_placeholders_is_marked_in_the_text_as_pasted() -> None:
    template = '{"symbol": "{{ticker}}", "price": "{{close}}",}'
    (mark,) = asked(template, fill=True).marks
    assert template[mark.start : mark.end] == ","
    assert mark.column == template.rindex(",") + 1


def test_bytes_that_are_no_text_are_marked_where_they_stand() -> None:
    (mark,) = asked(b'{"symbol": "A\xffPL"}').marks
    assert mark.start == 13


@pytest.mark.parametrize(
    ("sizing", "said"),
    [
        ("quantity:3", "Buy 3 (the account's size) of AAPL at market on paper"),
        ("cash:1000", "Buy 1000 in cash worth of AAPL at market on paper"),
        ("equity:2.5%", "Buy 2.5 % of the account's equity of AAPL at market on paper"),
    ],
)
def test_an_accounts_sizing_is_said(sizing: str, said: str) -> None:
    assert asked('{"symbol": "AAPL", "action": "buy"}', sizing=sizing).headline == said


def test_no_sentence_repeats_the_secret_of_a_message() -> None:
    for body in ({**BUY, "secret": "hush-hush"}, {**BUY, "secret": "hush-hush", "action": "bay"}):
        found = asked(json.dumps(body), more='auth = "body"')
        assert "hush-hush" not in msgspec.json.encode(found).decode()


def test_a_secret_that_was_never_put_in_is_noticed_and_another_is_not_vouched_for() -> None:
    body = {**BUY, "secret": SECRET_HERE}
    found = asked(json.dumps(body), more='auth = "body"')
    assert (found.http_status, found.status, found.reason) == (401, "unauthorized", "bad_secret")
    found = asked(json.dumps({**BUY, "secret": "hush-hush"}), more='auth = "body"')
    assert found.status == "accepted"
    assert "compared at the door, not here" in found.text
