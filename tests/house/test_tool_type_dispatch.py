"""Every place that behaves differently per type of tool is marked, and knows all types or fails.

`git grep @ToolTypeDispatch` must list what somebody has to look at who adds a type.
"""

import ast
import re

import pytest

from tests.house.sources import FILES, place, text, tree

MARK = "# @ToolTypeDispatch"
TYPES = {"WorkflowTool", "MCPTool", "WORKFLOW", "MCP"}


def dispatching(module: ast.AST) -> list[tuple[ast.Match, ast.FunctionDef | None]]:
    """Every `match` with a case for a type of tool, and the function around it."""
    found = []

    def walk(node: ast.AST, function: ast.FunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Match) and any(TYPES & _names(case.pattern) for case in child.cases):
                found.append((child, inner))
            walk(child, inner)

    walk(module, None)
    return found


def _names(pattern: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(pattern) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(pattern) if isinstance(node, ast.Attribute)}


def places():
    for file in FILES:
        if not re.search(rf"^ +case .*\b(?:{'|'.join(TYPES)})\b", text(file), re.MULTILINE):
            continue  # to parse all files takes seconds
        for match, function in dispatching(tree(file)):
            name = f"{place(file)}:{function.name if function else match.lineno}"
            yield name, text(file).splitlines(), match, function


@pytest.mark.requirement("T33")
@pytest.mark.requirement("T62")
@pytest.mark.requirement("T67")
def test_dispatch_is_marked_and_exhaustive():
    wrong = []
    for name, lines, match, function in places():
        marked = {match.lineno}
        if function:  # the mark may stand behind the last line of a signature
            marked |= set(range(function.lineno, function.body[0].lineno))
        if not any(MARK in lines[number - 1] for number in marked):
            wrong.append(f"{name}, line {match.lineno}: lacks {MARK}")
        last = match.cases[-1]
        ends = ast.unparse(last.body[-1])
        if ast.unparse(last.pattern) != "_" or not ("assert_never(" in ends or ends.startswith("raise ")):
            wrong.append(f"{name}, line {match.lineno}: an unknown type is no error")
    assert wrong == []


def test_marks_stand_only_where_something_is_dispatched():
    known = {name.split(":")[0] for name, *_ in places()}
    marked = {place(file) for file in FILES if MARK in text(file)}
    assert marked == known
