"""JSONata at its corners: each value was compared with npm's jsonata 2.2."""

import pytest

from knime_mcp.graph.expressions import UNDEFINED, ExpressionError, evaluate

CONTEXT = {"one": {"a": 1}, "rows": [{"a": 1}], "nulls": [None]}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("$filter(['abc', 'xyz', 'ab'], /a/)", ["abc", "ab"]),
        ("$map(['abc', 'xyz'], /(b)c/).groups", ["b"]),
        ("('aXbX' ~> /X/).next().start", 3),
        ("$sift({'a': 'x', 'b': 'y'}, /x/)", {"a": "x"}),
        ("$type(/a/)", "function"),
        (r'$length("\uD834\uDD1E")', 1),
        ("one in rows", False),
        ("one in one", True),
        ("[1] in [[1]]", False),
        ("null in nulls", True),
        ("true in [1]", False),
        ("$sum in [1]", False),
        ("$base64decode('aGVsbG8')", "hello"),
        ("$base64decode('aGVs bG8=ignored')", "hello"),
        ("$base64decode('-_-_')", "ûÿ¿"),
        ("$base64decode('w6k=')", "é"),
        ("$base64decode(nothing)", UNDEFINED),
        ("$parseInteger('2020-01-02', '12')", 2020),
        ("$parseInteger('x', '0')", None),
        ("$parseInteger('1,234', '#,##0')", 1234),
        ("$round(2.5)", 2),
        ("$round(1234, -2)", 1200),
        ("$round(1, 0.5)", None),
        ("$round(1, 1e20)", None),
        ("$formatNumber(nothing, '#')", UNDEFINED),
    ],
)
def test_values(expression, wanted):
    found = evaluate(expression, CONTEXT)
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("expression", "code", "said"),
    [
        ("'12' ~> $split", "T0411", "Context value is not a compatible type"),
        ("nothing ~> $pad", "T0411", "Context value is not a compatible type"),
        ("$split('a', 'b', -0.5)", "D3020", "Third argument of split"),
        ("$formatNumber(1, '#;#;#')", "D3080", "two sub-pictures"),
        ("$match('a', function($s) {nothing})", "T1010", 'function "match"'),
        ("$contains('a', $sum)", "T1010", 'function "contains"'),
        ("$split('a', $sum)", "T1010", 'function "split"'),
        ("$replace('a', $sum, $sum)", "T1010", 'function "replace"'),
        ("nulls ~> |$|{'b': 2}|", None, "another type"),
        ("[[]] ~> |$|{'b': 2}|", None, "another type"),
        ("$fromMillis(1e20)", "D1001", "Number out of range"),
    ],
)
def test_errors(expression, code, said):
    with pytest.raises(ExpressionError, match=said) as caught:
        evaluate(expression, CONTEXT)
    assert caught.value.code == code
    assert "object has no attribute" not in str(caught.value)
