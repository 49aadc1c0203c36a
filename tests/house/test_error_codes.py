"""Each class of errors has a code of its own."""

import ast

from knime_mcp.types.errors import MCPError
from tests.house.sources import FILES, nodes

SAME_AS_THEIR_BASE = {"TooManyTools", "_PointerError", "WorkerLost"}


def classes() -> list[ast.ClassDef]:
    own = [file for file in FILES if file.name != "gateway_errors.py"]
    return [each for file in own for each in nodes(file) if isinstance(each, ast.ClassDef)]


def test_each_class_of_errors_has_a_code_of_its_own():
    tree, found = {MCPError.__name__}, classes()
    while (
        more := {
            each.name
            for each in found
            if tree & {base.id for base in each.bases if isinstance(base, ast.Name)}
        }
        - tree
    ):
        tree |= more
    without = [
        each.name
        for each in found
        if each.name in tree
        and not any(
            isinstance(line, ast.Assign | ast.AnnAssign) and "CODE" in ast.unparse(line) for line in each.body
        )
    ]
    assert len(tree) > 40
    assert set(without) == SAME_AS_THEIR_BASE
