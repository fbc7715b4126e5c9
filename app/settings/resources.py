"""Files that Onefill ships beside its code: in a bundle or wheel within the package, else in the tree."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> Path | None:
    """The file of that name, or None where this build has none."""
    app = Path(__file__).resolve().parent.parent
    for folder in (app / "_resources", app.parent / "resources"):
        if (folder / name).is_file():
            return folder / name
    return None
