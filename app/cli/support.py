"""`onefill support FILE.zip`: what somebody who helps needs to see, without secrets."""

from __future__ import annotations

import os
from pathlib import Path

import click

from app.cli.front import Failed, Front, front_options


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
    findings = list(check_up(patient, NEAR))
    secrets = Secrets(front.home, os.environ)
    try:
        made = make_bundle(front.home, file, findings, patient.running, secrets, patient.settings)
    except SupportFailed as error:
        raise Failed(str(error)) from error
    names = ", ".join(made.files)
    front.emit(
        {"file": str(made.path), "files": made.files},
        f"wrote {made.path}: {names}\nSecrets are blanked. Look through it before you hand it on.",
    )
