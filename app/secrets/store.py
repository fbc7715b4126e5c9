"""Where a secret is looked for, kept and made: the three places in the contract's order.

A keyring that fails is a reason, never a crash, and never an excuse to make a new token beside one that may
be there. Everything here blocks: call it at the start or in a thread, with the caller's own timeout.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from app.secrets.backend import Keyring, KeyringFailure, KeyringState, SystemKeyring
from app.secrets.file import SECRETS_NAME, SecretsFile
from app.secrets.names import (
    TOKEN_BYTES,
    SecretsError,
    check_name,
    check_token,
    check_value,
    environment_name,
)


class Where(StrEnum):
    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up found: both None, or neither. `problem` is a line for a person, or empty."""

    value: str | None = field(repr=False)
    where: Where | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a secret is now. `statement` is to be shown to the person; it is loud where that is a file."""

    where: Where
    statement: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """Where a secret was removed from. `statement` says what of it may be left, or is empty."""

    where: tuple[Where, ...]
    statement: str


@dataclass(frozen=True, slots=True)
class HookToken:
    """The token of a source, found or `made` just now. `statement` is for the person, or empty."""

    value: str = field(repr=False)
    where: Where
    made: bool
    statement: str


class Secrets:
    """The secrets of one home.

    `keyring` is a backend, "system" (found at first need), or None: no keyring at all. A throw-away home
    (selftest, drills) takes None, so that nothing of it stays behind in the user's keyring.
    """

    def __init__(
        self, home: Path, environ: Mapping[str, str], keyring: Keyring | Literal["system"] | None = "system"
    ) -> None:
        self._home = home
        self._environ = environ
        self._keyring = SystemKeyring(f"onefill {home.resolve()}", keyring)
        self._file = SecretsFile(home / SECRETS_NAME)

    def __repr__(self) -> str:
        return f"Secrets(home={str(self._home)!r})"

    def get(self, name: str) -> str | None:
        """The value, or None if it is nowhere. Errors as in `find`."""
        return self.find(name).value

    def find(self, name: str) -> Found:
        """The value and where it is. An environment variable that is empty or blank counts as not there.

        A keyring that fails is a `problem`, and the look-up goes on. SecretsError for a bad name, and for a
        secrets.toml that is needed and that others can read or nobody.
        """
        check_name(name)
        value = self._environ.get(environment_name(name), "")
        if value.strip():
            return Found(value, Where.ENVIRONMENT)
        try:
            stored = self._keyring.get(name)
        except KeyringFailure as failure:
            in_file = self._file.read().get(name)
            return Found(in_file, None if in_file is None else Where.FILE, str(failure))
        if stored is None:
            in_file = self._file.read().get(name)
            return Found(in_file, None if in_file is None else Where.FILE)
        return Found(stored, Where.KEYRING, self._also_in_file(name, stored))

    def hook_token(self, source: str) -> HookToken:
        """The token in the address of a source; made and kept on the first call.

        SecretsError if there is one that cannot serve (short, or not fit for an address), and if a keyring
        that may hold one fails: a second token would shut out the address that the sender has.
        """
        name = f"source.{source}.token"
        found = self.find(name)
        if found.value is not None and found.where is not None:
            check_token(name, found.value)
            return HookToken(found.value, found.where, made=False, statement=found.problem)
        if found.problem:
            raise SecretsError(
                f"{found.problem}. The token of {source} may be in it, so none is made: unlock the keyring,"
                f" set {environment_name(name)}, or type `onefill secret set {name}`"
            )
        value = secrets.token_urlsafe(TOKEN_BYTES)
        stored = self.set(name, value)
        return HookToken(value, stored.where, made=True, statement=stored.statement)

    def set(self, name: str, value: str) -> Stored:
        """Keeps the value in the keyring, or in secrets.toml where no keyring works.

        SecretsError for a bad name or value, and where nothing could keep it.
        """
        check_name(name)
        check_value(name, value)
        try:
            kept = self._keyring.set(name, value)
            reason = self._keyring.state.reason
        except KeyringFailure as failure:
            kept = False
            reason = str(failure)
        if not kept:
            self._file.write(name, value)
            statement = f"WARNING: {name} is in plain text in {self._file.path} (mode 0600): {reason}."
            return Stored(Where.FILE, statement + self._before_it(name))
        statement = f"{name} is in the keyring ({self._keyring.state.backend})."
        try:
            self._file.write(name, None)
        except SecretsError as error:
            statement += f" {error}."
        return Stored(Where.KEYRING, statement + self._before_it(name))

    def delete(self, name: str) -> Deleted:
        """Removes the value from keyring and secrets.toml. SecretsError for a bad name or a refused file."""
        check_name(name)
        removed: list[Where] = []
        statement = ""
        try:
            if self._keyring.delete(name):
                removed.append(Where.KEYRING)
        except KeyringFailure as failure:
            statement = f"{name} may still be there: {failure}."
        if self._file.write(name, None):
            removed.append(Where.FILE)
        return Deleted(tuple(removed), (statement + self._before_it(name)).strip())

    def plain_values(self) -> list[str]:
        """Every value that stands in secrets.toml or in a variable of ours, whatever its name; none of a file
        that is refused. For whoever has to keep them out of a text."""
        ours = [value.strip() for name, value in self._environ.items() if name.startswith("ONEFILL_SECRET_")]
        try:
            return ours + list(self._file.read().values())
        except SecretsError:
            return ours

    @property
    def keyring_state(self) -> KeyringState:
        return self._keyring.state

    def give_up_on_keyring(self, reason: str) -> None:
        """From now on the keyring counts as one that fails, unasked. For a caller whose time ran out."""
        self._keyring.give_up(reason)

    def _also_in_file(self, name: str, value: str) -> str:
        """A second value is most often one that was set while the keyring was locked."""
        try:
            other = self._file.read().get(name, value)
        except SecretsError as error:
            return str(error)
        if other == value:
            return ""
        return f"{name} is in {self._file.path} too, with another value; the keyring's is used: remove one"

    def _before_it(self, name: str) -> str:
        variable = environment_name(name)
        return f" {variable} is set and comes before it." if self._environ.get(variable, "").strip() else ""
