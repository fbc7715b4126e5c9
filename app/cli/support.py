"""`onefill support FILE.zip`: what somebody who helps needs to see, without secrets."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import click

from app.cli.front import Failed, Front, front_options

MAKING_TIMEOUT = 300.0
"""Seconds that the running app has."""
LOOK = "Secrets are blanked. Look through it before you hand it on."


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@front_options
def support(front: Front, file: Path) -> None:
    """Write a support bundle: log, checks, settings and orders, without secrets and alert bodies."""
    from app.cli.doctor import patient_of
    from app.engine.checkup import NEAR, check_up
    from app.engine.support import SupportFailed, make_bundle
    from app.secrets import Secrets

    patient = patient_of(front)
    if patient.running is not None:
        _by_the_running_program(front, file)
        return
    findings = list(check_up(patient, NEAR))
    secrets = Secrets(front.home, os.environ)
    try:
        made = make_bundle(front.home, file, findings, patient.running, secrets, patient.settings)
    except SupportFailed as error:
        raise Failed(str(error)) from error
    names = ", ".join(made.files)
    lines = [f"wrote {made.path}: {names}", LOOK]
    if made.not_found:
        lines.append(
            f"No value was found here of: {', '.join(made.not_found)}. What only the environment of the"
            " program has (ONEFILL_SECRET_...) could not be looked for: make the bundle while the program"
            " runs, or type the command where those variables are set."
        )
    elif patient.settings is None:
        lines.append(
            "The settings cannot be read: a secret that only the keyring has could not be looked for,"
            " nor one that only the environment of the program has (ONEFILL_SECRET_...)."
        )
    front.emit(
        {"file": str(made.path), "files": made.files, "not_looked_for": made.not_found}, "\n".join(lines)
    )


def _by_the_running_program(front: Front, file: Path) -> None:
    """It knows its own secrets, also those of its environment, and blanks them itself."""
    from app.control import NotRunning, Refused, ask

    target = file.absolute()
    try:
        made = ask(
            front.home, "support", {"file": str(target)}, request_id=uuid.uuid4().hex, timeout=MAKING_TIMEOUT
        )
    except (NotRunning, Refused) as error:
        raise Failed(str(error)) from error
    if not target.is_file():
        raise Failed(
            f"the running app wrote {target}, but it is not to be seen from here: name another folder"
        )
    front.emit(
        {"file": made["file"], "files": made["files"], "not_looked_for": []},
        f"the running app wrote {target}: {', '.join(made['files'])}\n{LOOK}",
    )
