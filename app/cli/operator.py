"""What a person decides: resolve, replay, admit, dismiss, cancel, close, flatten, book; and what needs him.

To the running app over its control channel, one code path with the window's buttons. Only resolve works
without one, for it needs no more than a broker to ask. Nothing is decided here.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from app.cli.change import request_id_option
from app.cli.deciding import actor, confirm, decided, logged, reason, refusals
from app.cli.front import Failed, Front, cell, front_options

Answer = dict[str, Any]
LONG = 120.0
"""Seconds that a look at a slow broker may take."""

# --------------------------------------------------------------------------------------------------- resolve


@click.command()
@click.argument("order")
@click.option(
    "--placed", metavar="BROKER-ID", help="It is this order of the broker's; every term must agree."
)
@click.option("--not-placed", is_flag=True, help="The broker does not have it; one complete look must agree.")
@click.option("--look-again", is_flag=True, help="Ask the broker again, as if it were only ambiguous.")
@click.option("--account-gone", is_flag=True, help="With --not-placed: the account it went to is no more.")
@decided
@request_id_option
@front_options
def resolve(
    front: Front,
    order: str,
    placed: str | None,
    not_placed: bool,
    look_again: bool,
    account_gone: bool,
    why: str | None,
    yes: bool,
    request_id: str,
) -> None:
    """Decide an order of which nobody knows the fate; the broker is asked first. Nothing is sent."""
    answers = {"placed": placed is not None, "not_placed": not_placed, "look_again": look_again}
    said = [name for name, given in answers.items() if given]
    if len(said) != 1:
        raise click.UsageError("say one of --placed BROKER-ID, --not-placed, --look-again")
    why = reason(why)
    shown = _shown(front.home, order)
    words = {
        "placed": f"{order} is the broker's order {placed}",
        "not_placed": f"{order} was not placed",
        "look_again": f"ask the broker again for {order}",
    }
    confirm(shown.text, f"{words[said[0]]}. Say so?", yes)
    arguments = {
        "order": order,
        "answer": said[0],
        "broker_order_id": placed,
        "account_gone": account_gone,
        "why": why,
    }
    done = _ask(front, "resolve", {**arguments, "seen": shown.state}, request_id)
    front.emit(done, _resolved(done))


def _resolved(done: Answer) -> str:
    text = f"{done['order']} is {done['state']} (was {done['was']})"
    if done["state"] == "AMBIGUOUS":
        text += ": the broker is asked until that is proved, or you say more"
    if done["filled_quantity"] != "0":
        text += f", {done['filled_quantity']} filled"
    return text + (f"\n  {done['reason']}" if done["reason"] else "")


class _Shown:
    """An order as it stands in the ledger, for the question."""

    def __init__(self, state: str | None, text: str) -> None:
        self.state = state
        self.text = text


def _shown(home: Path, order: str) -> _Shown:
    from app.cli.read import ledger_of
    from app.cli.story import story_text
    from app.ledger import queries

    with ledger_of(home) as connection:
        try:
            story = queries.story(connection, order.strip().upper())
        except LookupError as error:
            raise Failed(str(error)) from error
    row = next((row for row in story["orders"] if row["id"] == story["id"]), None)
    if row is None:
        raise Failed(f"{order!r} is no order: an order's id is like O12")
    only = {**story, "signal": None, "deliveries": [], "events": [], "orders": [row], "body": ""}
    return _Shown(row["state"], story_text(only).rpartition("\nbody")[0])


# ----------------------------------------------------------------------------------------- replay and admit


@click.command()
@click.argument("order", metavar="ORDER|SIGNAL")
@decided
@request_id_option
@front_options
def replay(front: Front, order: str, why: str | None, yes: bool, request_id: str) -> None:
    """Send again an order of which nothing was done; its age counts from now. Of a signal: every such leg."""

    def saw(preview: Answer) -> Answer:
        return {"seen": {one["order"]: one["was"] for one in preview["replayed"]}}

    _decide(front, "replay", {"order": order}, why, yes, request_id, _replayed, "Send it again?", saw)


def _replayed(answer: Answer) -> str:
    lines = []
    for one in answer["replayed"]:
        how = "under the same id" if one["same_id"] else f"as {one['as']}, generation {one['generation']}"
        was = f"was {one['was']}" + (f" {one['reason']}" if one["reason"] else "")
        lines.append(f"{one['order']}  {one['account']} {one['symbol']}: goes out again {how} ({was})")
    lines += [f"  left out: {one['order']} {one['why']}" for one in answer["left_out"]]
    return "\n".join(lines)


@click.command()
@click.argument("delivery")
@decided
@request_id_option
@front_options
def admit(front: Front, delivery: str, why: str | None, yes: bool, request_id: str) -> None:
    """Admit a conflicting delivery as a new signal, once."""
    _decide(front, "admit", {"delivery": delivery}, why, yes, request_id, _admitted, "Admit it?")


def _admitted(answer: Answer) -> str:
    if answer["collapsed"]:
        return f"{answer['delivery']} is the same as {answer['signal']}, which was admitted before"
    made = ", ".join(f"{one['account']} {one['symbol']}" for one in answer["outcome"]["orders"])
    return f"{answer['delivery']} is signal {answer['signal']}: {made}"


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--why", metavar="TEXT", help="The reason; it stays in the audit trail.")
@request_id_option
@front_options
def dismiss(front: Front, ids: tuple[str, ...], why: str | None, request_id: str) -> None:
    """Put away what you have looked at: deliveries (D12), orders that ended badly (O12)."""
    done = _ask(front, "dismiss", {"ids": list(ids), "why": reason(why)}, request_id)
    front.emit(done, f"put away: {', '.join(done['dismissed'])}")


# ------------------------------------------------------------------------------------------- a person's exits


@click.command()
@click.argument("order")
@click.option("--why", metavar="TEXT", default="", help="The reason, if one is to stay in the audit trail.")
@request_id_option
@front_options
def cancel(front: Front, order: str, why: str, request_id: str) -> None:
    """Cancel an order of ours; allowed while halted."""
    done = _ask(front, "cancel", {"order": order, "why": why}, request_id)
    how = "the broker is asked to cancel it" if done["asked_the_broker"] else "it was not sent"
    front.emit(done, f"{done['order']} was {done['was']}: {how}")


@click.command()
@click.argument("account")
@click.argument("symbol")
@decided
@request_id_option
@front_options
def close(front: Front, account: str, symbol: str, why: str | None, yes: bool, request_id: str) -> None:
    """Close our books on one symbol; allowed while halted. What is not ours is not touched."""
    arguments = {"account": account, "symbol": symbol}
    _decide(front, "close", arguments, why, yes, request_id, _closed, "Close this?")


@click.command()
@click.argument("account")
@decided
@request_id_option
@front_options
def flatten(front: Front, account: str, why: str | None, yes: bool, request_id: str) -> None:
    """Close all our books in an account; allowed while halted. What is not ours is not touched."""
    _decide(front, "flatten", {"account": account}, why, yes, request_id, _closed, "Close all of this?")


def _closed(answer: Answer) -> str:
    lines = [_exit_line(one, "") for one in answer["orders"]]
    lines += [_exit_line(one, "under way already: ") for one in answer["already"]]
    if not lines:
        lines.append(f"nothing of ours is open in {answer['account']}")
    lines += [
        f"  not ours, not touched: {one['quantity']} {one['symbol']} (as of {cell(one['as_of'])})"
        for one in answer["not_ours"]
    ]
    return "\n".join(lines)


def _exit_line(one: Mapping[str, Any], before: str) -> str:
    whose = f"{one['source']}/{one['strategy']}" if one["strategy"] else one["source"]
    what = f"{one['side']} {one['book'].removeprefix('-')}" if one["side"] else "whatever is open by then"
    waits = f", once {', '.join(one['waits_for'])} is over" if one["waits_for"] else ""
    return f"{before}{one['order']}  {one['account']} {one['symbol']} of {whose}: {what}{waits}"


# ------------------------------------------------------------------------------------------------------- book


@click.command()
@click.argument("account")
@click.argument("symbol")
@click.option(
    "--set", "quantity", required=True, metavar="QUANTITY", help="What the book holds; short is -5."
)
@click.option("--source", metavar="S", help="Whose book, where more than one can be meant.")
@click.option("--strategy", metavar="T", help="Of which strategy.")
@decided
@request_id_option
@front_options
def book(
    front: Front,
    account: str,
    symbol: str,
    quantity: str,
    source: str | None,
    strategy: str | None,
    why: str | None,
    yes: bool,
    request_id: str,
) -> None:
    """Correct a book after a close by hand, a split or a reset. Nothing is sent."""
    arguments = {
        "account": account,
        "symbol": symbol,
        "quantity": quantity,
        "source": source,
        "strategy": strategy,
    }

    def saw(preview: Answer) -> Answer:
        return {"seen": preview["was"]}

    _decide(front, "book", arguments, why, yes, request_id, _adjusted, "Correct it?", saw)


def _adjusted(answer: Answer) -> str:
    whose = f"{answer['source']}/{answer['strategy']}" if answer["strategy"] else answer["source"]
    change = f"{answer['was']} -> {answer['quantity']} ({answer['difference']})"
    return f"{answer['account']} {answer['symbol']} of {whose}: {change}"


# ------------------------------------------------------------------------------------------------------ needs


@click.command()
@front_options
def needs(front: Front) -> None:
    """List what needs you, worst first, with the commands that can be given about each."""
    found = needs_of(front.home)
    if front.json:
        front.emit_rows(found, (), "")
    else:
        click.echo(needs_text(found, actions=True) if found else "nothing needs you")


def needs_of(home: Path) -> list[Answer]:
    import msgspec

    from app.cli.read import ledger_of
    from app.clock import SystemClock
    from app.ledger.needs import needs as read_needs

    with ledger_of(home) as connection:
        return [msgspec.to_builtins(need) for need in read_needs(connection, SystemClock().now())]


def needs_text(found: Iterable[Mapping[str, Any]], *, actions: bool) -> str:
    lines = []
    for need in found:
        lines.append(
            f"{need['severity']}  {need['subject']}  {cell(need['since'])}  {_printable(need['text'])}"
        )
        if need["reason"]:
            lines.append(f"    {_printable(need['reason'])}")
        if actions:
            lines += [f"    onefill {command_line(action)}" for action in need["actions"]]
    return "\n".join(lines)


def command_line(action: Mapping[str, Any]) -> str:
    """An action as a person types it."""
    given = action["arguments"]
    match action["command"]:
        case "resolve":
            option = {"placed": "--placed BROKER-ID"}.get(
                given["answer"], f"--{given['answer'].replace('_', '-')}"
            )
            words = [given["order"], option]
        case "book":
            quantity = given.get("quantity", "QUANTITY")
            words = [shlex.quote(given["account"]), shlex.quote(given["symbol"]), f"--set {quantity}"]
            if "source" in given:
                words.append(f"--source {given['source']} --strategy {shlex.quote(given['strategy'])}")
        case "reconcile" | "cancel":
            return " ".join(
                (action["command"], *(given[name] for name in ("account", "order") if name in given))
            )
        case "dismiss":
            words = given["ids"]
        case "acknowledge":
            option = "identity" if "identity" in given else "drift"
            words = [shlex.quote(given["account"]), f"--{option} {shlex.quote(given[option])}"]
        case _:
            words = [shlex.quote(given[name]) for name in _NAMED if name in given]
    return " ".join((action["command"], *words, "--why TEXT"))


_NAMED = ("order", "delivery", "account", "symbol")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# -------------------------------------------------------------------------------------------- asking the app


def _decide(
    front: Front,
    name: str,
    arguments: Answer,
    why: str | None,
    yes: bool,
    request_id: str,
    text: Callable[[Answer], str],
    question: str,
    saw: Callable[[Answer], Answer] = lambda _: {},
) -> None:
    """Shows what it would do, with its numbers, asks once, and does it on what was shown."""
    why = reason(why)
    seen: Answer = {}
    if not yes:
        preview = _ask(front, name, {**arguments, "why": why, "dry_run": True}, request_id)
        if not preview.get("dry_run"):
            # This very request was done before.
            front.emit(preview, text(preview))
            return
        confirm(text(preview), question, yes)
        seen = saw(preview)
    done = _ask(front, name, {**arguments, "why": why, **seen}, request_id)
    front.emit(done, text(done))


def _ask(front: Front, name: str, arguments: Answer, request_id: str) -> Answer:
    from app.control import NotRunning, Refused, ask

    try:
        answer: Answer = ask(front.home, name, arguments, request_id=request_id, timeout=LONG)
    except NotRunning:
        return ask_the_broker(front.home, name, arguments, request_id)
    except Refused as error:
        raise Failed(str(error)) from error
    return answer


def ask_the_broker(home: Path, name: str, arguments: Answer, request_id: str) -> Answer:
    """With no app running: an engine without door and lanes, for what needs no more than a broker's word."""
    from app.clock import SystemClock
    from app.engine.operator_at_rest import ask_the_broker as ask_it
    from app.secrets import Secrets

    with refusals(), logged(home):
        return ask_it(
            home,
            name,
            arguments,
            actor=actor(),
            request_id=request_id,
            clock=SystemClock(),
            make_secrets=lambda: Secrets(home, os.environ),
        )
