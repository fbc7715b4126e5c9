"""Settings that are readable alone and wrong together: contradictions, and what only a person may say.

Pure. Each rule names the line of the key that has to change. Defaults that would be unsafe with money
(HOLES H14, H44) do not count as said: a live account needs the word in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from app.settings.errors import ConfigFile, Where
from app.settings.model import BROKERS, TEST_SOURCE, Account, Source
from app.settings.words import is_this_machine

Raw = Mapping[str, Any]


def check(sources: Sequence[Source], accounts: Sequence[Account], raw: Raw, file: ConfigFile) -> None:
    """Raises ConfigError for the first contradiction. `raw` tells what the file itself says."""
    _names([account.name for account in accounts], "accounts", file)
    _names([source.name for source in sources], "sources", file)
    _ids(sources, file)
    for index, account in enumerate(accounts):
        _account(account, _block(raw, "accounts", index), ("accounts", index), file)
    for index, source in enumerate(sources):
        _source(source, accounts, _block(raw, "sources", index), ("sources", index), file)


def doubled(name: str, other: str) -> str:
    """What to say when two sources have one id."""
    return (
        f'[[sources]] id of "{name}" is also that of "{other}", and each would swallow the other\'s signals:'
        f' remove the id of "{name}", a new one is made'
    )


def _block(raw: Raw, table: str, index: int) -> Raw:
    blocks = raw.get(table, [])
    block: Raw = blocks[index] if index < len(blocks) else {}
    return block


def _names(names: Sequence[str], table: str, file: ConfigFile) -> None:
    """Names are apart, also in the environment, where - and _ are both _ (CONTRACT 4, secrets)."""
    seen: dict[str, str] = {}
    for index, name in enumerate(names):
        other = seen.get(name.replace("-", "_"))
        seen[name.replace("-", "_")] = name
        if table == "sources" and name == TEST_SOURCE:
            problem = "this one is built in: take another name"
        elif other is None:
            continue
        elif other == name:
            problem = "is there twice: give each its own name"
        else:
            problem = f'in the environment, where secrets may be, "{other}" is the same: rename one'
        raise file.error((table, index, "name"), f'[[{table}]] name = "{name}": {problem}')


def _ids(sources: Sequence[Source], file: ConfigFile) -> None:
    seen = {TEST_SOURCE: TEST_SOURCE}
    for index, source in enumerate(sources):
        if source.id and source.id in seen:
            raise file.error(("sources", index, "id"), doubled(source.name, seen[source.id]))
        seen[source.id] = source.name


def _account(account: Account, said: Raw, where: Where, file: ConfigFile) -> None:
    title = f'[[accounts]] "{account.name}"'
    kind = BROKERS.get(account.broker)
    if kind is None:
        problem = f'{title} broker = "{account.broker}" is not in this version'
        raise file.error((*where, "broker"), f"{problem}: {_instead(account.broker, BROKERS)}")
    if kind.simulated:
        if account.live:
            raise file.error((*where, "live"), f"{title} live = true, but paper is no money: write false")
        for key in ("base_url", "data_url"):
            if key in said:
                raise file.error((*where, key), f"{title} {key}: paper has no address: remove it")
    else:
        for key in ("cash", "fills", "faults"):
            if key in said:
                raise file.error((*where, key), f"{title} {key} is for paper accounts only: remove it")
        _address(account, where, file)
    if account.brackets == "place" and not kind.brackets:
        problem = f'{title} brackets = "place": {account.broker} cannot place them in this version'
        raise file.error((*where, "brackets"), f'{problem}: write "refuse"')
    if account.live and "symbols" not in said:
        problem = f"{title} trades money and does not say what"
        raise file.error(where, f'{problem}: add symbols = ["AAPL", ...], or symbols = "all"')


def _address(account: Account, where: Where, file: ConfigFile) -> None:
    """Live or not is decided by the host; the flag may only agree (H13)."""
    if account.base_url is None:
        return
    host = urlsplit(account.base_url).hostname or ""
    sandbox = host in BROKERS[account.broker].sandbox_hosts
    title = f'[[accounts]] "{account.name}" base_url'
    if account.live and sandbox:
        problem = f"{title} is a sandbox, and live = true: change one of them"
    elif not account.live and not sandbox and not is_this_machine(host):
        problem = f"{title} is no known sandbox and counts as live: write live = true, or remove it"
    else:
        return
    raise file.error((*where, "base_url"), problem)


def _source(source: Source, accounts: Sequence[Account], said: Raw, where: Where, file: ConfigFile) -> None:
    title = f'[[sources]] "{source.name}"'
    known = {account.name: account for account in accounts}
    for name in source.accounts:
        if name not in known:
            # The source itself may be a default, and then the accounts are what the person wrote.
            at = (*where, "accounts") if file.line(where) else ("accounts",)
            default = "" if "accounts" in said else " (the default)"
            raise file.error(at, f'{title} accounts{default}: no account "{name}": {_instead(name, known)}')
    live = [name for name in source.accounts if known[name].live]
    paper = [name for name in source.accounts if not known[name].live]
    if live and paper:
        problem = f'{title} accounts: "{live[0]}" is live and "{paper[0]}" is not'
        raise file.error((*where, "accounts"), f"{problem}: make two sources of it")
    if live and "without_time" not in said:
        problem = (
            f'{title} reaches money ("{live[0]}") and does not say what becomes of alerts without a time'
        )
        remedy = 'add without_time = "refuse", or "window" (equal ones within 45 s are one)'
        raise file.error(where if file.line(where) else ("accounts",), f"{problem}: {remedy}")


def _instead(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name.lower(), list(known), n=1)
    return f"did you mean {close[0]}?" if close else f"there is: {', '.join(known)}"
