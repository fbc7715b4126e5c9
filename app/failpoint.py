"""Named places where a crash can be put, so that tests can die exactly there.

Does nothing unless ONEFILL_FAILPOINT names the place. `NAME` or `NAME=exit` ends the process at once, as
kill -9 would; `NAME=3` does so at the third pass.
"""

from __future__ import annotations

import os

_armed, _, _spec = os.environ.get("ONEFILL_FAILPOINT", "").partition("=")
_passes_left = int(_spec) if _spec.isdigit() else 1

EXIT_CODE = 137


def failpoint(name: str) -> None:
    """Ends the process with EXIT_CODE, nothing flushed, if this is the armed place and its pass."""
    global _passes_left
    if name != _armed:
        return
    _passes_left -= 1
    if _passes_left <= 0:
        os._exit(EXIT_CODE)
