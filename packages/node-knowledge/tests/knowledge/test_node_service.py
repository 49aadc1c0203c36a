"""The tools by name: every answer in its schema, what is found and what fits, and never an empty answer."""

import jsonschema_rs
import pytest

from knime_mcp.types.errors import ArgumentsInvalid, ToolNotFound
from knime_node_knowledge.catalogue_file import CatalogueError
from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_details import tokens
from knime_node_knowledge.node_model import ENGINE_TYPES
from knime_node_knowledge.node_service import NodeKnowledgeMCPService, NodeKnowledgeService
from knime_node_knowledge.sources.catalogue_build import write_catalogue
from knime_node_knowledge.tool_definitions import TOOLS, TOOLS_BY_NAME

from .conftest import spec

V3_REGISTRY = {
    "TRIGGER": 6,
    "AI_AGENT": 3,
    "ACTION": 2,
    "EXTERNAL_ACTION": 7,
    "FLOW": 7,
    "HUMAN_IN_THE_LOOP": 6,
    "TOOL": 5,
    "MEMORY": 3,
}


@pytest.mark.requirement("N1", "N3", "V1")
def test_names_arguments_and_defaults_are_the_sources():
    assert [tool.name for tool in TOOLS[:3]] == ["get_node_types", "get_node_details", "search_nodes"]
    types, details, search = (tool.parameters for tool in TOOLS[:3])
    assert types["properties"]["type_filter"]["anyOf"][0]["enum"] == list(ENGINE_TYPES)
    assert details["required"] == ["nodes"]
    assert details["properties"]["include_examples"]["default"] is True
    assert details["properties"]["include_schemas"]["default"] is True
    assert search["required"] == ["query"]
    assert search["properties"]["max_results"]["default"] == 10
    assert search["properties"]["include_details"]["default"] is False


@pytest.mark.requirement("N2")
def test_descriptions_carry_the_guidance_about_people():
    for name in ("get_node_types", "get_node_details"):
        tool = TOOLS_BY_NAME[name]
        assert "HUMAN_IN_THE_LOOP" in tool.description
        assert "IF" in tool.description
        assert tool.workflow_guidance.startswith("❌ ANTI-PATTERN: HIL → AI_AGENT → IF.")
    assert {tool.category for tool in TOOLS} == {"workflow"}
    assert TOOLS_BY_NAME["get_node_types"].tags == ("nodes", "workflow", "specifications")


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_definitions_are_valid_and_their_examples_work(tools, tool):
    arguments = jsonschema_rs.validator_for(dict(tool.parameters))
    for example in tool.usage_examples:
        arguments.validate(example)
        jsonschema_rs.validate(dict(tool.output_schema), tools.invoke_tool(tool.name, example))


@pytest.mark.requirement("N1", "N4")
def test_types_are_those_of_the_sources_registry(call):
    found = call("get_node_types")
    assert {name: len(found[name]) for name in V3_REGISTRY} == V3_REGISTRY
    assert list(found)[:8] == [*V3_REGISTRY]
    assert found["_catalogue"]["version"]


def test_types_come_in_pages(call):
    first = call("get_node_types", max_results=10)
    assert list(first)[:3] == ["TRIGGER", "AI_AGENT", "ACTION"]
    second = call("get_node_types", max_results=10, cursor=first["_next_cursor"])
    assert second["ACTION"] == ["DATA_TRANSFORMATION"]


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ACTION_NODE", "ACTION"),
        ("HUMAN_LOOP_NODE", "HUMAN_IN_THE_LOOP"),
        ("trigger", "TRIGGER"),
        ("Ai Agent", "AI_AGENT"),
    ],
)
def test_a_type_filter_that_is_written_otherwise(call, written, meant):
    found = call("get_node_types", type_filter=written)
    assert [key for key in found if key[0] != "_"] == [meant]
    assert found["_warning"].startswith(f"Auto-corrected: '{written}' → '{meant}'.")


@pytest.mark.requirement("V2")
def test_search_hits_are_the_sources_fields_and_why(call):
    found = call("search_nodes", query="VLOOKUP", max_results="2")
    assert len(found["nodes"]) == 2
    first = found["nodes"][0]
    assert {"node_type", "subtype", "description", "relevance_score"} <= set(first)
    assert (first["name"], first["matched_field"], first["matched"]) == (
        "Value Lookup",
        "vocabulary",
        ["vlookup (Excel)"],
    )
    assert "configurations" in call("search_nodes", query="webhook", include_details=True)["nodes"][0]


def test_search_results_come_in_pages_that_fit_together(call):
    whole = [entry["name"] for entry in call("search_nodes", query="filter rows", max_results=12)["nodes"]]
    first = call("search_nodes", query="filter rows", max_results=5)
    second = call("search_nodes", query="filter rows", max_results=7, cursor=first["next_cursor"])
    assert [entry["name"] for entry in first["nodes"] + second["nodes"]] == whole


def test_a_search_in_one_type(call):
    found = call("search_nodes", query="slack", node_type="trigger_node")["nodes"]
    assert {entry["node_type"] for entry in found} == {"TRIGGER"}


def test_nothing_found_says_what_to_do(call):
    found = call("search_nodes", query="qqqqqqqq xxxxxxxx")
    assert (found["nodes"], found["total"]) == ([], 0)
    assert "knime-nodes build" in found["hint"]
    for blank in ("", " ", "?!"):
        assert "has no words" in call("search_nodes", query=blank)["hint"]


@pytest.mark.parametrize(
    ("query", "unknown"), [("read documents from MongoDB", "'mongodb'"), ("qqqzzz filter", "'qqqzzz'")]
)
def test_what_no_node_is_about_is_said(call, query, unknown):
    found = call("search_nodes", query=query)
    assert found["nodes"]
    assert f"No node here mentions {unknown};" in found["hint"]


@pytest.mark.parametrize(
    "query", ["compositionMode", "which node has the setting compositionMode", "Joiner compositionMode"]
)
def test_nodes_are_found_by_the_key_of_a_setting(call, query):
    found = call("search_nodes", query=query)
    assert found["nodes"][0]["name"] == "Joiner"
    assert "hint" not in found


def test_a_cursor_of_nobody_is_not_called_an_old_one(tools):
    with pytest.raises(ArgumentsInvalid, match="not one of this server"):
        tools.invoke_tool("search_nodes", {"query": "joiner", "cursor": "b:9"})


@pytest.mark.parametrize(
    "query", ["excell reader", "Zeilen filtern", "VLOOKUP", "df['a'].shift(1)", "Joiner"]
)
def test_nothing_is_called_unknown_that_was_understood(call, query):
    assert "hint" not in call("search_nodes", query=query)


@pytest.mark.requirement("N31", "V8")
def test_what_can_follow_a_port(call):
    found = call("find_compatible", node="Decision Tree Learner", max_results=1)
    assert found["nodes"][0]["via"]
    names = [
        entry["name"] for entry in call("find_compatible", node="CSV Reader", query="filter rows")["nodes"]
    ]
    assert names[0] == "Row Filter"
    # A table is a table, whatever a source calls its type beside that.
    assert call("find_compatible", node="CSV Reader")["nodes"][0]["via"][0]["type"] == "Table"
    before = call("find_compatible", node="CSV Writer", direction="before", max_results=100)
    assert {via["type"] for entry in before["nodes"] for via in entry["via"]} <= {"Table", "File System"}
    assert call("find_compatible", node="CSV Writer")["total"] == 0


def test_what_follows_in_public_workflows_comes_first(call, own_catalogue):
    usual = next(node for node in own_catalogue.nodes() if node.name == "CSV Reader" and not node.deprecated)
    found = call("find_compatible", node="CSV Reader", max_results=5)["nodes"]
    assert usual.followed_by
    assert found[0]["subtype"] in usual.followed_by


def test_of_several_nodes_with_one_name_the_ids_are_told(tmp_path):
    twins = [spec(subtype, name="Twin") for subtype in ("ONE", "TWO")]
    file = tmp_path / "nodes.sqlite"
    write_catalogue(file, twins)
    with Catalogue(file) as catalogue:
        service = NodeKnowledgeMCPService(catalogue)
        with pytest.raises(
            ArgumentsInvalid, match=r"2 nodes are called so: 'twin'.*by its id: ACTION\.ONE, ACTION\.TWO"
        ):
            service.invoke_tool("check_configuration", {"node": "twin", "settings": {}})
        (found,) = service.invoke_tool("get_node_details", {"nodes": ["twin"]})["nodes"]
        assert found["hint"] == "Say which by its id: ACTION.ONE, ACTION.TWO."


def test_a_port_that_is_not_there_is_refused_with_those_that_are(tools):
    with pytest.raises(ArgumentsInvalid, match=r"There is no port '7'.*0: File Table"):
        tools.invoke_tool("find_compatible", {"node": "CSV Reader", "port": 7})


def test_an_unknown_tool_is_answered_with_those_there_are(tools):
    with pytest.raises(ToolNotFound, match="get_node_types, get_node_details"):
        tools.invoke_tool("drop_nodes", {})


@pytest.mark.requirement("N5")
def test_a_broken_catalogue_is_an_error_and_never_an_empty_answer(tmp_path, catalogue_file):
    file = tmp_path / "nodes.sqlite"
    file.write_bytes(catalogue_file.read_bytes())
    with Catalogue(file) as catalogue:
        service, plain = NodeKnowledgeMCPService(catalogue), NodeKnowledgeService(catalogue)
        assert service.problem() is None
        for content in (b"no database", b"", catalogue_file.read_bytes()[:40_000], None):
            other = tmp_path / "other"
            if content is None:
                file.unlink()
            else:
                other.write_bytes(content)
                other.replace(file)
            for tool in TOOLS:
                with pytest.raises(CatalogueError, match="Build it again"):
                    service.invoke_tool(tool.name, tool.usage_examples[0])
            with pytest.raises(CatalogueError):
                plain.get_node_types()
            assert service.problem()


@pytest.mark.requirement("N12")
def test_the_sources_service_and_registry(own_catalogue):
    service = NodeKnowledgeService(own_catalogue)
    assert set(service.get_node_types()) >= set(V3_REGISTRY)
    assert list(service.get_node_types("AI_AGENT")) == ["AI_AGENT"]
    assert service.get_node_types("NOPE") == {}
    assert service.registry.get_spec("FLOW", "IF").id == "FLOW.IF"
    assert service.registry.get_spec("FLOW", "NOPE") is None
    assert len(service.registry.list_all_specs()) == own_catalogue.origin.nodes
    assert len(service.search_nodes("send email notification", 5)) == 5
    (found,) = service.get_node_details([{"node_type": "FLOW", "subtype": "IF"}], False, False)
    assert found["subtype"] == "IF"


def test_details_of_many_nodes_fit_a_model_and_nothing_is_left_out(call):
    wanted = [hit["name"] for hit in call("search_nodes", query="learner predictor", max_results=40)["nodes"]]
    told, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        answer = call("get_node_details", nodes=wanted, **({"cursor": cursor} if cursor else {}))
        assert 2 * tokens(answer["nodes"]) <= 8_000
        told += [node["name"] for node in answer["nodes"]]
        cursor, pages = answer.get("next_cursor"), pages + 1
    assert told == wanted
    assert pages < len(wanted) / 10


def test_a_few_nodes_come_in_full_and_more_in_short_which_is_said(call):
    assert "warning" not in call("get_node_details", nodes=["Row Filter", "CSV Writer"])
    answer = call("get_node_details", nodes=["Joiner"] * 2)
    assert answer["warning"] == "In the form 'standard': 'full' takes more than 8,000 tokens."
    whole = call("get_node_details", nodes=["Joiner"] * 2, max_tokens=100_000)
    assert "parameters" in whole["nodes"][1]


def test_no_list_is_longer_than_a_model_takes(subtests, call):
    for name, arguments in [
        ("get_node_types", {"max_results": 5_000}),
        ("search_nodes", {"query": "table", "max_results": 100, "detail": "full"}),
        ("find_compatible", {"node": "CSV Reader", "max_results": 100}),
    ]:
        with subtests.test(name=name):
            answer = call(name, **arguments)
            assert 2 * tokens(answer) <= 9_000
            assert answer.get("next_cursor") or answer.get("_next_cursor")
