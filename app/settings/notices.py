"""The settings of notices and of how Onefill behaves on this computer: their rows, and what contradicts what.

Nothing here is secret: the address that a notice goes to is `notice.NAME.url`, kept where all secrets are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.settings import model, words
from app.settings.errors import ConfigFile
from app.settings.table import Key, Table

KINDS = ("critical", "needs_you", "drift", "account", "unwell", "stopping", "filled", "refused")
"""What a notice can be about, worst first."""
DEFAULT_KINDS = KINDS[:6]

_SPAN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9]) ?- ?([01][0-9]|2[0-3]):([0-5][0-9])")


def kinds(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError('must be a list of kinds, as ["critical", "needs_you"]; [] is nothing')
    for entry in value:
        if entry not in KINDS:
            raise ValueError(f'"{entry[:20]}" is no kind: known are {", ".join(KINDS)}')
    return tuple(dict.fromkeys(value))


def quiet(value: object) -> model.Quiet | None:
    """`22:00-07:00` by this computer's clock; empty for none."""
    if value == "":
        return None
    found = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError('must be from when to when, as "22:00-07:00", or ""')
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if start == end:
        raise ValueError('begins when it ends: write another time, or "" for none')
    return model.Quiet(start, end)


NOTICES = Table(
    "notices",
    model.Notice,
    array=True,
    why="Who is told what. One block a receiver. A failed notice never touches an order.",
    keys=(
        Key("name", words.name, "desktop", "What you call it: a-z, 0-9, _ and -."),
        Key(
            "to",
            words.choice("desktop", "url"),
            "desktop",
            '"desktop": a message on this screen, while the window runs. "url": Telegram, Discord, mail and '
            "others by an address of Apprise. The address is a secret: `onefill secret set notice.NAME.url`.",
        ),
        Key(
            "kinds",
            kinds,
            list(DEFAULT_KINDS),
            "critical: money may be at risk, as with a refused exit. needs_you: whatever else waits for you. "
            "drift: books and broker differ. account: one fails. unwell: listener, tunnel or ledger. "
            "stopping: Onefill stops itself. Off, as they are many: filled and refused, every one of them.",
        ),
        Key(
            "quiet",
            quiet,
            "",
            'When only critical is told, as "22:00-07:00"; the rest comes afterwards. Empty: never quiet.',
        ),
    ),
)

SYSTEM = Table(
    "system",
    model.System,
    array=False,
    why="How Onefill behaves on this computer.",
    keys=(
        Key(
            "close",
            words.choice("tray", "quit"),
            "tray",
            '"tray": closing the window leaves Onefill at work, in the tray; without a tray it means quit. '
            '"quit": alerts that come afterwards are lost.',
        ),
        Key(
            "keep_awake",
            words.flag,
            False,
            "Keeps this computer from falling asleep by itself while trading is not halted. Off: it costs a "
            "laptop its battery, and your computer is yours. A closed lid may still put it to sleep.",
        ),
    ),
)


def check_notices(notices: Sequence[model.Notice], file: ConfigFile) -> None:
    """Names are apart, also in the environment, where - and _ are both _. Raises ConfigError."""
    seen: set[str] = set()
    for index, notice in enumerate(notices):
        name = notice.name.replace("-", "_")
        if name in seen:
            problem = f'[[notices]] name = "{notice.name}": is there twice: give each its own name'
            raise file.error(("notices", index, "name"), problem)
        seen.add(name)
