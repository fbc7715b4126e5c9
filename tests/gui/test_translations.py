"""Every sentence that the window shows can be translated, and a translation that is there is used.

The first half reads the sources of app/gui: a text that is handed to a widget goes through tr(). It knows the
calls below and no others, so it finds what is usual and not everything.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLocale
from PySide6.QtWidgets import QApplication

from app.gui.translations import install, translation

ROOT = Path(__file__).resolve().parents[2]
GUI = ROOT / "app" / "gui"

METHODS = re.compile(
    "set(Text|ToolTip|StatusTip|WhatsThis|WindowTitle|Title|PlaceholderText|IconText|AccessibleName|TabText"
    "|AccessibleDescription|InformativeText|DetailedText|LabelText|Prefix|Suffix|HeaderData)"
    "|add(Action|Menu|Tab|Button|_heading)|showMessage|say"
)
"""Of a widget, whatever it is called: each text among the arguments is shown."""
MAKERS = re.compile(
    "Q(Label|PushButton|ToolButton|CheckBox|RadioButton|GroupBox|Action|Menu|DockWidget)"
    "|plain_action|BusyAction|quiet_label"
)
NAMES = frozenset({"Onefill", "TradingView", "JSON"})
"""The same in every language."""
KEYS = re.compile(r"(Ctrl|Alt|Shift|Meta)\+.*|F[0-9]+|Esc|Del")


def shown_untranslated(source: str, path: str) -> Iterator[str]:
    """A line for each text with a word in it that is handed to a widget as it stands, or given back."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (METHODS.fullmatch(_called(node.func)) or _makes(node.func)):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            found = [(each, text) for each in arguments for text in _plain(each)]
            first = arguments[0] if arguments else None
            found = [(each, text) for each, text in found if each is first or not _is_code(text)]
        elif isinstance(node, ast.Return) and node.value is not None:
            # A sentence that a function gives back is one that somebody shows.
            found = [(node.value, text) for text in _plain(node.value) if len(_words(text)) > 1]
        else:
            continue
        for place, text in found:
            if _has_words(text):
                yield f"{path}:{place.lineno}: {text!r} is shown and cannot be translated: tr()"


def _makes(function: ast.expr) -> bool:
    return MAKERS.fullmatch(_called(function)) is not None


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _plain(node: ast.expr) -> Iterator[str]:
    """The texts of an expression that are not within tr()."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from _plain(part)
        case ast.BinOp(left=left, right=right):
            yield from _plain(left)
            yield from _plain(right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _plain(body)
            yield from _plain(orelse)
        case ast.Call(func=ast.Attribute(value=inner, attr="format")):
            yield from _plain(inner)


def _words(text: str) -> list[str]:
    """Without the marks of rich text."""
    return re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^<>]*>?", " ", text.replace("&", "")))


def _has_words(text: str) -> bool:
    is_json = text.startswith("{\n")
    return bool(set(_words(text)) - NAMES) and not KEYS.fullmatch(text) and not is_json


def _is_code(text: str) -> bool:
    """A word of ours beside the text: a level, a kind."""
    return text.islower() and " " not in text


def test_every_text_of_the_window_goes_through_tr() -> None:
    found = [
        line
        for module in sorted(GUI.rglob("*.py"))
        for line in shown_untranslated(module.read_text("utf-8"), module.relative_to(ROOT).as_posix())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "bad",
    [
        'label.setText("Nothing needs you")',
        'QLabel("Name", self)',
        'plain_action("&Quit", "Ctrl+Q", work, window)',
        'self.notice.say(f"{name} was kept", "ok")',
        'box.setInformativeText("a" + "and more")',
        'label.setText("one order" if one else tr("orders"))',
        'label.setText("{name} is gone".format(name=name))',
        'tray.showMessage(tr("Title"), "Some words here")',
        'def text(number):\n    return "1 change is" if number == 1 else f"{number} changes are"',
    ],
)
def test_the_reader_of_sources_bites(bad: str) -> None:
    assert list(shown_untranslated(bad, "imagined.py"))


@pytest.mark.parametrize(
    "good",
    [
        'label.setText(self.tr("Nothing needs you"))',
        'notice.say(tr("{name} was kept").format(name=name), "ok")',
        'label.setText(f"{glyph} {word}")',
        'window.setWindowTitle("Onefill")',
        'plain_action(tr("&Quit"), "Ctrl+Q", work, window)',
        'label.setText("")',
    ],
)
def test_the_reader_of_sources_lets_good_ones_pass(good: str) -> None:
    assert not list(shown_untranslated(good, "imagined.py"))


# ------------------------------------------------------------------------------------------- a translation

SOURCE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de">
<context><name>Words</name><message><source>Nothing needs you</source>
<translation>Nichts braucht dich</translation></message></context>
</TS>
"""


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """Made as the README says, by Qt's own tool."""
    release = shutil.which("pyside6-lrelease", path=str(Path(sys.executable).parent))
    if release is None:
        pytest.skip("Qt's lrelease is not there")
    (tmp_path / "onefill_de.ts").write_text(SOURCE, "utf-8")
    made = tmp_path / "onefill_de.qm"
    done = subprocess.run(
        [release, str(tmp_path / "onefill_de.ts"), "-qm", str(made)],
        capture_output=True,
        text=True,
        check=False,
    )
    if not made.exists():
        pytest.skip(f"lrelease cannot run here: {done.stderr[:200]}")
    return made


def test_a_translation_of_the_persons_language_is_used(qapp: QApplication, german: Path) -> None:
    files = {"translations/onefill_de.qm": german}
    translator = install(qapp, QLocale("de_AT"), files.get)
    assert translator is not None
    try:
        assert QCoreApplication.translate("Words", "Nothing needs you") == "Nichts braucht dich"
        assert QCoreApplication.translate("Words", "Quit") == "Quit", "what is not translated stays"
    finally:
        qapp.removeTranslator(translator)
    assert QCoreApplication.translate("Words", "Nothing needs you") == "Nothing needs you"


def test_the_exact_place_comes_before_the_language_alone(tmp_path: Path) -> None:
    files = {
        name: tmp_path / name for name in ("translations/onefill_pt_BR.qm", "translations/onefill_pt.qm")
    }
    assert translation(QLocale("pt_BR"), files.get) == tmp_path / "translations/onefill_pt_BR.qm"
    assert translation(QLocale("pt_PT"), files.get) == tmp_path / "translations/onefill_pt.qm"
    assert translation(QLocale("fi_FI"), files.get) is None


def test_a_broken_translation_is_no_reason_not_to_open(qapp: QApplication, tmp_path: Path) -> None:
    broken = tmp_path / "onefill_de.qm"
    broken.write_bytes(b"no translation")
    assert install(qapp, QLocale("de_DE"), lambda _name: broken) is None
