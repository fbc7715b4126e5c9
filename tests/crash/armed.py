"""The program with a crash that is armed while it runs, at SIGUSR1: ONEFILL_ARM names the failpoint.

Needed where the place is passed many times before the one that matters (the ledger's commits).
"""

import os
import signal
import sys

from app import failpoint
from app.cli import main

NAME = os.environ["ONEFILL_ARM"]


def arm(_number: int, _frame: object) -> None:
    failpoint._armed, failpoint._passes_left = NAME, 1
    os.write(1, b"armed\n")


signal.signal(signal.SIGUSR1, arm)
main(sys.argv[1:])
