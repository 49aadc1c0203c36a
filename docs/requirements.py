"""Writes docs/requirements.md: every requirement, our decision, where it lives and which tests prove it.

The requirements are in docs/requirements.toml; the tests say themselves what they prove, with
``@pytest.mark.requirement("T12")``. It fails when a mark names no requirement, a requirement names a file
that is not there, or no test proves it and it does not say why not (``without_test``). With ``--check``
nothing is written, and it fails when the file is not what the marks say.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "requirements.md"
#: Where tests stand.
TEST_ROOTS = ("tests", "packages/*/tests")
INTRO = """# Requirements

Made by `docs/requirements.py` from `docs/requirements.toml` and the marks of the tests; do not edit.
Where no test is named, the reason stands in its place.

| id | asks | decision | where | tests |
|---|---|---|---|---|
"""


def marks() -> Iterator[tuple[str, str]]:
    """Yields (requirement id, test) for every mark on a test function, class or module."""
    for file in sorted(file for root in TEST_ROOTS for file in ROOT.glob(f"{root}/**/test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        place = file.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                    for decorator in node.decorator_list:
                        for id_ in _ids(decorator):
                            yield id_, f"{place}::{node.name}"
                case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                    for id_ in _ids(value):
                        yield id_, place
                case _:
                    pass


def _ids(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.requirement"):
            yield from (str(argument.value) for argument in call.args if isinstance(argument, ast.Constant))


def page() -> str:
    """The text of requirements.md. Exits with all that marks and requirements say wrongly."""
    requirements = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text(encoding="utf-8"))
    tests: dict[str, list[str]] = defaultdict(list)
    wrong: list[str] = []
    for id_, test in marks():
        if id_ not in requirements:
            wrong.append(f"{test}: no requirement {id_} in docs/requirements.toml")
        if test not in tests[id_]:
            tests[id_].append(test)
    for id_, entry in requirements.items():
        wrong += [
            f"docs/requirements.toml: {id_} is in {place}, which does not exist"
            for place in entry.get("where", [])
            if not (ROOT / place).exists()
        ]
        if bool(tests[id_]) == ("without_test" in entry):
            said = f"is without_test, but {tests[id_][0]} has its mark" if tests[id_] else "has no test"
            wrong.append(f"docs/requirements.toml: {id_} {said}")
    if wrong:
        sys.exit("\n".join(wrong))
    lines = [
        f"| {id_} | {_cell(entry['asks'])} | {_cell(entry.get('decision', ''))} "
        f"| {_code(entry.get('where', []))} | {_code(tests[id_]) or _cell(entry['without_test'])} |"
        for id_, entry in requirements.items()
    ]
    return INTRO + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(items: list[str]) -> str:
    return "<br>".join(f"`{item}`" for item in items)


if __name__ == "__main__":
    text = page()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/requirements.md is not up to date: run python docs/requirements.py")
