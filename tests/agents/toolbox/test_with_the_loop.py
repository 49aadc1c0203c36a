"""The whole way: a scripted model over HTTP, the agent's loop, this toolbox, real MCP servers, workflows."""

import json
import threading

import pyarrow as pa
import pytest

from knime_mcp.agents.agent_events import Ending
from knime_mcp.agents.toolbox.data_registry import DataRegistry
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.types.errors import Canceled
from knime_mcp.types.tool import ToolPort, WorkflowTool
from tests.agents.playing import play
from tests.support.chat_server import call, calls, says
from tests.support.servers.shapes import FOREST


def test_the_models_endpoint_gets_the_schema_byte_by_byte(box, tools_of, shapes):
    tools = [
        *tools_of(shapes.url("/modern/json/schemas")),
        *tools_of(shapes.url("/modern/json/parameterless")),
    ]
    _, server, *_ = play([says("done")], box(tools).executor)
    sent = {
        tool["function"]["name"]: tool["function"]["parameters"] for tool in server.requests[0].body["tools"]
    }
    assert json.dumps(sent["forest"]) == json.dumps(FOREST)
    assert sent["empty_schema"] == {}
    assert sent["bare"] == {"type": "object"}


@pytest.mark.requirement("T25")
@pytest.mark.requirement("T28")
def test_workflow_and_mcp_tools_in_one_run(box, tools_of, server):
    ports = (ToolPort("Cities", "Names of cities", "Table", None),)
    workflow = WorkflowTool("Count rows", "Counts", {}, 0, ports, ())
    data = DataRegistry([pa.table({"city": ["Bodman", "Konstanz"]})])

    def run_workflow(tool, arguments, tables):
        return f"{tables[0].num_rows} rows", ()

    made = box([*tools_of(server.url("/one")), workflow], run_workflow=run_workflow, registry=data)
    script = [
        calls(
            call("Count_rows", {"data_inputs": {"Cities": "0"}}),
            call("add", {"a": "two", "c": 1}),
            call("wether", {}),
        ),
        calls(call("add", {"a": 2}), call("pixel")),
        lambda request: says(f"heard {len(request.messages)} messages"),
    ]
    outcome, endpoint, *_ = play(script, made.executor)
    assert outcome.ending is Ending.ANSWER
    first = [m["content"] for m in endpoint.requests[1].messages if m["role"] == "tool"]
    assert first[0] == "2 rows"
    assert "/a must be an integer" in first[1]
    assert "Did you mean weather?" in first[2]
    assert sorted((r.iteration, r.tool_name, r.status.value) for r in made.records) == [
        (1, "Count rows", "ok"),
        (1, "add", "invalid arguments"),
        (1, "wether", "not found"),
        (2, "add", "ok"),
        (2, "pixel", "ok"),
    ]


def test_what_a_model_wrote_almost_right_is_sent_and_recorded_as_converted(box, tools_of, server):
    """Text for a number, null for what may be left out: nothing is lost, so the call is made at once."""
    made = box(tools_of(server.url("/one")))
    script = [calls(call("add", {"a": "2", "b": None}), call("add", {"a": "two"})), says("done")]
    _, endpoint, *_ = play(script, made.executor)
    right, wrong = (m["content"] for m in endpoint.requests[1].messages if m["role"] == "tool")
    assert right.endswith("3")
    assert "/a must be an integer" in wrong
    records = sorted(made.records, key=lambda record: record.status.value)
    assert [record.status.value for record in records] == ["invalid arguments", "ok"]
    assert json.loads(records[1].arguments) == {"a": 2}
    assert records[1].decision == "/a: text was read as integer; /b: null was left out"
    assert any(note.startswith("Arguments of 'add' were converted") for note in made.executor.notes)


def test_search_then_read_on(box, tools_of, shapes):
    made = box(
        tools_of(shapes.url("/modern/json/many")),
        options=ToolOptions(search_above=10_000, longest_result=300),
    )
    script = [
        calls(call("find_tools", {"query": "No. 1234"})),
        lambda request: calls(call("tool_1234", {"value": 7, "text": "z" * 1000})),
        calls(call("read_result", {"id": "r1", "offset": 200})),
        says("done"),
    ]
    _, endpoint, *_ = play(script, made.executor)
    bound = [[tool["function"]["name"] for tool in request.body["tools"]] for request in endpoint.requests]
    assert bound[0] == ["find_tools"]
    assert "tool_1234" in bound[1]
    assert "read_result" not in bound[1]
    assert bound[2][-1] == "read_result"
    assert endpoint.requests[3].messages[-1]["content"].endswith("z" * 300)
    assert [record.tool_name for record in made.records] == ["tool_1234"]
    assert sum(map(len, bound[1:2])) < 30


def test_cancel_in_a_tool_call(box, tools_of, server):
    made = box(tools_of(server.url("/one")))
    canceled = threading.Event()
    threading.Timer(0.5, canceled.set).start()
    waits = [calls(call("wait", {"seconds": 60}))]
    outcome, *_ = play(waits, made.executor, is_canceled=canceled.is_set)
    assert isinstance(outcome.error, Canceled)
