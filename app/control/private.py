"""A file that one user alone can read, by an explicit permission and not by what the folder hands down.

On Windows a mode of 0600 says nothing, and a home on another drive inherits that drive's rights (HOLES H43):
there the access list is set before the content is written, and read back before it is believed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_BYTES = 4_096


class NotPrivate(Exception):
    """Others may have read or written this file. One line."""


def write_for_us_alone(path: Path, content: bytes) -> None:
    """Puts a file there that nobody else can open at any moment. Raises OSError, NotPrivate."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        os.close(os.open(temporary, flags, 0o600))
        if sys.platform == "win32":
            _Windows().close_to_others(temporary)
            if not _is_ours(temporary):
                raise NotPrivate(f"the drive of {path.parent} keeps no permissions: use a home on another")
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_ours(path: Path) -> bytes:
    """The content. Raises FileNotFoundError, other OSErrors, and NotPrivate."""
    if sys.platform == "win32":
        if path.exists() and not _is_ours(path):
            raise NotPrivate(f"{path} is not this user's alone: nothing in it is believed")
        return path.read_bytes()[:MAX_BYTES]
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise NotPrivate(f"{path} is not this user's alone: nothing in it is believed")
        return file.read(MAX_BYTES)


def _is_ours(path: Path) -> bool:
    windows = _Windows()
    return is_for_one(windows.as_text(path), windows.user_as_written())


def is_for_one(descriptor: str, user: str) -> bool:
    """Whether a security descriptor (SDDL) names `user` as owner, hands nothing down, and lets in that user
    alone. Rights are compared as they are written by `close_to_others`."""
    found = re.fullmatch(r"O:([^:()]+?)(?:G:[^:()]+?)?D:P(?:AI|AR)*\(A;;FA;;;([^;()]+)\)", descriptor)
    return found is not None and found[1] == found[2] == user


class _Windows:
    """The few calls of advapi32 that this needs. Only ever made on Windows."""

    _OWNER, _DACL, _PROTECTED = 0x1, 0x4, 0x80000000
    _TOKEN_QUERY, _TOKEN_USER, _REVISION = 0x8, 1, 1

    def __init__(self) -> None:
        import ctypes

        self._ctypes: Any = ctypes
        self._security = self._ctypes.WinDLL("advapi32", use_last_error=True)
        self._kernel = self._ctypes.WinDLL("kernel32", use_last_error=True)
        # 64-bit handles would be cut to an int.
        self._kernel.GetCurrentProcess.restype = ctypes.c_void_p
        self._kernel.LocalFree.argtypes = [ctypes.c_void_p]
        self._kernel.CloseHandle.argtypes = [ctypes.c_void_p]
        self.user = self._user()

    def close_to_others(self, path: Path) -> None:
        """Full access for this user and for nobody else; then this user as the owner. Raises OSError."""
        # In this order: what we own we may close, and only then may we always name the owner.
        self._set(path, f"D:P(A;;FA;;;{self.user})", self._DACL | self._PROTECTED)
        self._set(path, f"O:{self.user}", self._OWNER)

    def as_text(self, path: Path) -> str:
        """Owner and access list as SDDL. Raises OSError."""
        c, wanted = self._ctypes, self._OWNER | self._DACL
        needed = c.c_uint32()
        self._security.GetFileSecurityW(str(path), wanted, None, 0, c.byref(needed))
        buffer = c.create_string_buffer(max(1, needed.value))
        self._check(self._security.GetFileSecurityW(str(path), wanted, buffer, len(buffer), c.byref(needed)))
        return self._written(buffer, wanted)

    def user_as_written(self) -> str:
        """This user as a descriptor that is read back names him: known accounts have two letters there."""
        with self._made(f"O:{self.user}") as descriptor:
            return self._written(descriptor, self._OWNER).removeprefix("O:")

    def _set(self, path: Path, text: str, what: int) -> None:
        with self._made(text) as descriptor:
            self._check(self._security.SetFileSecurityW(str(path), self._ctypes.c_uint32(what), descriptor))

    @contextlib.contextmanager
    def _made(self, text: str) -> Iterator[Any]:
        """The descriptor that SDDL says."""
        made = self._ctypes.c_void_p()
        self._check(
            self._security.ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text, self._REVISION, self._ctypes.byref(made), None
            )
        )
        try:
            yield made
        finally:
            self._kernel.LocalFree(made)

    def _written(self, descriptor: Any, what: int) -> str:
        text = self._ctypes.c_wchar_p()
        self._check(
            self._security.ConvertSecurityDescriptorToStringSecurityDescriptorW(
                descriptor, self._REVISION, what, self._ctypes.byref(text), None
            )
        )
        return self._taken(text)

    def _user(self) -> str:
        """The security identifier of the user of this process, as SDDL writes it."""
        c = self._ctypes
        token, needed = c.c_void_p(), c.c_uint32()
        process = c.c_void_p(self._kernel.GetCurrentProcess())
        self._check(self._security.OpenProcessToken(process, self._TOKEN_QUERY, c.byref(token)))
        try:
            self._security.GetTokenInformation(token, self._TOKEN_USER, None, 0, c.byref(needed))
            buffer = c.create_string_buffer(max(c.sizeof(c.c_void_p), needed.value))
            self._check(
                self._security.GetTokenInformation(
                    token, self._TOKEN_USER, buffer, len(buffer), c.byref(needed)
                )
            )
            # TOKEN_USER begins with a pointer to the identifier, which is behind it in the same buffer.
            identifier = c.cast(buffer, c.POINTER(c.c_void_p))[0]
            text = c.c_wchar_p()
            self._check(self._security.ConvertSidToStringSidW(c.c_void_p(identifier), c.byref(text)))
            return self._taken(text)
        finally:
            self._kernel.CloseHandle(token)

    def _taken(self, text: Any) -> str:
        value = str(text.value)
        self._kernel.LocalFree(self._ctypes.cast(text, self._ctypes.c_void_p))
        return value

    def _check(self, done: int) -> None:
        if not done:
            raise self._ctypes.WinError(self._ctypes.get_last_error())
