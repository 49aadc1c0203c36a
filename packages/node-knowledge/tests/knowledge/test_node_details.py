"""Details of nodes: every field of the sources' reply, slips corrected, levels within their budgets."""

from dataclasses import replace

import pytest

from knime_node_knowledge.node_details import (
    MINIMAL_TOKENS,
    STANDARD_TOKENS,
    DetailLevel,
    details_at,
    tokens,
)
from knime_node_knowledge.node_model import ENGINE_TYPES, NodeParameter, NodeSpec, Origin, Port, SourceKind
from tests.knowledge.test_node_service import V3_REGISTRY

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


def node_details(call, node_type, subtype, **options):
    (found,) = call("get_node_details", nodes=[{"node_type": node_type, "subtype": subtype}], **options)[
        "nodes"
    ]
    return found


@pytest.mark.requirement("N6", "N8", "N11")
@pytest.mark.parametrize("node_type", ENGINE_TYPES)
def test_every_field_of_the_sources_reply(call, own_catalogue, node_type):
    for spec in (node for node in own_catalogue.nodes() if node.node_type == node_type):
        found = node_details(call, spec.node_type, spec.subtype)
        assert set(found) >= V3_FIELDS
        assert ("attached_nodes" in found) == (node_type == "AI_AGENT")
        for parameter in found["parameters"]:
            wanted = {"default_value", "enum_values", "validation_pattern"}
            assert set(parameter) >= {"name", "type", "required", "description"} | wanted
        for port in found["input_ports"] + found["output_ports"]:
            wanted = {"max_connections", "data_format", "validation_schema"}
            assert set(port) >= {"name", "type", "required", "description"} | wanted


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


@pytest.mark.parametrize("name", ["JOINER_NODE", "Joiner Node", "joiner node"])
def test_the_suffix_is_corrected_in_a_name_without_a_type(call, name):
    (found,) = call("get_node_details", nodes=[name])["nodes"]
    assert (found["name"], found["warning"].partition(".")[0]) == (
        "Joiner",
        f"Auto-corrected: '{name}' → 'MANIPULATOR",
    )


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
    settings = tuple(NodeParameter(name=f"設定{number}", description="説明" * 300) for number in range(200))
    spec = NodeSpec(
        id="TYPE.JOIN",
        node_type="TYPE",
        subtype="JOIN",
        name="結合" * 5,
        short_description="表を結合します。" * 50,
        description="説明" * 2_000,
        input_ports=ports,
        output_ports=ports,
        parameters=settings,
        settings_known=True,
        origin=Origin(kind=SourceKind.SPEC_PACK, name="p", version="1"),
    )
    for level, budget in {DetailLevel.MINIMAL: MINIMAL_TOKENS, DetailLevel.STANDARD: STANDARD_TOKENS}.items():
        found = details_at(level, spec)
        assert tokens(found) <= budget
        assert tokens(details_at(level, replace(spec, settings_known=False))) <= budget
        assert found["description"].startswith("表を結合")
        assert "input_ports" in found or "inputs" in found
        endless = details_at(level, replace(spec, name="結合" * 2_000))
        assert tokens(endless) <= budget
        assert endless["description"].startswith("表を結合")


def test_what_a_dialog_shows_is_told_where_keys_are_not_known():
    """As KNIME's descriptions have it: labels, the same one perhaps on two tabs, and no types of ports."""
    labels = tuple(NodeParameter(name="Column", description=f"Of tab {tab}.", tab=tab) for tab in "AB")
    spec = NodeSpec(
        id="org.a.JoinNodeFactory",
        node_type="MANIPULATOR",
        subtype="org.a.JoinNodeFactory",
        name="Join",
        parameters=labels,
        input_ports=(Port(name="Left"), Port(name="Right", optional=True)),
        origin=Origin(kind=SourceKind.KNIME, name="org.a", version="1"),
    )
    minimal = details_at(DetailLevel.MINIMAL, spec)
    assert (minimal["settings"], minimal["inputs"]) == (2, ["Left", "Right (optional)"])
    standard = details_at(DetailLevel.STANDARD, spec)
    assert standard["parameters"] == [
        {"name": "Column", "description": "Of tab A."},
        {"name": "Column", "description": "Of tab B."},
    ]
    assert standard["settings_known"] is False
    assert "configurations" not in standard
    full = details_at(DetailLevel.FULL, spec)
    assert [entry["tab"] for entry in full["parameters"]] == ["A", "B"]
    assert full["configurations"] == {}
