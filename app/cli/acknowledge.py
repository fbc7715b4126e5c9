"""`onefill acknowledge`: a person types who an account is, or says that a difference is none of ours.

To the running app over its control channel; never reachable from the hook (HOLES H13, H43).
"""

from __future__ import annotations

from typing import Any

import click

from app.cli.change import request_id_option
from app.cli.deciding import decided
from app.cli.front import Front, front_options
from app.cli.operator import _decide

Answer = dict[str, Any]


@click.command()
@click.argument("account")
@click.option(
    "--identity", metavar="NUMBER", help="The number of the account that answers, as the broker has it."
)
@click.option("--drift", metavar="SYMBOL", help="What nothing explains on this symbol is none of ours.")
@decided
@request_id_option
@front_options
def acknowledge(
    front: Front,
    account: str,
    identity: str | None,
    drift: str | None,
    why: str | None,
    yes: bool,
    request_id: str,
) -> None:
    """Let an account send under the number that answers, or put a seen difference aside. Nothing is sent."""
    if (identity is None) == (drift is None):
        raise click.UsageError("say one of --identity NUMBER, --drift SYMBOL")
    arguments = {"account": account, "identity": identity, "drift": drift}
    _decide(front, "acknowledge", arguments, why, yes, request_id, _acknowledged, "Is that right?")


def _acknowledged(answer: Answer) -> str:
    if "symbol" in answer:
        of = f"{answer['difference']} {answer['symbol']} in {answer['account']}"
        return f"{of}: none of ours; entries are no longer held back by it"
    money = ", and trades money" if answer["live"] else ""
    was = f" (was {answer['was']})" if answer["was"] and answer["was"] != answer["identity"] else ""
    return f"{answer['account']} is account {answer['identity']}{was}{money}: it may send"
