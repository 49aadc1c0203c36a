"""Each error has a code, and each code has a line, with cause and cure, in docs/errors.md."""

import re
from typing import get_args

from knime_mcp.types.errors import ClockKind, ConnectPhase, MCPError
from tests.house.sources import FILES, ROOT, text

TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\| `(KMCP-\S+)` \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)
KINDS = {"KMCP-CONNECT": get_args(ConnectPhase), "KMCP-TIMEOUT": get_args(ClockKind)}
CLASS = re.compile(r"^class (\w+)\(([^)]*)\):.*\n((?:(?: .*)?\n)*)", re.MULTILINE)
SAME_AS_THEIR_BASE = {"TooManyTools", "_PointerError", "WorkerLost"}


def codes() -> set[str]:
    written = {code for file in FILES for code in re.findall(r'"(KMCP-[A-Z-]+)"', text(file))}
    named = {f"{code}-{kind.upper()}" for code, kinds in KINDS.items() for kind in kinds}
    return written - set(KINDS) | named


def classes() -> list[tuple[str, set[str], str]]:
    """Name, bases and body of the classes that have bases; found without parsing all modules."""
    parts = (part for file in FILES if file.name != "gateway_errors.py" for part in CLASS.findall(text(file)))
    return [(name, set(re.findall(r"\w+", bases)), body) for name, bases, body in parts]


def test_each_code_has_its_line_and_each_line_its_code():
    assert sorted(code for code, _, _ in ENTRIES) == sorted(codes())


def test_each_class_of_errors_has_a_code_of_its_own():
    tree, found = {MCPError.__name__}, classes()
    while more := {name for name, bases, _ in found if tree & bases} - tree:
        tree |= more
    without = [
        name for name, _, body in found if name in tree and not re.search(r"(?m)^    CODE\b.* = ", body)
    ]
    assert len(tree) > 40
    assert set(without) == SAME_AS_THEIR_BASE
