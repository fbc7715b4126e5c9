"""Apprise with all its services is loaded once: some of them warn of their own libraries while they load."""

import warnings

import pytest


@pytest.fixture(autouse=True, scope="session")
def apprise_is_loaded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import apprise

        assert apprise.Apprise.instantiate("json://127.0.0.1") is not None
