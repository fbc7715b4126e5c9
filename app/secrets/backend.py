"""The system's keyring, and whether it is a real one.

Blocks; a keyring may even wait for a person. What a backend raises becomes a KeyringFailure and its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from app.secrets.names import one_line

_REAL = 1
"""keyring's own line: what has a lower priority keeps plain text, asks on a terminal, or keeps nothing."""


class Keyring(Protocol):
    """What we use of a backend of the `keyring` library."""

    def get_password(self, service: str, username: str, /) -> str | None: ...
    def set_password(self, service: str, username: str, password: str, /) -> None: ...
    def delete_password(self, service: str, username: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class KeyringState:
    """For `onefill doctor`: whether a keyring is used, which, and why not."""

    usable: bool
    backend: str
    reason: str


class KeyringFailure(Exception):
    """A real keyring did not answer: nothing is known about what it holds."""


class SystemKeyring:
    """One service's entries. Each call answers None or False where there is no keyring at all."""

    def __init__(self, service: str, asked: Keyring | Literal["system"] | None) -> None:
        self._service = service
        self._asked = asked
        self._backend: Keyring | None = None
        self._state: KeyringState | None = None
        self._given_up = ""

    @property
    def state(self) -> KeyringState:
        """The backend is looked for when this is asked for the first time."""
        if self._given_up:
            return KeyringState(
                False, "keyring" if self._state is None else self._state.backend, self._given_up
            )
        if self._state is None:
            self._backend, self._state = _detect(self._asked)
        return self._state

    def give_up(self, reason: str) -> None:
        self._given_up = " ".join(reason.split()) or "given up"

    def get(self, name: str) -> str | None:
        backend = self._working()
        if backend is None:
            return None
        try:
            return backend.get_password(self._service, name) or None
        except Exception as error:  # noqa: BLE001 - backends raise what they like: all of it is "no answer"
            raise self._failure(one_line(error)) from None

    def set(self, name: str, value: str) -> bool:
        """Whether it is kept there; read back, because some backends cut long values and say nothing."""
        backend = self._working()
        if backend is None:
            return False
        try:
            backend.set_password(self._service, name, value)
            kept = backend.get_password(self._service, name) == value
        except Exception as error:  # noqa: BLE001 - as above
            raise self._failure(one_line(error, hide=value)) from None
        if not kept:
            raise self._failure("it did not keep the value")
        return True

    def delete(self, name: str) -> bool:
        """Whether there was one."""
        backend = self._working()
        if backend is None:
            return False
        try:
            if backend.get_password(self._service, name) is None:
                return False
            backend.delete_password(self._service, name)
        except Exception as error:  # noqa: BLE001 - as above
            raise self._failure(one_line(error)) from None
        return True

    def _working(self) -> Keyring | None:
        state = self.state
        if self._given_up:
            raise self._failure(self._given_up)
        return self._backend if state.usable else None

    def _failure(self, reason: str) -> KeyringFailure:
        return KeyringFailure(f"the keyring ({self.state.backend}) failed: {reason}")


def _detect(asked: Keyring | Literal["system"] | None) -> tuple[Keyring | None, KeyringState]:
    if asked is None:
        return None, KeyringState(False, "none", "this home uses no keyring")
    try:
        # Slow to import, and not needed where the environment has it all.
        import keyring.core

        backend: Any = keyring.core.get_keyring() if asked == "system" else asked
        kind = type(backend)
        # A chain of backends says nothing about its links: the best of them is what it writes to.
        links = getattr(backend, "backends", None) or [backend]
        priority = max(getattr(link, "priority", _REAL) for link in links)
    except Exception as error:  # noqa: BLE001 - a broken backend is a reason, not a crash
        return None, KeyringState(False, "none", f"no keyring works here: {one_line(error)}")
    called = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__ == "keyring.backends.fail":
        return None, KeyringState(False, called, "this system has no keyring")
    if kind.__module__ == "keyring.backends.null":
        return None, KeyringState(False, called, "the keyring is switched off")
    if priority < _REAL:
        return None, KeyringState(False, called, f"{called} does not keep secrets safely")
    return backend, KeyringState(True, called, "")
