"""A ledger is refused on folders that are a network's or a sync program's, and on no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.clock import SystemClock
from app.engine import StartRefused, places
from app.engine.opening import open_home
from app.secrets import Secrets

MOUNTS = r"""
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:45 / /home/ann/share rw - cifs //nas/share rw
31 21 0:46 / /mnt/my\040disk rw - fuse.sshfs host:/ rw
32 21 8:2 / /home/ann/share/inner rw - xfs /dev/sdb1 rw
33 21 0:47 / /srv rw - nfs4 nas:/srv rw
34 33 8:3 / /srv rw - btrfs /dev/sdc1 rw
""".splitlines()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann/onefill", "ext4"),
        ("/home/ann/share/onefill", "cifs"),
        ("/home/ann/shared", "ext4"),
        ("/home/ann/share/inner/onefill", "xfs"),
        ("/mnt/my disk/onefill", "fuse.sshfs"),
        ("/srv/onefill", "btrfs"),  # mounted over the share
    ],
)
def test_the_deepest_and_latest_mount_counts(path: str, kind: str) -> None:
    assert places.mounted(MOUNTS, Path(path)) == kind


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.rclone", "davfs"]
)
def test_a_network_folder_is_refused_by_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "file_system", lambda _: kind)
    said = places.why_unfit(tmp_path / "home", {})
    assert said is not None
    assert kind in said
    assert "--home" in said


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "overlay", "tmpfs", "apfs", "fuseblk", "9p", ""])
def test_a_disk_of_this_machine_is_not(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "file_system", lambda _: kind)
    assert places.why_unfit(tmp_path / "home", {}) is None


@pytest.mark.parametrize(
    ("folder", "program"),
    [
        ("Dropbox/trading", "Dropbox"),
        ("Dropbox (Work)/x", "Dropbox"),
        ("OneDrive - Firm/x", "OneDrive"),
        ("Library/Mobile Documents/x", "iCloud"),
        ("Library/CloudStorage/Box/x", "a cloud drive"),
        ("Google Drive/My Drive", "Google Drive"),
        ("Nextcloud", "Nextcloud"),
    ],
)
def test_a_synced_folder_is_refused_by_its_program(folder: str, program: str, tmp_path: Path) -> None:
    said = places.why_unfit(tmp_path / folder, {})
    assert said is not None
    assert f"by {program}" in said


@pytest.mark.parametrize("folder", ["DropboxNot/x", "my-onedrive", "drive", "sync", "cloud"])
def test_a_folder_that_only_sounds_like_one_is_not(folder: str, tmp_path: Path) -> None:
    assert places.why_unfit(tmp_path / folder, {}) is None


def test_a_folder_below_a_sync_programs_mark_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".stfolder").mkdir()
    assert "Syncthing" in str(places.why_unfit(tmp_path / "a" / "b", {}))


def test_windows_says_by_a_variable_where_onedrive_is(tmp_path: Path) -> None:
    root = str(tmp_path / "Cloud")
    assert "OneDrive" in str(places.why_unfit(tmp_path / "Cloud" / "home", {"OneDrive": root}))
    assert places.why_unfit(tmp_path / "Elsewhere", {"OneDrive": root}) is None


def test_a_link_into_a_synced_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "Dropbox").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "Dropbox")
    assert "Dropbox" in str(places.why_unfit(tmp_path / "home", {}))


def test_the_start_is_refused_and_nothing_is_made_there(tmp_path: Path) -> None:
    home = tmp_path / "Dropbox" / "onefill"
    with pytest.raises(StartRefused, match="copied elsewhere by Dropbox"):
        open_home(home, SystemClock(), lambda: Secrets(home, {}, keyring=None))
    assert not home.exists()
