"""The sources of the product, read and parsed once for all tests of the house."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
#: All modules but what has KNIME's names.
FILES = [file for file in sorted(SRC.rglob("*.py")) if "standin" not in file.parts]


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
