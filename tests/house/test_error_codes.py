"""Each error has a code, and each code has a line, with cause and cure, in docs/errors.md."""

import ast
import re
from typing import get_args

from knime_mcp.types.errors import ClockKind, ConnectPhase, MCPError
from tests.house.sources import FILES, ROOT, nodes, text

TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\| `(KMCP-\S+)` \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)
KINDS = {"KMCP-CONNECT": get_args(ConnectPhase), "KMCP-TIMEOUT": get_args(ClockKind)}
SAME_AS_THEIR_BASE = {"TooManyTools", "_PointerError", "WorkerLost"}


def codes() -> set[str]:
    written = {code for file in FILES for code in re.findall(r'"(KMCP-[A-Z-]+)"', text(file))}
    named = {f"{code}-{kind.upper()}" for code, kinds in KINDS.items() for kind in kinds}
    return written - set(KINDS) | named


def classes() -> list[ast.ClassDef]:
    own = [file for file in FILES if file.name != "gateway_errors.py"]
    return [each for file in own for each in nodes(file) if isinstance(each, ast.ClassDef)]


def test_each_code_has_its_line_and_each_line_its_code():
    assert sorted(code for code, _, _ in ENTRIES) == sorted(codes())


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
