"""Each error has a code, and each code has its entry, with cause and cure, in docs/errors.md."""

import ast
import re
from pathlib import Path
from typing import get_args

from knime_mcp.types.errors import ClockKind, ConnectPhase, MCPError

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in (ROOT / "src").rglob("*.py") if "standin" not in path.parts]
TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (KMCP-\S+)\n\n(.*?)(?=\n\n#|\Z)", TEXT, re.MULTILINE | re.DOTALL))
KINDS = {"KMCP-CONNECT": get_args(ConnectPhase), "KMCP-TIMEOUT": get_args(ClockKind)}
SAME_AS_THEIR_BASE = {"_PointerError", "NotRunnable", "WorkerLost"}


def codes() -> set[str]:
    written = {code for path in SOURCES for code in re.findall(r'"(KMCP-[A-Z-]+)"', path.read_text())}
    named = {f"{code}-{kind.upper()}" for code, kinds in KINDS.items() for kind in kinds}
    return written - set(KINDS) | named


def classes() -> list[ast.ClassDef]:
    trees = [ast.parse(path.read_text()) for path in SOURCES if path.name != "gateway_errors.py"]
    return [each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]


def test_each_code_has_its_entry_and_each_entry_its_code():
    assert sorted(ENTRIES) == sorted(codes())


def test_each_entry_has_cause_and_cure():
    short = [
        code
        for code, text in ENTRIES.items()
        if not re.fullmatch(r"\*\*Cause\.\*\* .+\*\*Cure\.\*\*\s.+", text, re.DOTALL)
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
