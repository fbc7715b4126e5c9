"""The Linux bundle: built from the locks, tried as a user's machine would, under strace and under kills.

Long tier: the build alone takes minutes. `ONEFILL_BUNDLE=FOLDER` takes a `dist` that is there already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.crash.kill_loop.loop import Loop
from tests.crash.program import ROOT
from tests.crash.trace.calls import why_not
from tests.crash.trace.test_trace import run as traced_run

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="on other systems the release workflow does this"),
]

ON_SCREEN = ("xvfb-run", "--auto-servernum", "--server-args=-screen 0 1280x800x24")


@pytest.fixture(scope="module")
def dist() -> Path:
    made = os.environ.get("ONEFILL_BUNDLE")
    if made is not None:
        return Path(made)
    command = [sys.executable, "packaging/build.py", "--no-smoke"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert built.returncode == 0, built.stderr + built.stdout
    return ROOT / "dist"


@pytest.fixture(scope="module")
def program(dist: Path) -> Path:
    return dist / "onefill" / "onefill"


@pytest.fixture
def unpacked(dist: Path, tmp_path: Path) -> Path:
    """The archive as a user unpacks it."""
    (archive,) = dist.glob("onefill-*-linux-*.tar.xz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="tar")
    (folder,) = tmp_path.glob("onefill-*")
    return folder


def test_the_smoke_test_passes_on_an_x_display(program: Path) -> None:
    if shutil.which("xvfb-run") is None:
        pytest.skip("xvfb is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "QT_QPA_PLATFORM"}
    command = [*ON_SCREEN, sys.executable, "packaging/smoke.py", str(program), "--from-source"]
    tried = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "opened (display)" in tried.stdout


@pytest.mark.skipif(bool(why_not()), reason=f"no trace: {why_not()}")
def test_no_200_of_the_frozen_program_leaves_before_its_claim_is_synced(
    program: Path, tmp_path: Path
) -> None:
    traced = traced_run(tmp_path, built=program)
    assert len(traced.answers) > 10
    assert traced.answered_too_early() == []
    assert traced.sent_too_early() == []
    assert traced.confirmed_too_early() == []


def test_the_frozen_program_survives_kills_under_load(program: Path, tmp_path: Path) -> None:
    loop = Loop(tmp_path / "home", seed=6, built=program)
    loop.run(12)
    assert loop.found == []
    assert loop.kills == 12


def test_the_smoke_test_fails_on_a_program_that_doubles_nothing_but_lacks_a_part(
    dist: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "onefill"
    shutil.copytree(dist / "onefill", broken, symlinks=True)
    (broken / "_internal/app/brokers/schema_paper.sql").unlink()
    command = [sys.executable, "packaging/smoke.py", str(broken / "onefill")]
    tried = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert tried.returncode == 1
    assert "FAIL  selftest" in tried.stdout


def test_licences_and_parts_list_name_what_is_bundled(dist: Path) -> None:
    licences = dist / "onefill" / "licences"
    notice = (licences / "NOTICE.txt").read_text()
    parts = json.loads((licences / "sbom.cdx.json").read_text())["components"]
    names = {part["name"] for part in parts}
    assert {"PySide6_Essentials", "aiohttp", "apsw", "keyring", "cryptography"} <= names
    for name in names:
        assert f"\n{name} " in notice, name
    assert {"LGPL-3.0.txt", "GPL-3.0.txt", "LICENSE", "aiohttp-LICENSE.txt"} <= {
        f.name for f in licences.iterdir()
    }
    assert not [name for name in names if name.lower() in ("pytest", "hypothesis", "pyinstaller", "pip")]
    qt = dist / "onefill/_internal/PySide6/Qt/lib"
    assert (qt / "libQt6Core.so.6").is_file(), "Qt must stay a file that can be replaced"
    assert not list(qt.glob("*WebEngine*")) + list(qt.glob("*Qml*")) + list(qt.glob("*Quick*"))


def test_install_and_uninstall_keep_the_home_unless_told_otherwise(unpacked: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    environment = {"HOME": str(user), "PATH": os.environ["PATH"]}

    def sh(script: Path, answer: str = "") -> str:
        done = subprocess.run(
            ["sh", str(script)], env=environment, input=answer, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = user / ".local/bin/onefill"
    for _ in range(2):  # the second time is an upgrade
        sh(unpacked / "install.sh")
        assert "onefill" in subprocess.run([command, "version"], capture_output=True, text=True).stdout
    entry = (user / ".local/share/applications/onefill.desktop").read_text()
    assert f"Exec={user}/.local/lib/onefill/onefill" in entry
    home = user / ".local/share/onefill"
    home.mkdir(parents=True)
    (home / "ledger.sqlite3").write_text("money")

    uninstall = user / ".local/lib/onefill/uninstall.sh"
    shutil.copy(uninstall, tmp_path / "uninstall.sh")
    assert "kept" in sh(uninstall, "\n")
    assert not command.exists()
    assert not (user / ".local/lib/onefill").exists()
    assert (home / "ledger.sqlite3").read_text() == "money"
    assert "deleted" in sh(tmp_path / "uninstall.sh", "delete\n")
    assert not home.exists()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_the_debian_package_runs_from_where_it_installs(dist: Path, tmp_path: Path) -> None:
    (package,) = dist.glob("onefill_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    fields = subprocess.run(
        ["dpkg-deb", "--field", package], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: libc6" in fields
    assert "libgl1, libegl1" in fields
    assert (tmp_path / "usr/share/applications/onefill.desktop").is_file()
    assert (tmp_path / "usr/share/icons/hicolor/scalable/apps/onefill.svg").is_file()
    assert "LGPL" in (tmp_path / "usr/share/doc/onefill/copyright").read_text()
    started = subprocess.run([tmp_path / "usr/bin/onefill", "version"], capture_output=True, text=True)
    assert started.stdout.startswith("onefill "), started.stderr
