"""Changes of documents as the studio makes them: only the lines that they must, and the tools do the same."""

import difflib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knime_mcp_graph.document_edits import GraphEditError, apply
from knime_mcp_graph.document_loading import STARTER, read_yaml, write_yaml
from knime_mcp_graph.executor import GraphExecutor
from knime_mcp_graph.graph_model import Dialect

from . import graphs

NODES = ["tools", 0, "nodes"]
ALL_KINDS = """\
version: "1.0"
server: {name: s, version: "1"}
tools:
  - name: t
    description: d   # what it does
    inputSchema: {type: object}
    outputSchema: {type: object}
    nodes:
      - {id: start, type: entry, next: list}   # first
      - id: list
        type: transform
        transform:
          expr: |   # of numbers
            {'result': start.n.[1, 2, $$.start.n], 'list': 'list'}
        next: each
      - {id: each, type: forEach, items: list.result, do: twice, next: fan}
      - id: twice
        type: transform
        transform: {expr: "each.item * 2 + $count(list.result[$ > $$.start.n])"}
        next: fan
      # both at once
      - id: fan
        type: parallel
        branches: [left, right]
        next: way
      - {id: left, type: transform, transform: {expr: '$sum(each)'}, next: way}
      - id: right
        type: transform
        transform: {expr: "$nodeExecution('left', 0) ? 0 : $executionCount(\\"list\\")"}
        next: way
      - id: way
        type: switch
        conditions:
          - rule:
              and:
                - {">": [{var: fan.left}, 3]}
                - {some: [{var: each}, {">": [{var: ""}, {var: "$$.start.n"}]}]}
            next: inner
        next: other
      - id: inner
        type: tool
        tool: u
        args: {sum: {expr: fan.left}, more: [{expr: "fan.right + list.result[0]"}]}
        next: end
      - {id: other, type: transform, transform: {expr: "{'n': start.n}"}, next: end}
      - {id: end, type: exit}
  - name: u
    description: d
    inputSchema: {type: object}
    outputSchema: {type: object}
    nodes:
      - {id: start, type: entry, next: end}
      - {id: end, type: exit}
"""


def edit(data, kind, *, dialect=Dialect.NEXT, **change):
    return apply(data, {"kind": kind, "nodes": NODES, **change}, dialect)


def data_of(text):
    return read_yaml(text, "t").data


def changes(text, data):
    new = write_yaml(text, data)
    assert data_of(new) == data
    lines = difflib.unified_diff(text.splitlines(), new.splitlines(), n=0)
    return new, [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def result(text):
    executor = GraphExecutor(graphs.load(text), None)
    return [executor.run("t", {"n": number}).result for number in (0, 1, 7)]


def test_a_renamed_node_has_its_new_name_everywhere(subtests):
    as_before = result(ALL_KINDS)
    for name in ["start", "list", "each", "twice", "fan", "left", "right", "way", "inner", "end"]:
        for new in ["other_name", "two words", "and"]:
            with subtests.test(name=name, new=new):
                text, lines = changes(ALL_KINDS, edit(data_of(ALL_KINDS), "rename", id=name, to=new))
                assert result(text) == as_before
                touched = [line[1:] for line in lines if line[0] == "-"]
                assert len(lines) == 2 * len(touched)  # no line more, and none less
                assert all(name in line for line in touched)
                back, _ = changes(text, edit(data_of(text), "rename", id=new, to=name))
                assert result(back) == as_before


def test_names_that_are_something_else_stay():
    text, _ = changes(ALL_KINDS, edit(data_of(ALL_KINDS), "rename", id="list", to="all"))
    assert "'list': 'list'" in text
    assert "items: all.result" in text
    assert "# of numbers" in text
    assert '$executionCount(\\"all\\")' in text or '$executionCount("all")' in text


def test_arguments_of_the_older_dialect_and_rules_of_the_standard():
    text = graphs.one_tool(
        "{id: start, type: entry, next: ask}",
        "{id: ask, type: mcp, server: s, tool: t, args: {a: $.start.n, b: start.n, c: $start}, next: way}",
        "{id: way, type: switch, jsonLogic: standard, conditions: [{rule: {'<': [{var: start.n},"
        " {var: [start.m, 3]}]}, target: end}]}",
        "{id: end, type: exit}",
    )
    new, _ = changes(text, edit(data_of(text), "rename", id="start", to="go", dialect=Dialect.TARGET))
    assert "args: {a: $.go.n, b: start.n, c: $start}" in new
    assert "{var: go.n}, {var: [go.m, 3]}" in new


def test_a_node_comes_between_two():
    node = {"id": "new", "type": "transform", "transform": {"expr": "1"}}
    data = edit(data_of(ALL_KINDS), "add", node=node, after="other")
    _, lines = changes(ALL_KINDS, data)
    assert lines == [
        "-      - {id: other, type: transform, transform: {expr: \"{'n': start.n}\"}, next: end}",
        "+      - {id: other, type: transform, transform: {expr: \"{'n': start.n}\"}, next: new}",
        '+      - {id: new, type: transform, transform: {expr: "1"}, next: end}',
    ]


def test_a_node_that_goes_is_bridged():
    data = edit(data_of(ALL_KINDS), "remove", id="left")
    text, lines = changes(ALL_KINDS, data)
    assert [line for line in lines if "branches" in line] == [
        "-        branches: [left, right]",
        "+        branches: [right]",
    ]
    assert len(lines) == 3
    gone = edit(data_of(ALL_KINDS), "remove", id="list")
    assert data_of(changes(ALL_KINDS, gone)[0])["tools"][0]["nodes"][0]["next"] == "each"
    assert "# both at once" in text


@pytest.mark.parametrize(
    ("source", "way", "target", "lines"),
    [
        ("start", ["next"], "end", ["-next: list}", "+next: end}"]),
        ("fan", ["branches"], "other", ["-[left, right]", "+[left, right, other]"]),
        ("fan", ["branches", 1], "", ["-[left, right]", "+[left]"]),
        ("way", ["conditions"], "end", ["+- rule: true", "+next: end"]),
        ("way", ["conditions", 0, "next"], "end", ["-next: inner", "+next: end"]),
        ("list", ["onError"], "end", ["+onError: end"]),
        ("list", ["next"], "", ["-next: each"]),
    ],
)
def test_ways(source, way, target, lines):
    data = edit(data_of(ALL_KINDS), "connect", source=source, way=way, target=target)
    found = changes(ALL_KINDS, data)[1]
    assert len(found) == len(lines)
    for line, wanted in zip(found, lines, strict=True):
        assert line[0] == wanted[0]
        assert wanted[1:] in line


def test_settings_by_their_place():
    data = edit(data_of(ALL_KINDS), "set", path=[*NODES, 8, "retry", "attempts"], value=5)
    assert changes(ALL_KINDS, data)[1] == ["+        retry: {attempts: 5}"]
    without = edit(data, "set", path=["tools", 0, "inputSchema"])
    assert "inputSchema" not in without["tools"][0]


def test_a_node_after_one_that_led_nowhere():
    """Its way is added at the place in the text where the new node begins."""
    text = STARTER.read_text("utf-8")
    text = changes(text, edit(data_of(text), "remove", id="exit"))[0]
    node = {"id": "new", "type": "transform", "transform": {"expr": "1"}}
    after = edit(data_of(text), "add", node=node, after="morning")
    assert data_of(changes(text, after)[0]) == after


def test_what_does_not_fit_is_refused():
    data = data_of(ALL_KINDS)
    for change in (
        {"kind": "rename", "id": "list", "to": "each"},
        {"kind": "rename", "id": "gone", "to": "new"},
        {"kind": "add", "node": {"id": "list"}},
        {"kind": "remove", "id": "list", "nodes": ["tools", 9, "nodes"]},
        {"kind": "set", "path": ["tools", 9, "name"], "value": "x"},
        {"kind": "set", "path": ["version", "name"], "value": "x"},
        {"kind": "paint"},
    ):
        with pytest.raises(GraphEditError):
            edit(data, **change) if "nodes" not in change else apply(data, change, Dialect.NEXT)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_changes_of_nodes(data):
    """Changes, one after the other: the text holds each, and all comments outside of what was taken away."""
    draw = data.draw
    text = draw(st.sampled_from([ALL_KINDS, STARTER.read_text("utf-8")]))
    comments, removes = re.findall(r"# .*", text), False
    for number in range(draw(st.integers(1, 4))):
        before = data_of(text)
        ids = [node["id"] for node in before["tools"][0]["nodes"]]
        one, other = draw(st.sampled_from(ids)), draw(st.sampled_from(ids))
        match draw(st.sampled_from(["add", "connect", "rename", "remove", "set"])):
            case "add":
                expression = {"expr": draw(st.text("ab'\": #\n"))}
                node = {"id": f"new {number}", "type": "transform", "transform": expression}
                after = edit(before, "add", node=node, after=draw(st.sampled_from([None, one])))
            case "connect":
                way = draw(st.sampled_from(["next", "onError", "branches", "conditions"]))
                after = edit(before, "connect", source=one, way=[way], target=other)
            case "rename":
                after = edit(before, "rename", id=one, to=f"other {number}")
            case "remove":
                after, removes = edit(before, "remove", id=one), True
            case _:
                value = draw(st.sampled_from([None, True, 7, "a: b", ["x"], {"y": {"z": "w" * 80}}]))
                after = edit(before, "set", path=[*NODES, ids.index(one), "x-note"], value=value)
        text, _ = changes(text, after)
    assert removes or all(comment in text for comment in comments)


def test_nodes_of_a_common_list_go_with_their_tool():
    text = (
        f"{graphs.HEAD}tools:\n  - name: t\n    description: d\n    inputSchema: {{type: object}}\n"
        "    outputSchema: {type: object}\nnodes:\n  - {id: entry, tool: t, type: entry, next: x}\n"
        "  - {id: x, tool: t, type: transform, transform: {expr: '{}'}, next: exit}\n"
        "  - {id: m, type: mcp, server: s, tool: t, args: {}, next: exit}\n"
        "  - {id: exit, tool: t, type: exit}\n"
    )
    new, _ = changes(text, edit(data_of(text), "renameTool", name="t", to="u"))
    assert new.count("tool: u") == 3
    assert "server: s, tool: t" in new


def test_a_tool_that_gets_another_name_has_it_in_the_nodes_that_call_it():
    text, lines = changes(ALL_KINDS, edit(data_of(ALL_KINDS), "renameTool", name="u", to="inner one"))
    assert lines == ["-        tool: u", "+        tool: inner one", "-  - name: u", "+  - name: inner one"]
    assert result(text) == result(ALL_KINDS)
    with pytest.raises(GraphEditError, match="already"):
        edit(data_of(text), "renameTool", name="t", to="inner one")


def test_a_new_tool_gives_back_its_arguments():
    text, lines = changes(ALL_KINDS, edit(data_of(ALL_KINDS), "addTool", name="new"))
    assert all(line.startswith("+") for line in lines)
    assert GraphExecutor(graphs.load(text), None).run("new", {"n": 1}).result == {"n": 1}
