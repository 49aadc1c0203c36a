"""JSONata at its corners: each value was compared with npm's jsonata 2.2."""

import pytest

from knime_mcp_graph.expressions import UNDEFINED, ExpressionError, evaluate

pytestmark = pytest.mark.quick


CONTEXT = {"one": {"a": 1}, "rows": [{"a": 1}], "nulls": [None], "gaps": [{}, {"x": {"y": 1}}]}


def test_values(subtests):
    for expression, wanted in [
        ("$filter(['abc', 'xyz', 'ab'], /a/)", "abc"),
        ("$map(['abc', 'xyz'], /(b)c/).groups", ["b"]),
        ("('aXbX' ~> /X/).next().start", 3),
        ("$sift({'a': 'x', 'b': 'y'}, /x/)", {"a": "x"}),
        ("$type(/a/)", "function"),
        (r'$length("\uD834\uDD1E")', 1),
        ("$map(nulls ~> |none|{}|, function($v) {$v = null})", True),
        ("$map($clone(nulls), function($v) {$v = null})", True),
        ("one in rows", False),
        ("one in one", True),
        ("[1] in [[1]]", False),
        ("null in nulls", True),
        ("true in [1]", False),
        ("$sum in [1]", False),
        ("$lowercase('Straße ẞ ﬁ ŉ ΣΑΣ')", "straße ß ﬁ ŉ σας"),
        ("$lowercase(nothing)", UNDEFINED),
        ("[3, 1, 2, 5, 4][-1.5]", 5),
        ("[3, 1, 2, 5, 4][-$count([1..5])/2]", 2),
        ("[3, 1, 2, 5, 4][[-0.5, 0.5]]", [3, 4]),
        ("nothing[[0, 1]][0]", UNDEFINED),
        ("nulls[[0]][0]", None),
        ("$base64decode('aGVsbG8')", "hello"),
        ("$base64decode('aGVs bG8=ignored')", "hello"),
        ("$base64decode('-_-_')", "ûÿ¿"),
        ("$base64decode('w6k=')", "Ã©"),
        ("$base64decode(nothing)", UNDEFINED),
        ("$parseInteger('2020-01-02', '12')", 2020),
        ("$parseInteger('x', '0')", None),
        ("$parseInteger('1,234', '#,##0')", 1234),
        ("$round(2.5)", 2),
        ("$round(1234, -2)", 1200),
        ("$round(1, 0.5)", None),
        ("$round(1, 1e20)", None),
        ("$formatNumber(nothing, '#')", UNDEFINED),
        ("$formatInteger(-2.5, '0')", "-3"),
        ("$fromMillis(nothing, '[Y]', 'a')", UNDEFINED),
        ("$replace('aXa', 'X', nothing)", "aundefineda"),
        ("$map([1.55, 2.66], $round)", [2, 2.7]),
        ("$map([2, 3, 4], $power)", [1, 3, 16]),
        ("$map([1, 'a'], $string)", ["1", "a"]),
        ("$reduce([2, 3], $power)", 8),
        ("$parseInteger('22nd', 'w')", None),
        ("$parseInteger('AB', 'w')", None),
        ("$filter([13, 2], /3/)", 13),
        ("1 /* one */", 1),
        ("$eval('1 /* one */')", 1),
        ("[one.a[true], gaps.x[$not(y = 2)]]", [1, None, {"y": 1}]),
        ("gaps.x[0]", {"y": 1}),
        ("$sort([1, 2, 3, 4, 5], function($a, $b) {true})", [5, 4, 3, 2, 1]),
        ("$sort([3, 1, 2, 1], function($a, $b) {$a >= $b})", [1, 1, 2, 3]),
        ("$sort([5, 3, 4, 1, 2], function($a, $b) {$a != 3})", [3, 2, 1, 4, 5]),
    ]:
        with subtests.test(expression=expression, wanted=wanted):
            found = evaluate(expression, CONTEXT)
            assert (found, type(found)) == (wanted, type(wanted))


YEARS = {
    "years": [{"y": 2024, "v": 1}, {"y": 2022, "v": 2}],
    "keys": {"b": 1, "10": 2, "9": {"2": 0, "1": 0}, "01": 3},
}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("$keys(years{$string(y): v})", ["2022", "2024"]),
        ("$keys({'b': 1, '10': 2, '9': 3})", ["9", "10", "b"]),
        ("$string(keys)", '{"9":{"1":0,"2":0},"10":2,"b":1,"01":3}'),
        ("$string($merge([{'b': 1}, {'2': 1}, {'1': 1}]))", '{"1":1,"2":1,"b":1}'),
        ("$keys([{'b': 1, '2': 1}, {'1': 1}])", ["1", "2", "b"]),
        ("$keys($sift(keys, function($v) {true}))", ["9", "10", "b", "01"]),
        ("$keys({'4294967295': 1, '4294967294': 1, '-1': 1, '²': 1, '٣': 1})[0]", "4294967294"),
    ],
)
def test_keys_that_are_whole_numbers_come_first_as_in_javascript(expression, wanted):
    assert evaluate(expression, YEARS) == wanted


TABLE = {
    "list": [1, 2, 3],
    "pairs": [[1], [2]],
    "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    "text": "abc",
}


def test_what_stands_before_a_default_means_what_it_means_alone(subtests):
    for expression, wanted in [
        ("list[1]", 2),
        ("list[9]", "default"),
        ("-list[1]", -2),
        ("-5", -5),
        ("pairs[0]", [1]),
        ("rows[1].b", "y"),
        ("rows[a > 1].b", "y"),
        ("rows^(>a)[1].b", "x"),
        ("rows#$i[$i = 1].b", "y"),
        ("rows@$r.$r.b", ["x", "y"]),
        ("rows.a.%.b", ["x", "y"]),
        ("rows{b: a}", {"x": 1, "y": 2}),
        ("(list[9] {0} list[1])", 2),
        ("$map(list, function($x) {$x[0]})[1]", 2),
        ("[list[1]]", [2]),
    ]:
        for operator in ["?:", "??"]:
            with subtests.test(expression=expression, wanted=wanted, operator=operator):
                expression = expression.replace("{0}", operator)
                assert evaluate(f"{expression} {operator} 'default'", TABLE) == wanted


def test_numbers_as_a_picture_says(subtests):
    for number, picture, wanted in [
        ("0.123", "'#.e9'", "0.1e0"),
        ("0.5", "'e0'", "e0"),
        ("-1", "'00.0e00'", "-10.0e-01"),
        ("12345", "'0.0e0'", "1.2e4"),
        ("0.000123", "'#.00e00'", "0.12e-03"),
        ("2.5", "'0', {}", "2"),
        ("1234567.891", "'#.##0,00', {'decimal-separator': ',', 'grouping-separator': '.'}", "1.234.567,89"),
        ("-5", "'0|(0)', {'pattern-separator': '|'}", "(5)"),
        ("-5", "'0', {'minus-sign': '~'}", "~5"),
        ("14.5", "'٠٠٠.٠', {'zero-digit': '٠'}", "٠١٤.٥"),
        ("-1234.5", "'#,##0.00;(#,##0.00)'", "(1,234.50)"),
        ("0.575", "'0%'", "57%"),
        ("0.5", "'‰0'", "‰500"),
        ("0.5", "'.#'", ".5"),
        ("0", "'#'", "0"),
        ("1234567", "'##,##,##0'", "12,34,567"),
        ("1.2345", "'0.00,00'", "1.23,45"),
        ("5", "'12.34'", "05.00"),
        ("1.5", "'0 EUR'", "2 EUR"),
    ]:
        with subtests.test(number=number, picture=picture, wanted=wanted):
            assert evaluate(f"$formatNumber({number}, {picture})", {}) == wanted


def test_pictures_that_are_none(subtests):
    for picture, code in [
        ("0.0.0", "D3081"),
        ("0%%", "D3082"),
        ("‰0‰", "D3083"),
        ("%0‰", "D3084"),
        ("", "D3085"),
        ("0a0", "D3086"),
        ("0,.0", "D3087"),
        ("0,", "D3088"),
        ("0,,0", "D3089"),
        ("0#", "D3090"),
        ("0.#0", "D3091"),
        ("0e0%", "D3092"),
        ("0e", "D3093"),
    ]:
        with subtests.test(picture=picture, code=code):
            with pytest.raises(ExpressionError) as caught:
                evaluate(f"$formatNumber(1, '{picture}')", {})
            assert caught.value.code == code


def test_errors(subtests):
    for expression, code, said in [
        ("'12' ~> $split", "T0411", "Context value is not a compatible type"),
        ("nothing ~> $pad", "T0411", "Context value is not a compatible type"),
        ("$split('a', 'b', -0.5)", "D3020", "Third argument of split"),
        ("$formatNumber(1, '#;#;#')", "D3080", "two sub-pictures"),
        ("nulls ~> |$|{'b': 2}|", None, "of null"),
        ("$string({'a': 1/0})", "D1001", "Number out of range"),
        ("$string(1/0)", "D3001", "Infinity or NaN"),
        ("$map([0, 1], $fromMillis)", "T0410", "Argument 2"),
        ("$replace('a', 'b', 'c', -1)", "D3011", "must evaluate to a positive number"),
        ("$formatInteger(1, '#')", "D3130", 'starting with "#"'),
        ("$toMillis('1', '[q]')", "D3132", "Unknown component"),
        ("[1!2]", "S0204", 'Unknown operator: "!"'),
        (r'"\y"', "S0103", "Unsupported escape sequence"),
        ("[1,2)", "S0202", 'Expected "]", got "\\)"'),
        ("1 /* no end", "S0106", "Comment has no closing tag"),
        ("1 +", "S0207", "Unexpected end of expression"),
        ("function($a)<n<n>>{$a}(5)", "S0401", "Type parameters"),
        ("5 ~> |$|{'a': 1}|", "T0410", "Argument 1 of function undefined does not match"),
        ("null ~> |$|{'a': 1}|", "T0410", "Argument 1 of function undefined does not match"),
        ("$eval('[1,2')", "D3120", r'function eval: "Expected \\"\]\\" before end of expression"'),
        ("$eval('$error(\"in\")')", "D3121", 'function eval: "in"'),
        ("function($a)<a<n>:n>{1}(['x'])", "T0412", 'an array of "numbers"'),
        ("function($a)<a<x>:n>{1}(['x'])", "T0412", "an array of undefined"),
        ("substring(?, 0, 1)", "T1007", r"Did you mean \$substring\?"),
        ("one(?, 0, 1)", "T1008", "partially apply a non-function"),
    ]:
        with subtests.test(expression=expression, code=code, said=said):
            with pytest.raises(ExpressionError, match=said) as caught:
                evaluate(expression, CONTEXT)
            assert caught.value.code == code
            assert "object has no attribute" not in str(caught.value)


def test_patterns_mean_what_they_mean_in_javascript(subtests):
    for text, pattern, wanted in [
        ("a\n", "a$", None),
        ("a\nb", "a$", None),
        ("b\ra", "b.a", None),
        ("\ufeffa", r"^\sa", "\ufeffa"),
        ("\x1ca", r"^\sa", None),
        ("\x1ca", r"^[\S]a", "\x1ca"),
        ("a\nb", "a[^]b", "a\nb"),
        ("a", "[]|a", "a"),
        ("a[]", "[x[]]", "[]"),
        ("aa{,3}", "a{,3}", "a{,3}"),
        ("aaa", "^a{2}", "aa"),
        ("zeQ", r"\z\e\Q", "zeQ"),
        ("p{L}", r"\p{L}", "p{L}"),
        ("\x01", r"\cA", "\x01"),
        ("abab", r"(?<x>ab)\k<x>", "abab"),
        ("a.b", r"a\.b", "a.b"),
    ]:
        with subtests.test(text=text, pattern=pattern, wanted=wanted):
            found = evaluate(f"$match(text, /{pattern}/).match", {"text": text})
            assert found == (UNDEFINED if wanted is None else wanted)


def test_where_lines_end_matters_to_those_who_say_so():
    assert evaluate("$match(text, /a$/m).match", {"text": "a\nb"}) == "a"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("$formatBase(1e300, 2) ~> $length()", 997),
        ("$formatBase(-255, 16)", "-ff"),
        ("$formatBase(1e21)", "1e+21"),
        ("$round(-1e300, 3)", -1e300),
        ("$round(1234.5, -2)", 1200),
    ],
)
def test_numbers_of_many_digits(expression, wanted):
    assert evaluate(expression, {}) == wanted


def test_whole_numbers_beyond_what_javascript_knows_are_handed_on():
    given = {"id": 9007199254740993, "ids": [-(2**63), 2**53, 2**200], "text": "9007199254740993"}
    assert evaluate("$", given) == given
    assert evaluate("{'x': ids[2], $string(id): id = $$.id}", given) == {"x": 2**200, str(given["id"]): True}
    assert evaluate("'/orders/' & id", given) == "/orders/9007199254740993"
    assert evaluate("$x.id", {}, {"x": given}) == given["id"]
    with pytest.raises(ExpressionError, match="must evaluate to a number"):
        evaluate("id + 1", given)
