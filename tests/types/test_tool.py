import copy
import dataclasses
import pickle

import pytest
from hypothesis import given

from knime_mcp.types import texts as texts_module
from knime_mcp.types.errors import SettingInvalid, ToolFormatError
from knime_mcp.types.tool import MCPTool, ToolPort, ToolType, WorkflowTool, describe, from_fields
from tests.types.strategies import mcp_tools, tools, workflow_tools

SCHEMA = '{ "type": "object",\n "properties": {"b": {}, "a": {"type": "number", "default": 1.0}} }'


def search(**changes):
    given = {
        "name": "search",
        "description": "Finds things",
        "parameter_schema": SCHEMA,
        "server_uri": "https://host/mcp",
        "tool_name": "search",
    }
    return MCPTool(**given | changes)


@pytest.mark.requirement("T4")
def test_the_discriminators():
    assert [(member.name, member.value) for member in ToolType] == [("WORKFLOW", 0), ("MCP", 1)]


@pytest.mark.requirement("T5")
@pytest.mark.requirement("T8")
def test_fields_of_an_mcp_tool():
    names = [field.name for field in dataclasses.fields(MCPTool) if field.init]
    assert names[:5] == ["name", "description", "parameter_schema", "server_uri", "tool_name"]
    assert not {"input_schema", "output_type"} & set(names)
    positional = MCPTool("n", "d", {"a": 1}, "https://h", "t")
    assert (positional.name, positional.server_uri, positional.tool_name) == ("n", "https://h", "t")


@pytest.mark.requirement("T6")
@given(tools)
def test_every_tool_knows_its_type(tool):
    assert tool.tool_type is (ToolType.MCP if isinstance(tool, MCPTool) else ToolType.WORKFLOW)


def test_schema_text_stays_as_it_came():
    tool = search()
    assert tool.schema_json == SCHEMA
    assert list(tool.parameter_schema["properties"]) == ["b", "a"]
    assert search(parameter_schema={"b": 1, "a": "ü"}).schema_json == '{"b":1,"a":"ü"}'


def test_schemas_are_parsed_when_asked_for_and_once_per_text(monkeypatch):
    parsed = []
    real = texts_module.json.loads
    monkeypatch.setattr(texts_module.json, "loads", lambda text: parsed.append(text) or real(text))
    text = SCHEMA + " " * 7
    first, second = search(parameter_schema=text), search(name="other", parameter_schema=text)
    assert parsed == []
    assert first.parameter_schema is second.parameter_schema
    assert first.parameter_schema is first.parameter_schema
    assert parsed == [text]


@pytest.mark.parametrize("text", ["{", "[1]", "null", '"a"', "[" * 100_000])
def test_a_malformed_schema_names_tool_and_field(text):
    with pytest.raises(ToolFormatError, match=r"parameter_schema.*tool search"):
        _ = search(parameter_schema=text).parameter_schema


@given(tools)
def test_equal_by_value_and_usable_as_key(tool):
    twin = copy.deepcopy(tool)
    assert twin == tool
    assert hash(twin) == hash(tool)
    assert pickle.loads(pickle.dumps(tool)) == tool
    assert dataclasses.replace(tool) == tool
    assert dataclasses.replace(tool, name=tool.name + "x") != tool
    assert dataclasses.replace(tool, parameter_schema={"surely": "another"}) != tool
    assert tool != "tool"


def test_the_layout_of_schema_text_does_not_count_for_equality():
    assert search() == search(parameter_schema=search().parameter_schema)
    assert search(parameter_schema="{") == search(parameter_schema="{")


def test_tools_of_which_nobody_can_read_the_texts_are_compared_all_the_same():
    def cell(schema, declared):
        return from_fields(1, "t", "", schema, None, declared, -1, None, "https://host/mcp")

    bad = cell("{", "{")
    assert bad == cell("{", "{")
    for schema, declared in (("{}", "{"), ("{", None), ("{", "[")):
        assert bad != cell(schema, declared)


@given(workflow_tools, mcp_tools)
def test_the_two_kinds_are_never_equal(workflow, mcp):
    assert workflow != mcp


def test_tools_are_frozen():
    for field in ("name", "parameter_schema", "server_uri"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(search(), field, "x")


def test_what_knime_keeps_does_not_count_for_equality():
    assert WorkflowTool("w", "", "", native=object()) == WorkflowTool("w", "", "")


def test_ports_may_come_as_a_list():
    port = ToolPort("in", "", "Table")
    assert WorkflowTool("w", "", "", input_ports=[port]).input_ports == (port,)


def test_the_uri_never_holds_the_tools_name():
    tool = search(server_uri="https://host/mcp#tool=other&credential=prod")
    assert tool.server_uri == "https://host/mcp#credential=prod"
    assert tool.tool_name == "search"
    assert tool.route.credential == "prod"


def test_the_route_is_parsed_once_per_text():
    assert search().route is search(name="other").route


def test_the_pin():
    assert search().digest is None
    assert search(server_uri="https://host/mcp#digest=sha256:00").digest == "sha256:00"


@pytest.mark.parametrize("uri", ["", "host", "https://u:S3CRET@host/", "https://host/?api_key=S3CRET"])
def test_no_tool_is_made_with_a_uri_that_cannot_work_or_holds_a_secret(uri):
    with pytest.raises(SettingInvalid) as caught:
        search(server_uri=uri)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.requirement("T64")
def test_debug_display_names_each_kind():
    assert describe(WorkflowTool("forecast", "", "")) == "workflow tool 'forecast'"
    assert describe(search()) == "MCP tool 'search' on https://host/mcp"
    renamed = search(name="a_search", server_uri="https://host/mcp?k={credential.password}#credential=prod")
    assert describe(renamed) == "MCP tool 'a_search' on https://host/mcp as 'search'"
    assert repr(renamed) == f"<{describe(renamed)}>"


@given(tools)
def test_a_tool_can_always_be_shown(tool):
    assert repr(tool)


def test_no_text_of_a_tool_has_lone_surrogates():
    bad = "a\ud800b"
    mcp = search(name=bad, description=bad, parameter_schema={bad: bad}, tool_name=bad, title=bad)
    workflow = WorkflowTool(bad, bad, f'{{"{bad}": 1}}', input_ports=(ToolPort(bad, bad, bad, bad),))
    texts = [
        mcp.name,
        mcp.description,
        mcp.schema_json,
        mcp.tool_name,
        mcp.title,
        mcp.declared_json,
        mcp.cell_uri,
    ]
    texts += [workflow.name, workflow.description, workflow.schema_json, workflow.input_spec]
    for text in texts:
        text.encode()
    assert search(annotations={"title": bad}).declared_json == '{"annotations":{"title":"a\ufffdb"}}'
