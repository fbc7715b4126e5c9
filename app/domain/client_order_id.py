"""The client order id: the same on every machine and after every restart; brokers refuse a second one.

Made once, stored with the order and never recomputed (HOLES H12, H41). It has no readable prefix: some venues
refuse one.
"""

from __future__ import annotations

import uuid
from enum import StrEnum

from app.domain.canonical import digest

VERSION = 1


class IdForm(StrEnum):
    """How a venue wants the same 128 bits written (facts/brokers-and-reconciliation 4.5)."""

    HEX32 = "hex32"  # 32 hex digits; fits nearly every venue
    DASHED = "dashed"  # 36 characters, where a UUID is asked for


def rendered(client_order_id: str, form: IdForm) -> str:
    """An id of ours in a venue's form. ValueError for what is no UUID."""
    made = uuid.UUID(client_order_id)
    return made.hex if form is IdForm.HEX32 else str(made)


def client_order_id(scope: str, claim_digest: bytes, leg: int, generation: int, era: int = 0) -> str:
    """32 hex digits of a UUIDv8 (RFC 9562 section 5.8).

    `scope` is "venue:env:account identity" as the broker states it; `claim_digest` is key.claim_digest, which
    covers source, key and window epoch; `leg` and `generation` are the order's own. `era` counts how often
    the source's keys were forgotten before the claim: a key that is claimed again has ids of its own (H12).
    """
    made = digest([VERSION, scope, claim_digest.hex(), leg, generation, *([era] if era else [])])
    number = int.from_bytes(made[:16])
    number = number & ~(0xF << 76) | 8 << 76
    number = number & ~(0b11 << 62) | 0b10 << 62
    return uuid.UUID(int=number).hex
