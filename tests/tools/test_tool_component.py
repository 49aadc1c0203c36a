"""A tool as a workflow: a setting for each parameter, made by the Provider, too."""

from knime_mcp.knwf import read_configuration, read_workflow
from knime_mcp.tools.tool_component import file_stem, tool_workflow
from knime_mcp.types.tool import MCPTool
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

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


def widgets(workflow):
    return {node.annotation: read_configuration(node) for node in workflow.nodes[:-1]}


def test_a_setting_for_each_parameter_with_type_and_default():
    made = tool_workflow(MCPTool("find it!", "Finds.", SCHEMA, "https://h/mcp#credential=crm", "find"))
    found = widgets(made)
    assert list(found)[:2] == ["query", "order"]  # what is required comes first
    assert {name: each.kind for name, each in found.items()} == {
        "query": "string",
        "order": "string",
        "limit": "integer",
        "page-2": "string",
        "exact": "boolean",
        "ratio": "double",
        "since": "string",
        "tags": "string",
        "Credential": "credentials",
    }
    assert (found["limit"].value, found["limit"].minimum, found["limit"].maximum) == (5, 1, 9)
    assert (found["order"].value, found["order"].pattern) == ("up", "(up|down)")
    assert found["page-2"].parameter == "page-2-x"
    assert "optional" in found["since"].description
    assert "What to look for (string)" in found["query"].description
    assert made.name == "find-it"


def test_the_provider_saves_a_workflow_for_each_tool(host, tmp_path):
    tools = [tool("find", inputSchema=SCHEMA), tool("a/b", inputSchema={"type": "object"})]
    with ScriptedServer(modern(tools__list=rpc({"tools": tools}))) as server:
        settings = {"server_url": server.url, "save_components_to": "tools"}
        result = host.run("mcp_tool_provider", [None, None], settings, workflow_dir=tmp_path)
    assert result.ok, result.failure
    assert result.warnings == []
    files = sorted((tmp_path / "data" / "tools").glob("*.knwf"))
    assert [file.name for file in files] == ["a-b.knwf", "find.knwf"]
    assert [len(read_workflow(file).nodes) for file in files] == [1, 9]


def test_names_of_files():
    assert file_stem(MCPTool("../../etc", "", {}, "https://h/mcp", "x")) == "etc"
    assert file_stem(MCPTool("!", "", {}, "https://h/mcp", "x")) == "tool"
