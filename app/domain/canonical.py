"""Canonical JSON and its digest: what keys, fingerprints and order ids are made of.

Always a list or an object of named parts, never a joined template: `a-b` + `c` and `a` + `b-c` must differ.
The bytes made here are stored for ever and may not change; a new rule gets a new version number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

Canonical = str | int | bool | None | Sequence["Canonical"] | Mapping[str, "Canonical"]
"""What may be digested. Numbers of a payload go in as their plain text (number.plain), never as floats."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def canonical_json(value: Canonical) -> str:
    """JSON without spaces, with sorted names, in UTF-8 text."""
    return _ENCODER.encode(value)


def digest(value: Canonical) -> bytes:
    """SHA-256 of the canonical JSON: 32 bytes."""
    return hashlib.sha256(canonical_json(value).encode()).digest()
