"""Schemas of hostile servers: checking against them ends soon, fetches nothing and ends no process."""

import contextlib
import json
import threading

import pytest

from knime_mcp.runs.checked_calls import ArgumentValidator
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import ArgumentsInvalid, ProtocolError
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

SMALL_STACK = 1 << 20  # what threads have on Windows


def chain(length, end, link=lambda reference: reference):
    """Definitions that each refer to the next one."""
    definitions = {f"d{i}": link({"$ref": f"#/$defs/d{i + 1}"}) for i in range(length)}
    return {"$defs": {**definitions, f"d{length}": end}, "properties": {"x": {"$ref": "#/$defs/d0"}}}


def nested(levels, value=1):
    for _ in range(levels):
        value = [value]
    return value


def each_twice(levels):
    schema = {"type": "object"}
    for i in range(levels):
        schema = {
            "anyOf": [schema, {"type": "object", "properties": {f"p{i}": {}}}],
            "unevaluatedProperties": False,
        }
    return schema


def of_x(schema):
    return {"properties": {"x": schema}}


TOO_LONG = "would take too long"
CASES = {
    "nested quantifiers": (of_x({"pattern": "^(a+)+$"}), "a" * 50_000 + "!", "must be text that matches"),
    "lookahead over a long text": (of_x({"pattern": "(?=a+b)c"}), "a" * 200_000, TOO_LONG),
    "back reference over a long text": (of_x({"pattern": "^(a+)+\\1$"}), "a" * 200_000 + "!", TOO_LONG),
    "back references over many texts": (
        of_x({"items": {"pattern": "^((a|aa)\\2)+b$"}}),
        ["a" * 40] * 100_000,
        TOO_LONG,
    ),
    "lookahead over many names": (
        of_x({"patternProperties": {"^(?=(a|aa)+$)b": {}}}),
        {f"{'a' * 40}{i}": 1 for i in range(100_000)},
        TOO_LONG,
    ),
    "names with a pattern of their own": (
        of_x({"propertyNames": {"pattern": "^(?!b)(a|aa)+$"}}),
        {f"{'a' * 40}{i}": 1 for i in range(100_000)},
        TOO_LONG,
    ),
    "huge pattern": (of_x({"pattern": "(a{1000}){1000}"}), "a", None),
    "many large patterns": (
        {"properties": {f"x{i}": {"pattern": f"(\\w{{50}}){{8}}{i}"} for i in range(10_000)}},
        "a",
        None,
    ),
    "references by the tenfold": (
        chain(30, {}, lambda r: {"allOf": [r] * 10}),
        1,
        TOO_LONG,
    ),
    "references in a row": (chain(5_000, {"type": "string"}, lambda r: {"allOf": [r]}), {"a": 1}, TOO_LONG),
    "references in a row on every level": (
        chain(250, {"items": {"$ref": "#/$defs/d0"}}),
        nested(150),
        TOO_LONG,
    ),
    "references in circles": (chain(2, {"$ref": "#/$defs/d0"}), 1, None),
    "twice as much on every level": (of_x(each_twice(28)), {f"p{i}": 1 for i in range(28)}, TOO_LONG),
    "many objects to compare with": (
        of_x({"items": {"enum": [{"v": i} for i in range(50_000)]}}),
        [{"v": 49_999}] * 5_000,
        TOO_LONG,
    ),
    "many alternatives for many entries": (
        of_x({"items": {"anyOf": [{"properties": {"k": {"const": i}}} for i in range(5_000)]}}),
        [{"k": -1}] * 5_000,
        TOO_LONG,
    ),
    "many alternatives": (
        of_x({"anyOf": [{"properties": {"k": {"const": i}}, "required": ["k"]} for i in range(5_000)]}),
        {"k": -1},
        "/x/k must be one of 0, 1, 2,",
    ),
    "many names that are alike": (
        {"properties": {f"property_{i}": {} for i in range(50_000)}, "additionalProperties": False},
        1,
        "is 'property_0' meant",
    ),
    "long names": (
        {"properties": {"n" * 100_000: {}}, "additionalProperties": False},
        1,
        "has no parameter 'x'",
    ),
    "deep schema": (
        {"not": json.loads('{"not": ' * 100 + "{}" + "}" * 100)},
        1,
        None,
    ),
    "numbers beyond all types": (of_x({"multipleOf": 10**400, "maximum": 10**4000}), 10**3000, None),
    "dynamic references": (
        {"$dynamicAnchor": "n", "properties": {"x": {"items": {"$dynamicRef": "#n"}}}},
        [{"x": [{"x": []}]}] * 100,
        None,
    ),
}


@pytest.mark.parametrize(
    "name",
    [name if i % 4 == 0 else pytest.param(name, marks=pytest.mark.long) for i, name in enumerate(CASES)],
)
def test_checking_arguments_ends(name):
    schema, value, words = CASES[name]
    arguments = {"property_z0" if "alike" in name else "x": value}
    error = in_small_thread(lambda: ArgumentValidator.for_schema(json.dumps(schema)).check(arguments))
    if words is None:
        assert error is None
    else:
        assert isinstance(error, ArgumentsInvalid | ProtocolError)
        assert words in str(error)


def in_small_thread(work):
    """What the work raised, in a thread with a small stack: an overflow would end the process."""
    errors = []

    def body():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=body)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(60)
    assert not thread.is_alive()
    return errors[0] if errors else None


@pytest.mark.long
def test_many_missing_parameters_are_not_copied_into_an_error_each():
    names = [f"property_{i}" for i in range(30_000)]
    schema = {"properties": {name: {} for name in names}, "required": names}
    with pytest.raises(ArgumentsInvalid, match="/property_0 is missing"):
        ArgumentValidator.for_schema(json.dumps(schema)).check({f"propertx_{i}": 1 for i in range(30_000)})


def test_arguments_deeper_than_python_can_follow():
    for arguments in ({"x": nested(5_000)}, {"x": nested(900), "y": "{}"}):
        with pytest.raises(ArgumentsInvalid, match="nested more than 200 levels"):
            ArgumentValidator.for_schema('{"properties": {"y": {"type": "object"}}}').check(arguments)


@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
def test_nothing_is_fetched(place, keyword):
    with ScriptedServer({"*": rpc({"type": "object"})}) as canary:
        schema = {keyword: canary.url + "/schema.json", "type": "object"}
        definition = tool(inputSchema=schema) if place == "input" else tool(outputSchema=schema)
        script = modern(
            tools__list=rpc({"tools": [definition]}),
            tools__call=rpc({"structuredContent": {"a": 1}, "content": []}),
        )
        with ScriptedServer(script) as server, MCPClient(server.url) as client:
            (listed,) = client.list_tools()
            client.call_tool("echo")
            with contextlib.suppress(ProtocolError):
                ArgumentValidator.for_schema(json.dumps(listed.input_schema)).check({})
    assert canary.connections == 0


def test_a_result_that_would_take_too_long_to_check_is_kept(caplog):
    output = of_x({"items": {"enum": [{"v": i} for i in range(20_000)]}})
    script = modern(
        tools__list=rpc({"tools": [tool(outputSchema=output)]}),
        tools__call=rpc({"structuredContent": {"x": [{"v": 1}] * 5_000}, "content": []}),
    )
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.list_tools()
        assert len(client.call_tool("echo").structured_content["x"]) == 5_000
    assert "is not checked" in caplog.text


def test_limits_are_those_of_the_caller():
    schema = '{"properties": {"a": {"b": {}}}}'
    assert "more than 3 levels" in ArgumentValidator.for_schema(schema, Limits(schema_depth=3)).fault
    assert ArgumentValidator.for_schema(schema).fault is None
