"""docs/protocol.md names, for every rule, modules and tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC, TESTS = ROOT / "src", ROOT / "tests"
ROW = re.compile(r"^\| (?!rule|---)(.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def rules():
    for rule, modules, tests in ROW.findall((ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")):
        yield pytest.param(re.findall(r"`(.+?)`", modules), re.findall(r"`(.+?)`", tests), id=rule)


@pytest.mark.parametrize(("modules", "tests"), list(rules()))
def test_modules_and_tests_of_a_rule_exist(modules, tests):
    assert modules
    assert tests
    assert [name for name in modules if not (SRC / name).exists()] == []
    assert [name for name in tests if not (TESTS / name).is_file()] == []
