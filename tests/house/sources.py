"""The sources of the products, read and parsed once for all tests of the house."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
#: Import name -> the sources of the products that stand on the first.
PRODUCTS = {
    "knime_mcp_graph": ROOT / "packages" / "mcp-graph" / "src" / "knime_mcp_graph",
    "knime_node_knowledge": ROOT / "packages" / "node-knowledge" / "src" / "knime_node_knowledge",
}
#: All modules but what has KNIME's names.
FILES = [
    file
    for root in (SRC, *PRODUCTS.values())
    for file in sorted(root.rglob("*.py"))
    if "standin" not in file.parts
]


def place(file: Path) -> str:
    """A module as it is called here: below src/, or below the folder of its product."""
    base = (
        SRC
        if file.is_relative_to(SRC)
        else next(root.parent for root in PRODUCTS.values() if file.is_relative_to(root))
    )
    return file.relative_to(base).as_posix()


@cache
def text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(text(file))


@cache
def nodes(file: Path) -> list[ast.AST]:
    """Everything in a module, wherever in it."""
    return list(ast.walk(tree(file)))
