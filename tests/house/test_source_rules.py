"""Modules are short, and classes have names of their own; ruff checks the other rules of CONTRIBUTING.md."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = {"src": 600, "tests": 600, "benchmarks": 600, "examples": 600, "docs": 600}


def test_no_module_is_too_long():
    too_long = {
        path: length
        for folder, longest in LONGEST.items()
        for path in (ROOT / folder).rglob("*.py")
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > longest
        if "node_modules" not in path.parts
    }
    assert too_long == {}


#: Names that the gateway's description and its clients know.
OF_THE_GATEWAY = {"MCPError", "MCPTool", "TextContent"}


def test_no_two_classes_have_the_same_name():
    places: dict[str, list[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        if "standin" not in path.parts:  # has KNIME's names
            for each in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    places.setdefault(each.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name for name, files in places.items() if len(files) > 1} == OF_THE_GATEWAY
