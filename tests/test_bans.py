"""What ruff's banned names cannot see: method calls, imports by room, words in SQL, the size of a module.

Why each is banned: DESIGN section 4, and the comment beside its row. The last test feeds the checker bad
sources.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400

NESTED_LOOP = "runs a nested event loop: use open() and a future"
# Attribute calls, whatever the object: name, reason, and the module that may.
CALLS = {
    "exec": (NESTED_LOOP, ""),
    "exec_": (NESTED_LOOP, ""),
    "processEvents": (NESTED_LOOP, ""),
    "create_task": ("use Tasks: named, owned by the engine, awaited at stop", "app/tasks.py"),
    "ensure_future": ("use Tasks: named, owned by the engine, awaited at stop", "app/tasks.py"),
    "asyncClose": ("spins for ever when close() is called from a coroutine", ""),
}
# Static helpers that open a dialog and wait in a nested loop. None: any of the class.
STATIC_DIALOGS = {
    "QFileDialog": re.compile(r"get(Open|Save|Existing)\w+"),
    "QInputDialog": re.compile(r"get\w+"),
    "QMessageBox": re.compile(r"question|information|warning|critical|about|aboutQt"),
    "QColorDialog": re.compile(r"getColor"),
    "QFontDialog": re.compile(r"getFont"),
}
ONLY_IN_THE_WINDOW = {"PySide6", "shiboken6", "qasync"}
SQL = {
    # It deletes the row that a claim or a fill already is.
    "INSERT OR REPLACE": re.compile(r"\b(INSERT\s+OR\s+REPLACE|REPLACE\s+INTO)\b", re.IGNORECASE),
    # It answers before the commit, so it proves nothing.
    "RETURNING": re.compile(r"\b(INSERT|UPDATE|DELETE)\b.*\bRETURNING\b", re.IGNORECASE | re.DOTALL),
    # A violation would come at COMMIT and take the whole batch with it.
    "DEFERRABLE": re.compile(r"\bDEFERRABLE\b|\bdefer_foreign_keys\b", re.IGNORECASE),
}


def violations(source: str, path: str) -> Iterator[str]:
    """The banned things in one module, a line each; path is relative to the root, with slashes."""
    lines = source.count("\n")
    if lines > MAX_LINES:
        yield f"{path}: {lines} lines, more than {MAX_LINES}: split it by what changes together"
    tree = ast.parse(source)
    texts = _docstrings(tree)
    for node in ast.walk(tree):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute):
            yield from _banned_attribute(node, path, where)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _banned_import(node, path, where)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in texts:
            for word in _banned_sql(_text(node)):
                yield f"{where}: {word} in SQL"


def _banned_attribute(node: ast.Attribute, path: str, where: str) -> Iterator[str]:
    # A mention is enough: a slot connected to `dialog.exec` is as bad as a call.
    if node.attr in CALLS:
        reason, may = CALLS[node.attr]
        if path != may:
            yield f"{where}: .{node.attr} {reason}"
    owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    helper = STATIC_DIALOGS.get(owner)
    if helper is not None and helper.fullmatch(node.attr):
        yield f"{where}: {owner}.{node.attr} {NESTED_LOOP}"


def _banned_import(node: ast.Import | ast.ImportFrom, path: str, where: str) -> Iterator[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for name in names:
        if name.split(".")[0] in ONLY_IN_THE_WINDOW and not path.startswith("app/gui/"):
            yield f"{where}: {name} is imported outside app/gui"
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name in CALLS and path != CALLS[alias.name][1]:
                yield f"{where}: {alias.name} {CALLS[alias.name][0]}"


def _text(node: ast.expr) -> str:
    """A string, an f-string with its fields left out; nothing for other constants."""
    if isinstance(node, ast.JoinedStr):
        return " ".join(_text(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _banned_sql(text: str) -> list[str]:
    return [word for word, pattern in SQL.items() if pattern.search(text)]


def _docstrings(tree: ast.Module) -> set[int]:
    """Strings that stand alone as a statement: prose, not SQL."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", sql, flags=re.DOTALL)


def test_no_module_of_app_does_what_is_banned() -> None:
    modules = sorted((ROOT / "app").rglob("*.py"))
    assert modules
    found = [
        line
        for module in modules
        for line in violations(module.read_text(encoding="utf-8"), module.relative_to(ROOT).as_posix())
    ]
    assert not found, "\n".join(found)


def test_no_schema_file_has_banned_sql() -> None:
    found = [
        f"{file.relative_to(ROOT).as_posix()}: {word}"
        for file in sorted((ROOT / "app").rglob("*.sql"))
        for statement in _without_comments(file.read_text(encoding="utf-8")).split(";")
        for word in _banned_sql(statement)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("dialog.exec()", "nested event loop"),
        ("button.clicked.connect(menu.exec_)", "nested event loop"),
        ("QApplication.processEvents()", "nested event loop"),
        ("loop.create_task(work())", "use Tasks"),
        ("from asyncio import create_task", "use Tasks"),
        ("from qasync import asyncClose", "spins for ever"),
        ("QtWidgets.QFileDialog.getOpenFileName()", "QFileDialog.getOpenFileName"),
        ("QMessageBox.question(self, 'a', 'b')", "QMessageBox.question"),
        ("QInputDialog.getText()", "QInputDialog.getText"),
        ("from PySide6 import QtCore", "outside app/gui"),
        ("import qasync", "outside app/gui"),
        ("query = 'insert or replace into claims values (1)'", "INSERT OR REPLACE"),
        ("query = 'INSERT INTO claims VALUES (1)\\n RETURNING id'", "RETURNING"),
        ("query = f'UPDATE {table} SET a = 1 RETURNING id'", "RETURNING"),
        ("query = 'REFERENCES orders DEFERRABLE INITIALLY DEFERRED'", "DEFERRABLE"),
        ("x = 1\n" * (MAX_LINES + 1), "lines, more than"),
    ],
)
def test_the_checker_bites(source: str, words: str) -> None:
    found = list(violations(source, "app/imagined.py"))
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("from PySide6 import QtCore", "app/gui/window.py"),
        ("asyncio.get_running_loop().create_task(work())", "app/tasks.py"),
        ('"""Never INSERT ... RETURNING here."""', "app/ledger/writer.py"),
        ("QMessageBox(parent).open()", "app/gui/dialogs.py"),
        ("message = 'returning later'", "app/gui/window.py"),
        ("x = 1\n" * MAX_LINES, "app/imagined.py"),
    ],
)
def test_the_checker_lets_the_good_pass(source: str, path: str) -> None:
    assert list(violations(source, path)) == []
