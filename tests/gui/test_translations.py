"""Every sentence that the window shows can be translated, and a translation that is there is used.

The first half reads the sources of app/gui: a text that is handed to a widget goes through tr(). It knows the
calls below and no others, so it finds what is usual and not everything.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtCore import QCoreApplication, QLocale
from PySide6.QtWidgets import QApplication, QLabel

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
EXAMPLE = re.compile(r"\{\n|\w+:\w+$")
"""What a person types as it stands: a message, a term of the filter."""
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
    if KEYS.fullmatch(text) or EXAMPLE.match(text):
        return False
    return bool(set(_words(text)) - NAMES)


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


def _translate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("translate", ROOT / "packaging" / "translate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def german(folder: Path, sentences: dict[str, object]) -> Callable[[str], Path | None]:
    file = folder / "de.json"
    file.write_text(json.dumps(sentences), "utf-8")
    return {"translations/de.json": file}.get


def shown(text: str, context: str = "Words") -> str:
    return QCoreApplication.translate(context, text)


def test_a_translation_of_the_persons_language_is_used_wherever_the_text_stands(
    qapp: QApplication, tmp_path: Path
) -> None:
    find = german(
        tmp_path,
        {
            "Nothing needs you": "Nichts braucht dich",
            "Halted": None,
            "Needs you: {number}": "Braucht dich",
            "Notes: {number}": "Notizen: {number}",
        },
    )
    translator = install(qapp, QLocale("de_AT"), find)
    assert translator is not None
    label = QLabel()
    try:
        assert shown("Nothing needs you") == label.tr("Nothing needs you") == "Nichts braucht dich"
        assert shown("Quit") == "Quit", "what it does not have stays"
        assert shown("Halted") == "Halted", "what waits to be translated stays"
        assert shown("Needs you: {number}") == "Needs you: {number}", "what lost its number is not used"
        assert shown("Notes: {number}").format(number=3) == "Notizen: 3"
    finally:
        qapp.removeTranslator(translator)
        label.deleteLater()
    assert shown("Nothing needs you") == "Nothing needs you"


def test_the_exact_place_comes_before_the_language_alone(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("translations/pt_BR.json", "translations/pt.json")}
    assert translation(QLocale("pt_BR"), files.get) == tmp_path / "translations/pt_BR.json"
    assert translation(QLocale("pt_PT"), files.get) == tmp_path / "translations/pt.json"
    assert translation(QLocale("fi_FI"), files.get) is None


@pytest.mark.parametrize("content", ["no json", "[1, 2]", '{"a": ', "\udcff"])
def test_a_broken_translation_is_no_reason_not_to_open(
    qapp: QApplication, tmp_path: Path, content: str
) -> None:
    broken = tmp_path / "de.json"
    broken.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert install(qapp, QLocale("de_DE"), lambda _name: broken) is None


def test_the_tool_finds_what_is_shown_keeps_what_is_translated_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = _translate()
    monkeypatch.setattr(tool, "FOLDER", tmp_path / "translations")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main(["de"]) == 0
    file = tmp_path / "translations" / "de.json"
    made = json.loads(file.read_text("utf-8"))
    for text in ("Nothing needs you", "Halted", "&Open Onefill", "Onefill does not start.", "What is wrong"):
        assert made[text] is None, "from tr, self.tr, a table of words, translate and QT_TRANSLATE_NOOP"
    made |= {"Nothing needs you": "Nichts braucht dich", "Long gone": "Lange weg"}
    file.write_text(json.dumps(made), "utf-8")
    assert tool.main(["de"]) == 0
    renewed = json.loads(file.read_text("utf-8"))
    assert renewed["Nothing needs you"] == "Nichts braucht dich"
    assert "Long gone" not in renewed
    assert f"{len(renewed)} texts, {len(renewed) - 1} to be translated" in capsys.readouterr().out
    assert tool.main(["../evil"]) == 2
