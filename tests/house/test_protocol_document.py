"""docs/protocol.md names, for every rule, modules and tests that exist."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[2]
SRC, TESTS = ROOT / "src", ROOT / "tests"
ROW = re.compile(r"^\| (?!rule|---)(.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def test_modules_and_tests_of_each_rule_exist():
    rules = ROW.findall((ROOT / "docs" / "protocol.md").read_text(encoding="utf-8"))
    assert rules
    wrong = []
    for rule, modules, tests in rules:
        files = [SRC / name for name in re.findall(r"`(.+?)`", modules)]
        proofs = [TESTS / name for name in re.findall(r"`(.+?)`", tests)]
        if not files or not proofs or not all(path.exists() for path in [*files, *proofs]):
            wrong.append(rule)
    assert wrong == []
