"""Paths of expressions compared with the schemas of arguments and of results, also of a real server."""

import json
import re

import pytest

from knime_mcp.graph.document_loading import check_text
from knime_mcp.graph.expressions.jsonata_shapes import shape_of
from knime_mcp.graph.expressions.shapes import INPUT, Others, Shape, of_schema
from knime_mcp.graph.graph_cases import GraphCase, RecordedServerCall, known_from
from knime_mcp.graph.online_checks import check_online

from .graphs import ENTRY, EXIT, call, load, one_tool, tool, transform, yaml
from .recorded import filled, recorded
from .test_document_loading import has_text

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
    found = doubts(f"list.{path}", list=of_schema(FILES, "the outputSchema"))
    if said is None:
        assert found == []
    else:
        assert found[0].startswith(said)


def doubts(expression, **nodes):
    """What is wrong with an expression on nodes whose outputs have these shapes, in words."""
    found = []
    context = Shape(fields=nodes, others=Others.NONE)
    shape_of(expression, context, found, whose="the result", known={})
    return [" ".join(filter(None, (doubt.message, doubt.fix))) for doubt in found]


def test_arguments_may_be_more_than_is_declared():
    entry = of_schema({"properties": {"at": {"properties": {"city": {}}}}}, INPUT)
    assert doubts("[entry.other, entry.at.other]", entry=entry) == []
    (found,) = doubts("entry.at.ctiy", entry=entry)
    assert found == "the inputSchema has no field 'ctiy' in 'entry.at' Did you mean 'city'?"


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
    first, second = check_text(text, environ={}, called=asked.tools).problems
    assert first.message == """Node "y": the outputSchema of 'measure' has no field 'heigth' in 'x.size'"""
    assert first.fix == "Did you mean 'height'?"
    assert second.message == """Node "z": the outputSchema of 'measure' has no field 'szie'"""
    assert second.position.key_path == "tools[0].nodes[3].conditions[0].rule.>[0].var"


def test_a_variable_hides_nothing():
    text = one_tool(ENTRY, transform("($x := entry; $x.anything)"), EXIT)
    assert check_text(text).problems == ()


ENTRY_SCHEMA = {
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["small", "large"]},
        "count": {"type": "integer"},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("entry.rows[id = 3].idd", "the inputSchema has no field 'idd' in 'entry.rows'"),
        ("entry.rows.(idd)", "the inputSchema has no field 'idd'"),
        ("$map(entry.rows, function($r) {$r.idd})", "the inputSchema has no field 'idd' in '$r'"),
        ("($rows := entry.rows; $rows[0].idd)", "the inputSchema has no field 'idd' in '$rows'"),
        ("entry.rows^(>idd)", "the inputSchema has no field 'idd' in 'entry.rows'"),
        ("entry.rows{$string(idd): id}", "the inputSchema has no field 'idd'"),
        ("entry.count > 1 ? entry.nam : 'x'", "the inputSchema has no argument 'nam' Did you mean 'name'?"),
        ("{'a': {'b': 1}}.a.c", "the result has no field 'c'"),
        ("$sum(entry.rows.id) + entry.name", "'+' takes numbers; 'entry.name' is string in the inputSchema"),
        ("$sum(entry.name)", "$sum takes a list of numbers; 'entry.name' is string in the inputSchema"),
        ("entry.name ~> $round", "$round takes number; 'entry.name' is string in the inputSchema"),
        ("$uppercase(entry.count)", "$uppercase takes string; 'entry.count' is integer in the inputSchema"),
        ("$join(entry.rows.id, ', ')", "$join takes a list of strings; 'entry.rows.id' is array or integer"),
        ("-entry.name", "'-' takes a number; 'entry.name' is string"),
        (
            "entry.kind = 'smal'",
            "this comparison never holds: there is no such value There are: small",
        ),
        ("entry.kind != 'smal'", "this comparison always holds"),
        ("entry.count = '3'", "this comparison never holds: the one side is integer in the inputSchema"),
        ("entry.kind in ['tiny']", "'in' never holds: there is no such value"),
        ("entry.rows < 3 and entry.kind < true", "'<' compares numbers or texts; 'True' is boolean"),
        ("entry.count.more", "'entry.count' is integer in the inputSchema, which has no field 'more'"),
    ],
)
def test_what_can_never_be_is_found(expression, said):
    (found,) = doubts(expression, entry=of_schema({"type": "object", **ENTRY_SCHEMA}, INPUT))
    assert found.startswith(said)


@pytest.mark.parametrize(
    "expression",
    [
        "entry.rows[id = 3].id",
        "entry.rows.id + 1",  # one row is one number
        "$sum(entry.rows.id) + entry.count",
        "$join(entry.rows.($string(id)), ', ')",
        "$map(entry.rows, function($r, $i) {$r.id + $i})",
        "($f := function($x) {$x.anything}; $f(entry))",
        "entry.kind = 'small' or entry.kind = entry.name",
        "entry.rows[0].id & entry.rows[-1].id",
        "entry.rows ~> $count",
        "$merge(entry.rows).id",
        "entry.*.id",
        "**.anything",
        "entry.rows@$r.{'a': $r.anything}",
        "entry ~> |rows|{'more': 1}|",
        "$reduce(entry.rows, function($a, $b) {$a + $b.id}, 0)",
        "entry[name = 'x'].name",
        "$lookup(entry, 'name').x",
        "{entry.name: 1}.whatever",
        "entry.($.name)",
        "$exists(entry.rows[5]) ? entry.rows[5].id : 0",
        "entry.name.%.count",
    ],
)
def test_what_may_be_is_not_found(expression):
    assert doubts(expression, entry=of_schema({"type": "object", **ENTRY_SCHEMA}, INPUT)) == []


def warnings(*nodes, output="{type: object}", schema=None):
    """The warnings of a tool, as their place in the text, what is wrong, and what to do."""
    schema = json.dumps({"type": "object", **ENTRY_SCHEMA} if schema is None else schema)
    text = yaml(tool(ENTRY, *nodes, EXIT, schema=schema, output=output), servers="")
    problems = check_text(text).problems
    for problem in problems:
        line = text.splitlines()[problem.position.line - 1]
        yield line[problem.position.column - 1 :].split(",")[0], problem.message, problem.fix


def test_what_may_be_one_of_very_many_values_is_not_found():
    a, b = (of_schema({"enum": [f"{letter}{n}" for n in range(80)]}, "the outputSchema") for letter in "ab")
    assert doubts("(n > 1 ? a : b) = 'b79'", n=Shape(), a=a, b=b) == []


def test_places_are_those_in_the_text():
    nodes = transform("{'a': entry.name, 'b': entry.cuont}")
    ((place, _, fix),) = warnings(nodes)
    assert (place, fix) == ("cuont}'}", "Did you mean 'count'?")
    block = "{id: x, type: transform, next: exit, transform: {expr: \"{'a': 1,\\n 'b': entry.cuont}\"}}"
    ((place, _, fix),) = warnings(block)
    assert fix == "Did you mean 'count'?"
    below = "id: x\n        type: transform\n        next: exit\n        transform:\n          expr: |\n"
    ((place, _, _),) = warnings(f"{below}            {{'a': entry.name,\n             'b': entry.cuont}}")
    assert place == "cuont}"


def test_outputs_of_transforms_branches_and_entries_have_shapes():
    found = warnings(
        "{id: x, type: parallel, branches: [a, b], next: each}",
        transform("{'one': entry.count}", node="a", following="each"),
        transform("{'two': entry.name}", node="b", following="each"),
        "{id: each, type: forEach, items: entry.rows, do: c, next: last}",
        transform("{'id': each.item.idd, 'n': each.index + 1}", node="c", following="last"),
        transform("{'r': [x.a.one, x.b.tow, x.c, each.idd, each.id, c.n, c.m]}", node="last"),
    )
    assert [message for _, message, _ in found] == [
        """Node "c": the inputSchema has no field 'idd' in 'each.item'""",
        """Node "last": the output of 'b' has no field 'tow' in 'x.b'""",
        """Node "last": the output of 'x' has no field 'c'""",
        """Node "last": the output of 'each' has no field 'idd'""",
        """Node "last": the output of 'c' has no field 'm'""",
    ]


def told(rule, more=""):
    """What is found of a switch with a rule."""
    switch = f"{{id: x, type: switch{more}, conditions: [{{rule: {rule}, next: exit}}], next: exit}}"
    checked = check_text(yaml(tool(ENTRY, switch, EXIT, schema=ROWS)), environ={})
    return [problem.message for problem in checked.problems]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{'==': [{var: entry.kind}, tiny]}", "'entry.kind' is one of small, large in the inputSchema"),
        ("{in: [{var: entry.kind}, [tiny, huge]]}", "'entry.kind' is one of small, large in the inputSchema"),
        ("{and: [{'>': [{var: entry.count}, 3]}, {'===': [{var: entry.count}, '3']}]}", "'entry.count' is"),
        ("{'!': {'!=': [{var: entry.kind}, tiny]}}", "'entry.kind' is one of small, large"),
        ("{'==': [{var: entry.kind}, small]}", None),
        ("{'==': [{var: entry.count}, '3']}", None),
        ("{'==': [{var: entry.name}, null]}", None),
        ("{or: [{'==': [{var: entry.kind}, tiny]}, {var: entry.count}]}", None),
    ],
)
def test_conditions_that_never_hold(rule, said):
    switch = f"{{id: x, type: switch, conditions: [{{rule: {rule}, next: exit}}], next: exit}}"
    found = [message for _, message, _ in warnings(switch)]
    if said is None:
        assert found == []
    else:
        assert found[0].startswith('Node "x": condition 1 never holds, so its way is never taken: ' + said)


def test_arguments_and_results_are_compared_with_schemas():
    inner = tool(
        "{id: entry, type: entry, next: exit}",
        EXIT,
        name="inner",
        schema="{type: object, required: [n, of], properties: {n: {type: integer}, of: {enum: [a, b]}}}",
    )
    call_inner = "{id: x, type: tool, tool: inner, args: {n: {expr: entry.name}, off: c, of: c}, next: y}"
    outer = tool(
        ENTRY,
        call_inner,
        transform("{'sum': 'x', 'smu': 1}", node="y"),
        EXIT,
        schema="{type: object, properties: {name: {type: string}}}",
        output="{type: object, required: [total], properties: {sum: {type: number}}}",
    )
    messages = [problem.message for problem in check_text(yaml(inner, outer, servers="")).problems]
    assert messages == [
        """Node "x": the argument 'n' of 'inner' is integer, but this gives string in the inputSchema""",
        """Node "x": the tool 'inner' has no argument 'off'""",
        """Node "x": the argument 'of' of 'inner' is one of a, b, never c""",
        """Node "y": 'sum' of the result is number, but this gives string in the outputSchema""",
        """Node "y": the outputSchema requires 'total', which this does not give""",
    ]


#: Cases whose expressions are meant to compare, add or give what never fits.
MEANT = {"a08", "a09", "b09b", "d06", "d10", "d12", "d16"}


@pytest.mark.parametrize(("case", "dialect", "said"), list(recorded(has_text)))
def test_nothing_is_found_in_documents_that_run(case, dialect, said, tmp_path):
    problems = check_text(filled(said["yaml"], tmp_path), dialect=dialect).problems
    found = [problem.message for problem in problems if SHAPES.search(problem.message)]
    assert not found or case["id"].partition("_")[0] in MEANT


SHAPES = re.compile("takes|never holds|has no (field|argument)|of the result|requires '|always holds: ")


def test_recorded_replies_tell_of_outputs():
    text = yaml(
        tool(ENTRY, call("anything", following="y"), transform("{'a': x.citty, 'b': x.new}", node="y"), EXIT)
    )
    reply = {"content": [{"type": "text", "text": '{"city": "Konstanz", "list": [{"n": 1}]}'}]}
    recorded_call = RecordedServerCall(server="fx", tool="anything", result=reply)
    called = known_from([GraphCase(name="c", tool="t", calls=(recorded_call,))])
    (problem,) = check_text(text, environ={}, called=called).problems
    assert problem.message.endswith("what 'anything' gave when it was recorded has no field 'citty'")
    assert problem.fix == "Did you mean 'city'?"


@pytest.mark.parametrize(("expression", "found"), [("0/0", 0), ("(1 - 1) * 3", 0), ("4/2", 1)])
def test_a_number_that_becomes_an_empty_object_is_no_mistake(expression, found):
    checked = check_text(one_tool(ENTRY, transform(expression), EXIT), environ={})
    assert ["this gives number" in problem.message for problem in checked.problems] == [True] * found


ROWS = (
    "{type: object, properties: {rows: {type: array, items: {type: object, properties: {qty: {type: number},"
    " tags: {type: array}}}}, name: {type: string}}}"
)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{some: [{var: entry.rows}, {'>': [{var: qtty}, 1]}]}", "no field 'qtty'"),
        (
            "{'>': [{reduce: [{var: entry.rows}, {'+': [{var: accumulator}, {var: current.qt}]}, 0]}, 1]}",
            "'qt'",
        ),
        ("{all: [{var: entry.rows}, {'>': [{var: qty}, {var: $.entry.row}]}]}", "no argument 'row'"),
        ("{some: [{var: entry.rows}, {'>': [{var: tags.length}, 1]}]}", None),
        ("{some: [{var: entry.rows}, {'==': [{var: ''}, {var: [qtty, 1]}]}]}", None),
        ("{some: [{var: entry.rows.qty}, {'>': [{var: ''}, 1]}]}", None),
    ],
)
def test_paths_in_the_entries_of_rules_are_known(rule, said):
    found = told(rule)
    assert [said in message for message in found] == [True] * bool(said), found


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("entry.nam", "no field 'nam' in 'entry'"),
        ("enty.name", "the object has no field 'enty'"),
        ("entry.rows.0.qty", None),
        ("entry.rows.0.qyt", "no field 'qyt'"),
        ("entry.rows.length", None),
        ("entry.name.length", None),
        ("''", None),
    ],
)
def test_paths_of_the_standard_are_known(path, said):
    found = told(f"{{'==': [{{var: {path}}}, 1]}}", ", jsonLogic: standard")
    assert [said in message for message in found] == [True] * bool(said), found


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("$executionCount('entri')", "'entri' is no node of the tool, so it has never run"),
        ("$nodeExecution('entri', -1).v", "'entri' is no node"),
        ("$executionCount('entry') + $count($nodeExecutions(entry.name))", None),
    ],
)
def test_functions_of_the_history_are_asked_about_nodes(expression, said):
    checked = check_text(one_tool(ENTRY, transform(f"{{'n': {expression}}}"), EXIT), environ={})
    assert [said in problem.message for problem in checked.problems] == [True] * bool(said)
