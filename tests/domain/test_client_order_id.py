"""HOLES H12: an id that covers everything by which two orders can differ."""

import uuid

from app.domain.client_order_id import client_order_id
from app.domain.key import claim_digest

CLAIM = claim_digest("s1", "42", None)
ONE = client_order_id("alpaca:paper:PA1", CLAIM, 0, 0)


def test_h12_what_makes_another_order_makes_another_id() -> None:
    others = [
        client_order_id("alpaca:paper:PA2", CLAIM, 0, 0),
        client_order_id("alpaca:live:PA1", CLAIM, 0, 0),
        client_order_id("alpaca:paper:PA1", claim_digest("s2", "42", None), 0, 0),
        client_order_id("alpaca:paper:PA1", claim_digest("s1", "42", 1), 0, 0),
        client_order_id("alpaca:paper:PA1", claim_digest("s1", "42", 2), 0, 0),
        client_order_id("alpaca:paper:PA1", CLAIM, 1, 0),
        client_order_id("alpaca:paper:PA1", CLAIM, 0, 1),
    ]
    assert len({ONE, *others}) == 8


def test_the_id_is_the_same_on_every_machine() -> None:
    assert client_order_id("alpaca:paper:PA1", CLAIM, 0, 0) == ONE == "a8c7a3de968a876d896739ecbc080584"


def test_the_id_is_a_uuid_of_version_8() -> None:
    made = uuid.UUID(ONE)
    assert (made.version, made.variant, made.hex) == (8, uuid.RFC_4122, ONE)
