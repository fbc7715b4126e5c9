"""The README names each command, and each reason for which an order is denied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.cli import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DENIED = sorted(
    {
        code
        for folder in ("domain", "execution")
        for file in (ROOT / "app" / folder).glob("*.py")
        for code in re.findall(r'denial\(\s*"([A-Z_]+)"', file.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_is_told(name: str) -> None:
    assert re.search(rf"`(onefill )?{name}\b", README)


def test_each_reason_of_a_denial_is_told() -> None:
    assert len(DENIED) > 10
    assert [code for code in DENIED if f"`{code}`" not in README] == []
