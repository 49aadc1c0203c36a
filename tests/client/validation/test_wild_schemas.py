"""Schemas as servers really send them: checked as they are meant, and no reason not to call a tool."""

import json
import re

import pyarrow as pa
import pytest

from knime_mcp.agents._tool import LangchainToolConverter
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest
from knime_mcp.agents.toolbox.toolset import function_definition
from knime_mcp.client.validation.argument_schemas import parameters_of
from knime_mcp.runs.argument_sources import arguments_from_row, plan_columns
from knime_mcp.runs.checked_calls import ArgumentValidator
from knime_mcp.tools import MCPClient
from knime_mcp.tools.calling_hints import example_arguments
from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.tool import MCPTool
from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool
from tests.support.wild_schemas import WILD, Wild

pytestmark = pytest.mark.quick


def validator(wild: Wild) -> ArgumentValidator:
    return ArgumentValidator.for_schema(json.dumps(wild.schema))


def as_tool(wild: Wild) -> MCPTool:
    return MCPTool("wild", "Takes odd arguments", json.dumps(wild.schema), "http://127.0.0.1/mcp", "wild")


def test_what_the_server_takes_is_sent_as_it_is(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):
            for arguments in wild.good:
                assert validator(wild).check(arguments) == (arguments, ())


def test_what_the_server_refuses_is_refused(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):
            for arguments in wild.bad:
                with pytest.raises(ArgumentsInvalid):
                    validator(wild).check(arguments)


def test_the_fault_of_a_schema_is_named(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):
            fault = validator(wild).fault
            assert (fault is None) == (wild.fault is None)
            assert (wild.fault or "") in (fault or "")


def test_the_example_can_be_sent(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):
            example = json.loads(example_arguments(wild.schema))
            assert validator(wild).check(example)[0] == example


def test_cells_become_arguments(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):
            mcp_tool = as_tool(wild)
            for arguments in wild.good:
                # A missing cell is an argument left out; a cell cannot say null.
                row = {name: value for name, value in arguments.items() if value is not None}
                parameters = parameters_of(mcp_tool)
                plan = plan_columns(parameters, list(row))
                assert arguments_from_row(row, plan, parameters) == {
                    name: value for name, value in row.items() if name in parameters
                }


def test_a_model_sees_the_schema_and_its_arguments_arrive(subtests):
    for name, wild in WILD.items():
        with subtests.test(name):

            class Context:
                def _execute_mcp_tool(self, mcp_tool, params, /, *, running=None):
                    request = ToolRequest(id="", name=mcp_tool.name, arguments=params, iteration=1)
                    return ToolReply(request=request, content=json.dumps(params), tool=mcp_tool)

            mcp_tool = as_tool(wild)
            assert function_definition(mcp_tool, "wild")["function"]["parameters"] == wild.schema
            structured = LangchainToolConverter(Context()).to_langchain_tool(mcp_tool)
            for arguments in wild.good:
                assert json.loads(structured.invoke(arguments)) == arguments


def test_nodes_list_and_call_them_all(host, tmp_path):
    received = []

    def call(request):
        received.append((request.params["name"], request.params["arguments"]))
        return rpc(text("done"))(request)

    tools = [tool(name, inputSchema=wild.schema) for name, wild in WILD.items()]
    sent = [(name, arguments) for name, wild in WILD.items() for arguments in wild.good]
    rows = pa.table({"t": [name for name, _ in sent], "j": [json.dumps(arguments) for _, arguments in sent]})
    with ScriptedServer(modern(tools__list=rpc({"tools": tools}), tools__call=call)) as server:
        listed = host.run("mcp_tool_provider", [None, None], {"server_url": server.url})
        assert listed.ok, listed.failure
        result = host.run(
            "mcp_tool_caller",
            [listed.outputs[0].as_input(), host.table(rows), None],
            {
                "tool_per_row_column": "t",
                "arguments_column": "j",
                "connection_options": "concurrency = 1",
            },
            workflow_dir=tmp_path,
        )
    assert result.ok, result.failure
    assert result.outputs[0].arrow["Error"].to_pylist() == [None] * len(sent)
    assert received == sent
    warned = " ".join(result.warnings)
    unchecked = [name for name, wild in WILD.items() if wild.fault is not None]
    assert re.findall(r"'([^']+)' were not checked", warned) == unchecked[:5]
    assert f"And {len(unchecked) - 5} more of this kind" in warned


def test_a_result_of_such_a_schema_is_not_lost(subtests, caplog):
    for name, wild in WILD.items():
        with subtests.test(name):
            caplog.clear()
            listing = rpc({"tools": [tool(outputSchema=wild.schema)]})
            script = modern(
                tools__list=listing, tools__call=rpc({"content": [], "structuredContent": wild.good[0]})
            )
            with ScriptedServer(script) as server, MCPClient(server.url) as client:
                client.list_tools()
                assert client.call_tool("echo").structured_content == wild.good[0]
            assert ("not checked" in caplog.text) == (wild.fault is not None)
