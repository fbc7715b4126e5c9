"""The home that the tests of execution start from."""

from tests.execution.conftest import home_made_once

__all__ = ["home_made_once"]
