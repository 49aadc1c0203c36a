"""The library for JSONata: it is used as it is, and a version that does not fit is told in plain words."""

import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from knime_mcp_graph.expressions import Bounds, ExpressionError, evaluate
from knime_mcp_graph.expressions.evaluation_limits import (
    MOST_CHARACTERS,
    MOST_ENTRIES,
    Halted,
    Stopped,
    Watch,
    guard,
    under_watch,
)
from knime_mcp_graph.expressions.json_logic import apply

UNCHANGED = """
import sys
import jsonata
from jsonata import constants, datetimeutils, functions, jexception, parser, signature, tokenizer, utils

def names():
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "jsonata"}
    kept = {}
    for module in modules.values():
        kept |= {(module.__name__, name): value for name, value in vars(module).items()}
        for holder in [value for value in vars(module).values() if isinstance(value, type)]:
            kept |= {(holder, name): value for name, value in vars(holder).items()}
    return {key: id(value) for key, value in kept.items() if key[1] not in ("__warningregistry__",)}

def state():
    Jsonata = jsonata.Jsonata
    return vars(Jsonata.CURRENT), {name: type(value) for name, value in vars(Jsonata.PARSER).items()}

before, theirs = names(), jsonata.Jsonata("$fromMillis(0, '[Y]')").evaluate(None)
outer = [dict(part) for part in state()]
from knime_mcp_graph.expressions import check_jsonata, evaluate
assert evaluate("$map([1, 2], function($v, $i) { $v + $i })", None) == [1, 3]
assert evaluate("$ ~> |$|{'b': 1}|", {"a": None}) == {"a": None, "b": 1}
assert evaluate("$eval('a')", {"a": 2}) == 2
assert evaluate("$fromMillis(0, '[MNn,3]')", None) == "January"
assert check_jsonata("function($a)<s<n>:s>{$a}") is not None
assert names() == before
assert [dict(part) for part in state()] == outer
assert jsonata.Jsonata("$fromMillis(0, '[Y]')").evaluate(None) == theirs == "1970"
"""

OTHER_VERSION = """
from jsonata import utils
del utils.Utils.create_sequence
import knime_mcp_graph.expressions
"""


def ran(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_library_stays_as_it_is_for_others():
    done = ran(UNCHANGED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", [OTHER_VERSION])
def test_a_version_that_does_not_fit_is_told(program):
    done = ran(program)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: The installed jsonata-python has no Utils.create_sequence, which graphs need."
        " Install a version that fits: pip install 'jsonata-python>=0.7,<0.8'."
    )


DOUBLED = "$reduce([1..60], function($a, $b) {[[$a, $a]]}, [1])"


def test_what_would_be_too_large_is_not_made(subtests):
    for expression, said in [
        ("$pad('', 3000000000, 'x')", "3,000,000,000 characters"),
        ("$pad('', -3000000000, 'x')", "3,000,000,000 characters"),
        ("$reduce([1..60], function($a, $b) {$a & $a}, 'x')", "8,388,608 characters"),
        ("$replace($pad('', 99, 'a'), 'a', $pad('', 99999, 'b'))", "9,899,901 characters"),
        ("$replace($pad('', 99, 'a'), /a/, $pad('', 99999, 'b'))", "characters"),
        ("$replace($pad('', 99, 'a'), /a/, function($m) {$pad('', 99999, 'b')})", "characters"),
        ("$join($split($pad('', 99, 'a'), ''), $pad('', 99999, 'b'))", "9,800,001 characters"),
        ("$encodeUrlComponent($pad('', 2000000, '/'))", "6,000,000 characters"),
        ("$string([1..1000].$pad('', 9999, 'x'))", "characters"),
        ("$shuffle([1..5000000])", "5,000,000 entries"),
        ("[1..5000000]", "5,000,000 entries"),
        ("[1..600000, 1..600000]", "1,200,000 entries"),
        ("$append([1..600000], [1..600000])", "1,200,000 entries"),
        ("$reduce([1..60], function($a, $b) {$append($a, $a)}, [1])", "1,048,576 entries"),
        ("$split($pad('', 2000000, ' '), ' ')", "2,000,000 entries"),
        (DOUBLED, "repeats parts of itself"),
        ("$formatNumber(1, $pad('', 20000, '#'))", "at most 10,000 characters"),
        ("$formatInteger(1, $pad('', 20000, '0'))", "at most 10,000 characters"),
        ("$fromMillis(1, '[Y,1000000000]')", "at most 400 characters"),
        ("$fromMillis(1, '[Y,*-1000000000]')", "at most 400 characters"),
        ("$match($pad('', 3000000, 'a'), /a+/)", "at most 2,000,000 characters"),
    ]:
        with subtests.test(expression=expression, said=said):
            with pytest.raises(ExpressionError, match="too expensive") as caught:
                evaluate(expression, {})
            assert said in caught.value.cause


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
        evaluate(expression, {}, bounds=Bounds(seconds=0.5))
    assert caught.value.code == "D1012" or "too expensive" in caught.value.cause


@pytest.mark.parametrize(
    "expression",
    ["$count([1..9000].($pad('', 900000, 'x')))", "$count([1..1000000].[1..1000000])"],
)
def test_all_values_together_have_a_limit(expression):
    # Memory that the process had already does not count as growth: then it is the time that ends it.
    with pytest.raises(ExpressionError, match=r"more than 192 MB of memory|Evaluation timeout"):
        evaluate(expression, {})


def test_what_was_given_may_be_larger_than_what_is_made():
    text, rows = "x" * (MOST_CHARACTERS + 1), list(range(MOST_ENTRIES + 1))
    given = {"text": text, "rows": rows}
    assert evaluate("$uppercase(text)", given) == text.upper()
    assert evaluate("[rows]", given) == rows
    assert evaluate("{'t': text, 'r': rows, 'again': $count(rows)}", given)["r"] is rows
    assert evaluate("$count([1..10000000])", {}) == 10_000_000
    assert evaluate("[1..10000000][-1]", {}) == 10_000_000


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"cat": [{"var": "accumulator"}, {"var": "accumulator"}]}, "8,388,608 characters"),
        ({"merge": [{"var": "accumulator"}, {"var": "accumulator"}, 1]}, "entries"),
    ],
)
def test_rules_have_the_same_limits(rule, said):
    with pytest.raises(ExpressionError, match="too expensive") as caught:
        apply({"reduce": [list(range(60)), rule, "x"]}, {}, lambda *_: None)
    assert said in caught.value.cause


def test_the_time_of_a_rule_ends():
    many = list(range(1000))
    rule = {"map": [many, {"map": [many, {"map": [many, {"var": ""}]}]}]}
    with pytest.raises(ExpressionError) as caught:
        apply(rule, {}, lambda *_: None, bounds=Bounds(seconds=0.3))
    assert caught.value.code == "D1012"


def test_nothing_is_raised_after_the_end():
    """Evaluations that are interrupted about when they end leave their thread alone afterwards."""
    ended = threading.Event()
    for turn in range(300):
        watch = Watch(Bounds(is_stopped=ended.is_set))
        helper = threading.Timer(turn / 100_000, watch.interrupt, (Halted,))

        def work():
            for _ in range(2000):
                pass

        helper.start()  # not in the evaluation: the exception could come in the middle of `start`
        with suppress(Halted):
            under_watch(watch, work)
        helper.join()
        for _ in range(2000):
            pass
    assert evaluate("1 + 1", {}) == 2


def test_long_evaluations_take_turns_and_all_end():
    expression = "$sum($map([1..3000], function($x) {$x * 2}))"
    found = []
    threads = [threading.Thread(target=lambda: found.append(evaluate(expression, {}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [9_003_000] * 4


def test_a_turn_is_given_back_by_evaluations_whose_time_ends_while_they_wait():
    """The exception of the guard may come just when the turn has been got."""
    endless = "$sum($map([1..1000000], function($x) {$x * 2}))"

    def work():
        for _ in range(4):
            with suppress(ExpressionError):
                evaluate(endless, {}, bounds=Bounds(seconds=0.15))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not guard.turn.locked()


def test_a_question_that_fails_ends_its_evaluation_and_not_the_guard():
    def is_stopped():
        raise KeyError("gone")

    with pytest.raises((Stopped, KeyError)):
        evaluate("$zip([1..1000000], [1..1000000])", {}, bounds=Bounds(seconds=5, is_stopped=is_stopped))
    with pytest.raises(ExpressionError) as caught:
        evaluate("$zip([1..1000000], [1..1000000])", {}, bounds=Bounds(seconds=0.2))
    assert caught.value.code == "D1012"


def test_who_comes_after_an_evaluation_that_took_too_much_is_not_to_blame():
    """Python keeps the memory that it needed once."""
    with pytest.raises(ExpressionError, match=r"too expensive|timeout"):
        evaluate("$count([1..9000].($pad('', 900000, 'x')))", {})
    assert evaluate("$sum($map([1..3000], function($x) {$x * 2}))", {}) == 9_003_000
    found = "$sum($map([1..40000], function($x) {$x * 2}))"
    assert evaluate(found, {}, bounds=Bounds(seconds=60)) == 1_600_040_000
