"""No circle of imports between files: each can be read, tested and moved by itself."""

import ast
from pathlib import Path

from tests.house.sources import FILES, SRC, place, tree
from tests.house.test_import_arrows import Import, relative_imports


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(module: ast.AST) -> list[Import]:
    """All imports, also inside functions, but those under TYPE_CHECKING, which do not run."""
    found, waiting = [], [module]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, Import):
                found.append(child)
            elif is_for_types(child):
                waiting += child.orelse
            else:
                waiting.append(child)
    return found


def file_of(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path


def circles(arrows: dict[Path, set[Path]]) -> list[list[Path]]:
    """The strongly connected components with more than one file (Tarjan)."""
    numbers: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    found = []

    def visit(file: Path) -> None:
        numbers[file] = lowest[file] = len(numbers)
        stack.append(file)
        for other in arrows.get(file, ()):
            if other not in numbers:
                visit(other)
                lowest[file] = min(lowest[file], lowest[other])
            elif other in stack:
                lowest[file] = min(lowest[file], numbers[other])
        if lowest[file] == numbers[file]:
            start = stack.index(file)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for file in arrows:
        if file not in numbers:
            visit(file)
    return found


def test_there_are_no_circles():
    arrows = {
        file: {
            other
            for _, imported in relative_imports(file, imports_of(tree(file)))
            if (other := file_of(imported)).is_file()
        }
        for file in FILES
        if file.parent != SRC
    }
    found = [[place(file) for file in circle] for circle in circles(arrows)]
    assert not found


def test_circles_are_found(tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    assert circles({a: {b}, b: {c}, c: {b}}) == [[b, c]]
    assert circles({a: {b, c}, b: {c}}) == []
