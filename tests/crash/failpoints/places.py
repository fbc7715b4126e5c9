"""Every place of app where a crash can be put, found in its source: none can be forgotten.

`failpoint("name")` is one place. `failpoint(f"{place}_before_commit")` is one for each name that is handed
to a function as `place`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

APP = Path(__file__).parents[3] / "app"


def places() -> set[str]:
    """The names of all failpoints."""
    trees = [ast.parse(path.read_text("utf-8")) for path in sorted(APP.rglob("*.py"))]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    takers = {taker for tree in trees for taker in _taking_a_place(tree)}
    given = {name for call in calls if _called(call) in takers for name in _first_text(call)}
    found: set[str] = set()
    for call in calls:
        if _called(call) != "failpoint":
            continue
        (argument,) = call.args
        match argument:
            case ast.Constant(value=str(name)):
                found.add(name)
            case ast.JoinedStr(
                values=[ast.FormattedValue(value=ast.Name(id="place")), ast.Constant(value=str(end))]
            ):
                found |= {f"{name}{end}" for name in given}
            case _:
                raise AssertionError(f"line {call.lineno}: what place is {ast.unparse(argument)}?")
    return found


def _taking_a_place(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            if names[:1] == ["place"]:
                yield node.name


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _first_text(call: ast.Call) -> list[str]:
    match call.args[:1]:
        case [ast.Constant(value=str(name))]:
            return [name]
    return []
