"""Rules of the house that no linter knows; CONTRIBUTING.md has them in words."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 400
LONGEST_TEST_MODULE = 600
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for folder in ("src", "tests", "benchmarks", "examples", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "node_modules" not in path.parts
}
SOURCES = {path: text for path, text in TEXTS.items() if ROOT / "src" in path.parents}
TESTS = {path: text for path, text in TEXTS.items() if path.name.startswith("test_")}

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
BANNER = re.compile(r"^\s*#\s*[-=*#~]{3,}", re.MULTILINE)
#: A rule that is turned off, without saying which.
BLANKET = re.compile(r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)\s*(?:$|#|\s[^(\[:])", re.MULTILINE)
TURNED_OFF = re.compile(r"pytest\.mark\.(?:skip|xfail)\w*|unittest\.mock")


def where(pattern: re.Pattern[str], texts: dict[Path, str]) -> list[str]:
    """Path, line and text of what a pattern finds, outside of this module."""
    return [
        f"{path.relative_to(ROOT)}:{text[: found.end()].count(chr(10)) + 1}: {found.group().strip()}"
        for path, text in texts.items()
        if path != Path(__file__)
        for found in pattern.finditer(text)
    ]


def test_modules_fit_a_head():
    limits = {path: LONGEST_MODULE if path in SOURCES else LONGEST_TEST_MODULE for path in TEXTS}
    lengths = {path: len(text.splitlines()) for path, text in TEXTS.items()}
    assert [f"{path}: {lengths[path]} lines" for path in TEXTS if lengths[path] > limits[path]] == []


def test_modules_say_what_their_duty_is():
    """In a docstring, and first: no licence, author, date or encoding stands above it."""
    assert [path for path, text in TEXTS.items() if text.startswith("#")] == []
    assert [path for path, text in SOURCES.items() if not ast.get_docstring(ast.parse(text))] == []


def test_nothing_is_left_to_do():
    assert where(UNFINISHED, TEXTS) == []


def test_modules_are_split_by_files_and_not_by_banners():
    assert where(BANNER, TEXTS) == []


def test_a_rule_that_is_turned_off_is_named():
    assert where(BLANKET, TEXTS) == []


def test_no_test_is_turned_off_or_mocks():
    assert where(TURNED_OFF, TESTS) == []


def test_no_test_hides_another():
    hidden: list[str] = []
    for path, text in TESTS.items():
        for scope in ast.walk(ast.parse(text)):
            if isinstance(scope, ast.Module | ast.ClassDef):
                names = [node.name for node in scope.body if isinstance(node, ast.FunctionDef)]
                hidden += [f"{path}: {name}" for name in set(names) if names.count(name) > 1]
    assert hidden == []


def test_what_is_looked_for_is_found():
    assert UNFINISHED.search("# TODO: later")
    assert BANNER.search("x = 1\n    # ---- part two ----")
    assert TURNED_OFF.search("@pytest.mark.xfail(strict=True)")
    for blanket in ("x  # noqa", "x  # type: ignore\n", "x  # pyright: ignore because", "x # noqa because"):
        assert BLANKET.search(blanket), blanket
    for said in ("x  # noqa: E402", "x  # type: ignore[attr-defined]", "x  # pyright: ignore[reportX]"):
        assert not BLANKET.search(said), said
