"""Each error has a code, and each code has its entry, with cause and cure, in docs/errors.md."""

import ast
import re
from typing import get_args

from knime_mcp.types.errors import ClockKind, ConnectPhase, MCPError
from tests.house.sources import FILES, ROOT, nodes, text

TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (KMCP-\S+)\n\n(.*?)(?=\n\n#|\Z)", TEXT, re.MULTILINE | re.DOTALL))
KINDS = {"KMCP-CONNECT": get_args(ConnectPhase), "KMCP-TIMEOUT": get_args(ClockKind)}
SAME_AS_THEIR_BASE = {"_PointerError", "WorkerLost"}


def codes() -> set[str]:
    written = {code for file in FILES for code in re.findall(r'"(KMCP-[A-Z-]+)"', text(file))}
    named = {f"{code}-{kind.upper()}" for code, kinds in KINDS.items() for kind in kinds}
    return written - set(KINDS) | named


def classes() -> list[ast.ClassDef]:
    own = [file for file in FILES if file.name != "gateway_errors.py"]
    return [each for file in own for each in nodes(file) if isinstance(each, ast.ClassDef)]


def test_each_code_has_its_entry_and_each_entry_its_code():
    assert sorted(ENTRIES) == sorted(codes())


def test_each_entry_has_cause_and_cure():
    short = [
        code
        for code, entry in ENTRIES.items()
        if not re.fullmatch(r"\*\*Cause\.\*\* .+\*\*Cure\.\*\*\s.+", entry, re.DOTALL)
    ]
    assert short == []


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
