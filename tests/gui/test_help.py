"""The help: every code of the program is explained in it, its pages lead where they say, and it is found."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QPalette, QTextTable
from PySide6.QtWidgets import QToolButton

from app.cli import COMMANDS
from app.domain.explain_words import HEADS
from app.domain.order import State
from app.gui import words
from app.gui.help_dialog import HelpDialog
from app.gui.help_text import NAMES, OF_VIEW, Page, code_of, find, load
from app.gui.theme import dark_palette
from app.gui.window import Window
from app.listener import answers
from app.settings.notices import KINDS
from app.settings.tunnel import TUNNEL
from tests.gui.day import trading_day
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.setup_kit import nameless, there

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "resources" / "help"
CONTRACT = frozenset(
    """
    TRADING_HALTED STALE SYMBOL_NOT_MAPPED SYMBOL_NOT_ALLOWED MARKET_CLOSED SHORT_NOT_ALLOWED OTHER_BOOK_OPEN
    OPPOSING_BOOK BRACKETS_UNSUPPORTED REFERENCE_PRICE_UNAVAILABLE PRICE_OUTSIDE_BAND QUANTITY_BELOW_MINIMUM
    POSITION_EXCEEDS_CAPITAL_FRACTION NOTIONAL_EXCEEDS_MAX_PER_ORDER MAX_OPEN_POSITIONS DAILY_LOSS_LIMIT
    COOLDOWN RATE_LIMIT_EXCEEDED UNRESOLVED_ORDER DRIFT INSUFFICIENT_FUNDS SUPERSEDED_BY_EXIT
    CANCELED_BY_SIGNAL RESTORED NOTHING_TO_DO
    """.split()  # noqa: SIM905 - it is a page of the contract
)
"""Of the contract, section 3: denials, and those by events."""
NO_REASONS = {state.value for state in State} | set(
    """
    FAILED FINDINGS PARTIAL ACTIVE CANCELED SAMPLE FILE_NAME WARNING BROKER RESEND COMMIT ROLLBACK SAVEPOINT
    RELEASE CROSS CREATE_NO_WINDOW ONEFILL_HOME XDG_CONFIG_HOME WAITING_FOR_
    """.split()  # noqa: SIM905
)
"""States and results, which have words of their own; SQL; names of files and of the system."""
ROOMS = ("domain", "execution", "claims", "ledger", "brokers", "engine")
NOT_OURS = {"alpaca_symbols.py"}
_CODE = re.compile(r"([A-Z]{2,}(?:_[A-Z]+)+_?|[A-Z]{5,})\b")
_SQL = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|BEGIN|ORDER|WHERE|PRAGMA|CREATE|GROUP|UNION|LIMIT|EXISTS)\b")


def read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8")


def codes_in_the_program() -> Iterator[str]:
    """Every text of these rooms that begins with words in capitals, as reasons do."""
    for room in ROOMS:
        for file in sorted((ROOT / "app" / room).rglob("*.py")):
            if file.name not in NOT_OURS:
                yield from _codes(ast.parse(file.read_text("utf-8")))


def _codes(tree: ast.Module) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found = _CODE.match(node.value)
            if found and not _SQL.match(node.value):
                yield found[1]


# ------------------------------------------------------------------------------------------------ the pages


def test_each_denial_of_the_contract_is_explained() -> None:
    text = read("reasons")
    assert [code for code in CONTRACT if f"`{code}`" not in text] == []


def test_each_reason_that_the_program_can_give_is_explained() -> None:
    text = read("reasons")
    known = set(codes_in_the_program()) - NO_REASONS
    # The net catches what is known to be there, so an empty list below says something.
    assert {
        "STALE",
        "REFUSED",
        "INTERNAL",
        "RESOLVE_DEADLINE",
        "SUPERSEDED_BY_EXIT",
        "POSITION_UNCERTAIN",
    } <= known
    assert sorted(code for code in known if f"`{code}`" not in text) == []


def test_a_code_that_nobody_explained_would_be_noticed() -> None:
    tree = ast.parse('def f():\n    """NOT_THIS one."""\n    return f"NEVER_HEARD_OF left={1}"')
    assert list(_codes(tree)) == ["NEVER_HEARD_OF"]


def test_each_reason_of_the_door_is_explained() -> None:
    text = read("reasons")
    fixed = {
        *HEADS,
        *answers._SENTENCES,
        *(each.reason for each in (answers.TOO_LARGE, answers.ENCODED, answers.BAD_FRAMING)),
        *(each.reason for each in (answers.NOT_FOUND, answers.METHOD_NOT_ALLOWED, answers.MALFORMED)),
        *("paper_only", "rate"),
    }
    assert len(fixed) > 50
    assert sorted(str(code) for code in fixed if f"`{code}`" not in text) == []


def test_each_state_and_verdict_is_explained() -> None:
    text = read("states")
    assert [state.value for state in State if f"`{state.value}`" not in text] == []
    assert [name for name in words.ORDER_STATUSES if f"`{name}`" not in text] == []
    assert [name for name in words.VERDICTS if f"| {name.replace('_', ' ')} |" not in text] == []
    named = {
        "listener": "Listener",
        "ledger": "Ledger",
        "tunnel": "Tunnel",
        "loop": "Loop lag",
        "clock": "Clock",
    }
    assert [title for title in named.values() if f"| {title} |" not in text] == []


def test_each_kind_of_tunnel_and_notice_is_told() -> None:
    assert [kind for kind in _kinds_of_tunnel() if f"`{kind}`" not in read("tunnels")] == []
    assert [kind for kind in KINDS if f"`{kind}`" not in read("notices")] == []


def _kinds_of_tunnel() -> list[str]:
    (reader,) = [key.read for key in TUNNEL.keys if key.name == "kind"]
    kinds: Any = getattr(reader, "words", ())
    assert len(kinds) > 4
    return [str(kind) for kind in kinds if kind != "none"]


def test_the_comparison_of_tunnels_is_the_readmes() -> None:
    def rows(text: str) -> list[str]:
        return [
            line for line in text.splitlines() if re.match(r"\| `(cloudflared|tailscale|ngrok|ssh|own)", line)
        ]

    of_readme = [row for row in rows((ROOT / "README.md").read_text("utf-8")) if row.count("|") == 6]
    of_help = [row.replace("15 seconds", "15 s") for row in rows(read("tunnels"))]
    assert len(of_help) == 7
    assert of_help == of_readme


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read_on_its_own(name: str) -> None:
    text = read(name)
    assert text.startswith("# ")
    assert text.count("\n# ") == 0
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target.startswith("https://") or (FOLDER / target).is_file(), target
    for command in re.findall(r"`onefill ([a-z]+)", text):
        assert command in COMMANDS, command


def test_there_are_no_other_pages() -> None:
    assert {file.stem for file in FOLDER.glob("*.md")} == set(NAMES)
    assert set(OF_VIEW.values()) <= set(NAMES)


def test_search_finds_words_whatever_their_case() -> None:
    pages = load()
    assert [page.name for page in pages] == list(NAMES)
    assert [page.name for page, _number in find(pages, "position_exceeds")] == ["reasons"]
    assert "sleep" in [page.name for page, _number in find(pages, "LAPTOP")]
    assert find(pages, "no such word anywhere") == []
    assert len(find(pages, "  ")) == len(NAMES)


# ------------------------------------------------------------------------------------------------ the window


async def opened(window: Window, page: str = "start", words: str = "") -> HelpDialog:
    dialog = there(window.setup.helping.open_help(page, words))
    await until(lambda: dialog.pages and dialog.shown)
    return dialog


def titles(dialog: HelpDialog) -> list[str]:
    return [dialog.contents.item(row).text() for row in range(dialog.contents.count())]


async def test_every_view_leads_to_its_page_by_f1_and_by_its_empty_state(window: Window) -> None:
    assert set(window.views) == set(OF_VIEW)
    window.show_view("orders")
    press(window, Qt.Key.Key_F1)
    dialog = there(next((each for each in window.setup.dialogs if isinstance(each, HelpDialog)), None))
    await until(lambda: dialog.shown == "states")
    assert not dialog.isModal()
    window.show_view("needs")
    window.setup.helping.help.trigger()
    await until(lambda: dialog.shown == "ambiguous")
    window.show_view("refused")
    await until(lambda: window.current.is_empty)
    (button,) = window.current.empty.findChildren(QToolButton)
    assert button.text() == "Help on this"
    click(button)
    await until(lambda: dialog.shown == "reasons")


async def test_contents_search_and_the_next_place(window: Window) -> None:
    dialog = await opened(window)
    assert len(titles(dialog)) == len(NAMES)
    dialog.search.setText("ngrok")
    assert titles(dialog)
    assert all("(" in title for title in titles(dialog))
    first = dialog.text.textCursor()
    assert first.selectedText().casefold() == "ngrok"
    press(dialog.search, Qt.Key.Key_Return)
    assert dialog.text.textCursor().position() > first.position()
    dialog.search.setText("no such word anywhere")
    assert titles(dialog) == []
    assert "Nowhere" in dialog.found.text()
    dialog.search.setText("")
    assert len(titles(dialog)) == len(NAMES)


async def test_a_code_is_shown_where_it_is_explained(window: Window) -> None:
    dialog = await opened(window, "reasons", "OTHER_BOOK_OPEN")
    assert dialog.shown == "reasons"
    assert dialog.text.textCursor().selectedText() == "OTHER_BOOK_OPEN"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("POSITION_EXCEEDS_CAPITAL_FRACTION projected=22710", "POSITION_EXCEEDS_CAPITAL_FRACTION"),
        ("STALE late=3.2s", "STALE"),
        ("WAITING_FOR_O7", "WAITING_FOR_O12"),
        ("WAITING_FOR_BROKER", "WAITING_FOR_BROKER"),
        ("intent_differs", "intent_differs"),
        ("listening on port 8787", ""),
        ("Our books held 7", ""),
        ("", ""),
    ],
)
def test_the_code_of_a_reason(reason: str, code: str) -> None:
    assert code_of(reason) == code
    assert not code or f"`{code}`" in read("reasons")


async def test_f1_on_a_row_leads_to_its_reason(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, engine.clock.now(), quiet_rows=9))
    window.show_view("orders")
    await until(lambda: window.current.model.rowCount() and window.current.is_shown_as_table)
    codes = [code_of(str(line.row["reason"] or "")) for line in window.current.lines()]
    explained = read("reasons")
    row = next(place for place, code in enumerate(codes) if code and f"`{code}`" in explained)
    window.current.table.choose(row)
    dialog = there(window.setup.helping.open_here())
    await until(lambda: dialog.shown == "reasons")
    assert dialog.text.textCursor().selectedText() == codes[row]


async def test_words_that_a_page_does_not_have_leave_the_contents_whole(window: Window) -> None:
    dialog = await opened(window, "reasons", "NEVER_HEARD_OF")
    assert dialog.shown == "reasons"
    assert len(titles(dialog)) == len(NAMES)


async def test_links_lead_to_other_pages_and_nothing_is_fetched(window: Window) -> None:
    dialog = await opened(window)
    dialog.text.anchorClicked.emit(QUrl("tunnels.md"))
    assert dialog.shown == "tunnels"
    dialog.text.anchorClicked.emit(QUrl("nowhere.md"))
    assert dialog.shown == "tunnels"
    assert not dialog.text.openLinks()


async def test_tables_are_tables_and_dark_is_dark(window: Window) -> None:
    dialog = await opened(window, "tunnels")
    tables = [
        each for each in dialog.text.document().rootFrame().childFrames() if isinstance(each, QTextTable)
    ]
    assert [table.columns() for table in tables] == [5, 3]
    assert tables[0].format().border() == 1
    window.setPalette(dark_palette())
    dialog.setPalette(dark_palette())
    assert dialog.text.palette().color(QPalette.ColorRole.Base) == dark_palette().color(
        QPalette.ColorRole.Base
    )
    assert dialog.shown == "tunnels"


async def test_names_and_keys(window: Window) -> None:
    dialog = await opened(window)
    assert nameless(dialog) == []
    press(dialog, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert dialog.search.hasFocus()
    press(dialog, Qt.Key.Key_Escape)
    assert window.setup.dialogs == ()


async def test_a_build_without_pages_says_so(window: Window) -> None:
    helping = window.setup.helping
    dialog = window.setup.one(HelpDialog, lambda: HelpDialog(helping._tools, window, list[Page]))
    dialog.start()
    await until(lambda: "no help pages" in dialog.notice.text)
