"""The commands: thin. Parse, call, print. The window and the engine are imported only by what needs them.

No rule of trading is here. Each command's own module is imported when it is called, so that a small one
starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from app.cli.front import Front, front_options

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("run", "Run without a window."),
    "url": ("hook", "Show the hook addresses, tokens included."),
    "send": ("hook", "Post a sample alert to the built-in test source."),
    "check": ("check", "Say what a message would do, without sending it."),
    "status": ("read", "Show whether it runs, and how well."),
    "signals": ("read", "List what was claimed."),
    "deliveries": ("read", "List every request, with verdict and reason."),
    "orders": ("read", "List the orders."),
    "fills": ("read", "List the fills."),
    "positions": ("read", "List what our own books hold."),
    "events": ("read", "List the audit trail."),
    "show": ("read", "Show one signal's, order's or delivery's whole story."),
    "needs": ("operator", "List what needs you, and what can be done about it."),
    "resolve": ("operator", "Decide an order of which nobody knows the fate."),
    "replay": ("operator", "Send again an order of which nothing was done."),
    "admit": ("operator", "Admit a conflicting delivery as a new signal, once."),
    "dismiss": ("operator", "Put away what you have looked at."),
    "cancel": ("operator", "Cancel an order of ours."),
    "close": ("operator", "Close our books on one symbol."),
    "flatten": ("operator", "Close all our books in an account."),
    "book": ("operator", "Correct what a book holds."),
    "acknowledge": ("acknowledge", "Say who an account is, or that a difference is none of ours."),
    "halt": ("change", "Stop trading: nothing goes out, nothing is kept for later."),
    "resume": ("change", "Trade again."),
    "reconcile": ("change", "Compare ledger and broker now."),
    "purge": ("upkeep", "Drop old bodies, forget old keys, counts first."),
    "export": ("upkeep", "Write what the ledger says into a .csv or .jsonl file."),
    "backup": ("upkeep", "Copy the ledger, whole and checked."),
    "restore": ("upkeep", "Go back to a backup, placing nothing twice."),
    "secret": ("upkeep", "Set a secret, its value on stdin."),
    "source": ("upkeep", "Rotate a source's token; the old one stays valid for a while."),
    "notice": ("manners", "Send a test notice."),
    "autostart": ("manners", "Start at login: on, off, status."),
    "selftest": ("selftest", "Two equal signals to itself in a throw-away home."),
    "drill": ("drill", "Run the fault drills; show that no order is doubled."),
    "doctor": ("doctor", "Check everything, one line each."),
    "support": ("support", "Write a support bundle without secrets."),
    "version": ("read", "Show the version and what it is built of."),
}
"""By name: the module of `app.cli` that has it, and what it does."""


class Commands(click.Group):
    """The commands of the table above, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"app.cli.{module}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])


@click.command(
    cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--minimized", is_flag=True, help="Open no window yet: only the icon in the tray, as at login.")
@front_options
@click.pass_context
def onefill(ctx: click.Context, front: Front, minimized: bool) -> None:
    """One signal, one order. Without a command: open the window."""
    ctx.obj = front
    if ctx.invoked_subcommand is None:
        from app.cli.run import run_window

        ctx.exit(run_window(front.home, minimized=minimized))


def main(arguments: list[str] | None = None) -> Any:
    """The entry point of `onefill` and `python -m app`; ends the process with its exit code."""
    return onefill.main(args=arguments, prog_name="onefill")
