"""The home that a history starts from."""

from tests.execution.conftest import home_made_once

__all__ = ["home_made_once"]
