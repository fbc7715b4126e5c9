"""`onefill support`: by the running program with what it knows; else here, with a word of what it misses."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.crash.program import Program

SECRET = "Sup3rSecretKeyValue0123456789"


@pytest.mark.skipif(sys.platform == "win32", reason="the control channel of Windows is a pipe")
def test_a_secret_of_the_programs_environment_alone_is_blanked_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "ONEFILL_SECRET_ACCOUNT_VENUE_SECRET_KEY"
    target = tmp_path / "support.zip"
    with Program(tmp_path / "home") as program:
        monkeypatch.setenv(variable, SECRET)
        program.start()
        monkeypatch.delenv(variable)
        (program.home / "onefill.log.1").write_text(f"it came out: {SECRET}\n")
        done = run("support", target, "--home", program.home)
        again = refused(run("support", target, "--home", program.home))
        program.end()
    assert done.code == 0, done
    assert done.out.startswith(f"the running app wrote {target}: ")
    assert "exists" in again
    with zipfile.ZipFile(target) as archive:
        assert archive.read("onefill.log.1") == b"it came out: ***\n"


def test_without_a_running_program_it_says_what_it_could_not_look_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    text = '[[sources]]\nname = "tv"\naccounts = ["venue"]\n[[accounts]]\nname = "venue"\nbroker = "alpaca"\n'
    (home / "config.toml").write_text(text)
    monkeypatch.setenv("ONEFILL_SECRET_ACCOUNT_VENUE_KEY_ID", "PKKEYID0123456789")
    done = run("support", tmp_path / "support.zip", "--home", home)
    assert done.code == 0, done
    assert "No value was found here of: " in done.out
    assert "account.venue.secret_key" in done.out
    assert "account.venue.key_id" not in done.out
    (made,) = run("support", tmp_path / "other.zip", "--home", home, "--json").objects
    assert "account.venue.secret_key" in made["not_looked_for"]


def test_settings_that_cannot_be_read_name_no_secrets_and_that_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("not toml")
    assert "The settings cannot be read" in run("support", tmp_path / "support.zip", "--home", home).out
