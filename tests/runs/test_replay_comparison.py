"""Comparing results: patches that do what they say, rules that hide what they name and nothing else."""

import json
from dataclasses import replace

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.runs.replay_comparison import (
    IGNORED,
    ReplayRule,
    ReplayRules,
    RuleKind,
    compare,
    documents,
    learn,
    patch_between,
)
from knime_mcp.runs.replaying import ReplayOptions, RowSelection, pairs
from knime_mcp.types.errors import SettingInvalid
from knime_mcp.types.routing import ServerRoute
from knime_mcp.types.texts import canonical_json

pytestmark = pytest.mark.requirement("T49")

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2, width=16)
    | st.text("ab~/*0-", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~/0-", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
NOTHING = ReplayRules()


def record(result=None, structured=None, status=CallStatus.OK, **more):
    text = None if structured is None else json.dumps(structured)
    return CallRecord(run="r", status=status, result=result, structured_result=text, **more)


@given(VALUES, VALUES)
def test_a_patch_turns_the_one_into_the_other(before, now):
    one, other = ({"structured_result": value} for value in (before, now))
    patch = patch_between(one, other)
    assert canonical_json(jsonpatch.apply_patch(one, patch)) == canonical_json(other)


@given(VALUES)
def test_the_same_is_the_same_however_it_is_laid_out(value):
    text = json.dumps(value, indent=3)
    one = CallRecord(run="a", status=CallStatus.OK, structured_result=text)
    other = CallRecord(run="b", status=CallStatus.OK, structured_result=canonical_json(value))
    assert compare(one, other, NOTHING).patch is None


def test_what_is_the_same(subtests):
    for one, other, same in [
        (record("a"), record("a"), True),
        (record("a"), record("b"), False),
        (record(""), record(None), True),  # files do not tell them apart
        (record("1"), record("1.0"), False),  # text for people
        (record(structured=1), record(structured=1.0), True),
        (record(structured=1), record(structured=True), False),
        (record(structured=[1]), record(structured=None), False),
        (
            record("⟨secret 0123456789ab⟩", secrets='{"answer": {"0123456789ab": 1}}'),
            record("⟨secret ba9876543210⟩", secrets='{"answer": {"ba9876543210": 1}}'),
            True,
        ),
        (record("⟨secret 0123456789ab⟩"), record("⟨secret ba9876543210⟩"), False),
        (record("a"), record("a", status=CallStatus.TOOL_ERROR, error="e"), False),
        (
            record(status=CallStatus.INVALID_ARGUMENTS, error="row 1: no"),
            record(status=CallStatus.INVALID_ARGUMENTS, error="row 2: no"),
            True,
        ),
        (
            record(status=CallStatus.TOOL_ERROR, error="no"),
            record(status=CallStatus.TOOL_ERROR, error="never"),
            False,
        ),
        (record('{"a": [1, 2]}'), record('{"a":[1,2]}'), True),
        (record("[" * 5000), record("[" * 5000 + " "), False),
        (record('{"a": 1e999}'), record('{"a": -1e999}'), False),  # no number of Python's
        (record("1" * 5000), record("2" * 5000), False),
        (record(structured=10**400), record(structured=0.5), False),
    ]:
        with subtests.test(one=one, other=other, same=same):
            assert (compare(one, other, NOTHING).patch is None) is same


def test_a_long_list_is_compared_in_no_time():
    """The smallest patch of long lists takes ages; whole members are replaced then."""
    one = record(structured=list(range(200_000)))
    other = record(structured=[-1, *range(200_000)])
    (operation,) = json.loads(compare(one, other, NOTHING).patch)
    assert (operation["op"], operation["path"]) == ("replace", "/structured_result")


RESULT = {"time": 1, "items": [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}], "a/b": {"~": 1}, "*": 5}


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("/time", {**RESULT, "time": None}),
        ("/structured_result/time", {**RESULT, "time": None}),
        ("/items/*/id", {**RESULT, "items": [{"n": "a"}, {"n": "b"}]}),
        ("/items/1", {**RESULT, "items": [RESULT["items"][0], IGNORED]}),
        ("/a~1b/~0", {**RESULT, "a/b": {}}),
        ("/nothing/here", RESULT),
        ("/time/deeper", RESULT),
    ],
)
def test_a_pointer_leaves_out_what_it_names(rule, gone):
    wanted = {name: value for name, value in gone.items() if value is not None}
    found, _, _ = documents(record(structured=RESULT), record(structured=0), ReplayRules.parse([rule]))
    assert found["structured_result"] == wanted


def test_a_pointer_hides_what_is_there_only_once():
    rules = ReplayRules.parse(["/time"])
    assert compare(record(structured={"a": 1}), record(structured={"a": 1, "time": 2}), rules).patch is None
    assert (
        compare(record(structured={"a": 1}), record(structured={"a": 2, "time": 2}), rules).patch is not None
    )


def test_expressions_pass_over_what_they_match():
    rules = ReplayRules.parse([r"\d\d:\d\d", "re:/tmp/[a-z]+", " "])
    assert compare(record("at 12:30 in /tmp/abc"), record("at 08:15 in /tmp/xyz"), rules).patch is None
    assert compare(record("at 12:30"), record("on 12:30"), rules).patch is not None
    with pytest.raises(SettingInvalid, match="regular expression"):
        ReplayRules.parse(["["])


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("", 9), ("3", 1), ("2-4", 3), ("8-", 2), ("-2", 2), ("1, R5; R6", 3), ("99", 0)],
)
def test_calls_are_chosen_by_number_range_and_row(text, chosen):
    rows = RowSelection.parse(text)
    records = [CallRecord(run="r", call=n, status=CallStatus.OK, input_row=f"R{n}") for n in range(1, 10)]
    assert sum(rows.has(found, found.call) for found in records) == chosen


ROUTE = ServerRoute("https://old.example/mcp", credential="prod", transport="sse")


def test_a_call_goes_to_the_server_in_the_place_of_its_own():
    def route(servers, **options):
        return ReplayOptions(servers=servers, **options).route(ROUTE)

    assert route({}) == ROUTE
    assert route({"https://other.example": "https://x.example"}) == ROUTE
    moved = route({"https://old.example": "https://old.example/v2"})
    assert (moved.url, moved.credential) == ("https://old.example/v2/mcp", "prod")
    away = route({"https://old.example/": "https://new.example/"})
    assert (away.url, away.credential, away.transport) == ("https://new.example/mcp", None, "sse")
    allowed = route({"https://old.example": "https://new.example"}, credentials={"prod": "test"})
    assert allowed.credential == "test"
    named = route({"https://old.example/mcp": "https://new.example/x#credential=staging"})
    assert (named.url, named.credential, named.transport) == ("https://new.example/x", "staging", "auto")
    assert route({"https://old.example/mc": "https://new.example"}) == ROUTE


def test_a_credential_is_replaced_or_has_to_be_named():
    assert ReplayOptions(credentials={"prod": "test"}).route(ROUTE).credential == "test"
    assert ReplayOptions(credentials={"prod": ""}).route(ROUTE).credential is None
    with pytest.raises(SettingInvalid, match="--with-credential prod"):
        ReplayOptions(named_credentials_only=True).route(ROUTE)
    allowed = ReplayOptions(named_credentials_only=True, credentials={"prod": "prod"})
    assert allowed.route(ROUTE).credential == "prod"


def test_two_entries_for_the_same_are_refused():
    assert pairs([(" a ", "b"), ("", "x"), ("c", "")], "servers") == {"a": "b", "c": ""}
    with pytest.raises(SettingInvalid, match="two entries for 'a'"):
        pairs([("a", "b"), ("a", "c")], "servers")


def _with_file(digest, text="image/png, 3 bytes"):
    content = canonical_json([{"type": "image", "sha256": digest, "mime_type": "image/png", "size": 3}])
    return CallRecord(run="r", status=CallStatus.OK, result=text, content=content)


def test_another_picture_of_the_same_size_is_different():
    assert compare(_with_file("a"), _with_file("a"), NOTHING).patch is None
    patch = json.loads(compare(_with_file("a"), _with_file("b"), NOTHING).patch)
    assert patch == [{"op": "replace", "path": "/files/0/sha256", "value": "b"}]
    assert compare(_with_file("a"), _with_file("b"), ReplayRules.parse(["/files/*/sha256"])).patch is None
    older = CallRecord(run="r", status=CallStatus.OK, result="image/png, 3 bytes")
    assert compare(older, _with_file("b"), NOTHING).patch is None


def test_a_link_that_is_another_one_is_different():
    def linked(digest):
        content = canonical_json([{"type": "resource_link", "sha256": digest}])
        return CallRecord(run="r", status=CallStatus.OK, result="[link]", content=content)

    assert compare(linked("a"), linked("a"), NOTHING).patch is None
    assert compare(linked("a"), linked("b"), NOTHING).patch is not None


SUM = 0.1 + 0.2
ALL = {"unordered": ["/structured_result"]}


def test_rules_allow_what_they_say_and_are_named(subtests):
    for one, other, rules, same, used in [
        (record(structured=SUM), record(structured=0.3), {"tolerance": 1e-9}, True, ["tolerance 1e-09"]),
        (record(structured=SUM), record(structured=0.3), {"tolerance": 1e-18}, False, []),
        (record(structured=1.0), record(structured=1.1), {"tolerance": 1e-9}, False, []),
        (record(structured=2**53), record(structured=2**53 + 1), {"tolerance": 1e-9}, False, []),  # ids
        (record(structured={"a": [0.3]}), record(structured={"a": [SUM]}), {"tolerance": 1e-9}, True, None),
        (record("1e-07"), record("1E-07"), {"tolerance": 1e-9}, True, ["tolerance 1e-09"]),
        (record(structured=1e-7), record(structured=1e-07), {}, True, []),
        (record("1.10"), record("1.1"), {"tolerance": 1e-9}, True, None),
        (record(structured={"v": "1.10"}), record(structured={"v": "1.1"}), {"tolerance": 1e-9}, False, []),
        (record(structured=True), record(structured=1.0), {"tolerance": 0.5}, False, []),
        (record(structured=[1, 2]), record(structured=[2, 1]), ALL, True, None),
        (record(structured=[1, 2]), record(structured=[2, 2]), ALL, False, []),
        (
            record(structured={"a": [{"b": [1, 2]}, {"b": [3, SUM]}]}),
            record(structured={"a": [{"b": [0.3, 3]}, {"b": [2, 1]}]}),
            {"unordered": ["/a", "/a/*/b"], "tolerance": 1e-9},
            True,
            None,
        ),
        (record("a\nb"), record("b\na"), {"unordered": ["/result"]}, True, ["unordered /result"]),
        (record(structured={"t": 1}), record(structured={"t": 2}), {"ignore": ["/t"]}, True, None),
        (record("a"), record("a"), {"ignore": ["/t"], "tolerance": 1e-9}, True, []),  # not needed
    ]:
        with subtests.test(one=one, other=other, rules=rules, same=same, used=used):
            found = compare(one, other, ReplayRules.parse(**rules))
            assert (found.patch is None) is same
            if used is None:
                assert found.used
            else:
                assert [str(rule) for rule in found.used] == used
            assert (compare(one, other, NOTHING).patch is None) is (same and not found.used)


def test_harmless_differences_are_called_so():
    found = compare(record(structured={"a": [1, SUM]}), record(structured={"a": [0.3, 1]}), NOTHING)
    assert [str(rule) for rule in found.would_allow] == ["unordered /structured_result/a", "tolerance 1e-09"]
    found = compare(record(structured={"a": SUM}), record(structured={"a": 0.3}), NOTHING)
    assert [str(rule) for rule in found.would_allow] == ["tolerance 1e-09"]
    assert compare(record(structured=[1, 2]), record(structured=[1, 3]), NOTHING).would_allow == ()


def test_what_differs_between_two_calls_is_learned(subtests):
    for first, second, rules in [
        (record("a"), record("a"), []),
        (record("At 12:01 in Rome"), record("At 12:02 in Rome"), [r"pattern At \d+:\d+ of t"]),
        (record("12:01 in Rome"), record("12:02 in Rome"), [r"pattern (?m)^\d+:\d+ of t"]),
        (record("id a1-9"), record("id 77x"), [r"pattern id \S+ of t"]),
        (record("one two"), record("one"), ["volatile /result of t"]),
        (record("a\nb"), record("b\na"), ["unordered /result of t"]),
        (
            record('{"at": 1, "n": [1, 2]}', structured={"at": 1, "n": [1, 2]}),
            record('{"at": 2, "n": [2, 1]}', structured={"at": 2, "n": [2, 1]}),
            ["volatile /at of t", "unordered /n of t"],
        ),
        (
            record(structured={"items": [{"id": 1, "n": 1}, {"id": 2, "n": 2}]}),
            record(structured={"items": [{"id": 3, "n": 1}, {"id": 4, "n": 2}]}),
            ["volatile /structured_result/items/*/id of t"],
        ),
        (record(structured=SUM), record(structured=0.3), ["tolerance 1e-09 of t"]),
        (record(structured={}), record(structured={"~": 2}), ["volatile /structured_result/~0 of t"]),
        (record("a"), record(status=CallStatus.TOOL_ERROR, error="no"), []),  # its status is no noise
    ]:
        with subtests.test(first=first, second=second, rules=rules):
            first, second = (replace(one, tool_name="t") for one in (first, second))
            found = learn(first, second)
            assert [str(rule) for rule in found] == rules
            if first.status is second.status:
                assert compare(first, second, NOTHING.and_(found)).patch is None


@given(VALUES, VALUES)
def test_with_what_is_learned_two_calls_are_the_same(before, now):
    one, other = record(structured=before), record(structured=now)
    assert compare(one, other, NOTHING.and_(learn(one, other))).patch is None


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
