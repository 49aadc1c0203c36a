"""The map of the code names files that are there."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]
#: Below which files are named.
BASES = (ROOT, ROOT / "src", *ROOT.glob("packages/*/src"))
NAMED = re.compile(r"`((?:src/|tests/|docs/)?[a-z_-]+/[\w/-]*(?:\.\w+|/))(?:::\w+)?`")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/protocol.md"])
def test_named_files_exist(page):
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    missing = [name for name in named if not any((base / name).exists() for base in BASES)]
    assert missing == []
