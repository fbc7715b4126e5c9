"""Who is told what, and how Onefill behaves on this computer: how the file says it, and what is refused."""

from __future__ import annotations

import pytest

from app.settings import ConfigError, Quiet, read_settings
from app.settings.forms import problem, typed
from app.settings.notices import DEFAULT_KINDS, KINDS, NOTICES


def test_without_a_word_the_desktop_is_told_what_matters_and_nothing_else() -> None:
    (notice,) = read_settings("").notices
    assert (notice.name, notice.to, notice.quiet) == ("desktop", "desktop", None)
    assert set(KINDS) - set(notice.kinds) == {"filled", "refused"}


def test_a_receiver_of_ones_own() -> None:
    text = (
        '[[notices]]\nname = "phone"\nto = "url"\nkinds = ["critical", "critical"]\nquiet = "22:00-07:05"\n'
    )
    (notice,) = read_settings(text).notices
    assert (notice.kinds, notice.quiet) == (("critical",), Quiet(22 * 60, 7 * 60 + 5))
    assert notice.secret == "notice.phone.url"
    assert read_settings("[[notices]]\nkinds = []\n").notices[0].kinds == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kinds = ["fills"]', '"fills" is no kind'),
        ('kinds = "critical"', "must be a list of kinds"),
        ('quiet = "22-7"', "must be from when to when"),
        ('quiet = "25:00-07:00"', "must be from when to when"),
        ('quiet = "07:00-07:00"', "begins when it ends"),
        ('to = "tgram://123/456"', 'must be "desktop" or "url"'),
        ('url = "tgram://123/456"', "url is unknown"),
        ('name = "phone"\n[[notices]]\nname = "phone"', "is there twice"),
        ('name = "my-phone"\n[[notices]]\nname = "my_phone"', "is there twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read_settings(f"[[notices]]\n{text}\n")
    assert refused.value.line in (2, 4)
    assert "123" not in str(refused.value)


def test_kinds_are_typed_as_a_list_with_commas() -> None:
    key = next(key for key in NOTICES.keys if key.name == "kinds")
    assert typed(key, "critical, drift") == ["critical", "drift"]
    assert problem(key, ", ".join(DEFAULT_KINDS)) == ""
    assert typed(key, "[]") == []
    assert "no kind" in problem(key, "everything")
