"""Rules of a replay as files: written, read, refused."""

import json

import pytest

from knime_mcp.runs.replay_rules import ReplayRule, ReplayRules, RuleKind
from knime_mcp.types.errors import SettingInvalid

pytestmark = pytest.mark.requirement("T49")


def test_rules_are_read_as_they_were_written():
    learned = ReplayRule(RuleKind.VOLATILE, "/at", tool="now", why="differed")
    rules = ReplayRules.parse(["/x", r"re:\d+"], ["/items"], 1e-9).and_([learned])
    text = rules.to_json()
    assert ReplayRules.of_json(text, "f") == rules
    assert json.loads(text) == {
        "replay_rules": 1,
        "rules": [
            {"volatile": "/x"},
            {"volatile": "/at", "tool": "now", "why": "differed"},
            {"pattern": r"\d+"},
            {"unordered": "/items"},
            {"tolerance": 1e-9},
        ],
    }
    assert rules.and_(rules.rules) == rules


def test_a_rule_is_about_the_tools_that_it_names():
    rules = ReplayRules(
        (ReplayRule(RuleKind.VOLATILE, "/a", tool="get_*"), ReplayRule(RuleKind.VOLATILE, "/b"))
    )
    assert [rule.value for rule in rules.about("get_time")] == ["/a", "/b"]
    assert [rule.value for rule in rules.about("put", None)] == ["/b"]


def test_what_is_no_file_of_rules_is_refused(subtests):
    for text, why in [
        ("{", "f.json does not hold rules of a replay"),
        ("[]", 'it has no "replay_rules": 1'),
        ('{"replay_rules": 2, "rules": []}', 'it has no "replay_rules": 1'),
        ('{"replay_rules": 1}', "it has no 'rules'"),
        (
            '{"replay_rules": 1, "rules": [{"volatile": "/a"}, {"ignore": "/a"}]}',
            "rule 2 has to be an object",
        ),
        ('{"replay_rules": 1, "rules": [{"volatile": "/a", "unordered": "/a"}]}', "rule 1"),
        ('{"replay_rules": 1, "rules": [{"volatile": "/a", "tools": "x"}]}', "rule 1"),
        ('{"replay_rules": 1, "rules": [{"volatile": "a"}]}', "a JSON pointer begins with /"),
        ('{"replay_rules": 1, "rules": [{"pattern": "["}]}', "regular expression"),
        ('{"replay_rules": 1, "rules": [{"tolerance": 2}]}', "less than 1"),
        ('{"replay_rules": 1, "rules": [{"tolerance": "x"}]}', "rule 1"),
        ('{"replay_rules": 1, "rules": ["x"]}', "rule 1"),
    ]:
        with subtests.test(text=text, why=why):
            with pytest.raises(SettingInvalid) as caught:
                ReplayRules.of_json(text, "f.json")
            assert why in str(caught.value)
