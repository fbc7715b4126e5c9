"""What a message says, and what it never says."""

from __future__ import annotations

from collections import Counter

import pytest

from app.notify import Event, Item
from app.notify.courier import blanked
from app.notify.item import CRITICAL, NOTE
from app.notify.wording import WIDTH, line, message


@pytest.mark.parametrize(
    ("kind", "title", "todo"),
    [
        ("critical", "Onefill needs you now", "onefill needs"),
        ("drift", "Onefill: books and broker differ", "onefill needs"),
        ("unwell", "Onefill is not well", "onefill doctor"),
        ("account", "Onefill: an account is in trouble", "onefill doctor"),
        ("stopping", "Onefill has stopped itself", "Start Onefill again"),
    ],
)
def test_one_thing_says_what_it_is_and_what_to_do(kind: str, title: str, todo: str) -> None:
    made = message([Item("a", kind, "Something.", CRITICAL)], Counter())
    assert made.title == title
    assert todo in made.body


def test_good_news_asks_for_nothing() -> None:
    made = message([Event("E", 1, "filled", "O1 filled.")], Counter())
    assert (made.title, made.body, made.rank) == ("Onefill: an order is filled", "- O1 filled.", NOTE)


def test_a_line_has_no_hook_token_no_control_characters_and_an_end() -> None:
    said = line("see http://127.0.0.1:8787/hook/tradingview/k3Jt0v9xQ2mLr7Zp\x1b[31m\n\u202eevil")
    assert "k3Jt0v9xQ2mLr7Zp" not in said
    assert said.isprintable()
    assert len(line("x" * 5_000)) == WIDTH


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("tgram://123456789:AAE-abc_DEF/987654", ["AAE-abc_DEF", "987654", "123456789"]),
        ("mailtos://me:p%40ssword@mail.example.com?to=you@example.com", ["p%40ssword", "p@ssword"]),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", ["4174216298", "JHMHI8qBe7bk2ZwO5U711o3dV_js"]),
    ],
)
def test_a_librarys_words_lose_every_part_of_the_address(url: str, secrets: list[str]) -> None:
    said = blanked(f"could not reach {url}: {' '.join(secrets)} at {url.upper()}", url)
    assert "could not reach" in said
    assert not [secret for secret in secrets if secret.lower() in said.lower()]
