"""Makes or renews the file of a translation: `translate.py de`. Standard library only.

Writes resources/translations/de.json with every text that the window shows: what is translated stays, new
texts wait as null, and what is no longer in the sources goes. Says how many are missing.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUI = ROOT / "app" / "gui"
FOLDER = ROOT / "resources" / "translations"
FIRST = ("tr", "_")
SECOND = ("translate", "QT_TRANSLATE_NOOP")


def texts(source: str) -> "Iterator[str]":
    """What stands in tr() and its kind, in the order of the source."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        place = 0 if name in FIRST else 1 if name in SECOND else None
        if place is not None and len(call.args) > place:
            argument = call.args[place]
            choices = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
            for choice in choices:
                if isinstance(choice, ast.Constant) and isinstance(choice.value, str) and choice.value:
                    yield choice.value


def all_texts() -> "list[str]":
    return list(
        dict.fromkeys(text for file in sorted(GUI.rglob("*.py")) for text in texts(file.read_text("utf-8")))
    )


def main(arguments: "list[str]") -> int:
    if len(arguments) != 1 or not re.fullmatch(r"[a-z]{2,3}(_[A-Z]{2})?", arguments[0]):
        print("translate.py LANGUAGE, as de or pt_BR", file=sys.stderr)
        return 2
    file = FOLDER / f"{arguments[0]}.json"
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    renewed = {text: known.get(text) for text in all_texts()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(renewed, ensure_ascii=False, indent=1) + "\n", "utf-8")
    missing = sum(value is None for value in renewed.values())
    print(f"{file.relative_to(ROOT)}: {len(renewed)} texts, {missing} to be translated")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
