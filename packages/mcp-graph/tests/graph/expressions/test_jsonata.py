"""JSONata: what is undefined, what is null, what is bounded, and what may not leak between threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp_graph.expressions import (
    UNDEFINED,
    Bounds,
    ExpressionError,
    Stopped,
    check_jsonata,
    evaluate,
)


@pytest.mark.requirement("G6")
def test_values(subtests):
    for expression, wanted in [
        ("{'r': entry.v + 1}", {"r": 6}),
        ("entry.nothing", UNDEFINED),
        ("entry.none", None),
        ("{'a': entry.none, 'b': entry.nothing}", {"a": None}),
        ("[entry.none, entry.nothing, 1]", [None, 1]),
        ("entry.list.a", [1, 2]),
        ("entry.list[0].a", 1),
        ("[1..5]", [1, 2, 3, 4, 5]),
        ("3 * 2.0", 6),
        ("function($x) {$x}", UNDEFINED),
        ("{'f': function($x) {$x}, 'v': 1}", {"v": 1}),
        ("($f := function($n) {$n <= 1 ? 1 : $n * $f($n - 1)}; $f(10))", 3628800),
        ("$replace('ab12', /([a-z])(\\d)/, '$2$1')", "a1b2"),
        ("$replace('abc', /b/, '[$3]')", "a[]c"),
        (r"$replace('abc', /b/, 'x\\y')", r"ax\yc"),
        ("$match('a1b2', /[a-z]\\d/).match", ["a1", "b2"]),
        ("$split('a, b,c', /, */)", ["a", "b", "c"]),
        ("$contains('ABC', /b/i)", True),
        ("$eval('entry.v')", 5),
    ]:
        with subtests.test(expression=expression, wanted=wanted):
            context = {"entry": {"v": 5, "none": None, "list": [{"a": 1}, {"a": 2}]}}
            found = evaluate(expression, context)
            assert found == wanted
            assert (found is UNDEFINED) == (wanted is UNDEFINED)


def test_values_that_the_library_has_differently_from_javascript(subtests):
    for expression, wanted in [
        ("$string(1e20)", "100000000000000000000"),
        ("$string(1e21)", "1e+21"),
        ("$string(0.1 + 0.2)", "0.3"),
        ("$string(123456789012345680)", "123456789012345680"),
        ("'x' & {'k': [1.5, 'é', null, true]}", 'x{"k":[1.5,"é",null,true]}'),
        ("$string({'a': [], 'c': [1]}, true)", '{\n  "a": [],\n  "c": [\n    1\n  ]\n}'),
        ("5.5 % 2", 1.5),
        ("-7.5 % 2", -1.5),
        ("$number('0b11')", 3),
        ("$number('007')", 7),
        ("$replace('costs X', 'X', '$5')", "costs $5"),
        ("$replace('68F', /(\\d+)F/, function($m) {$string($number($m.groups[0]) - 32)})", "36"),
        (
            "$sort([{'a': 1, 'b': 1}, {'a': 1, 'b': 2}, {'a': 0, 'b': 3}], function($l, $r) {$l.a > $r.a}).b",
            [3, 1, 2],
        ),
        ("$distinct([1, 1])", [1]),
        ("$distinct([1, true, 0, false])", [1, True, 0, False]),
        ("true in [1]", False),
        ("$contains('a', nothing)", UNDEFINED),
        ("$toMillis('2017-11')", 1509494400000),
        ("$toMillis('2020-12-31T23:59:59+0530')", 1609439399000),
        ("$formatNumber(34.555, '#0.00')", "34.56"),
        ("$formatNumber(2.5, '0')", "2"),
        ("$match('a é', /\\W+/).match", " é"),
        ("$match('a_1-é', /[\\w-]+/).match", "a_1-"),
        ("$eval(\"$string(['é'])\")", '["é"]'),
    ]:
        with subtests.test(expression=expression, wanted=wanted):
            found = evaluate(expression, {})
            assert found == wanted
            assert repr(found) == repr(wanted)


@pytest.mark.parametrize("text", [" 12 ", ".5", "5.", "+5", "1_000", "Infinity", "1e400"])
def test_what_is_no_number_in_javascript(text):
    with pytest.raises(ExpressionError, match="Unable to cast"):
        evaluate(f"$number('{text}')", {})


def test_a_value_that_is_called_is_not_printed(capfd):
    with pytest.raises(ExpressionError, match="non-function"):
        evaluate("entry(1)", {"entry": {"secret": "s"}})
    assert capfd.readouterr() == ("", "")


def test_context_is_never_changed():
    context = {"entry": {"list": [None, {"a": None}]}}
    assert evaluate("$ ~> |entry|{'b': 2}|", context)["entry"]["b"] == 2
    assert context == {"entry": {"list": [None, {"a": None}]}}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("$ ~> |entry.rows{kind: $}|{'b': 2}|", {"entry": {"rows": [None], "kinds": [{"k": "x", "v": []}]}}),
        ("entry.rows{kind: $} ~> |$|{'b': 2}|", {"b": 2}),
        ("entry.kinds{k: v} ~> |$|{'b': 2}|", {"x": [], "b": 2}),
        ("(entry.kinds{k: $}; entry.rows ~> |$|{'b': 2}|)", []),
    ],
)
def test_a_transform_after_grouping_leaves_empty_arrays_of_the_context_alone(expression, found):
    context = {"entry": {"rows": [], "kinds": [{"k": "x", "v": []}]}}
    assert evaluate(expression, context) == found
    assert context == {"entry": {"rows": [], "kinds": [{"k": "x", "v": []}]}}


@pytest.mark.parametrize("expression", ["entry.$uppercase()", "entry.$length()", "entry.$substring(1)"])
def test_a_context_that_does_not_fit_is_not_printed(expression):
    with pytest.raises(ExpressionError, match="Context value is not a compatible type") as caught:
        evaluate(expression, {"entry": {"secret": "canary"}})
    assert caught.value.code == "T0411"
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a +", "Unexpected end of expression"),
        ("{", "before end of expression"),
        ("", "Unexpected end of expression"),
        ("a ~", 'Unknown operator: "~"'),
        ("/(/", ""),
        ("(" * 5000, ""),
    ],
)
def test_what_is_wrong_is_said_before_it_is_used(expression, said):
    found = check_jsonata(expression)
    assert found is not None
    assert said in found
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, {})
    assert caught.value.expression == expression


def test_right_expressions_have_no_problem():
    assert check_jsonata("$count(entry.a[b = 1])") is None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("5 + 'x'", "must evaluate to a number"),
        ("1 / 0 + 1", "Number out of range"),
        ("$number('x')", ""),
        ("$nope(1)", ""),
        ("$error('mine')", "mine"),
        ("$contains(1, 2)", ""),
    ],
)
def test_every_failure_is_one_kind_of_error(expression, said):
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, {})
    assert said in str(caught.value)
    assert f"Expression: {expression}" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("($f := function($n) {$f($n + 1)}; $f(1))", "D1012"),
        ("($f := function($n) {1 + $f($n + 1)}; $f(1))", "D1011"),
        ("$map([1..1000000], function($x) {$x * $x})", "D1012"),
        ("$match($pad('', 5000, 'a') & '!', /(a|aa)+$/)", "D1012"),
        ("$eval('($f := function($n) {$f($n + 1)}; $f(1))')", "D1012"),
    ],
)
def test_what_does_not_end_is_ended(expression, code):
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, {}, bounds=Bounds(seconds=0.3 if code == "D1012" else 60))
    assert caught.value.code == code


def test_an_evaluation_can_be_stopped_from_outside():
    ended = threading.Event()
    threading.Timer(0.2, ended.set).start()
    with pytest.raises(Stopped):
        evaluate("($f := function($n) {$f($n + 1)}; $f(1))", {}, bounds=Bounds(is_stopped=ended.is_set))


def test_others_go_on_while_one_does_not_end():
    """What matters is that the interpreter is shared, not how fast it is."""
    ended = threading.Event()
    bounds = Bounds(seconds=60, is_stopped=ended.is_set)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(evaluate, "($f := function($n) {$f($n + 1)}; $f(1))", {}, bounds=bounds)
        done = [pool.submit(evaluate, "entry.v + 1", {"entry": {"v": n}}).result(30) for n in range(20)]
        assert done == list(range(1, 21))
        assert not slow.done()
        ended.set()
        with pytest.raises(Stopped):
            slow.result(60)


def test_threads_do_not_see_each_other():
    def work(number):
        context = {"entry": {"v": number}}
        expression = "($x := entry.v; $sum([$x, entry.v, $executionCount('n')]))"
        return [evaluate(expression, context, answers=lambda *_: [number]) for _ in range(40)]

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(work, range(16))):
            assert found == [3 * number] * 40


def test_now_is_now_in_every_thread():
    before = time.time() * 1000 - 1
    assert evaluate("$millis()", {}) >= before
    time.sleep(0.01)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(evaluate, "$millis()", {}).result(30) >= before + 10


@pytest.mark.parametrize(
    ("expression", "answered", "wanted"),
    [
        ("$previousNode()", [None], None),
        ("$previousNode()", [], UNDEFINED),
        ("$previousNode(2).a", [{"a": 1}], 1),
        ("$nodeExecutions('n')", [[1], [], [None]], [1, None, None]),
        ("$count($nodeContent('n'))", [[1, 2]], 2),
        ("$map(['a', 'b'], $executionCount)", [3], [3, 3]),
    ],
)
def test_histories_answer(expression, answered, wanted):
    assert evaluate(expression, {}, answers=lambda *_: answered) == wanted


def test_histories_check_their_arguments():
    with pytest.raises(ExpressionError) as caught:
        evaluate("$executionCount(1)", {}, answers=lambda *_: [1])
    assert caught.value.code == "T0410"
