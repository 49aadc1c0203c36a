"""Tool definitions for a model: unchanged schemas of servers, and schemas made for workflows."""

import json

import pytest

from knime_mcp.agents.toolbox.toolset import (
    Toolset,
    arguments_schema,
    function_definition,
    port_names,
    token_estimate,
)
from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool, from_fields
from tests.support.servers.shapes import FOREST

pytestmark = pytest.mark.quick


def table_port(name, description=""):
    return ToolPort(name, description, "Table", None)


@pytest.mark.requirement("T19")
def test_the_servers_schema_as_it_came(tools_of, shapes):
    (bound,) = Toolset(tools_of(shapes.url("/modern/json/schemas"))).bound
    assert bound.definition == {
        "type": "function",
        "function": {"name": "forest", "description": "Forest", "parameters": FOREST},
    }
    assert json.dumps(bound.definition["function"]["parameters"]) == json.dumps(FOREST)


def test_langchain_binds_functions_as_they_are(tools_of, shapes):
    from langchain_core.utils.function_calling import convert_to_openai_tool

    for shape in ("schemas", "parameterless"):
        for bound in Toolset(tools_of(shapes.url(f"/modern/json/{shape}"))).bound:
            assert json.dumps(convert_to_openai_tool(bound.definition)) == json.dumps(bound.definition)


def test_tools_without_parameters_are_there(tools_of, shapes):
    toolset = Toolset(tools_of(shapes.url("/legacy/json/parameterless")))
    parameters = {bound.name: bound.definition["function"]["parameters"] for bound in toolset.bound}
    assert parameters == {
        "bare": {"type": "object"},
        "no_properties": {"type": "object", "properties": {}},
        "closed": {"type": "object", "additionalProperties": False},
        "empty_schema": {},
    }


def test_a_workflow_is_told_as_configuration_and_data_inputs():
    tool = WorkflowTool(
        "Top customers",
        "Finds the best customers",
        {"count": {"type": "integer", "default": 10, "description": "How many"}, "city": {"type": "string"}},
        0,
        (table_port("Customers", "All customers"), table_port("Orders")),
        (table_port("Best", "The best ones"),),
    )
    function = function_definition(tool, "Top_customers")["function"]
    assert function["description"].startswith("Finds the best customers")
    assert "Best (Table): The best ones" in function["description"]
    schema = function["parameters"]
    assert list(schema["properties"]) == ["configuration", "data_inputs"]
    assert schema["required"] == ["configuration", "data_inputs"]
    assert schema["properties"]["configuration"]["properties"] == tool.parameter_schema
    assert schema["properties"]["configuration"]["required"] == ["city"]
    assert schema["properties"]["data_inputs"]["required"] == ["Customers", "Orders"]


def test_only_what_is_required_is_required():
    optional = WorkflowTool("w", "", {"count": {"type": "integer", "default": 10}})
    assert arguments_schema(optional)["required"] == []
    assert arguments_schema(WorkflowTool("w", "", ""))["properties"] == {}
    fed = WorkflowTool("w", "", "", -1, (table_port("In"),))
    assert arguments_schema(fed)["required"] == ["data_inputs"]


def test_ports_of_one_name_are_told_apart():
    ports = [table_port(name) for name in ("Table", "Table", "", "Table (2)")]
    assert port_names(ports) == ("Table", "Table (3)", "port 3", "Table (2)")


def test_a_title_stands_in_for_a_missing_description():
    tool = MCPTool("t", "", {}, "https://h.example", "t", title="Does it")
    assert function_definition(tool, "t")["function"]["description"] == "Does it"


@pytest.mark.parametrize(("schema", "declared"), [("{", None), ("{}", "{"), ("{}", '{"annotations": 1}')])
def test_malformed_schemas_name_the_row(schema, declared):
    uri = "https://h.example/mcp"
    tool = from_fields(1, "t", "Does it", schema, None, declared, -1, None, uri, row="Row7")
    with pytest.raises(ToolFormatError, match="Row7"):
        Toolset([tool])


def test_the_token_estimate_is_a_quarter_of_the_json():
    definition = function_definition(MCPTool("t", "", {}, "https://h.example", "t"), "t")
    size = len(json.dumps(definition, separators=(",", ":")))
    assert token_estimate([definition, definition]) == 2 * -(-size // 4)
