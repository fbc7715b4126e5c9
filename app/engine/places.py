"""Whether a folder is a place for a ledger: on a disk of this machine, and in nobody else's hands.

SQLite's locks and syncs mean nothing on a network share, and a program that copies files to a cloud copies a
ledger and its log at different moments: both lose claims without a word. Reads only; blocking.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

NETWORK = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "afpfs",
        "afs",
        "webdav",
        "davfs",
        "ncpfs",
        "lustre",
        "ceph",
    )
) | frozenset(
    f"fuse.{name}"
    for name in ("davfs", "sshfs", "rclone", "s3fs", "gcsfuse", "glusterfs", "ceph", "curlftpfs", "smbnetfs")
)
"""File systems that are somebody else's disk, by the names that the system has for them."""

SYNCED = (
    ("Dropbox", "Dropbox"),
    ("OneDrive", "OneDrive"),
    ("Google Drive", "Google Drive"),
    ("GoogleDrive", "Google Drive"),
    ("My Drive", "Google Drive"),
    ("iCloud Drive", "iCloud"),
    ("iCloudDrive", "iCloud"),
    ("Mobile Documents", "iCloud"),
    ("CloudStorage", "a cloud drive"),
    ("Nextcloud", "Nextcloud"),
    ("ownCloud", "ownCloud"),
    ("pCloudDrive", "pCloud"),
    ("MEGAsync", "MEGA"),
    ("Syncthing", "Syncthing"),
)
"""How folders that a program copies elsewhere are called, by the start of their name."""

MARKERS = ((".dropbox.cache", "Dropbox"), (".stfolder", "Syncthing"), (".sync_root", "a sync program"))
"""What such programs leave in the folder that they copy."""


def why_unfit(home: Path, environ: Mapping[str, str] | None = None) -> str | None:
    """Why no ledger may be kept there, in words with the remedy; None where nothing speaks against it."""
    path = _existing(home.absolute())
    kind = file_system(path)
    remedy = "choose a folder on a disk of this machine with --home"
    if kind in NETWORK:
        return f"{home} is on a network folder ({kind}), where locks and syncs cannot be relied on: {remedy}"
    program = synced_by(path, os.environ if environ is None else environ)
    if program is not None:
        return f"{home} is copied elsewhere by {program}, which tears a ledger apart: {remedy}"
    return None


def synced_by(path: Path, environ: Mapping[str, str]) -> str | None:
    """The program that copies the folder, as far as names and marks tell; None where they do not."""
    roots = [
        environ[name] for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial") if environ.get(name)
    ]
    if any(path.is_relative_to(root) for root in roots):
        return "OneDrive"
    for part in path.parts[1:]:
        for name, program in SYNCED:
            # "OneDriveBackup" is a user's own word: only the products' spellings count.
            if part == name or part.startswith((f"{name} -", f"{name} (")):
                return program
    for folder in (path, *path.parents):
        for mark, program in MARKERS:
            if (folder / mark).exists():
                return program
    return None


def file_system(path: Path) -> str:
    """The system's word for what the folder lies on (`ext4`, `nfs4`, `remote`); empty where it says none."""
    if os.name == "nt":
        return _windows_drive(path)
    return _linux_mount(path) if sys.platform == "linux" else _stated_by_mount(path)


def _linux_mount(path: Path) -> str:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return mounted(mounts.splitlines(), path)


def mounted(lines: Iterable[str], path: Path) -> str:
    """The file system of the deepest mount that holds the path, from the lines of /proc/self/mountinfo."""
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 5 or not rest:
            continue
        point = Path(fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        # A later mount covers an earlier one at the same place.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), rest[0]
    return kind


def _stated_by_mount(path: Path) -> str:
    """macOS: `mount` prints `//user@host/share on /Volumes/share (smbfs, nodev)`."""
    import subprocess

    try:
        said = subprocess.run(["/sbin/mount"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    best, kind = -1, ""
    for line in said.splitlines():
        where, _, words = line.partition(" on ")[2].rpartition(" (")
        if where and path.is_relative_to(where) and len(Path(where).parts) >= best:
            best, kind = len(Path(where).parts), words.split(",")[0].rstrip(")")
    return kind


def _windows_drive(path: Path) -> str:
    if str(path).startswith("\\\\"):
        return "smb3"
    if sys.platform == "win32":
        import ctypes

        remote = 4
        if ctypes.windll.kernel32.GetDriveTypeW(path.anchor) == remote:
            return "smb3"
    return ""


def _existing(path: Path) -> Path:
    """The path with its links followed, as far as it is there yet."""
    return path.resolve()
