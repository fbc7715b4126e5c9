"""Secrets: environment, then the system's keyring, then secrets.toml (0600). CONTRACT 4.

A value is returned to the one who asked and goes nowhere else: no log, no repr, no error carries one.
"""

from app.secrets.backend import Keyring, KeyringState
from app.secrets.file import SECRETS_NAME
from app.secrets.names import SecretsError, environment_name, token_digest
from app.secrets.store import Deleted, Found, HookToken, Secrets, Stored, Where

__all__ = [
    "SECRETS_NAME",
    "Deleted",
    "Found",
    "HookToken",
    "Keyring",
    "KeyringState",
    "Secrets",
    "SecretsError",
    "Stored",
    "Where",
    "environment_name",
    "token_digest",
]
