"""The home, the file in it, and the ids of sources: written whole with the user's comments, or one line."""

import errno
import os
import stat
import uuid
from pathlib import Path

import pytest

from app.settings import (
    ConfigError,
    check_source_ids,
    config_path,
    create_home,
    home_folder,
    load_or_create,
    read_settings,
    with_source_ids,
    write_private,
)
from app.settings.ids import insert_ids

posix = pytest.mark.skipif(os.name != "posix", reason="modes of files")


def one_line(error: ConfigError) -> str:
    assert "\n" not in str(error)
    return str(error)


# ------------------------------------------------------------------------------------------------ the home


def test_the_argument_comes_before_the_environment_before_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"ONEFILL_HOME": str(tmp_path / "environment")}
    assert home_folder(str(tmp_path / "argument"), environ) == tmp_path / "argument"
    assert home_folder(None, environ) == tmp_path / "environment"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for nothing in ({}, {"ONEFILL_HOME": ""}):
        folder = home_folder(None, nothing)
        assert folder.is_absolute()
        assert folder.name == "onefill"


def test_a_relative_home_is_made_absolute_and_a_tilde_is_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert home_folder("here", {}) == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert home_folder("~/there", {}) == tmp_path / "there"


@pytest.mark.parametrize("argument", ["", "  "])
def test_an_empty_home_is_refused_and_does_not_mean_the_real_one(argument: str) -> None:
    with pytest.raises(ConfigError) as caught:
        home_folder(argument, {"ONEFILL_HOME": "/somewhere"})
    assert "--home: is empty" in one_line(caught.value)


@posix
def test_home_and_file_are_the_users_alone(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    load_or_create(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(config_path(home).stat().st_mode) == 0o600
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]


def test_a_home_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(ConfigError) as caught:
            create_home(home)
        assert one_line(caught.value).startswith(f"{home}: cannot be made a folder (")
        assert "--home" in one_line(caught.value)
        assert caught.value.line is None


@pytest.mark.parametrize("failure", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_an_unwritable_home_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr("app.settings.files.os.open", refuse)
    with pytest.raises(ConfigError) as caught:
        load_or_create(tmp_path)
    said = one_line(caught.value)
    assert said.startswith(f"{tmp_path / 'config.toml'}: cannot be written ({os.strerror(failure).lower()})")
    assert "another folder with --home" in said
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    config_path(tmp_path).mkdir()
    with pytest.raises(ConfigError) as caught:
        load_or_create(tmp_path)
    assert "cannot be read (" in one_line(caught.value)


def test_a_file_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    config_path(tmp_path).write_bytes(b"[risk]\n# caf\xe9\n")
    with pytest.raises(ConfigError) as caught:
        load_or_create(tmp_path)
    assert caught.value.line == 2
    assert "UTF-8" in one_line(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    config_path(tmp_path).write_bytes(b"\xef\xbb\xbf[risk]\r\nposition_divisor = 7\r\n")
    assert load_or_create(tmp_path).risk.position_divisor == 7


# ------------------------------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(f"app.settings.files.os.{step}", fail)
    with pytest.raises(OSError, match="gone"):
        write_private(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


def test_the_data_are_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append("fsync")
        fsync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr("app.settings.files.os.fsync", synced)
    monkeypatch.setattr("app.settings.files.os.replace", replaced)
    write_private(tmp_path / "file", "text\n")
    assert steps[:2] == ["fsync", "replace"]
    assert steps[2:] == (["fsync"] if os.name == "posix" else [])


@posix
def test_a_written_file_is_private_whatever_it_was_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("old")
    real.chmod(0o644)
    link.symlink_to(real)
    write_private(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


# -------------------------------------------------------------------------------------------------- the ids

COMMENTED = """\
# My settings, do not touch.
[listener]
port = 9000   # the other one is taken

# The first.
[[sources]]
name = "one"      # TradingView
max_age = "30s"

# The second, with an id of its own.
[[sources]]
  name = "two"
  id = "mine"     # never change

# The third.
[[sources]]
id = "..."        # to be made
name = "three"

# Limits.
[risk]
position_divisor = 10
"""


def test_missing_ids_are_made_and_written_back_with_the_comments_kept(tmp_path: Path) -> None:
    config_path(tmp_path).write_text(COMMENTED)
    made = iter(["id-1", "id-3"])
    settings = with_source_ids(tmp_path, load_or_create(tmp_path), lambda: next(made))
    assert [source.id for source in settings.sources] == ["id-1", "mine", "id-3"]
    assert config_path(tmp_path).read_text() == COMMENTED.replace(
        'name = "one"      # TradingView\n', 'name = "one"      # TradingView\nid = "id-1"\n'
    ).replace('id = "..." ', 'id = "id-3" ')
    assert load_or_create(tmp_path) == settings


def test_an_id_is_a_uuid_made_once(tmp_path: Path) -> None:
    first = with_source_ids(tmp_path, load_or_create(tmp_path))
    assert uuid.UUID(first.sources[0].id).version == 4
    written = config_path(tmp_path).read_text()
    again = with_source_ids(tmp_path, load_or_create(tmp_path))
    assert again == first
    assert config_path(tmp_path).read_text() == written


def test_ids_that_are_all_there_leave_the_file_alone(tmp_path: Path) -> None:
    config_path(tmp_path).write_text('[[sources]]\nname = "a"\nid = "x"\n')
    before = config_path(tmp_path).stat()
    with_source_ids(tmp_path, load_or_create(tmp_path))
    after = config_path(tmp_path).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", '[[sources]]\nname = "tradingview"\nid = "1"\n'),
        ("sources = []\n", '\n[[sources]]\nname = "tradingview"\nid = "1"\n'),
        ("[risk]\n# end\n", '[risk]\n# end\n\n[[sources]]\nname = "tradingview"\nid = "1"\n'),
        ("[[sources]]\n", '[[sources]]\nid = "1"\n'),
        ('[[sources]]\nname = "tradingview"', '[[sources]]\nname = "tradingview"\nid = "1"\n'),
        ('sources = [{name = "tradingview"}] # x\n', 'sources = [{name = "tradingview", id = "1"}] # x\n'),
        (
            '[[sources]]\r\nname = "tradingview" # \u00e9\r\n\r\n[risk]\r\n',
            '[[sources]]\r\nname = "tradingview" # \u00e9\r\nid = "1"\r\n\r\n[risk]\r\n',
        ),
        ('[[sources]]\nname = "unknown by now"\n', '[[sources]]\nname = "unknown by now"\n'),
    ],
)
def test_where_an_id_is_written(text: str, written: str) -> None:
    # tomlkit's spacing inside braces is its own.
    assert insert_ids(text, {"tradingview": "1"}).replace('",id', '", id') == written


def test_ids_that_cannot_be_written_in_are_asked_for_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.settings.ids._set_id", lambda *_: None)
    with pytest.raises(ConfigError) as caught:
        insert_ids('[[sources]]\nname = "a"\n', {"a": "1"})
    assert 'write id = "1" in "a"' in one_line(caught.value)


def test_an_unwritable_file_stops_the_making_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_or_create(tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("app.settings.files.os.replace", refuse)
    with pytest.raises(ConfigError, match="cannot be written"):
        with_source_ids(tmp_path, settings)


def test_the_ledger_fills_in_missing_ids_by_name() -> None:
    settings = read_settings(
        '[[sources]]\nname = "a"\n[[sources]]\nname = "b"\nid = "y"\n[[sources]]\nname = "c"\n'
    )
    filled = check_source_ids(settings, {"a": "x", "b": "y", "gone": "z"})
    assert [source.id for source in filled.sources] == ["x", "y", ""]
    assert check_source_ids(settings, {}) == settings


def test_an_id_from_the_ledger_is_written_back(tmp_path: Path) -> None:
    """The user has deleted config.toml: the new one gets the old id, and the old keys stay claimed."""
    settings = check_source_ids(load_or_create(tmp_path), {"tradingview": "old"})
    assert with_source_ids(tmp_path, settings).sources[0].id == "old"
    assert load_or_create(tmp_path).sources[0].id == "old"


def test_a_changed_id_stops_the_start() -> None:
    text = '[[sources]]\nname = "a"\nid = "new"\n'
    with pytest.raises(ConfigError) as caught:
        check_source_ids(read_settings(text), {"a": "old"}, Path("config.toml"), text)
    assert one_line(caught.value).startswith('config.toml:3: [[sources]] id of "a" was changed')
    assert 'write id = "old"' in one_line(caught.value)


def test_an_id_that_two_sources_would_have_stops_the_start() -> None:
    """`a` was renamed to `b` with its id, and then somebody added an `a` again."""
    text = '[[sources]]\nname = "b"\nid = "x"\n[[sources]]\nname = "a"\n'
    with pytest.raises(ConfigError) as caught:
        check_source_ids(read_settings(text), {"a": "x"}, Path("config.toml"), text)
    assert one_line(caught.value).startswith('config.toml:4: [[sources]] id of "a" is also that of "b"')


def test_a_source_may_take_a_new_name_with_its_old_id() -> None:
    settings = read_settings('[[sources]]\nname = "b"\nid = "x"\n')
    assert check_source_ids(settings, {"a": "x"}) == settings
