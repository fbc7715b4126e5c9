"""`onefill notice test` against the real program, and `onefill autostart` in a home of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.crash.program import Program


def test_a_test_notice_says_by_name_what_came_of_it(tmp_path: Path) -> None:
    with Program(tmp_path / "home") as program:
        program.home.mkdir(parents=True, exist_ok=True)
        (program.home / "config.toml").write_text('[[notices]]\nname = "phone"\nto = "url"\n')
        program.start()
        done = run("notice", "test", "--home", program.home)
        assert done.code == 1
        (line,) = done.lines
        assert line.startswith("phone: did not arrive: it has no address: ")
        assert "`onefill secret set notice.phone.url`" in line
        assert "there is no [[notices]] 'mail'" in refused(
            run("notice", "test", "mail", "--home", program.home)
        )
        program.end()


def test_without_a_running_program_nothing_is_sent(tmp_path: Path) -> None:
    assert "start Onefill first" in refused(run("notice", "test", "--home", tmp_path))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a file in a folder of this test")
def test_start_at_login_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    home = tmp_path / "home"
    assert run("autostart", "--home", home).lines[0].startswith("off: ")
    assert run("autostart", "on", "--home", home).lines[0].startswith("on: ")
    text = (tmp_path / "autostart" / "onefill.desktop").read_text()
    assert f"--home {home} --minimized" in text
    assert run("autostart", "status", "--home", home, "--json").objects[0]["autostart"] == "on"
    assert run("autostart", "off", "--home", home).lines[0].startswith("off: ")
    assert not (tmp_path / "autostart" / "onefill.desktop").exists()
    (tmp_path / "autostart").rmdir()
    (tmp_path / "autostart").write_text("in the way")
    assert "cannot be" in refused(run("autostart", "on", "--home", home))
