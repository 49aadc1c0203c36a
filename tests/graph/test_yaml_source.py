"""YAML 1.2 scalars as js-yaml reads them, places of keys, and text that is no document."""

import math

import pytest

from knime_mcp.graph.documents.problems import DocumentError
from knime_mcp.graph.documents.yaml_source import read_yaml, resolve_plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("010", 10),
        ("0o10", 8),
        ("0x1f", 31),
        ("0b101", 5),
        ("-5", -5),
        ("1_000", 1000),
        ("1_", "1_"),
        ("12:30:45", "12:30:45"),
        ("1.0", 1),
        ("1.50", 1.5),
        (".5", 0.5),
        ("1e3", 1000),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("True", True),
        ("tRue", "tRue"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("=", "="),
    ],
)
def test_plain_scalars(text, value):
    found = resolve_plain(text)
    assert (found, type(found)) == (value, type(value))


def test_numbers_are_those_of_javascript():
    assert math.isnan(resolve_plain(".nan"))
    assert resolve_plain("9007199254740993") == 9007199254740992
    assert resolve_plain("1" * 5000) == math.inf


def test_quotes_tags_anchors_and_merges():
    text = """\
a: '010'
b: !!str 5
c: &c {x: 1, y: 2}
d: {<<: *c, y: 3}
10: ten
true: word
"""
    source = read_yaml(text, "f")
    assert source.data == {
        "a": "010",
        "b": "5",
        "c": {"x": 1, "y": 2},
        "d": {"x": 1, "y": 3},
        "10": "ten",
        "true": "word",
    }
    assert source.problems == []
    assert (source.at(("d", "y")).line, source.at(("d", "y")).column) == (4, 13)
    assert (source.at(("d", "x")).line, source.at(("d", "x")).column) == (3, 8)
    assert (source.value_at(("b",)).line, source.value_at(("b",)).column) == (2, 4)
    assert source.at(("nothing", 0)).line == 1


def test_mistakes_that_leave_the_rest_readable():
    source = read_yaml("a: 1\na: 2\nb: !what x\nc: !!int many\n? [k]\n: v\nd: 4\n", "f")
    assert source.data == {"a": 1, "b": "x", "c": None, "d": 4}
    assert [problem.position.line for problem in source.problems] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: b: c", 1, "this is no YAML"),
        ("a:\n\tb: 1", 2, "no tabs"),
        ("a: 1\n---\nb: 2\n", 2, "single document"),
        ("a: \x01", 1, "a character that YAML does not allow"),
        ("a: &a [*a]", 1, "part of"),
        ("[" * 5000, 1, "levels deep"),
        ("{a: " * 300 + "1" + "}" * 300, 1, "levels deep"),
    ],
)
def test_text_that_is_no_document(text, line, said):
    with pytest.raises(DocumentError) as caught:
        read_yaml(text, "f")
    (problem,) = caught.value.problems
    assert said in problem.text("f")
    assert problem.position.line == line


def test_aliases_cannot_blow_up():
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(DocumentError, match="more than 100000 values"):
        read_yaml("\n".join(lines), "f")
