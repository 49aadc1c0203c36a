"""Each class of errors has a code of its own."""

import re

from knime_mcp.types.errors import MCPError
from tests.house.sources import FILES, text

CLASS = re.compile(r"^class (\w+)\(([^)]*)\):", re.MULTILINE)
SAME_AS_THEIR_BASE = {"TooManyTools", "_PointerError", "WorkerLost"}


def classes() -> list[tuple[str, set[str], str]]:
    """Name, bases and body of the classes that have bases; found without parsing all modules."""
    parts = (CLASS.split(text(file))[1:] for file in FILES if file.name != "gateway_errors.py")
    found = (each for part in parts for each in zip(part[::3], part[1::3], part[2::3], strict=True))
    return [(name, set(re.findall(r"\w+", bases)), body) for name, bases, body in found]


def test_each_class_of_errors_has_a_code_of_its_own():
    tree, found = {MCPError.__name__}, classes()
    while more := {name for name, bases, _ in found if tree & bases} - tree:
        tree |= more
    without = [
        name for name, _, body in found if name in tree and not re.search(r"(?m)^    CODE\b.* = ", body)
    ]
    assert len(tree) > 40
    assert set(without) == SAME_AS_THEIR_BASE
