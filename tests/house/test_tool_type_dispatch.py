"""Every place that behaves differently per type of tool is marked, and knows all types or fails.

`git grep @ToolTypeDispatch` must list what somebody has to look at who adds a type.
"""

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MARK = "# @ToolTypeDispatch"
TYPES = {"WorkflowTool", "MCPTool", "WORKFLOW", "MCP"}


def dispatching(tree: ast.AST) -> list[tuple[ast.Match, ast.FunctionDef | None]]:
    """Every `match` with a case for a type of tool, and the function around it."""
    found = []

    def walk(node: ast.AST, function: ast.FunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Match) and any(TYPES & _names(case.pattern) for case in child.cases):
                found.append((child, inner))
            walk(child, inner)

    walk(tree, None)
    return found


def _names(pattern: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(pattern) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(pattern) if isinstance(node, ast.Attribute)}


def places():
    for file in sorted(SRC.rglob("*.py")):
        if "standin" in file.parts:
            continue
        text = file.read_text(encoding="utf-8")
        if not re.search(rf"^ +case .*\b(?:{'|'.join(TYPES)})\b", text, re.MULTILINE):
            continue  # to parse all files takes seconds
        for match, function in dispatching(ast.parse(text)):
            name = f"{file.relative_to(SRC).as_posix()}:{function.name if function else match.lineno}"
            yield pytest.param(text.splitlines(), match, function, id=name)


@pytest.mark.requirement("T33")
@pytest.mark.requirement("T62")
@pytest.mark.requirement("T67")
@pytest.mark.parametrize(("lines", "match", "function"), list(places()))
def test_dispatch_is_marked_and_exhaustive(lines, match, function):
    marked = {match.lineno} | ({function.lineno} if function else set())
    if function:  # the mark may stand behind the last line of a signature
        marked |= set(range(function.lineno, function.body[0].lineno))
    assert any(MARK in lines[number - 1] for number in marked), f"line {match.lineno} lacks {MARK}"
    last = match.cases[-1]
    ends = ast.unparse(last.body[-1])
    assert ast.unparse(last.pattern) == "_", f"line {match.lineno}: no case for an unknown type"
    assert "assert_never(" in ends or ends.startswith("raise "), f"line {match.lineno}: {ends}"


def test_marks_stand_only_where_something_is_dispatched():
    known = {param.id.split(":")[0] for param in places()}
    marked = {
        f.relative_to(SRC).as_posix() for f in SRC.rglob("*.py") if MARK in f.read_text(encoding="utf-8")
    }
    assert marked == known
