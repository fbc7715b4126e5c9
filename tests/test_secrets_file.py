"""secrets.toml: refused where others can read it, kept as its owner wrote it, never poured into an error."""

import os
import stat
import traceback
from pathlib import Path

import pytest

from app.secrets import Secrets, SecretsError, Where
from tests.secrets_kit import NAME, VALUE, FakeKeyring, put_file

posix = pytest.mark.skipif(os.name != "posix", reason="modes of files")


@pytest.fixture
def keyring() -> FakeKeyring:
    return FakeKeyring()


@posix
def test_the_file_is_the_users_alone(tmp_path: Path) -> None:
    Secrets(tmp_path, {}, None).set(NAME, VALUE)
    assert stat.S_IMODE((tmp_path / "secrets.toml").stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, keyring: FakeKeyring, mode: int) -> None:
    path = put_file(tmp_path, f'"{NAME}" = "{VALUE}"\n', mode)
    for secrets in (Secrets(tmp_path, {}, None), Secrets(tmp_path, {}, keyring)):
        with pytest.raises(SecretsError) as caught:
            secrets.get(NAME)
        assert f"(mode {mode:04o})" in str(caught.value)
        assert f"chmod 600 {path}" in str(caught.value)
    with pytest.raises(SecretsError, match="chmod 600"):
        Secrets(tmp_path, {}, None).set(NAME, VALUE)
    stored = Secrets(tmp_path, {}, keyring).set(NAME, VALUE)
    assert stored.where is Where.KEYRING
    assert "chmod 600" in stored.statement
    assert "chmod 600" in Secrets(tmp_path, {}, keyring).find(NAME).problem


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'a = 1\n"b" = "{VALUE}\n', "at line 2"),
        (f"{VALUE}", "not readable as TOML"),
        (f"[source.a]\ntoken = ['{VALUE}']\n", "source.a.token must be a text in quotes"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_place_and_no_value(
    tmp_path: Path, text: str, reason: str
) -> None:
    put_file(tmp_path, text)
    with pytest.raises(SecretsError) as caught:
        Secrets(tmp_path, {}, None).get(NAME)
    assert reason in str(caught.value)
    told = "".join(traceback.format_exception(caught.value))
    assert VALUE not in told
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    put_file(tmp_path, "").write_bytes(b"a = '\xff'\n")
    with pytest.raises(SecretsError, match="UTF-8"):
        Secrets(tmp_path, {}, None).get(NAME)


@pytest.mark.parametrize(
    "text",
    [
        f'"{NAME}" = "old"\n',
        "account.alpaca.secret_key = 'old'\n",
        "[account.alpaca]\nsecret_key = 'old'\n",
        "[account]\nalpaca.secret_key = 'old'\n",
        "[account]\nalpaca = {secret_key = 'old'}\n",
        "['account.alpaca']\nsecret_key = 'old'\n",
    ],
)
def test_every_notation_is_read_changed_and_removed(tmp_path: Path, text: str) -> None:
    path = put_file(tmp_path, f"# a comment\n'a.b.c' = 'kept'\n{text}")
    secrets = Secrets(tmp_path, {}, None)
    assert secrets.get(NAME) == "old"
    secrets.set(NAME, VALUE)
    assert secrets.get(NAME) == VALUE
    assert secrets.get("a.b.c") == "kept"
    assert "old" not in path.read_text()
    assert path.read_text().startswith("# a comment\n")
    assert secrets.delete(NAME).where == (Where.FILE,)
    assert secrets.get(NAME) is None
    assert secrets.get("a.b.c") == "kept"
    assert VALUE not in path.read_text()


def test_values_with_quotes_and_backslashes_come_back_as_they_were(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, {}, None)
    for number, value in enumerate(["a\"b'c", "\\n\\", "'''", 'é "" #', "x" * 4000]):
        secrets.set(f"account.a.f{number}", value)
        assert secrets.get(f"account.a.f{number}") == value


def test_a_file_that_cannot_be_written_is_one_line_without_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("app.settings.files.os.open", refuse)
    with pytest.raises(SecretsError, match=r"secrets\.toml: cannot be written \(PermissionError") as caught:
        Secrets(tmp_path, {}, None).set(NAME, VALUE)
    assert VALUE not in str(caught.value)
