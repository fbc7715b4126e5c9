"""The program, its clock hurried, its venue of another class, made worse in one way: as the variables say.

ONEFILL_DRILL_CLOCK: a HurriedClock; ONEFILL_DRILL_CLASS: what the venue does with ids; ONEFILL_DRILL_VARIANT:
a name of tests/crash/variants.py. The product has no switch for any of them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial

from app.brokers import alpaca_wire
from app.brokers.alpaca import AlpacaBroker, addresses
from app.brokers.base import IdClass
from app.cli import main
from app.drill.clock import HurriedClock
from app.engine import engine, parts
from app.execution import session
from app.settings import Account
from tests.crash.variants import VARIANTS, inside


def _venue(account: Account, shared: parts.Shared) -> AlpacaBroker:
    facts = replace(
        alpaca_wire.FACTS, id_class=IdClass(os.environ["ONEFILL_DRILL_CLASS"]), requests_per_minute=10**6
    )
    at = addresses(account.live, account.base_url, account.data_url)
    return AlpacaBroker(
        at,
        partial(parts.alpaca_keys, account.name, shared.make_secrets),
        shared.clock,
        live=account.live,
        timeout=shared.timeout,
        facts=facts,
    )


if __name__ == "__main__":
    clock = HurriedClock.read(os.environ["ONEFILL_DRILL_CLOCK"])
    inside(engine).SystemClock = lambda: clock
    # The waits that are counted on the wall hurry as the clock does.
    inside(session).LOOKS = tuple(seconds / clock.speed for seconds in session.LOOKS)
    inside(session).RECONNECT = tuple(seconds / clock.speed for seconds in session.RECONNECT)
    parts.FACTORIES["alpaca"] = _venue
    if variant := os.environ.get("ONEFILL_DRILL_VARIANT"):
        VARIANTS[variant]()
    main(sys.argv[1:])
