import pytest

from knime_mcp.client.protocol.messages import encode_header_value, request_headers
from knime_mcp.client.protocol.tools import (
    InvalidAnnotationError,
    Mirrored,
    argument_headers,
    mirrored_arguments,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("plain", "plain"),
        ("with space inside", "with space inside"),
        ("", ""),
        (" edge", "=?base64?IGVkZ2U=?="),
        ("tab\t", "=?base64?dGFiCQ==?="),
        ("日本", "=?base64?5pel5pys?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
    ],
)
def test_what_is_not_visible_ascii_travels_as_base64(value, encoded):
    assert encode_header_value(value) == encoded


def test_headers_name_revision_method_and_what_is_asked_for():
    assert request_headers("tools/call", {"name": "ü"}, "2026-07-28") == {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "=?base64?w7w=?=",
    }
    assert "Mcp-Name" not in request_headers("tools/list", {}, "2026-07-28")
    assert request_headers("tasks/get", {"taskId": "7"}, "2026-07-28")["Mcp-Name"] == "7"


def _schema(**properties):
    return {"type": "object", "properties": properties}


def test_arguments_are_mirrored_from_where_they_stand():
    schema = _schema(
        region={"type": "string", "x-mcp-header": "Region"},
        deep={"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        flag={"type": "boolean", "x-mcp-header": "Flag"},
        gone={"type": "string", "x-mcp-header": "Gone"},
        plain={"type": "string"},
    )
    mirrored = mirrored_arguments(schema)
    assert set(mirrored) >= {Mirrored("Mcp-Param-N", ("deep", "n"))}
    arguments = {"region": "ü", "deep": {"n": 42}, "flag": False, "gone": None, "plain": "x"}
    # In the schema's order.
    assert list(argument_headers(mirrored, arguments).items()) == [
        ("Mcp-Param-Region", "=?base64?w7w=?="),
        ("Mcp-Param-N", "42"),
        ("Mcp-Param-Flag", "false"),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        _schema(a={"type": "string", "x-mcp-header": ""}),
        _schema(a={"type": "string", "x-mcp-header": "a b"}),
        _schema(a={"type": "string", "x-mcp-header": "a:b"}),
        _schema(a={"type": "string", "x-mcp-header": "ü"}),
        _schema(a={"type": "string", "x-mcp-header": "a\n"}),
        _schema(a={"type": "string", "x-mcp-header": 3}),
        _schema(a={"type": "string", "x-mcp-header": "X"}, b={"type": "string", "x-mcp-header": "x"}),
        _schema(a={"type": "number", "x-mcp-header": "X"}),
        _schema(a={"type": "object", "x-mcp-header": "X"}),
        _schema(a={"type": ["string", "null"], "x-mcp-header": "X"}),
        _schema(a={"x-mcp-header": "X"}),
        {"x-mcp-header": "X", "type": "string"},
        _schema(a={"type": "array", "items": {"type": "string", "x-mcp-header": "X"}}),
        _schema(a={"anyOf": [{"type": "string", "x-mcp-header": "X"}]}),
        {"$defs": {"a": {"type": "string", "x-mcp-header": "X"}}},
        {"additionalProperties": {"type": "string", "x-mcp-header": "X"}},
    ],
)
def test_annotations_that_make_a_tool_unusable(schema):
    with pytest.raises(InvalidAnnotationError):
        mirrored_arguments(schema)


def test_payloads_are_no_schemas():
    payload = {"x-mcp-header": "X"}
    schema = _schema(
        a={"type": "object", "default": payload, "enum": [payload], "const": payload, "examples": [payload]}
    )
    assert mirrored_arguments(schema) == ()


def test_integers_beyond_double_precision_are_left_out():
    mirrored = mirrored_arguments(_schema(n={"type": "integer", "x-mcp-header": "N"}))
    assert argument_headers(mirrored, {"n": 2**53 - 1}) == {"Mcp-Param-N": "9007199254740991"}
    assert argument_headers(mirrored, {"n": 2**53}) == {}
    assert argument_headers(mirrored, {"n": 3.0}) == {"Mcp-Param-N": "3"}
