"""What an evaluation may use: the engine ends what takes too much, and goes on."""

import pytest

from knime_mcp_graph.expressions import Bounds, ExpressionError, apply, evaluate

DOUBLED = "$reduce([1..60], function($a, $b) {[[$a, $a]]}, [1])"


@pytest.mark.parametrize(
    "expression",
    [
        "$pad('', 3000000000, 'x')",
        "$pad('', -3000000000, 'x')",
        "$reduce([1..60], function($a, $b) {$a & $a}, 'x')",
        "$replace($pad('', 4000, 'a'), 'a', $pad('', 99999, 'b'))",
        "$join($split($pad('', 4000, 'a'), ''), $pad('', 99999, 'b'))",
        "$shuffle([1..6000000])",
        "$append([1..3000000], [1..3000000])",
        "$fromMillis(1, '[Y,1000000000]')",
        pytest.param("$count([1..9000].($pad('', 900000, 'x')))", marks=pytest.mark.long),
    ],
)
def test_what_would_be_too_large_is_not_made(expression):
    with pytest.raises(ExpressionError, match="too expensive"):
        evaluate(expression, {}, bounds=Bounds(seconds=200))


@pytest.mark.parametrize(
    "expression",
    [
        f"({DOUBLED}).**",
        f"{DOUBLED} = {DOUBLED}",
        f"$string({DOUBLED}) = ''",
        "$distinct([1..1000000].{'a': $})",
        "$zip([1..1000000], [1..1000000])",
        "$spread([1..1000000].{'a': $})",
        "$eval($pad('1', 4000000, '+1'))",
    ],
)
def test_time_is_over_inside_of_a_function_too(expression):
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, {}, bounds=Bounds(seconds=0.2))
    assert caught.value.code == "D1012" or "too expensive" in caught.value.cause


def test_what_was_given_may_be_larger_than_what_is_made():
    text, rows = "x" * (5_000_001), list(range(1_000_001))
    assert evaluate("$uppercase(text)", {"text": text}) == text.upper()
    assert (
        evaluate("{'t': text, 'r': [rows], 'again': $count(rows)}", {"text": text, "rows": rows})["r"] == rows
    )


@pytest.mark.parametrize("operator", ["cat", "merge"])
def test_rules_have_the_same_limits(operator):
    rule = {operator: [{"var": "accumulator"}, {"var": "accumulator"}, 1]}
    with pytest.raises(ExpressionError, match="too expensive"):
        apply({"reduce": [list(range(60)), rule, "x"]}, {})


def test_the_time_of_a_rule_ends():
    many = list(range(1000))
    rule = {"map": [many, {"map": [many, {"map": [many, {"var": ""}]}]}]}
    with pytest.raises(ExpressionError) as caught:
        apply(rule, {}, bounds=Bounds(seconds=0.3))
    assert caught.value.code == "D1012"


@pytest.mark.long
def test_after_an_evaluation_that_took_too_much_the_next_one_works():
    with pytest.raises(ExpressionError, match="too expensive"):
        evaluate("$count([1..9000].($pad('', 900000, 'x')))", {}, bounds=Bounds(seconds=200))
    assert evaluate("$sum($map([1..3000], function($x) {$x * 2}))", {}) == 9_003_000
