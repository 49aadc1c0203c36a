import json

import pytest
from hypothesis import given

from knime_mcp.types.arrow import decode_tools, encode_tools
from knime_mcp.types.errors import ToolFormatError
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool, WorkflowTool, from_json_text, to_json_text
from knime_mcp.types.tool_bytes import from_bytes, to_bytes
from tests.types.strategies import tools

MCP = MCPTool(
    "a_search", "Fïnds", '{"b":1, "a":2}', "https://h/mcp", "search", annotations={"readOnlyHint": True}
)


@given(tools)
def test_reading_undoes_writing(tool):
    text = to_json_text(tool)
    assert from_json_text(text) == tool
    assert from_json_text(text).schema_json == tool.schema_json
    assert canonical_json(json.loads(text)) == text
    assert from_json_text(json.dumps(json.loads(text), indent=2)) == tool


def test_the_text_is_frozen():
    assert to_json_text(MCP) == (
        '{"description":"Fïnds","input_spec":null,"message_output_port_index":-1,"name":"a_search",'
        '"output_spec":"{\\"annotations\\":{\\"readOnlyHint\\":true}}","parameter_schema":'
        '"{\\"b\\":1, \\"a\\":2}",'
        '"server_uri":"https://h/mcp#tool=search","tool_type":1,"workflow_filestore":null}'
    )


def test_what_was_read_can_be_written_in_every_form_though_json_can_hold_half_a_character():
    text = '{"tool_type": 1, "name": "a\\ud800", "description": "\\udfff", "server_uri": "https://h/mcp"}'
    tool = from_json_text(text)
    assert (tool.name, tool.description) == ("a\ufffd", "\ufffd")
    assert decode_tools(encode_tools([tool])) == [from_bytes(to_bytes(tool))] == [tool]


def test_fields_that_do_not_apply_may_be_left_out():
    text = '{"tool_type": 1, "name": "n", "server_uri": "https://h"}'
    assert from_json_text(text) == MCPTool("n", "", "", "https://h", "n")
    assert from_json_text('{"tool_type": 0, "name": "n"}') == WorkflowTool("n", "", "")


def test_malformed_text_names_row_and_field(subtests):
    for text, field, why in [
        ("", "tool_type", "not JSON"),
        ("{x", "tool_type", "not JSON"),
        ("[" * 100_000, "tool_type", "too deep"),
        ("[]", "tool_type", "not an object"),
        ("1", "tool_type", "not an object"),
        ('{"tool_type": ' + "1" * 5000 + "}", "tool_type", "too many digits"),
        ('{"tool_type": 1, "name": "n", "\\ud800": "x"}', "\ud800", "unknown field '\ufffd'"),
        (
            '{"tool_type": 0, "name": "n", "message_output_port_index": 2147483648}',
            "message_output_port_index",
            "must be a number of 32 bits",
        ),
        ("{}", "name", "missing"),
        ('{"tool_type": 2, "name": "n"}', "tool_type", "type 2 is unknown"),
        ('{"tool_type": true, "name": "n"}', "tool_type", "must be a number"),
        ('{"tool_type": "mcp", "name": "n"}', "tool_type", "must be a number"),
        ('{"tool_type": 1, "name": 1}', "name", "must be text"),
        ('{"tool_type": 1, "name": "n"}', "server_uri", "missing"),
        ('{"tool_type": 1, "name": "n", "url": "x"}', "url", "unknown field 'url'"),
        ('{"tool_type": 0, "name": "n", "parameter_schema": {}}', "parameter_schema", "must be text"),
    ]:
        with subtests.test(text=text, field=field, why=why):
            with pytest.raises(ToolFormatError, match=why) as caught:
                from_json_text(text, row="Row7")
            assert (caught.value.field, caught.value.row) == (field, "Row7")
