"""What no linter knows of the sources; ruff checks the other rules of CONTRIBUTING.md."""

import ast

from tests.house.sources import FILES, ROOT, tree

#: Names that the gateway's description and its clients know.
OF_THE_GATEWAY = {"MCPError", "MCPTool", "TextContent"}


def test_no_two_classes_have_the_same_name():
    places: dict[str, list[str]] = {}
    for file in FILES:
        for each in tree(file).body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                places.setdefault(each.name, []).append(file.relative_to(ROOT).as_posix())
    assert {name for name, files in places.items() if len(files) > 1} == OF_THE_GATEWAY
