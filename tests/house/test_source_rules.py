"""Modules fit a head. The other rules of CONTRIBUTING.md are ruff's, see `pyproject.toml`."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = {"src": 400, "tests": 600, "benchmarks": 600, "examples": 600, "docs": 600}


def test_modules_fit_a_head():
    too_long = {
        path: length
        for folder, longest in LONGEST.items()
        for path in (ROOT / folder).rglob("*.py")
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > longest
        if "node_modules" not in path.parts
    }
    assert too_long == {}
