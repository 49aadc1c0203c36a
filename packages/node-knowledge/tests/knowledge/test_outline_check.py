"""Whole workflows against the catalogue: what is wrong is found, and nothing right is called wrong."""

import json
from pathlib import Path

import pytest

from knime_mcp.types.errors import ArgumentsInvalid
from knime_node_knowledge.outline_check import check_workflow
from knime_node_knowledge.port_types import ANYTHING, TABLE, is_connectable
from node_facts.saved_outlines import outline_of
from tests.support.archives import read_workflow

pytestmark = pytest.mark.quick


ARCHIVES = sorted((Path(__file__).parents[4] / "examples").rglob("*.knwf"))
PMML = "org.knime.core.node.port.pmml.PMMLPortObject"
TREE = "org.knime.base.node.mine.decisiontree2.learner2.DecisionTreeLearnerNodeFactory"


def outline(*connections, **nodes):
    listed = [
        {"id": name, **(node if isinstance(node, dict) else {"node": node})} for name, node in nodes.items()
    ]
    return {"nodes": listed, "connections": list(connections)}


RIGHT = outline("read:1 -> rows:1", "rows -> write", read="CSV Reader", rows="Row Filter", write="CSV Writer")


def test_a_right_workflow_has_no_problems(call):
    answer = call("check_workflow", workflow=RIGHT)
    assert answer["valid"] is True
    assert answer["problems"] == []
    assert answer["judged"] == {"nodes": 3, "settings": 0, "connections": 2}


def test_what_is_wrong_is_said(subtests, call):
    for workflow, where, problem, fix in [
        (outline(read="CSV Raeder"), "read (CSV Raeder)", "there is no node 'CSV Raeder'", "CSV Reader"),
        (
            outline("read:2 -> rows:1", read="CSV Reader", rows="Row Filter"),
            "read:2 -> rows:1",
            "'CSV Reader' has no output 2",
            "1: File Table",
        ),
        (
            outline("read -> rows:Tabelle", read="CSV Reader", rows="Row Filter"),
            "read -> rows:Tabelle",
            "'Row Filter' has no input Tabelle",
            "1: Input Table",
        ),
        (
            outline("read:1 -> predict:1", read="CSV Reader", predict="Decision Tree Predictor"),
            "read:1 -> predict:1",
            "Table, and what should go in of the type PMML",
            "find_compatible",
        ),
        (
            outline("learn:3 -> predict:1", learn="Random Forest Learner", predict="Decision Tree Predictor"),
            "learn:3 -> predict:1",
            "Tree Ensemble, and what should",
            "find_compatible",
        ),
        (
            outline("read -> rows", read="CSV Reader"),
            "read -> rows",
            "there is no node 'rows'",
            "Nodes: read",
        ),
        (
            outline("a -> c:1", "b -> c:1", a="CSV Reader", b="CSV Reader", c="Row Filter"),
            "c (Row Filter)",
            "2 connections lead to its input 1",
            "concatenate",
        ),
        (
            outline("a -> b", "b -> a", a="Row Filter", b="Row Filter"),
            "workflow",
            "wait for each other",
            "loop end",
        ),
        (
            outline(filter={"node": "Row Filter", "settings": {"matchCriterion": "AND"}}),
            "filter (Row Filter)",
            "is not a setting of this node",
            "matchCriteria",
        ),
        (
            outline(filter={"node": "Row Filter", "settings": {"matchCriteria": "XOR"}}),
            "filter (Row Filter)",
            "'XOR' is not allowed",
            "AND",
        ),
        (
            outline("go -> read", go={"node_type": "TRIGGER", "subtype": "MANUAL"}, read="Table Writer"),
            "go -> read",
            "is a node of the workflow engine",
            "one of the two",
        ),
    ]:
        with subtests.test(workflow=workflow, where=where, problem=problem, fix=fix):
            answer = call("check_workflow", workflow=workflow)
            assert answer["valid"] is False
            first = answer["problems"][0]
            assert first["severity"] == "error"
            assert first["where"] == where
            assert problem in first["problem"]
            assert fix in first["fix"]


READ = {"id": "read", "node": "CSV Reader"}
SPLIT = {"id": "split", "node": "Row Splitter"}
ROWS = {"id": "rows", "node": "Row Filter"}


def test_a_key_that_is_not_read_is_an_error_or_not_judged(subtests, call):
    line = {"from": "split", "to": "rows"}
    for key, outline_with, valid in [
        ("sourcePort", [line | {"sourcePort": 7}], False),
        ("fromPort", [line | {"fromPort": 7}], False),
        ("sourceOutput", [line | {"sourceOutput": 7}], False),
        ("port", [line | {"port": 7}], False),
        ("edges", {"edges": ["read:1 -> nowhere:9"]}, False),
        ("links", {"links": []}, False),
        ("config", ROWS | {"config": {"matchCriteria": "XOR"}}, False),
        ("setting", ROWS | {"setting": {"matchCriteria": "XOR"}}, False),
        ("Settings", ROWS | {"Settings": {"matchCriteria": "XOR"}}, False),
        ("inputs", ROWS | {"inputs": ["read"]}, False),
        ("type", {"id": "rows", "name": "Row Filter", "type": "Joiner"}, None),
        ("node_type", ROWS | {"node_type": "MANIPULATOR"}, None),
        ("parameters", ROWS | {"settings": {}, "parameters": {"matchCriteria": "XOR"}}, None),
        ("source", [line | {"source": "read"}], None),
    ]:
        written = {"nodes": [READ, SPLIT, ROWS], "connections": ["read -> split"]}
        if isinstance(outline_with, list):
            written["connections"] += outline_with
        elif "id" in outline_with:
            written["nodes"][2] = outline_with
        else:
            written |= outline_with
        with subtests.test(key=key):
            answer = call("check_workflow", workflow=written)
            assert answer["valid"] is valid
            said = answer["problems"] if valid is False else answer["not_judged"]
            assert any(f"'{key}'" in json.dumps(entry) for entry in said), said


def test_what_a_key_may_mean_is_said(call):
    written = {"nodes": [READ, ROWS], "connections": [{"from": "read", "to": "rows", "fromPort": 1}]}
    (problem,) = call("check_workflow", workflow=written)["problems"]
    assert problem["where"] == "read -> rows"
    assert problem["fix"].startswith("Did you mean 'from_port'")


def test_remarks_for_people_are_no_problem(call):
    remark = dict.fromkeys(("label", "title", "name", "description", "notes"), "x") | {"position": [1, 2]}
    line = {"from": "read", "to": "rows"}
    written = {"nodes": [READ | remark, ROWS], "connections": [line | remark]} | remark
    assert call("check_workflow", workflow=written)["valid"] is True


def test_flow_variables_and_tables_are_told_apart(subtests, call):
    nodes = {
        "read": "CSV Reader",
        "rows": "Row Filter",
        "row": "Table Row to Variable",
        "merge": "Merge Variables",
    }
    for line, valid in [
        ("read:0 -> rows:0", True),
        ("read:0 -> rows:1", False),
        ("read:1 -> rows:0", False),
        ("row:1 -> rows:0", True),
        ("row:1 -> rows:1", False),
        ("read:0 -> merge:1", True),
    ]:
        with subtests.test(line=line):
            assert call("check_workflow", workflow=outline(line, **nodes))["valid"] is valid


def test_connections_whose_types_are_not_known_are_not_judged(call):
    answer = call(
        "check_workflow",
        workflow=outline("a:1 -> b:1", a="Amazon Authenticator", b="Amazon Athena Connector"),
    )
    assert answer["valid"] is None
    assert answer["judged"]["connections"] == 0


def test_a_deprecated_node_is_a_warning_with_its_successor(call):
    answer = call("check_workflow", workflow=outline(learn={"node": f"{TREE}2"}))
    deprecated = next(entry for entry in answer["problems"] if "deprecated" in entry["problem"])
    assert deprecated["severity"] == "warning"
    assert f"'Decision Tree Learner' ({TREE}3)" in deprecated["fix"]
    assert answer["valid"] is True


def test_inputs_that_nothing_leads_to_are_a_warning(call):
    answer = call("check_workflow", workflow=outline("a -> j:1", a="CSV Reader", j="Joiner"))
    (warning,) = answer["problems"]
    assert warning["severity"] == "warning"
    assert warning["problem"] == "1 of the 2 inputs that it needs are connected"


def test_ports_of_nodes_that_are_only_described_in_our_words_are_not_called_missing(call):
    written = outline("log:1 -> open:1", log="Amazon Authenticator", open="Amazon Athena Connector")
    answer = call("check_workflow", workflow=written)
    assert (answer["valid"], answer["problems"]) == (None, [])
    assert answer["not_judged"] == [
        {"where": "log:1 -> open:1", "why": "not all inputs of 'Amazon Athena Connector' are known here"}
    ]


def test_of_a_node_whose_ports_are_not_known_nothing_is_said(call):
    answer = call("check_workflow", workflow=outline("a:1 -> b:1", a="CSV Reader", b="Image View"))
    assert (answer["valid"], answer["problems"]) == (None, [])
    assert answer["not_judged"][0]["why"] == "the ports of 'Image View' are not known here"
    found = call("find_compatible", node="Image View", direction="before")
    assert (found["nodes"], found["hint"]) == ([], "The ports of this node are not known here.")


def test_metanodes_are_looked_into(call):
    inside = outline(
        "-1:1 -> filter",
        "filter -> -1:1",
        filter={"node": "Row Filter", "settings": {"matchCriteria": "XOR"}},
    )
    whole = {
        "nodes": [{"id": "meta", "inside": inside}, "CSV Reader"],
        "connections": ["CSV Reader:1 -> meta:1"],
    }
    answer = call("check_workflow", workflow=whole)
    assert [entry["where"] for entry in answer["problems"]] == ["meta:filter (Row Filter)"]


@pytest.mark.parametrize(
    "written",
    [
        {"nodes": {"read": "CSV Reader", "rows": "Row Filter"}, "connections": [["read:1", "rows:1"]]},
        {"workflow": RIGHT},
        json.dumps(RIGHT),
        {
            "nodes": [{"id": 1, "factory": "CSV Reader"}, {"id": 2, "type": "Row Filter", "parameters": {}}],
            "connections": [{"source": 1, "source_port": "File Table", "target": 2, "target_port": 1}],
        },
        {"nodes": ["CSV Reader", "Row Filter"], "connections": ["CSV Reader -> Row Filter"]},
        {
            "nodes": ["CSV Reader", "Row Filter"],
            "connections": [
                {"from": {"node": "CSV Reader", "port": 1}, "to": {"id": "Row Filter", "port": 1}}
            ],
        },
        {"nodes": ["CSV Reader", "Row Filter"], "connections": [[["CSV Reader", 1], ["Row Filter", 1]]]},
    ],
)
def test_outlines_are_understood_as_models_write_them(call, written):
    answer = call("check_workflow", workflow=written)
    assert (answer["valid"], answer["problems"]) == (True, [])
    assert answer["judged"]["connections"] >= 1


def test_what_is_no_outline_is_refused_with_a_sample(subtests, tools):
    for written, message in [
        ("no workflow", "is no JSON"),
        ("[]", "is no object"),
        ("{'nodes'", "is no JSON"),
        ([], "is no object"),
        ({"nodes": 3}, "has no list 'nodes'"),
        ({"nodes": [7]}, "neither an object nor a name"),
        ({"nodes": {"a": "Joiner", "b": None}}, "nodes.b, which is neither an object nor a name"),
        ({"nodes": [{"id": 1}]}, "without 'node'"),
        (
            {"nodes": [{"id": "a", "node": "Joiner", "settings": 5}]},
            "settings in nodes[0] that are no object",
        ),
        ({"nodes": [], "connections": ["a"]}, "which is no connection"),
        (
            {"nodes": [], "connections": [{"from": {"a": 1}, "to": "b"}]},
            "has 'a' at an end of connections[0]",
        ),
        (
            {"nodes": [], "connections": [{"from": "a:1", "from_port": 7, "to": "b"}]},
            "several ports for 'a': 1, 7",
        ),
        ('{"nodes": [], "nodes": ["Joiner"]}', "the key 'nodes' stands twice"),
        ({"nodes": [], "connections": [[["a", 1, 2], "b"]]}, "which is no connection"),
        ({"nodes": ["Joiner"] * 2001}, "2,000 are allowed"),
    ]:
        with subtests.test(written=written, message=message):
            with pytest.raises(ArgumentsInvalid) as raised:
                tools.invoke_tool("check_workflow", {"workflow": written})
            assert message in str(raised.value)
            assert "read:1 -> filter:1" in str(raised.value)


def test_outlines_nested_without_end_are_refused(tools):
    written = {"nodes": []}
    for _ in range(50):
        written = {"nodes": [{"id": "m", "inside": written}]}
    with pytest.raises(ArgumentsInvalid, match="nested more than 20 times"):
        tools.invoke_tool("check_workflow", {"workflow": written})


@pytest.mark.parametrize("file", ARCHIVES, ids=lambda file: file.stem)
def test_saved_workflows_have_no_errors(reader, file):
    outline = outline_of(read_workflow(file), lambda node_id: reader.node(node_id) is not None)
    check = check_workflow(reader, outline)
    assert [found for found in check.findings if found.severity == "error"] == []
    assert check.nodes > 0


def test_what_strangers_workflows_have_is_not_called_wrong(subtests, call):
    """Keys of earlier versions, tables in ports that take what is chosen, images in a table's place."""
    case_end = "org.knime.base.node.switches.caseswitch.any.CaseEndAnyNodeFactory"
    for workflow in [
        outline(sums={"node": "Column Aggregator", "settings": {"nodeVersion": 1}}),
        outline("a:1 -> b:2", a="R Snippet", b=case_end),
        outline("a:1 -> b:1", a="Python Script", b="Image to Table"),
    ]:
        with subtests.test(workflow=workflow):
            answer = call("check_workflow", workflow=workflow)
            assert [entry for entry in answer["problems"] if entry["severity"] == "error"] == []


def test_a_long_list_of_problems_is_cut_and_says_so(call):
    answer = call("check_workflow", workflow={"nodes": [f"none {n}" for n in range(30)]}, max_results=5)
    assert len(answer["problems"]) == 5
    assert answer["warning"] == "Left out: 25 more problems."


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (TABLE, TABLE, True),
        (TABLE, ANYTHING, None),
        (PMML, ANYTHING, True),
        (ANYTHING, PMML, True),
        (TABLE, PMML, False),
        ("org.knime.python.llm.models.openai.OpenAIChatModelPortObject",
         "org.knime.python.llm.models.base.LLMPortObject", True),
        ("org.knime.database.port.DBSessionPortObject", PMML, None),
    ],
)  # fmt: skip
def test_classes_decide_what_can_be_connected(source, target, expected):
    assert is_connectable(source, target) is expected


def test_no_table_goes_to_a_writer_of_models(call):
    names = [node["name"] for node in call("find_compatible", node="CSV Reader", max_results=100)["nodes"]]
    assert "Model Writer" not in names
    after = call("find_compatible", node="Normalizer", port=1, max_results=100)["nodes"]
    assert "Model Writer" in [node["name"] for node in after]
