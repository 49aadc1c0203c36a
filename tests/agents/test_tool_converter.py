"""Tools in LangChain's form: arguments of any name arrive."""

import asyncio
import base64
import json
import keyword
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from knime_mcp.agents._tool import LangchainToolConverter, MCPStructuredTool
from knime_mcp.agents.toolbox.call_rules import CallRules
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.types.tool import MCPTool, WorkflowTool
from tests.support.waiting import until
from tests.support.wild_schemas import WILD

DEADLINE = 60.0

ODD_NAMES = [
    *keyword.kwlist,
    *keyword.softkwlist,
    *("self", "cls", "args", "kwargs", "config", "run_manager", "callbacks", "tool_input", "input", "name"),
    *("store", "runtime", "state", "tool_call_id", "id", "type", "tags", "metadata", "run_id", "run_name"),
    *(
        "verbose",
        "color",
        "start_color",
        "context",
        "arguments",
        "params",
        "running",
        "configurable",
        "__arg1",
    ),
    *("description", "args_schema", "response_format", "func", "coroutine", "artifact", "content", "return"),
    *("v__duplicate_kwargs", "model_config", "__arg1", "", " ", "größe", "a-b", "a.b", "0"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(ODD_NAMES), inner, max_size=2)
    ),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(ODD_NAMES) | st.text(max_size=6), VALUES, max_size=6)


class Recorder:
    """Executes tools by keeping their arguments."""

    def __init__(self):
        self.calls = []

    def _execute_mcp_tool(self, mcp_tool, params):
        self.calls.append(("mcp", mcp_tool, params))
        request = ToolRequest(id="", name=mcp_tool.name, arguments=params, iteration=1)
        return ToolReply(request=request, content="done", tool=mcp_tool)

    def _execute_workflow_tool(self, workflow_tool, params):
        self.calls.append(("workflow", workflow_tool, params))
        request = ToolRequest(id="", name=workflow_tool.name, arguments=params, iteration=1)
        return ToolReply(request=request, content="done", tool=workflow_tool)


MCP = MCPTool("search", "Searches", {"type": "object"}, "https://host.example/mcp", "search")
WORKFLOW = WorkflowTool("report", "Reports", {"city": {"type": "string", "default": "x"}})


def ways(tool, arguments):
    """Every way in which LangChain calls a tool, with the arguments given."""
    call = {"name": tool.name, "args": arguments, "id": "call-1", "type": "tool_call"}
    yield tool.invoke(arguments)
    yield tool.invoke(call)
    yield asyncio.run(tool.ainvoke(arguments))
    yield asyncio.run(tool.ainvoke(call))
    yield tool.run(arguments)
    yield asyncio.run(tool.arun(arguments))


@pytest.mark.requirement("T19")
@pytest.mark.parametrize("tool", [MCP, WORKFLOW], ids=["mcp", "workflow"])
@given(arguments=ARGUMENTS)
def test_every_argument_survives_every_way_of_calling(tool, arguments):
    recorder = Recorder()
    converted = LangchainToolConverter(recorder).to_langchain_tool(tool)
    before = json.dumps(arguments)
    results = list(ways(converted, arguments))
    assert [params for _, _, params in recorder.calls] == [arguments] * 6
    assert json.dumps(arguments) == before
    assert results[0] == results[2] == results[4] == results[5] == "done"
    assert isinstance(results[1], ToolMessage)
    assert results[1].tool_call_id == "call-1"


def test_each_odd_name_alone(subtests):
    for name in ODD_NAMES:
        with subtests.test(name=name):
            recorder = Recorder()
            converted = LangchainToolConverter(recorder).to_langchain_tool(MCP)
            for value in ("tool_call", {"id": 1}):
                recorder.calls.clear()
                list(ways(converted, {name: value}))
                assert [params for _, _, params in recorder.calls] == [{name: value}] * 6


def test_what_langchains_own_tool_loses():
    """The reason for `MCPStructuredTool`; if this test fails, the class may no longer be needed."""
    seen = []

    def function(**params):
        seen.append(params)
        return "done"

    plain = StructuredTool(
        name="plain", description="d", args_schema={"type": "object", "properties": {}}, func=function
    )
    plain.invoke({"config": 1, "run_manager": 2, "a": 3})
    assert seen == [{"a": 3}]
    with pytest.raises(TypeError):
        plain.invoke({"self": 1})


@pytest.mark.requirement("T18")
@pytest.mark.requirement("T22")
@pytest.mark.requirement("T62")
def test_dispatch_by_type():
    recorder = Recorder()
    converter = LangchainToolConverter(recorder)
    for tool in (MCP, WORKFLOW):
        converted = converter.to_langchain_tool(tool)
        assert isinstance(converted, MCPStructuredTool)
        converted.invoke({"a": 1})
    assert [(kind, tool) for kind, tool, _ in recorder.calls] == [("mcp", MCP), ("workflow", WORKFLOW)]
    with pytest.raises(AssertionError):
        converter.to_langchain_tool("no tool")


def test_a_name_that_no_endpoint_takes():
    tool = MCPTool("Größe & mehr " * 9, "", {}, "https://host.example/mcp", "x")
    converted = LangchainToolConverter(Recorder()).to_langchain_tool(tool)
    assert re.fullmatch(r"Gr__e___mehr_[a-zA-Z0-9_-]{51}", converted.name)
    assert LangchainToolConverter(Recorder()).to_langchain_tool(tool, "mine").name == "mine"


def test_the_schema_stays_as_it_came():
    schema = {
        "$defs": {"t": {"properties": {"c": {"$ref": "#/$defs/t"}}}},
        "title": "Node",
        "$ref": "#/$defs/t",
    }
    tool = MCPTool("t", "", schema, "https://host.example/mcp", "t")
    converted = LangchainToolConverter(Recorder()).to_langchain_tool(tool)
    assert json.dumps(converted.args_schema) == json.dumps(schema)
    assert (
        LangchainToolConverter(Recorder())
        .to_langchain_tool(MCPTool("e", "", {}, "https://host.example/mcp", "e"))
        .invoke({})
        == "done"
    )


DEFINITIONS = {
    f"d{n}": {"properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in "ab"}} for n in range(40)
}
HOSTILE = {
    "nowhere": {"properties": {"a": {"$ref": "#/nowhere", "description": "first"}}},
    "elsewhere": {"properties": {"a": {"$ref": "https://host.example/s.json"}}},
    "named-ref": {"properties": {"$ref": {"type": "string"}, "a": {"type": "string"}}},
    "exploding": {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**DEFINITIONS, "d40": {}}},
    "only-data": {"properties": {"a": {"type": "string", "default": {"$ref": "#/nowhere"}}}},
    "into-alternatives": {
        "anyOf": [{"properties": {"z": {"type": "string"}}}],
        "properties": {"a": {"$ref": "#/anyOf/0/properties/z"}},
    },
}
A, B = ({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]} for name in "ab")
REFUSED = {
    "nothing": ({}, {}),
    "no properties": ({"type": "object", "required": None}, {}),
    "properties that are none": ({"type": "object", "properties": []}, {}),
    "one of two": ({"oneOf": [A, B]}, {**A["properties"], **B["properties"]}),
    "all of two": (
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": A, "B": B}},
        {**A["properties"], **B["properties"]},
    ),
    "not": ({**A, "not": {"required": ["b"]}, "if": {}, "then": {}, "else": {}}, A["properties"]),
    "a reference": ({"$ref": "#/definitions/A", "definitions": {"A": A}}, A["properties"]),
    "perhaps null": ({**A, "type": ["object", "null"], "default": None}, A["properties"]),
    "no objects": ({"type": "object", "properties": {"a": True, "b": None, "c": False}}, {"a": {}, "b": {}}),
    "any entries": (
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"a": {"type": "array", "items": {}}},
    ),
    "numbers to choose from": (
        {"properties": {"a": {"enum": [1, None], "description": "Which?"}, "b": {"enum": [1.5]}}},
        {"a": {"description": "Which? One of [1, null]"}, "b": {"description": "One of [1.5]"}},
    ),
}


def test_agents_of_others_can_bind_every_tool(subtests):
    """No tool may make an agent lose its other tools."""
    for shape in [*WILD, *HOSTILE]:
        with subtests.test(shape=shape):
            schema = HOSTILE[shape] if shape in HOSTILE else WILD[shape].schema
            tool = MCPTool("t", "Does it", schema, "https://host.example/mcp", "t")
            converted = LangchainToolConverter(Recorder()).to_langchain_tool(tool)
            properties = schema.get("properties") or {}
            assert list(converted.args) == list(properties)
            function = convert_to_openai_tool(converted)["function"]
            assert (function["name"], function["description"]) == ("t", "Does it")
            told = function["parameters"]["properties"]
            left_out = [name for name, part in properties.items() if name == "$ref" or part is False]
            assert list(told)[: len(properties)] == [name for name in properties if name not in left_out]
            if shape == "nowhere":
                assert told["a"] == {"description": "first"}


def test_no_vendor_refuses_the_tools_for_the_schema_of_one(subtests):
    """OpenAI, Anthropic, Google and Ollama each want some of it; with the server, the arguments decide."""
    for shape in REFUSED:
        with subtests.test(shape=shape):
            schema, properties = REFUSED[shape]
            recorder = Recorder()
            tool = LangchainToolConverter(recorder).to_langchain_tool(
                MCPTool("t", "", schema, "https://host.example/mcp", "t")
            )
            parameters = convert_to_openai_tool(tool)["function"]["parameters"]
            assert (parameters.pop("type"), parameters.pop("properties")) == ("object", properties)
            assert parameters.keys() <= {"required"}
            assert parameters.get("required", []) in ([], ["a"])
            tool.invoke({"z": 1})
            assert [arguments for _, _, arguments in recorder.calls] == [{"z": 1}]


def test_adapters_of_other_agents_find_the_arguments():
    """As pydantic-ai does: it looks for defaults, and writes into the schema."""
    schema = {"type": "object", "properties": {"a": True, "b": {"type": "integer", "default": 5}}}
    tool = LangchainToolConverter(Recorder()).to_langchain_tool(
        MCPTool("t", "", schema, "https://host.example/mcp", "t")
    )
    assert {name: "default" in part for name, part in tool.args.items()} == {"a": False, "b": True}
    written = tool.get_input_jsonschema()
    assert written == {"type": "object", "properties": {"a": {}, "b": {"type": "integer", "default": 5}}}
    written["properties"]["c"] = tool.args["c"] = {}
    assert list(tool.args) == list(tool.get_input_jsonschema()["properties"]) == ["a", "b"]
    assert list(tool.args_schema["properties"]) == ["a", "b"]


def test_what_a_server_says_of_its_tool_is_metadata():
    hints = {"readOnlyHint": True, "title": "Search"}
    tool = MCPTool("t", "", {"type": "object"}, "https://host.example/mcp", "t", annotations=hints)
    convert = LangchainToolConverter(Recorder()).to_langchain_tool
    assert convert(tool).metadata == hints
    assert convert(MCP).metadata is convert(WORKFLOW).metadata is None


def test_a_call_without_arguments():
    recorder = Recorder()
    call = {"name": "search", "args": None, "id": "c", "type": "tool_call"}
    message = LangchainToolConverter(recorder).to_langchain_tool(MCP).invoke(call)
    assert (message.tool_call_id, message.content) == ("c", "done")
    assert [params for _, _, params in recorder.calls] == [{}]


def test_a_context_that_gives_plain_text_or_json():
    class Plain:
        def _execute_mcp_tool(self, mcp_tool, params):
            return f"{mcp_tool.tool_name} {params}"

    converted = LangchainToolConverter(Plain()).to_langchain_tool(MCP)
    assert converted.invoke({"a": 1}) == "search {'a': 1}"
    assert asyncio.run(converted.ainvoke({})) == "search {}"
    Plain._execute_mcp_tool = lambda _self, _tool, params: {"given": params}
    converted = LangchainToolConverter(Plain()).to_langchain_tool(MCP)
    call = {"name": "search", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    assert converted.invoke(call).content == '{"given": {"a": 1}}'


def test_text_is_no_argument():
    converted = LangchainToolConverter(Recorder()).to_langchain_tool(MCP)
    with pytest.raises(ValueError, match="String tool inputs"):
        converted.invoke("text")


@pytest.mark.requirement("T20")
@pytest.mark.requirement("T21")
def test_on_a_real_server(box, tools_of, server):
    made = box(tools_of(server.url("/one")))
    converted = made.langchain_tool("add")
    assert converted.invoke({"a": 1, "b": 2}) == "3"
    message = asyncio.run(
        converted.ainvoke({"name": "add", "args": {"a": 2, "b": 2}, "id": "c", "type": "tool_call"})
    )
    assert (message.content, message.status) == ("4", "success")
    assert message.artifact.record.status == "ok"
    assert [record.arguments for record in made.records] == ['{"a":1,"b":2}', '{"a":2,"b":2}']
    failed = {"name": "add", "args": {"a": "many"}, "id": "d", "type": "tool_call"}
    for message in (converted.invoke(failed), asyncio.run(converted.ainvoke(failed))):
        assert "must be an integer" in message.content
        assert message.status == "error"


def test_who_stops_waiting_cancels_the_call(box, tools_of, server):
    made = box(tools_of(server.url("/one")))
    converted = made.langchain_tool("wait")

    async def give_up():
        waiting = asyncio.create_task(converted.ainvoke({"seconds": DEADLINE}))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    until(lambda: [record.status for record in made.records] == ["canceled"], seconds=DEADLINE / 2)


def test_rules_hold_for_agents_of_others(box, tools_of, server):
    options = ToolOptions(rules=CallRules.parse("deny add if after-untrusted"))
    made = box(tools_of(server.url("/one")), options=options)
    add, who = (made.langchain_tool(name) for name in ("add", "who"))
    assert add.invoke({"a": 1}) == "2"
    assert who.invoke({}) == "one"
    assert "not allowed here" in add.invoke({"a": 1})


def test_agents_of_others_get_text_and_find_images_in_the_artifact(box, tools_of, server):
    """Most vendors refuse a whole conversation for an image in the result of a tool."""
    made = box(tools_of(server.url("/one")))
    call = {"name": "pixel", "args": {}, "id": "c", "type": "tool_call"}
    message = made.langchain_tool("pixel").invoke(call)
    assert message.content == "[image image/png, 70 bytes]"
    _, image = message.artifact.content
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    assert base64.b64decode(image["base64"]).startswith(b"\x89PNG")


def test_agents_of_others_are_not_sent_to_a_tool_that_they_do_not_have(box, tools_of, server):
    """Only the project's own agent has a tool that reads on in a long result."""
    made = box(tools_of(server.url("/one")), options=ToolOptions(longest_result=1000))
    call = {"name": "big", "args": {"megabytes": 1}, "id": "c", "type": "tool_call"}
    message = made.langchain_tool("big").invoke(call)
    assert "1,047,576 of 1,048,576 characters are left out here" in message.content
    assert "read" not in message.content
    assert "read_result" not in made.names
    assert len(message.artifact.record.result) == 1024**2


@pytest.mark.requirement("T23")
def test_odd_arguments_reach_a_real_server(box, tools_of, shapes):
    made = box(tools_of(shapes.url("/legacy/json/parameterless")))
    arguments = {name: position for position, name in enumerate(ODD_NAMES)}
    for reply in (made.call("empty_schema", arguments), made.call("bare", arguments)):
        assert json.loads(reply.content) == arguments
