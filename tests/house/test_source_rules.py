"""Modules are short. The other rules of CONTRIBUTING.md are checked by ruff, see `pyproject.toml`."""

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
