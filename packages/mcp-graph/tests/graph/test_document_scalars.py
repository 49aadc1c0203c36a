"""Scalars of graph documents as js-yaml reads them, as JavaScript's numbers; mistakes as problems."""

import math

import pytest

from knime_mcp_graph.document_loading import DocumentError, check_text, javascript_scalar, read_yaml
from knime_mcp_graph.executor import GraphExecutor
from knime_mcp_graph.studio.sketches import sketches

from .graphs import one_tool, transform

pytestmark = pytest.mark.quick


def test_plain_scalars(subtests):
    for text, value in [
        ("yes", "yes"),
        ("010", 10),
        ("0o10", 8),
        ("-0x1f", -31),
        ("0b101", 5),
        ("-5", -5),
        ("1_000", "1_000"),
        ("1e400", "1e400"),
        ("1_", "1_"),
        ("12:30:45", "12:30:45"),
        ("1.0", 1),
        ("1.50", 1.5),
        (".5", 0.5),
        ("-.5", "-.5"),
        ("1e3", 1000),
        ("1.2.3", "1.2.3"),
        ("~", None),
        ("", None),
        ("True", True),
        ("tRue", "tRue"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("=", "="),
    ]:
        with subtests.test(text=text, value=value):
            found = javascript_scalar(text)
            assert (found, type(found)) == (value, type(value))


def test_numbers_are_those_of_javascript():
    assert math.isnan(javascript_scalar(".nan"))
    assert javascript_scalar("9007199254740993") == 9007199254740992
    assert javascript_scalar("-9223372036854775808") == -9223372036854776000
    assert javascript_scalar("1" * 5000) == "1" * 5000


def test_keys_become_text_as_in_javascript():
    source = read_yaml("010: ten\n1.0: one\nTrue: word\n~: nothing\n'01': quoted\n1e-7: small\n", "f")
    assert list(source.data) == ["10", "1", "true", "null", "01", "1e-7"]


def test_mistakes_are_problems_with_their_place():
    source = read_yaml("a: 1\na: 2\nb: {<<: {c: !what x}}\n", "f")
    assert source.data == {"a": 1, "b": {"c": "x"}}
    assert [problem.text("f") for problem in source.problems] == [
        "f:2:1: error: the key 'a' is given twice; the other one is on line 1 (at a). Keep one of them.",
        "f:3:13: error: the tag '!what' is not supported (at b.c). Remove it.",
    ]


def test_a_block_at_the_end_of_a_file_without_a_line_end():
    found = [read_yaml(f"a: |{keep}\n  x{end}", "f").data for keep in ("", "+") for end in ("", "\n\n")]
    assert [each["a"] for each in found] == ["x\n", "x\n", "x\n", "x\n\n"]


def test_text_that_is_no_document():
    with pytest.raises(DocumentError) as caught:
        read_yaml("a:\n\tb: 1", "f")
    (problem,) = caught.value.problems
    assert problem.position.line == 2
    assert "no tabs" in problem.text("f")


def test_infinite_numbers_are_those_of_javascript_wherever_they_stand():
    text = one_tool(
        "{id: entry, type: entry, next: way}",
        '{id: way, type: switch, conditions: [{rule: {">": [{var: entry.n}, .inf]}, next: a},'
        ' {rule: {">": [{var: entry.n}, -.inf]}, next: b}], next: a}',
        transform("{'r': 'a'}", node="a"),
        transform("{'r': 'b'}", node="b"),
        "{id: exit, type: exit}",
    ).replace("inputSchema: {type: object}", "inputSchema: {type: object, properties: {n: {default: .inf}}}")
    checked = check_text(text)
    assert sketches(checked)[0]["ways"][1]["label"] == "entry.n > Infinity"
    assert GraphExecutor(checked.document, None).run("t", {"n": 5}).result == {"r": "b"}
