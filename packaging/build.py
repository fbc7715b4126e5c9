"""Builds what a trader downloads, on and for the system that it runs on:

    python3 packaging/build.py [--no-smoke] [--folder-only]

Into `dist/`: the program as one folder and, on Linux, `onefill-VERSION-linux-ARCH.tar.xz` and
`onefill_VERSION_ARCH.deb`; on Windows a setup program, on macOS a disk image; an SBOM and SHA256SUMS beside
them. Everything is made in environments of its own under `build/`, from hash-locked requirements alone: what
a developer happens to have never gets in. At the end `packaging/smoke.py` tries what was built. Standard
library only; Python 3.11 to 3.13.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "packaging"
BUILD = ROOT / "build"
DIST = ROOT / "dist"
WINDOWS, MACOS, LINUX = os.name == "nt", sys.platform == "darwin", sys.platform.startswith("linux")
(VERSION,) = re.findall(
    r'^__version__ = "(.+)"', (ROOT / "app/__init__.py").read_text(encoding="utf-8"), re.M
)
DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "Onefill <support@onefill.invalid>"

# What must be there in its compiled form: without it the program would run, slower or less strict.
COMPILED = (
    "from aiohttp.http_parser import HttpRequestParserC",
    "from msgspec import _core",
    "import apsw; assert apsw.SQLITE_VERSION_NUMBER >= 3051003, apsw.sqlite_lib_version()",
)


class BuildError(Exception):
    """Why there is nothing to ship, in words."""


def main(arguments: "list[str]") -> int:
    """Exit code 0 where everything was built and tried; 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(description="Builds Onefill for this system.")
    parser.add_argument("--no-smoke", action="store_true", help="do not try what was built")
    parser.add_argument("--folder-only", action="store_true", help="no archive and no installer")
    asked = parser.parse_args(arguments)
    try:
        python = make_environment()
        folder = freeze(python)
        add_notices(python, folder)
        made = [] if asked.folder_only else package(folder)
        write_sums(made)
        if not asked.no_smoke:
            run([sys.executable, str(HERE / "smoke.py"), str(program_of(folder)), "--from-source"])
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    for file in made or [folder]:
        print(f"build: made {file.relative_to(ROOT)}")
    return 0


def say(text: str) -> None:
    print(f"build: {text}", flush=True)


def run(command: "list[str]", *, env: "dict[str, str] | None" = None, log: "TextIO | None" = None) -> None:
    """Runs a step, its output into `log` if there is one; raises BuildError where it fails."""
    errors = None if log is None else subprocess.STDOUT
    done = subprocess.run(command, cwd=ROOT, check=False, env=env, stdout=log, stderr=errors)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[:4])} ... ended with {done.returncode}")


# ----------------------------------------------------------------------------------------------- environments


def interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if WINDOWS else "bin/python")


def make_environment() -> Path:
    """A fresh environment with the locked requirements and nothing else, and its SBOM; its interpreter."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir()
    say("making clean environments from the locks")
    tools, app = interpreter(BUILD / "tools"), interpreter(BUILD / "app")
    venv.create(BUILD / "tools", with_pip=True)
    install(tools, tools, "requirements-sbom.lock")
    # Without pip of its own: what is in it is what is shipped.
    venv.create(BUILD / "app", with_pip=False)
    install(tools, app, "requirements.lock")
    for check in COMPILED:
        run([str(app), "-c", check])
    DIST.mkdir(exist_ok=True)
    scanner = [str(tools), "-m", "cyclonedx_py", "environment", str(app), "--pyproject", "pyproject.toml"]
    run([*scanner, "--output-reproducible", "--of", "JSON", "-o", str(sbom_file())])
    install(tools, app, "requirements-freeze.lock")
    return app


def install(pip_of: Path, into: Path, lock: str) -> None:
    pip = [
        str(pip_of),
        "-m",
        "pip",
        "--python",
        str(into),
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(HERE / lock)])


def sbom_file() -> Path:
    return DIST / f"onefill-{VERSION}-{system()}.cdx.json"


def system() -> str:
    name = "windows" if WINDOWS else "macos" if MACOS else "linux"
    return f"{name}-{platform.machine().lower()}"


# ----------------------------------------------------------------------------------------------- the folder


def freeze(python: Path) -> Path:
    """The program as one folder (on macOS an app)."""
    say("freezing")
    run(
        [str(python), str(HERE / "icons.py"), str(BUILD / "icons")],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    shutil.rmtree(DIST / "onefill", ignore_errors=True)
    log = BUILD / "pyinstaller.log"
    with log.open("w", encoding="utf-8") as output:
        command = [str(python), "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level", "WARN"]
        folders = ["--distpath", str(DIST), "--workpath", str(BUILD / "pyinstaller")]
        try:
            run([*command, *folders, str(HERE / "onefill.spec")], log=output)
        except BuildError as error:
            raise BuildError(f"{error}; see {log}") from error
    return DIST / ("Onefill.app" if MACOS else "onefill")


def program_of(folder: Path) -> Path:
    """The program for a console in what was frozen."""
    if MACOS:
        return folder / "Contents/MacOS/onefill"
    return folder / ("onefill-cli.exe" if WINDOWS else "onefill")


# ----------------------------------------------------------------------------------------------- licences

LIST_LICENCES = """
import json, sys
from importlib.metadata import distributions

def is_text(file):
    words = ("LICEN", "COPYING", "NOTICE")
    return ".dist-info" in str(file) and any(word in file.name.upper() for word in words)

out = []
for one in distributions():
    classifiers = [c.rpartition(":: ")[2] for c in one.metadata.get_all("Classifier", []) if "License" in c]
    said = one.metadata.get("License-Expression") or one.metadata.get("License") or ", ".join(classifiers)
    texts = [str(one.locate_file(file)) for file in one.files or [] if is_text(file)]
    licence = said.splitlines()[0] if said else ""
    out.append({"name": one.name, "version": one.version, "licence": licence, "texts": texts})
json.dump(out, sys.stdout)
"""


def add_notices(python: Path, folder: Path) -> None:
    """Puts every licence of what is bundled beside it, with the terms of Qt's in words.

    Raises BuildError where a package that is shipped states none.
    """
    done = subprocess.run([str(python), "-c", LIST_LICENCES], stdout=subprocess.PIPE, check=True)
    shipped = {
        component["name"].lower() for component in json.loads(sbom_file().read_text("utf-8"))["components"]
    }
    target = folder / ("Contents/Resources/licences" if MACOS else "licences")
    target.mkdir(parents=True)
    rows = []
    for one in sorted(json.loads(done.stdout), key=lambda each: each["name"].lower()):
        if one["name"].lower() not in shipped | {"pyinstaller"}:
            continue
        if not one["licence"]:
            raise BuildError(f"{one['name']} states no licence")
        rows.append(f"{one['name']} {one['version']}: {one['licence']}")
        for text in one["texts"]:
            shutil.copy(text, target / f"{one['name']}-{Path(text).name}")
    for text in [ROOT / "LICENSE", *(HERE / "licences").iterdir()]:
        shutil.copy(text, target / text.name)
    terms = (HERE / "licences/NOTICE.txt").read_text(encoding="utf-8")
    (target / "NOTICE.txt").write_text(terms + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    shutil.copy(sbom_file(), target / "sbom.cdx.json")


# -------------------------------------------------------------------------------------------- what is shipped


def package(folder: Path) -> "list[Path]":
    """Archive and installer of this system."""
    say("packing")
    if LINUX:
        return [tarball(folder), debian(folder)]
    if MACOS:
        image = DIST / f"onefill-{VERSION}-{system()}.dmg"
        run(["bash", str(HERE / "macos/package.sh"), str(folder), str(image)])
        return [image]
    compiler = shutil.which("iscc") or r"C:\Program Files (x86)\Inno Setup 6\ISCC.exe"
    if not Path(compiler).exists():
        raise BuildError("Inno Setup 6 is not installed: winget install JRSoftware.InnoSetup")
    run(
        [
            compiler,
            f"/DVersion={VERSION}",
            f"/DArch={platform.machine().lower()}",
            str(HERE / "windows/onefill.iss"),
        ]
    )
    return [DIST / f"onefill-{VERSION}-{system()}-setup.exe"]


def linux_files(folder: Path) -> "list[tuple[Path, str]]":
    """What goes beside the program: for its menu entry, and to take it off again."""
    return [
        (HERE / "linux/onefill.desktop", "onefill.desktop"),
        (ROOT / "resources/icon.svg", "onefill.svg"),
        (HERE / "linux/install.sh", "install.sh"),
        (HERE / "linux/uninstall.sh", "uninstall.sh"),
    ]


def tarball(folder: Path) -> Path:
    """The folder with its install script. Links are kept: the libraries are shared by them."""
    archive = DIST / f"onefill-{VERSION}-{system()}.tar.xz"
    top = f"onefill-{VERSION}"
    with tarfile.open(archive, "w:xz", preset=6) as tar:
        tar.add(folder, f"{top}/onefill", filter=owned_by_root)
        for file, name in linux_files(folder):
            tar.add(file, f"{top}/{name}", filter=owned_by_root)
    return archive


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def debian(folder: Path) -> Path:
    """A package that installs for all users; needs dpkg-deb."""
    if shutil.which("dpkg-deb") is None:
        raise BuildError("dpkg-deb is not installed: apt-get install dpkg")
    arch = DEBIAN_ARCH[platform.machine()]
    root = BUILD / "deb"
    library = root / "usr/lib/onefill"
    shutil.copytree(folder, library, symlinks=True)
    shared = {
        "packaging/linux/onefill.desktop": "applications/onefill.desktop",
        "resources/icon.svg": "icons/hicolor/scalable/apps/onefill.svg",
    }
    for file, name in shared.items():
        target = root / "usr/share" / name
        target.parent.mkdir(parents=True)
        shutil.copy(ROOT / file, target)
    doc = root / "usr/share/doc/onefill"
    doc.mkdir(parents=True)
    shutil.copy(library / "licences/NOTICE.txt", doc / "copyright")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/onefill").symlink_to("../lib/onefill/onefill")
    control = root / "DEBIAN"
    control.mkdir()
    size = sum(file.lstat().st_size for file in library.rglob("*") if not file.is_symlink()) // 1024
    fields = (HERE / "linux/control").read_text(encoding="utf-8")
    filled = fields.format(version=VERSION, arch=arch, size=size, maintainer=MAINTAINER, glibc=glibc())
    (control / "control").write_text(filled, encoding="utf-8")
    shutil.copy(HERE / "linux/postrm", control / "postrm")
    (control / "postrm").chmod(0o755)
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o755)
    package_file = DIST / f"onefill_{VERSION}_{arch}.deb"
    run(["dpkg-deb", "--build", "--root-owner-group", "-Zxz", str(root), str(package_file)])
    return package_file


def glibc() -> str:
    """The C library that this was built with: older ones cannot run it."""
    return platform.libc_ver()[1]


def write_sums(made: "list[Path]") -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in [*made, sbom_file()]]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
