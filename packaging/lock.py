"""Writes the hash-locked requirement files beside this one. For developers, after a change of pyproject.toml.

    python3 packaging/lock.py [--upgrade]

Needs `uv` on the PATH (any way of installing it is fine; nothing else in Onefill needs it). No file that it
writes may name a package registry: the locks say what (name, version, hashes), each machine's own pip
settings say from where.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# One row a lock: file, what goes in. The run lock comes first: the others must agree with its versions.
LOCKS: "tuple[tuple[str, list[str]], ...]" = (
    ("requirements.lock", ["pyproject.toml"]),
    (
        "requirements-test.lock",
        ["pyproject.toml", "--group", "test", "--constraints", "packaging/requirements.lock"],
    ),
    ("requirements-build.lock", ["--group", "build", "--constraints", "packaging/requirements-test.lock"]),
    ("requirements-freeze.lock", ["--group", "freeze", "--constraints", "packaging/requirements.lock"]),
    ("requirements-sbom.lock", ["--group", "sbom"]),
)
FLAGS = [
    "--generate-hashes",
    "--universal",
    "--python-version=3.11",
    "--no-annotate",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--quiet",
]
HEADER = "# Made by packaging/lock.py from pyproject.toml; do not edit.\n"


def main(arguments: "list[str]") -> int:
    """Writes all locks; exit code 0, or uv's."""
    uv = shutil.which("uv")
    if uv is None:
        print("packaging/lock.py needs uv on the PATH.", file=sys.stderr)
        return 2
    for name, sources in LOCKS:
        lock = ROOT / "packaging" / name
        command = [uv, "pip", "compile", *sources, *FLAGS, *arguments, "--output-file", str(lock)]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode != 0:
            return done.returncode
        lock.write_text(HEADER + lock.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"wrote packaging/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
