"""The tools by name: every answer in its schema, slips corrected and said, bad input refused."""

import json
from contextlib import suppress
from dataclasses import replace

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.knowledge.answers.detail_levels import (
    MINIMAL_TOKENS,
    STANDARD_TOKENS,
    DetailLevel,
    details_at,
    tokens,
)
from knime_mcp.knowledge.answers.tool_definitions import NODE_TYPES, TOOLS, TOOLS_BY_NAME
from knime_mcp.knowledge.building.writing import write_catalogue
from knime_mcp.knowledge.catalogue import Catalogue
from knime_mcp.knowledge.errors import CatalogueError
from knime_mcp.knowledge.model import NodeSpec, Origin, Parameter, Port, SourceKind
from knime_mcp.knowledge.service import NodeKnowledgeMCPService, NodeKnowledgeService
from knime_mcp.types.errors import ArgumentsInvalid, ToolNotFound

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
V3_FIELDS = {
    "node_type",
    "subtype",
    "version",
    "description",
    "parameters",
    "configurations",
    "input_params_schema",
    "output_params_schema",
    "default_configurations",
    "default_input_params",
    "default_output_params",
    "input_ports",
    "output_ports",
    "tags",
}
WARNING = "Auto-corrected: 'ACTION_NODE' → 'ACTION'. Please use correct format without '_NODE' suffix."


@pytest.fixture
def call(tools):
    def invoke(name, **arguments):
        found = tools.invoke_tool(name, arguments)
        jsonschema_rs.validate(dict(TOOLS_BY_NAME[name].output_schema), found)
        return found

    return invoke


def node_details(call, node_type, subtype, **options):
    (found,) = call("get_node_details", nodes=[{"node_type": node_type, "subtype": subtype}], **options)[
        "nodes"
    ]
    return found


@pytest.mark.requirement("N1", "N3", "V1")
def test_names_arguments_and_defaults_are_the_sources():
    assert [tool.name for tool in TOOLS[:3]] == ["get_node_types", "get_node_details", "search_nodes"]
    types, details, search = (tool.parameters for tool in TOOLS[:3])
    assert types["properties"]["type_filter"]["anyOf"][0]["enum"] == list(NODE_TYPES)
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


@pytest.mark.requirement("N6", "N8", "N11")
@pytest.mark.parametrize("node_type", NODE_TYPES)
def test_every_field_of_the_sources_reply(call, own_catalogue, node_type):
    for spec in own_catalogue.nodes(node_type):
        found = node_details(call, spec.node_type, spec.subtype)
        assert set(found) >= V3_FIELDS
        assert ("attached_nodes" in found) == (node_type == "AI_AGENT")
        for parameter in found["parameters"]:
            wanted = {
                "name",
                "type",
                "required",
                "default_value",
                "description",
                "enum_values",
                "validation_pattern",
            }
            assert set(parameter) >= wanted
        for port in found["input_ports"] + found["output_ports"]:
            wanted = {
                "name",
                "type",
                "required",
                "description",
                "max_connections",
                "data_format",
                "validation_schema",
            }
            assert set(port) >= wanted


@pytest.mark.requirement("N6", "N7")
def test_the_sources_example_of_an_agent(call):
    found = node_details(call, "AI_AGENT", "OPENAI_CHATGPT")
    settings = found["configurations"]
    assert {"type", "default", "description", "required", "options"} <= set(settings["model_version"])
    assert (settings["temperature"]["min"], settings["temperature"]["max"]) == (0, 2)
    # What may be left out and has no default is no default: nobody wants answers of at most one token.
    wanted = {"model_version": "gpt-4", "temperature": 0.7, "system_prompt": ""}
    assert found["default_configurations"] == wanted
    assert "max_tokens" in settings
    request = node_details(call, "ACTION", "HTTP_REQUEST")
    assert request["configurations"]["url"]["required"] is True
    assert request["default_configurations"]["url"] == ""
    assert found["input_params_schema"]["user_input"]["required"] is True
    assert found["default_input_params"]["user_input"] == ""
    assert found["default_output_params"]["output"] == ""
    assert found["examples"]


def test_examples_and_schemas_can_be_left_out(call):
    found = node_details(call, "AI_AGENT", "OPENAI_CHATGPT", include_examples="false", include_schemas=False)
    assert not {"examples", "input_params_schema", "output_params_schema"} & set(found)


@pytest.mark.requirement("N9")
def test_the_suffix_is_corrected_with_the_sources_words(call):
    found = node_details(call, "ACTION_NODE", "HTTP_REQUEST")
    assert (found["node_type"], found["subtype"], found["warning"]) == ("ACTION", "HTTP_REQUEST", WARNING)


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("node_type", "subtype", "meant"),
    [
        ("TRIGGER_NODE", "TRIGGER_MANUAL", "TRIGGER.MANUAL"),
        ("AI_AGENT_NODE", "OPENAI_NODE", "AI_AGENT.OPENAI_CHATGPT"),
        ("HUMAN_LOOP_NODE", "HUMAN_SLACK", "HUMAN_IN_THE_LOOP.SLACK_INTERACTION"),
        ("action", "http_request", "ACTION.HTTP_REQUEST"),
        ("Action", "HTTP Request", "ACTION.HTTP_REQUEST"),
    ],
)
def test_old_names_and_other_cases_are_corrected_with_a_warning(call, node_type, subtype, meant):
    found = node_details(call, node_type, subtype)
    assert f"{found['node_type']}.{found['subtype']}" == meant
    assert found["warning"].startswith("Auto-corrected:")


@pytest.mark.requirement("N10", "V4")
def test_a_batch_keeps_what_is_there(call):
    wanted = [("TRIGGER", "WEBHOOK"), ("TRIGGER", "WEBHOKO"), ("NOPE", "HTTP_REQUEST"), ("FLOW", "IF")]
    nodes = [{"node_type": node_type, "subtype": subtype} for node_type, subtype in wanted]
    first, typo, no_type, last = call("get_node_details", nodes=nodes)["nodes"]
    assert (first["subtype"], last["subtype"]) == ("WEBHOOK", "IF")
    assert "error" not in first
    assert typo["error"] == "Node specification not found"
    assert typo["suggestions"][0]["subtype"] == "WEBHOOK"
    assert len(typo["suggestions"]) <= 3
    assert typo["valid"] == ["MANUAL", "WEBHOOK", "CRON", "GITHUB", "SLACK", "EMAIL"]
    assert "There is no node type 'NOPE'" in no_type["hint"]
    assert no_type["suggestions"][0]["subtype"] == "HTTP_REQUEST"
    assert set(no_type["valid"]) >= set(V3_REGISTRY)


def test_a_node_that_is_gone_is_answered_with_the_nearest_and_why(call):
    found = node_details(call, "ACTION_NODE", "RUN_CODE")
    assert found["error"]
    first = found["suggestions"][0]
    assert (first["node_type"], first["subtype"]) == ("ACTION", "DATA_TRANSFORMATION")


@pytest.mark.requirement("V5")
def test_levels_keep_their_budgets(own_catalogue):
    for spec in own_catalogue.nodes():
        assert tokens(details_at(DetailLevel.MINIMAL, spec)) <= MINIMAL_TOKENS
        assert tokens(details_at(DetailLevel.STANDARD, spec)) <= STANDARD_TOKENS


def test_levels_keep_their_budgets_in_every_script():
    ports = tuple(Port(name="表" * 60, type="データ" * 20, description="行" * 400) for _ in range(3))
    settings = tuple(Parameter(name=f"設定{number}", description="説明" * 300) for number in range(200))
    spec = NodeSpec(
        id="TYPE.JOIN",
        node_type="TYPE",
        subtype="JOIN",
        name="結合" * 5,
        short_description="表を結合します。" * 50,
        description="説明" * 2_000,
        input_ports=ports,
        output_ports=ports,
        configurations=settings,
        origin=Origin(kind=SourceKind.SPEC_PACK, name="p", version="1"),
    )
    for level, budget in {DetailLevel.MINIMAL: MINIMAL_TOKENS, DetailLevel.STANDARD: STANDARD_TOKENS}.items():
        found = details_at(level, spec)
        assert tokens(found) <= budget
        assert found["description"].startswith("表を結合")
        assert "input_ports" in found or "inputs" in found
        endless = details_at(level, replace(spec, name="結合" * 2_000))
        assert tokens(endless) <= budget
        assert endless["description"].startswith("表を結合")


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
    assert set(call("search_nodes", query="webhook", include_details=True)["nodes"][0]) >= V3_FIELDS


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
    assert found["hint"]


@pytest.mark.requirement("N31", "V8")
def test_what_can_follow_a_port(call):
    found = call("find_compatible", node="Decision Tree Learner", max_results=1)
    assert found["nodes"][0]["via"]
    names = [
        entry["name"] for entry in call("find_compatible", node="CSV Reader", query="filter rows")["nodes"]
    ]
    assert names[0] == "Row Filter"
    before = call("find_compatible", node="CSV Writer", direction="before", max_results=100)
    assert all(via["type"] == "Table" for entry in before["nodes"] for via in entry["via"])
    assert call("find_compatible", node="CSV Writer")["total"] == 0


def test_of_several_nodes_with_one_name_the_ids_are_told(tmp_path):
    origin = Origin(kind=SourceKind.SPEC_PACK, name="p", version="1")
    twins = [
        NodeSpec(id=f"T.{name}", node_type="T", subtype=name, name="Twin", origin=origin)
        for name in ("ONE", "TWO")
    ]
    file = tmp_path / "nodes.sqlite"
    write_catalogue(file, twins)
    with Catalogue(file) as catalogue:
        service = NodeKnowledgeMCPService(catalogue)
        with pytest.raises(
            ArgumentsInvalid, match=r"2 nodes are called so: 'twin'.*by its id: T\.ONE, T\.TWO"
        ):
            service.invoke_tool("check_configuration", {"node": "twin", "settings": {}})
        (found,) = service.invoke_tool("get_node_details", {"nodes": ["twin"]})["nodes"]
        assert found["hint"] == "Say which by its id: T.ONE, T.TWO."


def test_a_port_that_is_not_there_is_refused_with_those_that_are(tools):
    with pytest.raises(ArgumentsInvalid, match=r"There is no port '7'.*0: data"):
        tools.invoke_tool("find_compatible", {"node": "CSV Reader", "port": 7})


@pytest.mark.requirement("W2")
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "search_nodes",
            {"query": "x", "limit": 3},
            r"no argument 'limit'.*Allowed arguments: query \(required\)",
        ),
        ("search_nodes", {}, "'query' is missing"),
        ("search_nodes", {"query": "x", "max_results": "many"}, "whole number"),
        ("search_nodes", {"query": "x", "max_results": 1.5}, "whole number"),
        ("search_nodes", {"query": "x", "max_results": True}, "whole number"),
        ("search_nodes", {"query": ["x"]}, "must be a text"),
        ("search_nodes", {"query": "x", "include_details": "maybe"}, "true or false"),
        ("search_nodes", {"query": "x", "detail": "huge"}, "minimal, standard, full"),
        ("search_nodes", {"query": "x", "cursor": "1; DROP TABLE nodes"}, "cursor"),
        ("search_nodes", {"query": "x", "node_type": "'; --"}, "Node types: TRIGGER"),
        ("get_node_types", {"type_filter": "ACTON"}, "Node types: TRIGGER"),
        ("get_node_details", {"nodes": []}, "1 to 100"),
        ("get_node_details", {"nodes": 7}, "must be a list"),
        ("get_node_details", {"nodes": [{"type": "TRIGGER"}]}, "node_type and subtype"),
        ("find_compatible", {"node": "CSV Reader", "port": 0.5}, "whole number"),
        ("find_compatible", {"node": "CSV Reader", "port": True}, "whole number"),
        ("find_compatible", {"node": 7.5}, "id, a name"),
        ("check_configuration", {"node": "FLOW.IF", "settings": "no object"}, "must be an object"),
        ("check_configuration", {"node": "FLOW.IFF", "settings": {}}, "Did you mean FLOW.IF"),
    ],
)
def test_bad_arguments_are_refused_with_what_is_allowed(tools, name, arguments, said):
    with pytest.raises(ArgumentsInvalid, match=said):
        tools.invoke_tool(name, arguments)


def test_arguments_as_models_send_them(call):
    text = json.dumps([{"node_type": "FLOW", "subtype": "IF"}])
    for nodes in (text, {"node_type": "FLOW", "subtype": "IF"}, ["FLOW.IF"], "FLOW.IF"):
        (found,) = call("get_node_details", nodes=nodes, detail="MINIMAL")["nodes"]
        assert found["subtype"] == "IF"
    assert call("find_compatible", node="CSV Reader", port=0.0)["total"]
    assert call("search_nodes", query=42, max_results="3.0", cursor=None, include_details=None)["catalogue"]
    assert "max_results is 100" in call("search_nodes", query="row", max_results=5_000)["warning"]


def test_an_unknown_tool_is_answered_with_those_there_are(tools):
    with pytest.raises(ToolNotFound, match="get_node_types, get_node_details"):
        tools.invoke_tool("drop_nodes", {})


SQL = [
    "' OR '1'='1",
    "'; DROP TABLE nodes; --",
    '" UNION SELECT * FROM meta',
    "x\x00y",
    "\ud800",
    "9" * 10_000,
    "%",
    "TRIGGER.%",
]


@pytest.mark.parametrize("text", SQL, ids=lambda text: ascii(text[:12]))
def test_sql_in_every_argument_is_text(tools, text):
    for tool in TOOLS:
        for name in tool.parameters["properties"]:
            arguments = {"query": "row", "node": "FLOW.IF", "settings": {}, "nodes": ["FLOW.IF"]}
            given = {key: value for key, value in arguments.items() if key in tool.parameters["properties"]}
            for value in (text, {"id": text}, [{"node_type": text, "subtype": text}], {text: text}):
                with suppress(ArgumentsInvalid):
                    tools.invoke_tool(tool.name, given | {name: value})
    assert tools.invoke_tool("get_node_types")["TRIGGER"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_arguments_give_an_answer_in_its_schema_or_a_refusal(tools, data):
    tool = data.draw(st.sampled_from(TOOLS))
    arguments = {name: data.draw(JSON) for name in tool.parameters["properties"] if data.draw(st.booleans())}
    with suppress(ArgumentsInvalid):
        found = tools.invoke_tool(tool.name, arguments)
        jsonschema_rs.validate(dict(tool.output_schema), found)


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
