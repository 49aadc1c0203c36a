"""Fixtures for the agent node: servers, a scripted model, tools of both types, the node's rows."""

import copy

import pyarrow as pa
import pytest

from tests.support import peers
from tests.support.chat_server import ChatServer


@pytest.fixture(scope="session")
def servers():
    """Two servers, each a process of its own on the official SDK."""
    with (
        peers.running(peers.counting("first server")) as first,
        peers.running(peers.counting("second server")) as second,
    ):
        yield first, second


@pytest.fixture
def script():
    """Starts a model that plays a script; checks at the end that it was played, without a complaint."""
    running = []

    def start(*turns, **options):
        server = ChatServer(turns, **options)
        server.__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__()
    assert [server.complaints for server in running] == [[] for _ in running]
    assert [server.unplayed for server in running] == [0 for _ in running]


@pytest.fixture
def tools_of(host):
    """Makes the Provider's *Tools* table for a URL, as input for the agent."""

    def tools(*urls, **parameters):
        options = {"column_form": "auto", **parameters}
        given = host.table(pa.table({"url": list(urls)})) if len(urls) > 1 else None
        if given is None:
            options["server_url"] = urls[0]
        result = host.run("mcp_tool_provider", [given, None], options)
        assert result.ok, result.failure
        return result.outputs[0].as_input()

    return tools


@pytest.fixture
def workflow_tool(host):
    """Makes a *Tools* table with one workflow, as *Workflow to Tool* does."""

    def tool(name, schema=None, outputs=()):
        from knime.types.tool import ToolPort, WorkflowTool

        host.add_file_store("segment", b"workflow")
        ports = [ToolPort(output, "", "Table", None) for output in outputs]
        cells = [WorkflowTool(name, "", schema or {}, 0, [], ports, "segment")]
        return host.table(pa.table({"Tool": host.tool_column(cells)}))

    return tool


@pytest.fixture
def model_of(host):
    """Makes the chat model of a running script, through the connector node."""

    def model(server, stored=None, **parameters):
        settings = {"base_url": server.url, "model_name": "test-model", **parameters}
        result = host.run("openai_compatible_chat_model", [], settings, credentials=stored)
        assert result.ok, result.failure
        return host.port_object(result.outputs[0])

    return model


@pytest.fixture
def ask(host, model_of, tmp_path):
    """Runs the agent; every test has a workflow of its own."""

    def run(server, tools=None, history=None, data=(), credential=None, stored=None, outputs=1, **parameters):
        options = {
            name: parameters.pop(name)
            for name in ("cancel", "tool_handler", "flow_variables", "execute", "number")
            if name in parameters
        }
        tables = [host.table(pa.table(table)) if isinstance(table, dict) else table for table in data]
        if not tables and "prompt_column" not in parameters:
            parameters.setdefault("user_message", "What is the answer?")
        return host.run(
            "mcp_agent_prompter",
            [model_of(server), tools, history, tables, credential],
            parameters,
            workflow_dir=tmp_path / "workflow",
            credentials=stored or {},
            output_groups={"Data outputs": outputs},
            **options,
        )

    return run


@pytest.fixture
def rows_of():
    """The rows of an output, after checking that KNIME would take it; tool cells are left out."""

    def rows(result, port=0):
        assert result.ok, result.failure
        assert not result.problems, result.problems
        # KNIME's own Python cannot read a missing tool cell, so tools are looked at where they matter.
        table = copy.copy(result.outputs[port])
        tools = [name for name in table.column_names if name == "Tool"]
        object.__setattr__(table, "arrow", table.arrow.drop_columns(tools))
        return table.to_pylist()

    return rows


@pytest.fixture
def answers_of(rows_of):
    """The answers to prompts, in their order; None for one without."""
    return lambda result: [row["Answer"] for row in rows_of(result, 2)]


@pytest.fixture
def said(rows_of):
    """A conversation as (who, text, names of tools) per row; an error as ("error", text, [])."""

    def conversation(result, column="Conversation", errors="Errors"):
        return [_said(row.get(column), row.get(errors)) for row in rows_of(result)]

    return conversation


def _said(message, error):
    if message is None:
        return ("error", error, [])
    text = "".join(part.data.decode() for part in message.content if part.type.value == "text")
    calls = [call.tool_name for call in message.tool_calls or []]
    return (message.message_type.value, text, calls)
