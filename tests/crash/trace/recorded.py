"""One run on the recording disk, for a trace beside it: `python -m tests.crash.trace.recorded HOME OUT`.

Writes to stderr before and after, so that the trace shows where the run begins and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.crash.power.disk import Disk
from tests.crash.power.shop import made, trade

BEGIN, END = b"the run begins\n", b"the run is over\n"


async def main(home: Path, out: Path) -> None:
    await made(home)
    disk = Disk()
    os.write(2, BEGIN)
    await trade(home, disk)
    os.write(2, END)
    disk.close()
    calls = [(call.path.name, call.what, call.offset, len(call.data)) for call in disk.calls]
    out.write_text(json.dumps(calls))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
