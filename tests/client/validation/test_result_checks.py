import pytest

from knime_mcp.tools import MCPClient
from knime_mcp.types.errors import ResultInvalid
from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool

pytestmark = pytest.mark.quick


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def call(era, result, schema=SCHEMA, *, listed=True, **options):
    script = era(tools__list=rpc({"tools": [tool("echo", outputSchema=schema)]}), tools__call=rpc(result))
    with ScriptedServer(script) as server, MCPClient(server.url, **options) as client:
        if listed:
            client.list_tools()
        return client.call_tool("echo")


def test_a_result_that_violates_its_schema_is_an_error_with_a_pointer(era):
    with pytest.raises(ResultInvalid, match="must be an integer") as caught:
        call(era, text("x", structuredContent={"n": "3"}))
    assert caught.value.pointer == "/n"
    assert caught.value.tool == "echo"


def test_what_libraries_write_for_values_that_they_cannot_write_is_no_violation(era):
    """JSON has no NaN, and PHP's empty object is a list."""
    schema = {
        "type": "object",
        "properties": {
            "x": {"type": "number"},
            "many": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
            "map": {"type": "object"},
        },
    }
    result = {"x": None, "many": [None] * 50, "map": []}
    assert call(era, text("x", structuredContent=result), schema).structured_content == result
    for wrong in ({"x": "1"}, {"x": None, "map": [1]}, {"many": None}):
        with pytest.raises(ResultInvalid):
            call(era, text("x", structuredContent=wrong), schema)


@pytest.mark.parametrize(
    "result",
    [
        text("x", structuredContent={"n": 3}),
        text("x", structuredContent={"n": "3"}, isError=True),
        text("x"),
        {},
    ],
)
def test_results_that_are_let_through(era, result):
    assert call(era, result).raw == result


def test_checking_can_be_turned_off_and_needs_a_listing():
    wrong = text("x", structuredContent={"n": "3"})
    assert call(modern, wrong, check_results=False).structured_content == {"n": "3"}
    assert call(modern, wrong, listed=False).structured_content == {"n": "3"}


@pytest.mark.parametrize("schema", [{"$ref": "https://example.com/x"}, {"$schema": "mine"}, True, "odd"])
def test_a_schema_that_cannot_be_used_does_not_cost_the_result(schema, caplog):
    assert call(modern, text("x", structuredContent={"n": 1}), schema).structured_content == {"n": 1}


def test_null_can_be_what_the_schema_wants():
    assert call(modern, text("x", structuredContent=None), {"type": "null"}).structured_content is None
    with pytest.raises(ResultInvalid):
        call(modern, text("x", structuredContent=None))
