"""JSON Logic: JavaScript's coercions, undefined, and data that stays data.

The values were compared with those of the JavaScript library; the cases here are our own.
"""

import math

import pytest

from knime_mcp_graph.expressions import UNDEFINED, ExpressionError, apply, holds
from knime_mcp_graph.expressions.javascript import scalar_text

pytestmark = pytest.mark.quick


CONTEXT = {
    "e": {
        "n": 5, "s": "text", "zero": 0, "empty": "", "list": [1, 2, 3], "none": None, "rule": {"+": [1, 2]},
        "items": [{"qty": 1, "tags": ["a"]}, {"qty": 2, "tags": []}],
    },
}  # fmt: skip


def value(rule):
    return apply(rule, CONTEXT)


@pytest.mark.requirement("G7")
def test_values(subtests):
    for rule, wanted in [
        ({">": [{"var": "e.n"}, 4]}, True),
        ({"==": ["5", 5]}, True),
        ({"===": ["5", 5]}, False),
        ({"==": [None, {"var": "e.missing"}]}, True),
        ({"===": [None, {"var": "e.missing"}]}, False),
        ({"==": [{"var": "e.none"}, 0]}, False),
        ({">=": [{"var": "e.none"}, 0]}, True),
        ({"<": [{"var": "e.missing"}, 1]}, False),
        ({">=": [{"var": "e.missing"}, 1]}, False),
        ({"<": [1, 2, 3]}, True),
        ({"<=": [1, 1, 0]}, False),
        ({">": ["10", "9"]}, False),
        ({">": ["10", 9]}, True),
        ({"==": [[], ""]}, True),
        ({"==": [[1], 1]}, True),
        ({"==": ["", 0]}, True),
        ({"==": [True, "1"]}, True),
        ({"==": [{"var": "e.list"}, {"var": "e.list"}]}, False),
        ({"==": [{"var": "e.rule"}, {"var": "e.rule"}]}, True),
        ({"+": {"var": "e.list"}}, 6),
        ({"max": {"var": "e.list"}}, 3),
        ({"and": {"var": "e.list"}}, 3),
        ({"+": ["3.5abc", 1]}, 4.5),
        ({"-": [2]}, -2),
        ({"*": ["3"]}, "3"),
        ({"/": [1, 0]}, None),
        ({"%": [-5, 3]}, -2),
        ({"min": []}, None),
        ({"max": [1, "7", 3]}, 7),
        ({"cat": ["a", 1.0, None, True, [1, [2]]]}, "a1true1,2"),
        ({"substr": ["jsonlogic", -5]}, "logic"),
        ({"substr": ["jsonlogic", 1, -5]}, "son"),
        ({"in": ["ell", "hello"]}, True),
        ({"in": [2, {"var": "e.list"}]}, True),
        ({"merge": [[1], 2, [[3]]]}, [1, 2, [3]]),
        ({"if": []}, None),
        ({"if": [0, "a", [], "b", "c"]}, "c"),
        ({"and": []}, UNDEFINED),
        ({"or": [0, "", "x"]}, "x"),
        ({"!": [[]]}, True),
        ({"!!": ["0"]}, True),
        ({"missing": ["e.n", "e.other", "e.empty"]}, ["e.other", "e.empty"]),
        ({"missing_some": [1, ["e.n", "x"]]}, []),
        ({"missing_some": [2, ["e.n", "x"]]}, ["x"]),
        ({"map": [{"var": "e.list"}, {"*": [{"var": "$item"}, {"var": "$.e.n"}]}]}, [5, 10, 15]),
        ({"filter": [{"var": "e.list"}, {">": [{"var": "$item"}, 1]}]}, [2, 3]),
        ({"reduce": [{"var": "e.list"}, {"+": [{"var": "$current"}, {"var": "$accumulator"}]}, 0]}, 6),
        ({"all": [[], True]}, False),
        ({"none": [[], True]}, True),
        ({"some": [[0, 1], {"var": "$item"}]}, True),
        ({"a": {"var": "e.n"}, "b": [{"+": [1, 1]}]}, {"a": 5, "b": [{"+": [1, 1]}]}),
    ]:
        with subtests.test(rule=rule, wanted=wanted):
            found = value(rule)
            assert found == wanted
            assert isinstance(found, bool) == isinstance(wanted, bool)


LIST, ITEMS = {"var": "e.list"}, {"var": "e.items"}


@pytest.mark.requirement("G7")
def test_inside_of_loops_var_is_a_path_in_the_entry(subtests):
    for rule, wanted in [
        ({"some": [ITEMS, {">": [{"var": "qty"}, 1]}]}, True),
        ({"all": [ITEMS, {">": [{"var": "qty"}, 1]}]}, False),
        ({"none": [ITEMS, {">": [{"var": "qty"}, 2]}]}, True),
        ({"filter": [LIST, {">=": [{"var": ""}, 2]}]}, [2, 3]),
        ({"map": [LIST, {"var": None}]}, [1, 2, 3]),
        ({"map": [LIST, {"var": []}]}, [1, 2, 3]),
        ({"map": [ITEMS, {"var": ["price", {"+": [3, 4]}]}]}, [7, 7]),
        ({"map": [ITEMS, {"var": "tags.0"}]}, ["a", None]),
        ({"map": [[["x", "y"]], {"var": 1}]}, ["y"]),
        ({"map": [ITEMS, {"var": {"cat": ["q", "ty"]}}]}, [1, 2]),
        ({"map": [ITEMS, {"var": "e.n"}]}, [None, None]),
        ({"map": [ITEMS, {"var": "$.e.n"}]}, [5, 5]),
        ({"map": [ITEMS, {"var": ["$item.none", 8]}]}, [8, 8]),
        ({"map": [ITEMS, {"merge": {"var": "tags"}}]}, [["a"], []]),
        ({"map": [ITEMS, {"some": [{"var": "tags"}, {"==": [{"var": ""}, "a"]}]}]}, [True, False]),
        ({"reduce": [ITEMS, {"+": [{"var": "accumulator"}, {"var": "current.qty"}]}, {"var": "e.n"}]}, 8),
    ]:
        with subtests.test(rule=rule, wanted=wanted):
            assert value(rule) == wanted


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"var": "e.n"}, 5),
        ({"var": ["e.nothing", 9]}, 9),
        ({"var": ["e.nothing"]}, None),
        ({"var": {"cat": ["e.", "s"]}}, "text"),
        ({"var": "e.items.1.qty"}, 2),
        ({"var": "$count(e.items)"}, 2),
        ({"==": [{"var": "e.n + 1"}, None]}, True),
        ({"missing": ["e.n", "e.m"]}, ["e.m"]),
        ({"reduce": [{"var": "e.list"}, {"+": [{"var": "current"}, {"var": "accumulator"}]}, 0]}, 6),
    ],
)
def test_with_the_standard_every_var_is_a_path(rule, wanted):
    assert apply(rule, CONTEXT, standard=True) == wanted


def test_with_the_standard_an_empty_var_is_the_context():
    assert apply({"var": ""}, CONTEXT, standard=True) == CONTEXT
    assert apply({"var": 1}, ["apple", "banana"], standard=True) == "banana"


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ([], True),
        ({}, True),
        ("0", True),
        ({"/": [1, 0]}, True),
        (0, False),
        ("", False),
        (None, False),
        ({"+": ["x"]}, False),
    ],
)
def test_a_bare_value_is_true_as_in_javascript(rule, wanted):
    assert holds(rule, CONTEXT) is wanted


def test_what_var_gives_is_never_a_rule():
    assert value({"var": "e.rule"}) == {"+": [1, 2]}
    assert value({"==": [{"var": "e.rule"}, 3]}) is False


def test_a_branch_that_is_not_taken_is_not_evaluated():
    assert value({"if": [True, 1, {"var": "$error('no')"}]}) == 1


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"nope": 1}, "Unrecognized operation nope"),
        ({"var": ["e.n", 1]}, "must have a string value, got object"),
        ({"var": ""}, "Unexpected end of expression"),
        ({"var": "$error('mine')"}, "mine"),
    ],
)
def test_failures_name_cause_and_rule(rule, said):
    with pytest.raises(ExpressionError) as caught:
        value(rule)
    assert str(caught.value).startswith("JSON Logic evaluation failed: ")
    assert said in str(caught.value)
    assert "\nRule: " in str(caught.value)


def test_a_rule_may_not_be_endless():
    rule = 1
    for _ in range(1000):
        rule = {"!": rule}
    with pytest.raises(ExpressionError, match="nested too deeply"):
        value(rule)


def test_numbers_are_written_as_javascript_does(subtests):
    for number, text in [
        (0.1, "0.1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (123456789012345680000, "123456789012345680000"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (1.5e300, "1.5e+300"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (100.0, "100"),
    ]:
        with subtests.test(number=number, text=text):
            assert scalar_text(number) == text
