"""What a program prints is kept in part and blanked, however it comes."""

from __future__ import annotations

import re

import pytest

from app.tunnel.lines import BLANK, KEPT, LONGEST, WIDTH, Lines


def test_the_newest_lines_are_kept_and_no_more() -> None:
    lines = Lines()
    for number in range(KEPT + 50):
        lines.feed(f"line {number}\n".encode())
    kept = lines.last()
    assert (len(kept), kept[0], kept[-1]) == (KEPT, "line 50", f"line {KEPT + 49}")


def test_lines_come_in_any_pieces() -> None:
    lines = Lines(["correct-horse"])
    for piece in (b"a to", b"ken corr", b"ect-horse here\nand the", b" next\r\n", b"\n", b"no end"):
        lines.feed(piece)
    lines.close()
    assert lines.last() == [f"a token {BLANK} here", "and the next", "no end"]


@pytest.mark.parametrize(
    "line",
    [
        "authtoken: 2aBcDeFgHiJk",
        'lvl=info token="2aBcDeFgHiJk"',
        "Authorization=2aBcDeFgHiJk",
        "Authorization: Bearer 2aBcDeFgHiJk",
        'TUNNEL_TOKEN="2aBcDeFgHiJk"',
        "POST /hook/tradingview/2aBcDeFgHiJk HTTP/1.1",
        "Settings: map[token:2aBcDeFgHiJk url:http]",
        "eyJhIjoi2aBcDeFgHiJkIn0",
    ],
)
def test_what_looks_like_a_secret_is_blanked(line: str) -> None:
    lines = Lines()
    lines.feed(line.encode() + b"\n")
    assert "2aBcDeFgHiJk" not in lines.last()[0]
    assert BLANK in lines.last()[0]


def test_a_line_without_end_is_cut_and_no_half_secret_stays_at_the_cut() -> None:
    secret = "s3cr3t-" * 20
    lines = Lines([secret])
    lines.feed(("x" * (LONGEST - 60) + secret).encode())
    for _ in range(100):
        lines.feed(b"y" * 65_536)
    lines.feed(b"\nnext\n")
    cut, after = lines.last()
    assert len(cut) == WIDTH
    assert after == "next"
    # The text shrinks where much of it is blanked: the cut end may come into sight, and is gone all the same.
    lines.feed((secret * 200)[:20_000].encode() + b"\n")
    assert "s3cr3t" not in lines.last()[-1]


def test_a_flood_is_passed_over_and_counted_but_its_end_is_kept() -> None:
    lines = Lines()
    lines.feed(b"flood\n" * 10_000 + b"the end\n")
    assert lines.last(1) == ["the end"]
    assert lines.passed_over > 9_000


def test_a_watched_word_outlives_the_lines_and_noise_is_not_kept() -> None:
    watched = re.compile(r"forward (\w+)")
    lines = Lines(watch=(watched,), noise=re.compile("^debug"))
    lines.feed(b"debug: forward granted\n")
    for _ in range(3 * KEPT):
        lines.feed(b"debug: nothing\nsomething\n")
    found = lines.find(watched)
    assert found is not None
    assert found[1] == "granted"
    assert set(lines.last()) == {"something"}


def test_escapes_and_control_characters_are_not_shown() -> None:
    lines = Lines()
    lines.feed(b"\x1b[31mred\x1b[0m \x07bell \xff\n")
    assert lines.last() == ["red bell \ufffd"]
