"""Paths of expressions compared with the schemas of arguments and of results, also of a real server."""

import pytest

from knime_mcp.graph.document_checks import Shape, missing_field
from knime_mcp.graph.document_loading import check_text
from knime_mcp.graph.online_checks import check_online

from .graphs import ENTRY, EXIT, call, load, one_tool, tool, transform, yaml

FILES = {
    "type": "object",
    "properties": {
        "result": {"type": "array", "items": {"$ref": "#/$defs/File"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "any": {},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "either": {"oneOf": [{"properties": {"left": {}}}, {"properties": {"right": {}}}]},
        "maybe": {"anyOf": [{"properties": {"left": {}}}, {"type": "object"}]},
        "rows": {"type": "array", "items": {"type": "array", "items": {"properties": {"cell": {}}}}},
        "far": {"allOf": [{"$ref": "https://example.com/far.json"}, {"properties": {"near": {}}}]},
    },
    "$defs": {
        "File": {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}}
    },
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("result.path", None),
        ("result.pth", "the outputSchema has no field 'pth' in 'list.result' Did you mean 'path'?"),
        ("result.size", "the outputSchema has no field 'size' in 'list.result' It has: lines, path"),
        ("reslt", "the outputSchema has no field 'reslt' Did you mean 'result'?"),
        ("note.text", "'list.note' is null or string in the outputSchema, which has no field 'text'"),
        (
            "result.lines.more",
            "'list.result.lines' is integer in the outputSchema, which has no field 'more'",
        ),
        ("any.thing", None),
        ("map.thing", None),
        ("either.right", None),
        ("either.up", "the outputSchema has no field 'up' in 'list.either'"),
        ("maybe.up", None),
        ("rows.cell", None),
        ("rows.cel", "the outputSchema has no field 'cel' in 'list.rows' Did you mean 'cell'?"),
        ("far.away", None),
    ],
)
def test_paths_into_a_result(path, said):
    found = missing_field("list", path.split("."), Shape(schema=FILES, whose="the outputSchema"))
    if said is None:
        assert found is None
    else:
        assert " ".join(filter(None, found)).startswith(said)


def test_an_error_that_is_caught_has_a_shape_of_its_own():
    shape = Shape(schema=FILES, whose="s", may_be_error=True)
    assert missing_field("x", ["error", "message"], shape) is None
    assert missing_field("x", ["errr"], shape) is not None


def test_arguments_may_be_more_than_is_declared():
    schema = {"properties": {"at": {"properties": {"city": {}}}}}
    shape = Shape(schema=schema, whose="the inputSchema", is_input=True)
    assert missing_field("entry", ["other"], shape) is None
    assert missing_field("entry", ["at", "other"], shape) is None
    message, fix = missing_field("entry", ["at", "ctiy"], shape)
    assert (message, fix) == ("the inputSchema has no field 'ctiy' in 'entry.at'", "Did you mean 'city'?")


def test_results_of_the_documents_own_tools():
    inner = tool(
        "{id: entry, type: entry, next: exit}",
        EXIT,
        name="inner",
        output="{type: object, properties: {sum: {}}}",
    )
    outer = (
        tool(
            ENTRY,
            "{id: x, type: tool, tool: inner, args: {}, next: y}",
            transform("{'a': x.sum, 'b': x.smu}", node="y"),
        )
        + f"      - {EXIT}\n"
    )
    (problem,) = check_text(yaml(outer, inner, servers="")).problems
    assert problem.message == """Node "y": the outputSchema of 'inner' has no field 'smu'"""
    assert problem.fix == "Did you mean 'sum'?"
    assert problem.position.key_path == "tools[0].nodes[2].transform.expr"


def test_results_of_a_servers_tools():
    nodes = (
        call("measure", "{}", following="y", more=", onError: y"),
        transform("{'a': x.size.width, 'b': x.size.heigth, 'c': x.error.message}", node="y", following="z"),
        "{id: z, type: switch, conditions: [{rule: {'>': [{var: x.szie.width}, 1]}, next: exit}],"
        " next: exit}",
    )
    text = yaml(tool(ENTRY, *nodes, EXIT))
    assert check_text(text, environ={}).problems == ()
    asked = check_online(load(text))
    assert asked.problems == []
    first, second = check_text(text, environ={}, outputs=asked.outputs).problems
    assert first.message == """Node "y": the outputSchema of 'measure' has no field 'heigth' in 'x.size'"""
    assert first.fix == "Did you mean 'height'?"
    assert second.message == """Node "z": the outputSchema of 'measure' has no field 'szie'"""
    assert second.position.key_path == "tools[0].nodes[3].conditions[0].rule.>[0].var"


def test_a_variable_hides_nothing():
    text = one_tool(ENTRY, transform("($x := entry; $x.anything)"), EXIT)
    assert check_text(text).problems == ()
