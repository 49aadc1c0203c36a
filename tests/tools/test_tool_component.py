"""A tool as a component: a typed setting for each parameter, made by the Provider, too."""

import pytest

from knime_mcp.knwf import CONFIGURATION_FACTORIES, NativeNode, read_configuration
from knime_mcp.tools.tool_component import file_stem, save_component, tool_component
from knime_mcp.types.tool import MCPTool
from tests.support.archives import check_archive, read_workflow
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

pytestmark = pytest.mark.quick


SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for"},
        "limit": {"type": "integer", "default": 5, "minimum": 1, "maximum": 9},
        "page-2": {"type": "integer"},
        "exact": {"type": "boolean", "default": True},
        "ratio": {"type": "number", "default": 0.5},
        "order": {"enum": ["up", "down"]},
        "since": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["query", "order"],
}


def widgets(schema, url="https://h/mcp"):
    component, _ = tool_component(MCPTool("find it!", "Finds.", schema, url, "find"))
    return {
        node.annotation: read_configuration(node)
        for node in component.workflow.nodes
        if isinstance(node, NativeNode) and node.factory in CONFIGURATION_FACTORIES
    }


def test_a_setting_for_each_parameter_with_type_and_default():
    found = widgets(SCHEMA, "https://h/mcp#credential=crm")
    assert list(found)[:2] == ["query", "order"]  # what is required comes first
    assert {name: each.kind for name, each in found.items()} == {
        "query": "string",
        "order": "choice",
        "limit": "integer",
        "page-2": "string",
        "exact": "boolean",
        "ratio": "double",
        "since": "string",
        "tags": "string",
        "Credential": "credentials",
    }
    assert (found["limit"].value, found["limit"].minimum, found["limit"].maximum) == (5, 1, 9)
    assert (found["order"].value, found["order"].choices) == ("up", ("up", "down"))
    assert found["tags"].multi_line
    assert found["page-2"].parameter == "page_2_v"
    assert "optional" in found["since"].description
    assert "What to look for (string)" in found["query"].description


def test_the_kind_of_a_setting(subtests):
    for schema, required, expected in [
        ({"enum": ["a", "b"]}, False, {"kind": "choice", "value": "", "choices": ("", "a", "b")}),
        (
            {"anyOf": [{"const": 1}, {"const": 2}]},
            True,
            {"kind": "choice", "choices": ("1", "2"), "value": "1"},
        ),
        (
            {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}], "default": None},
            False,
            {"kind": "choice", "choices": ("", "a")},
        ),
        ({"anyOf": [{"enum": ["auto"]}, {"type": "integer"}]}, True, {"kind": "string", "choices": ()}),
        ({"type": "string", "format": "date"}, True, {"kind": "date", "date": "LOCAL_DATE", "now": True}),
        (
            {"type": "string", "format": "date-time", "default": "2020-02-03T04:05:06Z"},
            True,
            {"kind": "date", "date": "ZONED_DATE_TIME", "now": False, "value": "2020-02-03T04:05:06+00:00"},
        ),
        ({"type": "string", "format": "date", "default": "soon"}, True, {"kind": "string", "value": "soon"}),
        ({"type": "string", "format": "date-time"}, False, {"kind": "string"}),
        ({"type": "string", "contentEncoding": "base64"}, True, {"kind": "file", "value": ""}),
        ({"type": "string", "contentEncoding": "base64"}, False, {"kind": "string"}),
        ({"type": ["integer", "null"], "default": 3, "maximum": 9}, False, {"kind": "integer", "maximum": 9}),
        ({"type": "integer", "default": 2**40}, False, {"kind": "string", "value": str(2**40)}),
        ({"type": "number", "minimum": 10**400}, True, {"kind": "string", "value": ""}),
        ({"$ref": "#/$defs/Color"}, True, {"kind": "choice", "choices": ("red", "green")}),
        ({"type": "object"}, True, {"kind": "string", "multi_line": True}),
        ({}, True, {"kind": "string", "multi_line": True}),
        ({"type": "boolean"}, False, {"kind": "string", "pattern": "(true|false)?"}),
    ]:
        with subtests.test(schema=schema, required=required, expected=expected):
            root = {
                "type": "object",
                "properties": {"x": schema},
                "required": ["x"] if required else [],
                "$defs": {"Color": {"type": "string", "enum": ["red", "green"]}},
            }
            found = widgets(root)["x"]
            assert {name: getattr(found, name) for name in expected} == expected


def test_the_component_has_title_description_icon_and_two_outputs():
    named = MCPTool("t", "Finds\nthings.", SCHEMA, "https://h/mcp", "find", title="Find things")
    component, face = tool_component(named)
    assert component.workflow.name == "Find things"
    assert face.description.startswith("Find things\n\nFinds\nthings.")
    assert [name for name, _ in face.outputs] == ["Records", "Result"]
    assert face.icon.startswith(b"\x89PNG")
    names = {node.id: node.name for node in component.workflow.nodes}
    caller = next(node for node in component.workflow.nodes if node.name == "MCP Tool Caller")
    lines = [line for line in component.workflow.connections if line.destination == component.exit]
    assert [(names[line.source], caller.output_names[line.source_port - 1]) for line in lines] == [
        ("MCP Tool Caller", "Records"),
        ("MCP Tool Caller", "Results"),
    ]


def test_hostile_tools_become_components_that_pass_the_check(tmp_path):
    name = "\ud800<&>\x00 \u202e%00 " + "n" * 300
    names = ("", "a b", "a-b", "9", "\ud800")
    properties = {key: {"type": "string", "enum": [key, "<&\x01>"]} for key in names}
    schema = {"type": "object", "properties": properties, "required": ["a b", "9"]}
    hostile = MCPTool(name, name, schema, "https://h/mcp", name, title=name)
    assert save_component(hostile, tmp_path / "c.knwf") == len(properties)
    assert check_archive(tmp_path / "c.knwf") == []


def test_the_provider_saves_a_component_for_each_tool(host, tmp_path):
    tools = [tool("find", inputSchema=SCHEMA), tool("a/b", inputSchema={"type": "object"})]
    with ScriptedServer(modern(tools__list=rpc({"tools": tools}))) as server:
        settings = {"server_url": server.url, "save_components_to": "tools"}
        result = host.run("mcp_tool_provider", [None, None], settings, workflow_dir=tmp_path)
    assert result.ok, result.failure
    assert result.warnings == []
    files = sorted((tmp_path / "data" / "tools").glob("*.knwf"))
    assert [file.name for file in files] == ["a-b.knwf", "find.knwf"]
    assert [len(read_workflow(file).nodes) for file in files] == [3, 11]
    assert [check_archive(file) for file in files] == [[], []]


def test_names_of_files():
    assert file_stem(MCPTool("../../etc", "", {}, "https://h/mcp", "x")) == "etc"
    assert file_stem(MCPTool("!", "", {}, "https://h/mcp", "x")) == "tool"
