"""What the state machine must catch: each mistake, by the invariant that it breaks."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from app.brokers.paper import FILE_NAME, PaperExchange
from app.clock import ManualClock
from app.ledger.store import open_ledger
from tests.execution.kit import CONFIG
from tests.state_machine import broken
from tests.state_machine.machine import PRESS, Onefill
from tests.state_machine.model import Intent

pytestmark = pytest.mark.timeout(600)  # a busy machine is slower, and no other

EXAMPLES = 1_000
STEPS = 25


def caught(home: Path, made_worse: broken.Broken) -> str:
    """The first sentence that a broken product makes untrue; empty where nothing is found."""
    with made_worse():
        open_ledger(home, ManualClock().now()).close()
        asyncio.run(_exchange(home))
        try:
            run_state_machine_as_test(
                type("Broken", (Onefill,), {"home_made_once": home}),
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.generate],
                    verbosity=Verbosity.quiet,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        except AssertionError as failed:
            return str(failed)
    return ""


async def _exchange(home: Path) -> None:
    exchange = PaperExchange(home / FILE_NAME, ManualClock())
    await exchange.open()
    await exchange.close()


CONTROLS = {
    broken.purge_without_watermark: "the watermark comes first",
    broken.restore_without_halt: "the trading state is another",
    broken.restore_without_watermark: "the watermark is another|told otherwise",
    broken.lanes_ignore_halt: "sent while halted|an entry sent while only exits may be",
    broken.check_then_insert: "told otherwise",
    broken.resubmit_on_not_found: "bought more|sold more|was sent again|no ledger ever wrote",
    broken.resubmit_the_same: "was sent again",
    broken.exit_from_the_account: "not its own|below nothing",
}


@pytest.mark.parametrize("made_worse", CONTROLS, ids=lambda made: made.__name__)
def test_control_the_state_machine_catches(tmp_path: Path, made_worse: broken.Broken) -> None:
    said = caught(tmp_path, made_worse)
    assert re.search(CONTROLS[made_worse], said), said or "nothing was caught"


def cut_purges(home: Path) -> list[str]:
    """What the same machine says of a purge that the power ends, at each piece of work in turn."""
    said = []
    for jobs in range(PRESS):
        history = type("Cut", (Onefill,), {"home_made_once": home})()
        try:
            history.begin(seed=jobs, fills="async", behind_a_wire=False, config=CONFIG)
            history.crash(Intent("A", "buy", 3), "purge", jobs, None)
            history.nothing_is_broken()
        except AssertionError as failed:
            said.append(str(failed).splitlines()[0])
        finally:
            history.w.close()
    return said


def test_control_a_watermark_after_the_keys_is_caught(home_made_once: Path) -> None:
    """Between two commits of one purge: too rare for luck."""
    with broken.watermark_after_the_keys():
        assert set(cut_purges(home_made_once)) == {"the watermark comes first"}
    assert cut_purges(home_made_once) == []
