import json

import pytest

from knime_mcp.tools import ToolDefinition
from knime_mcp.types.errors import ProtocolError
from knime_mcp.types.routing import ServerRoute

pytestmark = pytest.mark.quick


RAW = {
    "name": "remote",
    "title": "Title",
    "description": "Does",
    "inputSchema": {"type": "object", "z": 1, "properties": {"b": {}, "a": {"$ref": "#"}}, "a": 2},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "title": "Annotated"},
    "icons": [],
    "_meta": {"k": 1},
}


def test_a_definition_keeps_everything():
    definition = ToolDefinition.from_raw(RAW)
    assert definition.raw == RAW
    assert definition.display_title == "Title"
    assert (definition.read_only, definition.destructive) == (True, False)
    assert list(json.loads(definition.input_schema_json)) == list(RAW["inputSchema"])


@pytest.mark.requirement("T5")
def test_a_definition_becomes_a_tool():
    route = ServerRoute("https://h/mcp", credential="c")
    tool = ToolDefinition.from_raw(RAW).to_tool(route, shown_name="shown")
    assert (tool.name, tool.tool_name, tool.server_uri) == ("shown", "remote", route.uri)
    assert tool.parameter_schema == RAW["inputSchema"]
    assert json.loads(tool.schema_json) == RAW["inputSchema"]
    assert (tool.title, tool.output_schema, tool.annotations) == (
        "Title",
        RAW["outputSchema"],
        RAW["annotations"],
    )


def test_sloppy_definitions_are_read():
    definition = ToolDefinition.from_raw({"name": "x", "title": 3, "inputSchema": None, "annotations": []})
    assert (definition.title, definition.description, definition.input_schema) == (None, None, {})
    assert (definition.annotations, definition.read_only, definition.display_title) == (None, None, "x")
    with pytest.raises(ProtocolError):
        ToolDefinition.from_raw({"name": ""})


def test_the_digest_covers_what_a_person_saw():
    base = ToolDefinition.from_raw(RAW).digest
    assert base == ToolDefinition.from_raw({**RAW, "icons": [1], "_meta": None}).digest
    for key in ("name", "title", "description", "inputSchema", "outputSchema", "annotations"):
        changed = {**RAW, key: {"type": "object", "x": 1} if isinstance(RAW[key], dict) else "other"}
        assert ToolDefinition.from_raw(changed).digest != base
