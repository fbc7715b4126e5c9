"""tests/README.md says which test breaks which claim: what it names must be there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
TEXT = (TESTS / "README.md").read_text("utf-8")


def test_every_file_and_folder_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", TEXT))
    assert len(named) > 10
    places = (TESTS, TESTS.parent)
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_every_test_that_is_named_is_there() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert named
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []


def test_every_claim_has_its_line() -> None:
    rows = re.findall(r"^\| \*\*(S\d)\*\* \| .+ \| .*`.+` *\|?.*\|$", TEXT, re.MULTILINE)
    assert rows == ["S1", "S2", "S3", "S4", "S5"]
