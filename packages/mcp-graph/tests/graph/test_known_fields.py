"""Names in expressions and arguments compared with the schemas at hand, also those of a real server."""

import json

import pytest

from knime_mcp_graph.api import McpGraphApi
from knime_mcp_graph.document_loading import check_text
from knime_mcp_graph.expressions.names import nothing_found
from knime_mcp_graph.online_checks import check_online

from .graphs import ENTRY, EXIT, call, document, load, one_tool, tool, transform, yaml
from .recorded import filled, recorded
from .test_document_loading import has_text

FILES = {
    "type": "object",
    "properties": {
        "result": {"type": "array", "items": {"$ref": "#/$defs/File"}},
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
FIELD = "the outputSchema of 'files' has no field "
NO_NODE = "is no node of the tool, so"


def found_in(expression):
    """What is said of an expression in a tool with arguments and a call, in words."""
    schema = {"type": "object", "properties": {"city": {}, "at": {"properties": {"street": {}}}}}
    files = tool(ENTRY.replace("next: x", "next: exit"), EXIT, name="files", output=json.dumps(FILES))
    inner = "{id: list, type: tool, tool: files, args: {}, onError: x, next: x}"
    mine = tool(
        ENTRY.replace("next: x", "next: list"), inner, transform(expression), EXIT, schema=json.dumps(schema)
    )
    problems = check_text(yaml(mine, files, servers="")).problems
    expressions = [one for one in problems if one.message.startswith("Node ")]
    return [" ".join(filter(None, (one.message.partition(": ")[2], one.fix))) for one in expressions]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("list.result.pth", FIELD + "'pth' in 'list.result' Did you mean 'path'?"),
        ("list.result[0].size", FIELD + "'size' in 'list.result' It has: lines, path"),
        ("$count(list.reslt)", FIELD + "'reslt' Did you mean 'result'?"),
        ("{'a': {'b': list.either.up}}", FIELD + "'up' in 'list.either' It has: left, right"),
        ("$.list.rows.cel", FIELD + "'cel' in 'list.rows' Did you mean 'cell'?"),
        ("$map([1], function($v) {list.reslt})", FIELD + "'reslt' Did you mean 'result'?"),
        ("entry.ctiy", "the inputSchema has no argument 'ctiy' Did you mean 'city'?"),
        ("entry.at.stret", "the inputSchema has no field 'stret' in 'entry.at' Did you mean 'street'?"),
        ("etnry.city", f"'etnry' {NO_NODE} there is nothing to find Did you mean 'entry'?"),
        ("$executionCount('entri')", f"'entri' {NO_NODE} it has never run Did you mean 'entry'?"),
    ],
)
def test_names_that_are_not_there(expression, said):
    assert found_in(expression) == [said]


@pytest.mark.parametrize(
    "expression",
    [
        "[list.result.path, list.any.thing, list.map.thing, list.either.right, list.maybe.up, list.far.away]",
        "list.rows.cell",
        "list.error.message",
        "[entry.other, entry.at.other]",
        "($x := list; $x.reslt)",
        "list.(reslt)",
        "list.*.reslt",
        "list.result[pth = 1].path",
        "$nodeExecution('list', -1).reslt",
    ],
)
def test_names_of_which_nothing_is_known(expression):
    assert found_in(expression) == []


def test_the_place_is_that_of_the_name():
    text = one_tool(ENTRY, transform("{'a': entry.b, 'c': `etnry`.d}"), EXIT)
    (problem,) = check_text(text).problems
    line = text.splitlines()[problem.position.line - 1]
    assert line[problem.position.column - 1 :].startswith("`etnry`")


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
    first, second = check_text(text, environ={}, called=asked.tools).problems
    assert first.message == """Node "y": the outputSchema of 'measure' has no field 'heigth' in 'x.size'"""
    assert first.fix == "Did you mean 'height'?"
    assert second.message == """Node "z": the outputSchema of 'measure' has no field 'szie'"""
    assert second.position.key_path == "tools[0].nodes[3].conditions[0].rule.>[0].var"


def test_arguments_of_the_documents_own_tools():
    inner = tool(
        "{id: entry, type: entry, next: exit}",
        EXIT,
        name="inner",
        schema="{type: object, required: [n, of, d], properties: {n: {}, of: {}, d: {default: 1}}}",
    )
    outer = tool(ENTRY, "{id: x, type: tool, tool: inner, args: {n: 1, off: c}, next: exit}", EXIT)
    problems = check_text(yaml(inner, outer, servers="")).problems
    assert [(one.message, one.fix) for one in problems] == [
        ("""Node "x": the tool "inner" requires the argument "of\"""", None),
        ("""Node "x": the tool "inner" has no argument "off\"""", "Did you mean 'of'?"),
    ]


def test_no_field_is_missed_in_documents_that_run(tmp_path):
    found = [
        (case["id"], problem.message)
        for case, dialect, said in recorded(has_text)
        for problem in check_text(filled(said["yaml"], tmp_path), dialect=dialect).problems
        if "has no field" in problem.message or "has no argument" in problem.message
    ]
    assert found == []


def test_the_history_says_what_found_nothing():
    rule = "{and: [{'!': {var: x.a.c}}, {some: [{var: entry.rows}, {'>': [{var: qty}, 1]}]}]}"
    nodes = (
        transform("{'a': {'b': entry.rows.qty}}", following="y"),
        transform("[x.a.b, x.c.d, $x, entry.rows.(no), x.c.e, entry.rows.mo]", node="y", following="z"),
        f"{{id: z, type: switch, conditions: [{{rule: {rule}, next: exit}}], next: exit}}",
    )
    told = document(ENTRY, *nodes, EXIT, output="{type: object, properties: {}}")
    with McpGraphApi(told, check_schemas=False) as api:
        history = api.execute_tool("t", {"rows": [{"qty": 1}, {}]}).history
    found = {one.node_id: one.to_json()["foundNothing"] for one in history if one.nothing}
    assert found == {"y": ["x.c", "entry.rows.mo"], "z": ["x.a.c"]}


def test_values_of_any_depth_are_looked_through():
    deep = {"b": 1}
    for _ in range(100_000):
        deep = [deep]
    assert nothing_found("[a.b, a.c]", {"a": deep}) == ["a.c"]
    assert nothing_found(f"{'(' * 150}a.c{')' * 150}", {"a": []}) == ["a.c"]
