"""A message is brought by a real HTTP request; what refuses, hangs or is wrong is a reason, no secret."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from pathlib import Path

import pytest

from app.logs import start_logging
from app.notify import Courier, Message
from app.notify.courier import MOST_HANGING, NobodyThere, send
from app.notify.item import CRITICAL
from app.secrets import Secrets
from app.settings import Notice
from tests.notify.service import Service, service

SECRET = "AAE-abc_DEF-s3cr3t"
MESSAGE = Message("Onefill needs you now", "- O1 <b>was</b> *not* done.\nWhat to do: look.", CRITICAL)
PHONE = Notice(name="phone", to="url", kinds=("critical",), quiet=None)
SCREEN = Notice(name="desktop", to="desktop", kinds=("critical",), quiet=None)


def courier(home: Path, url: str | None, timeout: float = 10) -> Courier:
    environ = {} if url is None else {"ONEFILL_SECRET_NOTICE_PHONE_URL": url}
    return Courier(PHONE, lambda: Secrets(home, environ, keyring=None), timeout=timeout)


async def ended(threads: list[threading.Thread]) -> None:
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)


async def test_it_arrives_as_it_was_written(tmp_path: Path) -> None:
    with service() as there:
        assert await courier(tmp_path, there.url()).bring(MESSAGE) == ""
        (came,) = there.came
    assert (came["title"], came["message"], came["type"]) == (MESSAGE.title, MESSAGE.body, "failure")


@pytest.mark.parametrize(("mood", "words"), [("refuse", "500"), ("stranger", "401")])
async def test_a_service_that_refuses_is_a_reason(tmp_path: Path, mood: str, words: str) -> None:
    with service() as there:
        there.mood = mood
        reason = await courier(tmp_path, there.url(SECRET)).bring(MESSAGE)
    assert words in reason
    assert SECRET not in reason


async def test_nobody_listens_there(tmp_path: Path) -> None:
    with service() as there:
        url = there.url(SECRET)
    reason = await courier(tmp_path, url).bring(MESSAGE)
    assert "onnection" in reason
    assert SECRET not in reason


async def test_without_an_address_it_says_how_to_set_one(tmp_path: Path) -> None:
    reason = await courier(tmp_path, None).bring(MESSAGE)
    assert "onefill secret set notice.phone.url" in reason


@pytest.mark.parametrize("url", [f"nonsense://{SECRET}", SECRET, f"tgram://{SECRET}"])
async def test_an_address_that_is_none_is_a_reason_that_does_not_repeat_it(tmp_path: Path, url: str) -> None:
    reason = await courier(tmp_path, url).bring(MESSAGE)
    assert "none that Apprise knows" in reason
    assert SECRET not in reason


def test_no_log_has_a_part_of_the_address(tmp_path: Path) -> None:
    stop = start_logging(tmp_path, stderr=io.StringIO())
    root = logging.getLogger()
    root.setLevel(logging.DEBUG)
    try:
        with service() as there:
            assert send(there.url(SECRET), MESSAGE) == ""
            there.mood = "refuse"
            assert SECRET not in send(there.url(SECRET), MESSAGE)
        assert SECRET not in send(f"nonsense://{SECRET}", MESSAGE)
        logging.getLogger("here").info("the log is written")
    finally:
        stop()
    text = (tmp_path / "onefill.log").read_text()
    assert "the log is written" in text
    assert SECRET not in text


async def test_one_that_hangs_is_left_behind_and_never_more_than_a_few(tmp_path: Path) -> None:
    late: list[str] = []
    with service() as there:
        there.mood = "hang"
        mine = courier(tmp_path, there.url("x?rto=30"), timeout=1.0)
        for _ in range(MOST_HANGING):
            assert "no answer within" in await mine.bring(MESSAGE, late=lambda: late.append("came"))
        assert "still hang" in await mine.bring(MESSAGE)
        assert await asyncio.to_thread(lambda: there.tries) == MOST_HANGING
        there.released.set()
        await ended(mine.threads)
        there.mood = "well"
        assert await mine.bring(MESSAGE) == ""
    assert late == ["came"] * MOST_HANGING, "what arrives after its time has arrived"


async def test_a_library_that_breaks_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_url: str, _message: Message) -> str:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("app.notify.courier.send", breaks)
    assert await courier(tmp_path, "json://127.0.0.1").bring(MESSAGE) == "it failed inside (RuntimeError)"


async def test_this_screen_shows_it_where_somebody_can(tmp_path: Path) -> None:
    screen = Courier(SCREEN, lambda: Secrets(tmp_path, {}, keyring=None))
    with pytest.raises(NobodyThere):
        await screen.bring(MESSAGE)
    shown: list[Message] = []

    def show(message: Message) -> bool:
        shown.append(message)
        return True

    screen.show = show
    assert await screen.bring(MESSAGE) == ""
    assert shown == [MESSAGE]
    screen.show = lambda _message: False
    assert "shows no messages" in await screen.bring(MESSAGE)


def test_many_at_once_keep_their_reasons_apart() -> None:
    """Apprise has one logger for all threads."""

    def one(there: Service, reasons: list[str]) -> None:
        reasons.append(send(there.url(), MESSAGE))

    with service() as good, service() as bad:
        bad.mood = "refuse"
        well: list[str] = []
        ill: list[str] = []
        threads = [threading.Thread(target=one, args=(good, well)) for _ in range(4)]
        threads += [threading.Thread(target=one, args=(bad, ill)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert well == [""] * 4
    assert all("500" in reason for reason in ill)
