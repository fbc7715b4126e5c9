"""What a secret is called, and what may be one.

Pure. No error here or anywhere in this room repeats a value.
"""

from __future__ import annotations

import hashlib
import re

TOKEN_BYTES = 32
"""Of randomness in a hook token that we make: 256 bits. At least 192 are asked of one that a person sets."""

_NAME = re.compile(r"[a-z0-9_-]{1,64}(?:\.[a-z0-9_-]{1,64}){1,3}")
_HOOK_TOKEN = re.compile(r"source\.[a-z0-9_-]+\.token")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")


class SecretsError(Exception):
    """One line for a person: what is wrong with which secret or store, and what to do. Never a value."""


def environment_name(name: str) -> str:
    """`account.alpaca.key_id` as ONEFILL_SECRET_ACCOUNT_ALPACA_KEY_ID."""
    return "ONEFILL_SECRET_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def token_digest(token: str) -> bytes:
    """SHA-256 of a token, to be compared with `hmac.compare_digest`. Takes any text a request can hold."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SecretsError(f"not a name of a secret: {name[:80]!r}: write one as source.tradingview.token")


def check_value(name: str, value: str) -> None:
    if not value.strip() or not value.isprintable():
        raise SecretsError(f"{name}: the value must be one line of printable text and not empty")
    if _HOOK_TOKEN.fullmatch(name):
        check_token(name, value)


def check_token(name: str, value: str) -> None:
    """A hook token is a part of an address and all that stands between a stranger and an order."""
    if not _TOKEN.fullmatch(value):
        raise SecretsError(f"{name} must be 32 to 256 letters, digits, _ or -, made at random: set another")


def one_line(error: BaseException, hide: str = "") -> str:
    """An error of somebody else's in a few words, without the text to `hide`."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if hide:
        text = text.replace(hide, "...")
    return f"{type(error).__name__} {' '.join(text.split())[:120]}".strip()
