"""`onefill doctor`: one line for each thing that must hold, with what to do where it does not."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from app.cli.front import Front, front_options

if TYPE_CHECKING:
    from app.engine.checkup import Patient

STATUS_TIMEOUT = 10.0


@click.command()
@front_options
@click.pass_context
def doctor(ctx: click.Context, front: Front) -> None:
    """Check everything, one line each; exit 0 healthy, 1 degraded, 2 failing."""
    from app.engine.checkup import LEVELS, check_up
    from app.engine.checkup_far import ALL

    worst = 0
    for found in check_up(patient_of(front), ALL):
        worst = max(worst, LEVELS.index(found.level))
        front.emit(
            {"check": found.check, "level": found.level, "seen": found.seen},
            f"{found.level:<8} {found.check:<10} {found.seen}",
        )
    ctx.exit(worst)


def patient_of(front: Front) -> Patient:
    """The home, and what its running app says of itself."""
    from app.brokers.base import LookupFailed
    from app.clock import SystemClock
    from app.control import NotRunning, Refused, ask
    from app.engine.checkup import Patient

    patient = Patient(front.home, SystemClock())

    def command(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer = ask(front.home, name, arguments, request_id=uuid.uuid4().hex)
        except (NotRunning, Refused) as error:
            raise LookupFailed(str(error)) from error
        assert isinstance(answer, Mapping)
        return answer

    try:
        patient.running = ask(front.home, "status", request_id=uuid.uuid4().hex, timeout=STATUS_TIMEOUT)
    except NotRunning:
        pass
    except Refused as error:
        patient.unreachable = str(error)
    else:
        patient.ask = command
    return patient
