"""Two commands on a fresh machine, with nothing but Python 3.11, 3.12 or 3.13:

    python3 packaging/bootstrap.py run [args]     make .venv, install what is locked, start `onefill [args]`
    python3 packaging/bootstrap.py test [args]    the same plus the test tools, then `pytest [args]`
                                                  (--all: the long tests too)

Standard library only; Linux, macOS and Windows. Nothing of Onefill is imported here, and nothing is installed
that is not in a lock with its hash. It must also parse on a Python that is too old, so that it can say so:
hence the quoted annotations.
"""

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = ((3, 11), (3, 12), (3, 13))
WINDOWS = os.name == "nt"

# The build tools come first; the test lock holds the run lock's packages too, at the same versions.
LOCKS = {
    "run": ("requirements-build.lock", "requirements.lock"),
    "test": ("requirements-build.lock", "requirements-test.lock"),
}

# What Qt's wheels load from the system. One row: soname, then the package for apt, dnf, pacman, zypper.
QT_ALWAYS = (
    ("libGL.so.1", "libgl1", "mesa-libGL", "libglvnd", "Mesa-libGL1"),
    ("libEGL.so.1", "libegl1", "mesa-libEGL", "libglvnd", "Mesa-libEGL1"),
    ("libxkbcommon.so.0", "libxkbcommon0", "libxkbcommon", "libxkbcommon", "libxkbcommon0"),
    ("libglib-2.0.so.0", "libglib2.0-0", "glib2", "glib2", "libglib-2_0-0"),
    ("libfontconfig.so.1", "libfontconfig1", "fontconfig", "fontconfig", "fontconfig"),
    ("libfreetype.so.6", "libfreetype6", "freetype", "freetype2", "libfreetype6"),
    ("libdbus-1.so.3", "libdbus-1-3", "dbus-libs", "dbus", "libdbus-1-3"),
)
# And what a window on an X display needs besides.
QT_X11 = (
    (
        "libxkbcommon-x11.so.0",
        "libxkbcommon-x11-0",
        "libxkbcommon-x11",
        "libxkbcommon-x11",
        "libxkbcommon-x11-0",
    ),
    ("libxcb-cursor.so.0", "libxcb-cursor0", "xcb-util-cursor", "xcb-util-cursor", "libxcb-cursor0"),
    ("libxcb-icccm.so.4", "libxcb-icccm4", "xcb-util-wm", "xcb-util-wm", "libxcb-icccm4"),
    ("libxcb-keysyms.so.1", "libxcb-keysyms1", "xcb-util-keysyms", "xcb-util-keysyms", "libxcb-keysyms1"),
    ("libxcb-shape.so.0", "libxcb-shape0", "libxcb", "libxcb", "libxcb-shape0"),
)
# Columns of the two tables above: the program that installs, and what to type before the names.
INSTALLERS = (
    ("apt-get", "apt-get install -y --no-install-recommends"),
    ("dnf", "dnf install -y"),
    ("pacman", "pacman -S --needed"),
    ("zypper", "zypper install -y"),
)


class BootstrapError(Exception):
    """A reason to stop, in words for the person who typed the command."""


def say(text: str) -> None:
    """One line to stderr: stdout belongs to the program that is started."""
    print("bootstrap: " + text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------- Python


def check_python(version: "tuple[int, int]", arguments: "list[str]") -> None:
    """Refuses a Python outside 3.11 to 3.13 with one line that names the fix."""
    if version in SUPPORTED:
        return
    problem = f"Onefill needs Python 3.11, 3.12 or 3.13; this is {version[0]}.{version[1]}."
    for wanted in reversed(SUPPORTED):
        name = f"python{wanted[0]}.{wanted[1]}"
        found = shutil.which(name)
        # A name alone proves nothing: pyenv's shims exist for versions that are switched off.
        if found and _version_of(found) == wanted:
            raise BootstrapError(problem + " Type: " + " ".join([name, sys.argv[0], *arguments]))
    fix = "Install one of them (python.org, or your system's packages) and start this again with it."
    if shutil.which("apt-get"):
        fix = f"Type: {_sudo()}apt-get install -y python3 python3-venv (Debian 12, Ubuntu 24.04 or later)."
    raise BootstrapError(f"{problem} {fix}")


def _version_of(python: str) -> "tuple[int, ...] | None":
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False
        )
        return tuple(int(part) for part in done.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _sudo() -> str:
    return "" if _is_root() else "sudo "


# ------------------------------------------------------------------------------------------- system packages


def missing_libraries(table: "tuple[tuple[str, ...], ...]") -> "list[tuple[str, ...]]":
    """The rows whose library the loader does not find. Only Linux leaves these to the system."""
    if not sys.platform.startswith("linux"):
        return []
    return [row for row in table if not _loads(row[0])]


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def install_command(rows: "list[tuple[str, ...]]") -> str:
    """The command a person types to get these libraries; without a known package tool, their file names."""
    for column, (program, command) in enumerate(INSTALLERS, start=1):
        if shutil.which(program):
            names = list(dict.fromkeys(row[column] for row in rows))
            return _sudo() + command + " " + " ".join(names)
    return "install the packages of your system that hold " + ", ".join(row[0] for row in rows)


def _apt_install(names: "list[str]") -> bool:
    """Installs Debian packages where that is ours to do (root, apt-get); False where it is not or fails."""
    if not (_is_root() and shutil.which("apt-get")):
        return False
    say("installing system packages: " + " ".join(names))
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for step in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        # stdout is the program's; apt's report is shown only if it fails.
        done = subprocess.run(
            ["apt-get", "-qq", *step],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        # A failed update (one dead source) need not stop the install.
        if done.returncode != 0 and step[0] == "install":
            say("apt-get failed:\n" + done.stdout.decode("utf-8", "replace").strip())
            return False
    return True


def opens_window(arguments: "list[str]") -> bool:
    """True when `onefill` with these arguments has no command (`serve`, `url`, ...): it opens its window."""
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("--help", "--version"):
            return False
        if argument == "--home" and rest:
            rest.pop(0)
        elif not argument.startswith("-"):
            return False
    return True


def check_qt_libraries(kind: str) -> None:
    """Installs Qt's system libraries as root on Debian and Ubuntu, elsewhere names the exact command.

    Stops only where going on would fail: a library that Qt always loads lacks, or a window is to open on an X
    display and a library for that lacks (Qt aborts the process then). Tests need the first kind only.
    """
    on_x11 = bool(os.environ.get("DISPLAY")) and not os.environ.get("WAYLAND_DISPLAY")
    wanted = QT_ALWAYS + (QT_X11 if on_x11 or kind == "test" else ())
    lacking = missing_libraries(wanted)
    if lacking and _apt_install([row[1] for row in lacking]):
        lacking = missing_libraries(wanted)
    if kind == "test":
        lacking = [row for row in lacking if row in QT_ALWAYS]
    if lacking:
        way_out = f" (without a window: {sys.argv[0]} run serve)" if kind == "run" else ""
        raise BootstrapError("Qt lacks system libraries. Type: " + install_command(lacking) + way_out)


# ------------------------------------------------------------------------------------------------------ venv


class Environment:
    """The virtual environment beside pyproject.toml, and what is known to be in it.

    A stamp file for `run` and one for `test` holds a digest of everything that decides the content; while it
    is equal there is nothing to do. A mark stands while pip works: found at a start, it tells that the last
    one was interrupted, and the environment is made anew.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".venv"
        self.bin = self.path / ("Scripts" if WINDOWS else "bin")
        self.python = self.bin / ("python.exe" if WINDOWS else "python")
        self._unfinished = self.path / ".onefill-unfinished"

    def _stamp(self, kind: str) -> Path:
        return self.path / (".onefill-" + kind)

    def digest(self, kind: str) -> str:
        """SHA-256 of the locks, the project file, the Python and the place (scripts hold absolute paths)."""
        content = hashlib.sha256()
        for name in ("pyproject.toml", *("packaging/" + lock for lock in LOCKS[kind])):
            content.update((self.root / name).read_bytes() + b"\0")
        content.update(f"{sys.version} {sys.base_prefix} {self.root}".encode())
        return content.hexdigest()

    def is_ready(self, kind: str) -> bool:
        """True when the stamp holds and the interpreter (a link to a Python that may be gone) is there."""
        if self._unfinished.exists() or not self.python.exists():
            return False
        try:
            return self._stamp(kind).read_text(encoding="ascii") == self.digest(kind)
        except OSError:
            return False

    def prepare(self, kind: str) -> None:
        """Makes or completes the environment; costs a few milliseconds when there is nothing to do."""
        if self.is_ready(kind):
            return
        with _locked(self.root / ".venv.lock"):
            if not self.is_ready(kind):
                self._make_if_unsound()
                self._install(kind)

    def _make_if_unsound(self) -> None:
        reason = self._unsound()
        if not reason:
            return
        if importlib.util.find_spec("ensurepip") is None:
            package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
            if not _apt_install([package]):
                raise BootstrapError(f"Python lacks ensurepip. Type: {_sudo()}apt-get install -y {package}")
            importlib.invalidate_caches()
        say(f"{reason}: making .venv with Python {sys.version.split()[0]}")
        # --clear empties the folder, whatever is left in it.
        self._run([sys.executable, "-m", "venv", "--clear", str(self.path)], "could not make .venv")

    def _unsound(self) -> str:
        """Why the environment cannot be built upon, or nothing."""
        if not self.path.exists():
            return "first start"
        if self._unfinished.exists():
            return ".venv was left unfinished"
        version = _version_of(str(self.python))
        if version is None:
            return ".venv does not work"
        if version != tuple(sys.version_info[:2]):
            return ".venv is of another Python"
        probe = [str(self.python), "-m", "pip", "--version"]
        done = subprocess.run(probe, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        # A copied or moved environment reports the pip of another place, or none.
        if done.returncode != 0 or str(self.path) not in os.fsdecode(done.stdout):
            return ".venv has no pip of its own"
        return ""

    def _install(self, kind: str) -> None:
        self._unfinished.touch()
        for stamp in LOCKS:
            # What a stamp says is true only until pip begins.
            with contextlib.suppress(FileNotFoundError):
                self._stamp(stamp).unlink()
        say("installing what the locks name (the first time some 100 MB are downloaded)")
        try:
            for lock in LOCKS[kind]:
                options = ["--require-hashes", "--no-deps", "--no-build-isolation"]
                self._pip([*options, "-r", str(self.root / "packaging" / lock)])
            say("installing Onefill")
            self._pip(["--no-deps", "--no-build-isolation", "--editable", str(self.root)])
        except BootstrapError:
            # pip ended by itself and has cleaned up: what is there can be built upon. A kill leaves the mark.
            self._unfinished.unlink()
            raise
        self._stamp(kind).write_text(self.digest(kind), encoding="ascii")
        if kind == "test":
            self._stamp("run").write_text(self.digest("run"), encoding="ascii")
        self._unfinished.unlink()

    def _pip(self, arguments: "list[str]") -> None:
        command = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
        self._run(
            command, "pip failed (its words are above); type the same command again when that is put right"
        )

    @staticmethod
    def _run(command: "list[str]", problem: str) -> None:
        # The locks pin every version: a constraint of the machine could only contradict them.
        environment = dict(os.environ, PIP_CONSTRAINT=os.devnull, PIP_USER="0", PIP_REQUIRE_HASHES="0")
        # stdout belongs to the program that is started.
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        )
        if done.returncode != 0:
            raise BootstrapError(problem)


@contextlib.contextmanager
def _locked(path: Path) -> "Iterator[None]":
    """Holds a file lock, so that two commands started at once do not install into each other."""
    with open(path, "a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            # Gives up after ten tries, a second apart; the other one may take minutes.
            while True:
                with contextlib.suppress(OSError):
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
            # Closing the file gives the lock back.
            yield


# -------------------------------------------------------------------------------------------------- commands


def replace_process(command: "list[str]") -> int:
    """Becomes the command, so that signals reach it and its exit code is ours; on Windows waits for it."""
    if not WINDOWS:
        sys.stdout.flush()
        os.execv(command[0], command)
    child = subprocess.Popen(command)
    while True:
        # Ctrl-C reaches the whole console: the child decides what it means.
        with contextlib.suppress(KeyboardInterrupt):
            return child.wait()


def pytest_arguments(arguments: "list[str]") -> "list[str]":
    """`--all` selects the long tests too: an empty `-m` replaces the project's own `-m "not long"`.

    Then nothing is dumped of a test that takes long, as many do: the dump reads the frames of running
    threads, and has crashed the interpreter doing it (CPython 3.11). pytest-timeout still ends what hangs.
    """
    if "--all" not in arguments:
        return arguments
    quiet = ["-o", "faulthandler_timeout=0"]
    return ["-m", "", *quiet, *(argument for argument in arguments if argument != "--all")]


def main(arguments: "list[str]") -> int:
    """Runs one of the two commands; exit code 2 for wrong usage, 1 if something lacks, else the program's."""
    if not arguments or arguments[0] not in LOCKS:
        print((__doc__ or "").strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    kind, rest = arguments[0], arguments[1:]
    environment = Environment(ROOT)
    try:
        check_python((sys.version_info[0], sys.version_info[1]), arguments)
        # Before the download, so that a person learns at once what is to be done by hand.
        if kind == "test" or opens_window(rest):
            check_qt_libraries(kind)
        environment.prepare(kind)
    except BootstrapError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next start repairs what is unfinished")
        return 130
    python = str(environment.python)
    if kind == "test":
        os.chdir(str(ROOT))
        return replace_process([python, "-m", "pytest", *pytest_arguments(rest)])
    # Through the script and not `-m app`: that would put the current folder first on the import path.
    script = [str(environment.bin / "onefill.exe")] if WINDOWS else [python, str(environment.bin / "onefill")]
    return replace_process([*script, *rest])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
