"""packaging/bootstrap.py: what it refuses, the fix it names, and that a half-made .venv is repaired."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "packaging" / "bootstrap.py"

posix_only = pytest.mark.skipif(os.name == "nt", reason="uses shell scripts as stand-ins for system programs")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only there Qt needs libraries of the system")


def load(path: Path = SOURCE) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("onefill_bootstrap", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bootstrap() -> types.ModuleType:
    return load()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a PATH that holds only what the test puts there: name, shell body."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, body: str) -> None:
        file = folder / name
        file.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        file.chmod(0o755)

    return add


# ----------------------------------------------------------------------------------------------- which Python


def test_the_source_parses_on_a_python_that_is_too_old() -> None:
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_supported_pythons_pass(bootstrap: types.ModuleType, version: tuple[int, int]) -> None:
    bootstrap.check_python(version, ["run"])


@posix_only
@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7)])
def test_a_wrong_python_is_told_the_right_command(
    bootstrap: types.ModuleType,
    programs: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int],
) -> None:
    monkeypatch.setattr(sys, "argv", ["packaging/bootstrap.py"])
    programs("python3.12", "echo 3 12")
    with pytest.raises(bootstrap.BootstrapError) as refusal:
        bootstrap.check_python(version, ["test", "-x"])
    assert "\n" not in str(refusal.value)
    assert f"this is {version[0]}.{version[1]}." in str(refusal.value)
    assert str(refusal.value).endswith("Type: python3.12 packaging/bootstrap.py test -x")


@posix_only
def test_a_python_that_does_not_start_is_not_named(
    bootstrap: types.ModuleType, programs: Callable[[str, str], None]
) -> None:
    programs("python3.13", "exit 127")
    with pytest.raises(bootstrap.BootstrapError, match="Install one of them"):
        bootstrap.check_python((3, 10), ["run"])


# --------------------------------------------------------------------------------------------- Qt's libraries


@posix_only
@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("apt-get", "apt-get install -y --no-install-recommends libgl1 libegl1"),
        ("dnf", "dnf install -y mesa-libGL mesa-libEGL"),
        ("pacman", "pacman -S --needed libglvnd"),
        ("zypper", "zypper install -y Mesa-libGL1 Mesa-libEGL1"),
    ],
)
def test_the_command_fits_the_system(
    bootstrap: types.ModuleType,
    programs: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    command: str,
) -> None:
    programs(program, "exit 0")
    rows = list(bootstrap.QT_ALWAYS[:2])
    monkeypatch.setattr(bootstrap, "_is_root", lambda: True)
    assert bootstrap.install_command(rows) == command
    monkeypatch.setattr(bootstrap, "_is_root", lambda: False)
    assert bootstrap.install_command(rows) == f"sudo {command}"


def test_without_a_package_tool_the_files_are_named(
    bootstrap: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert bootstrap.install_command(list(bootstrap.QT_ALWAYS[:2])).endswith("libGL.so.1, libEGL.so.1")


@linux_only
def test_a_missing_library_is_found_by_asking_the_loader(bootstrap: types.ModuleType) -> None:
    nowhere = ("libnowhere-onefill.so.9", "a", "b", "c", "d")
    assert bootstrap.missing_libraries((nowhere, *bootstrap.QT_ALWAYS)) == [nowhere]


@posix_only
@pytest.mark.parametrize(
    ("kind", "display", "lacking", "refused"),
    [
        ("test", "", "libEGL.so.1", True),
        ("test", "", "libxcb-cursor.so.0", False),
        ("run", "", "libEGL.so.1", True),
        ("run", "", "libxcb-cursor.so.0", False),
        ("run", ":0", "libxcb-cursor.so.0", True),
    ],
)
def test_a_missing_library_stops_only_where_qt_would_fail(
    bootstrap: types.ModuleType,
    programs: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    display: str,
    lacking: str,
    refused: bool,
) -> None:
    programs("apt-get", "exit 0")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bootstrap, "_is_root", lambda: False)
    monkeypatch.setattr(bootstrap, "_loads", lambda soname: soname != lacking)
    if not refused:
        bootstrap.check_qt_libraries(kind)
        return
    with pytest.raises(bootstrap.BootstrapError, match=r"Type: sudo apt-get install -y \S+ lib") as refusal:
        bootstrap.check_qt_libraries(kind)
    assert ("run serve" in str(refusal.value)) == (kind == "run")


@posix_only
def test_root_on_debian_gets_the_library_installed(
    bootstrap: types.ModuleType,
    programs: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    log = tmp_path / "apt.log"
    programs("apt-get", f'echo "$@" >> "{log}"')
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bootstrap, "_is_root", lambda: True)
    monkeypatch.setattr(bootstrap, "_loads", lambda soname: soname != "libEGL.so.1" or log.exists())
    bootstrap.check_qt_libraries("test")
    assert log.read_text().splitlines() == ["-qq update", "-qq install -y --no-install-recommends libegl1"]


# -------------------------------------------------------------------------------------------- the environment


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A root with what the digest is made of."""
    root = tmp_path / "project"
    (root / "packaging").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    for name in ("requirements.lock", "requirements-test.lock", "requirements-build.lock"):
        (root / "packaging" / name).write_text(f"# {name}\n", encoding="utf-8")
    return root


class Recorder:
    """Stands for `python -m venv` (a folder with a `python` that answers) and pip (what it gets is noted)."""

    def __init__(self, bootstrap: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed: list[list[str]] = []
        self.fail: BaseException | None = None
        monkeypatch.setattr(bootstrap.Environment, "_run", staticmethod(self._run))

    def _run(self, command: list[str], problem: str) -> None:
        if command[1:3] == ["-m", "venv"]:
            self._make(Path(command[-1]), clear="--clear" in command)
            return
        assert command[1:4] == ["-m", "pip", "install"]
        self.installed.append(command[4:])
        if self.fail is not None:
            raise self.fail

    def _make(self, path: Path, *, clear: bool) -> None:
        if clear:
            shutil.rmtree(path, ignore_errors=True)
        (path / "bin").mkdir(parents=True)
        python = path / "bin" / "python"
        version = f"{sys.version_info[0]} {sys.version_info[1]}"
        python.write_text(
            f'#!/bin/sh\n[ "$2" = pip ] && echo "pip of {path}" || echo {version}\n', encoding="ascii"
        )
        python.chmod(0o755)


@pytest.fixture
def pip(bootstrap: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(bootstrap, monkeypatch)


@posix_only
def test_made_once_then_nothing_to_do(bootstrap: types.ModuleType, project: Path, pip: Recorder) -> None:
    bootstrap.Environment(project).prepare("test")
    locks = [Path(command[command.index("-r") + 1]).name for command in pip.installed if "-r" in command]
    assert locks == ["requirements-build.lock", "requirements-test.lock"]
    assert all("--require-hashes" in command and "--no-deps" in command for command in pip.installed[:2])
    assert pip.installed[-1][-2:] == ["--editable", str(project)]

    pip.installed.clear()
    again = bootstrap.Environment(project)
    again.prepare("test")
    # What the tests need includes what a run needs.
    again.prepare("run")
    assert pip.installed == []

    with (project / "packaging" / "requirements.lock").open("a", encoding="utf-8") as lock:
        lock.write("# another version\n")
    again.prepare("run")
    assert len(pip.installed) == 3
    # The test tools are to be looked at again: their lock may have changed too.
    assert not again.is_ready("test")


@posix_only
def test_what_a_kill_left_behind_is_made_anew(
    bootstrap: types.ModuleType, project: Path, pip: Recorder
) -> None:
    environment = bootstrap.Environment(project)
    pip.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        environment.prepare("run")
    half_written = environment.path / "half-written"
    half_written.touch()
    assert not environment.is_ready("run")

    pip.fail = None
    environment.prepare("run")
    assert environment.is_ready("run")
    assert not half_written.exists()


@posix_only
def test_what_pip_refuses_is_told_and_built_upon(
    bootstrap: types.ModuleType, project: Path, pip: Recorder
) -> None:
    environment = bootstrap.Environment(project)
    pip.fail = bootstrap.BootstrapError("pip failed")
    with pytest.raises(bootstrap.BootstrapError, match="pip failed"):
        environment.prepare("run")
    downloaded = environment.path / "downloaded"
    downloaded.touch()
    assert not environment.is_ready("run")

    pip.fail = None
    environment.prepare("run")
    assert environment.is_ready("run")
    assert downloaded.exists()


@posix_only
@pytest.mark.parametrize(
    "body", [None, "exit 1", "echo 3 9", f"echo {sys.version_info[0]} {sys.version_info[1]}"]
)
def test_an_environment_that_does_not_work_is_made_anew(
    bootstrap: types.ModuleType, project: Path, pip: Recorder, body: str | None
) -> None:
    environment = bootstrap.Environment(project)
    environment.prepare("run")
    old = environment.path / "old"
    old.touch()
    environment.python.unlink()
    if body is not None:
        # Broken, of another Python, or (the last) one whose pip is that of another place.
        environment.python.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        environment.python.chmod(0o755)
    (project / "pyproject.toml").write_text("[project] # changed\n", encoding="utf-8")
    environment.prepare("run")
    assert environment.is_ready("run")
    assert not old.exists()


# ----------------------------------------------------------------------------------------------- the commands


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], True),
        (["--home", "there"], True),
        (["--home=there"], True),
        (["serve"], False),
        (["--home", "there", "serve"], False),
        (["--help"], False),
    ],
)
def test_only_the_window_needs_qt(bootstrap: types.ModuleType, arguments: list[str], expected: bool) -> None:
    assert bootstrap.opens_window(arguments) is expected


def test_all_selects_the_long_tests_too(bootstrap: types.ModuleType) -> None:
    assert bootstrap.pytest_arguments(["-x", "tests/ledger"]) == ["-x", "tests/ledger"]
    quiet = ["-o", "faulthandler_timeout=0"]
    assert bootstrap.pytest_arguments(["-x", "--all"]) == ["-m", "", *quiet, "-x"]


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["start"], 2), (["--help"], 0)])
def test_usage(
    bootstrap: types.ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert bootstrap.main(arguments) == code
    assert "packaging/bootstrap.py run" in capsys.readouterr().out


def test_the_program_gets_the_signals_and_gives_the_exit_code() -> None:
    child = "import os, sys; print(os.getpid()); sys.exit(7)"
    starter = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import bootstrap; "
        f"sys.exit(bootstrap.replace_process([sys.executable, '-c', {child!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 7
    if os.name != "nt":
        # One process: a SIGTERM to what the user started reaches the program itself.
        assert int(output) == process.pid


def test_no_lock_names_a_place_to_download_from() -> None:
    locks = sorted((ROOT / "packaging").glob("*.lock"))
    assert len(locks) == 5
    for lock in locks:
        lines = lock.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if "://" in line or line.startswith("-")], lock.name
        pins = [line for line in lines if line and not line.startswith((" ", "#"))]
        assert pins
        assert all("==" in pin and pin.endswith("\\") for pin in pins), lock.name
