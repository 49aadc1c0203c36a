"""Workflows as tools: their tables, in the order of the ports; one at a time; outputs with ids."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from knime_mcp.agents.prompter.prompter import HostThread
from knime_mcp.agents.toolbox.call_rules import CallRules
from knime_mcp.agents.toolbox.data_registry import DataRegistry
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.types.errors import Canceled
from knime_mcp.types.tool import ToolPort, WorkflowTool

pytestmark = pytest.mark.quick


def port(name):
    return ToolPort(name, f"The {name}", "Table", None)


JOIN = WorkflowTool(
    "Join tables",
    "Joins two tables",
    {"how": {"type": "string", "enum": ["inner", "left"], "default": "inner"}, "key": {"type": "string"}},
    0,
    (port("Left"), port("Right")),
    (port("Joined"),),
)
PLAIN = WorkflowTool("Report", "Makes a report", {"city": {"type": "string", "default": "Bodman"}}, 0)


class Host:
    """Runs workflows in place of KNIME, and keeps the calls."""

    def __init__(self):
        self.calls = []
        self.running = 0
        self.most = 0
        self.threads = set()

    def run(self, tool, arguments, tables):
        self.running += 1
        self.most = max(self.most, self.running)
        self.threads.add(threading.get_ident())
        time.sleep(0.01)
        self.calls.append((tool.name, arguments, tables))
        self.running -= 1
        if arguments.get("key") == "bad":
            raise RuntimeError("Node 'Joiner' failed: no such column")
        outputs = tuple(pa.table({"n": [len(self.calls)]}) for _ in tool.output_ports)
        return f"{tool.name} done", outputs


@pytest.fixture
def knime():
    return Host()


@pytest.fixture
def data():
    return DataRegistry([pa.table({"a": [1]}), pa.table({"b": [2]}), pa.table({"c": [3]})])


@pytest.fixture
def made(box, knime, data):
    return box([JOIN, PLAIN], run_workflow=knime.run, registry=data)


def joined(configuration=None, **inputs):
    return {"configuration": {"key": "id"} if configuration is None else configuration, "data_inputs": inputs}


@pytest.mark.requirement("T30")
def test_tables_in_the_order_of_the_ports(made, knime):
    reply = made.call("Join_tables", joined(Right="0", Left="2"), iteration=2)
    assert not reply.failed
    ((name, arguments, tables),) = knime.calls
    assert (name, arguments) == ("Join tables", {"key": "id"})
    assert [table.column_names for table in tables] == [["c"], ["a"]]
    message, heading, line = reply.content.rsplit("\n", 2)
    assert message.strip() == "Join tables done"
    assert heading == "## Data repository update"
    described = json.loads(line)
    assert (described["id"], described["name"], described["description"]) == ("3", "Joined", "The Joined")
    (record,) = made.records
    assert (record.status, record.tool_type, record.iteration, record.server) == ("ok", "workflow", 2, None)
    assert json.loads(record.arguments) == {
        "configuration": {"key": "id"},
        "data_inputs": {"Left": "2", "Right": "0"},
    }


def test_an_output_feeds_the_next_workflow(made, knime):
    first = json.loads(made.call("Join_tables", joined(Left="0", Right="1")).content.splitlines()[-1])["id"]
    made.call("Join_tables", joined(Left=first, Right="2"))
    assert knime.calls[1][2][0].to_pydict() == {"n": [1]}
    assert [table.column_names for table in made.executor.registry.last_tables(2)] == [["n"], ["n"]]


def test_a_message_with_its_reply_can_be_stored(box, knime):
    """LangGraph does that in every step; KNIME's own value of a tool cannot be stored."""
    tool = replace(PLAIN, native=object())
    message = (
        box([tool], run_workflow=knime.run)
        .langchain_tool("Report")
        .invoke({"type": "tool_call", "id": "c", "name": "Report", "args": {}})
    )
    stored = json.loads(message.model_dump_json())
    assert stored["artifact"]["record"]["status"] == "ok"
    assert stored["artifact"]["tool"]["name"] == "Report"


def test_ids_as_numbers_are_understood(made, knime):
    assert not made.call("Join_tables", joined(Left=0, Right=1)).failed
    assert len(knime.calls) == 1


def test_a_workflow_without_inputs(made, knime):
    assert made.call("Report", {}).content == "Report done"
    made.call("Report", {"configuration": {"city": "Konstanz"}})
    assert [arguments for _, arguments, _ in knime.calls] == [{}, {"city": "Konstanz"}]
    assert made.records[1].arguments == '{"city":"Konstanz"}'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (joined(Left="0"), ["/data_inputs/Right is missing"]),
        (joined(Left="0", Right="9"), ["/data_inputs/Right", "'9'", "'0' (input_table_1)"]),
        (joined(Left="0", Right=True), ["/data_inputs/Right must be text"]),
        (joined(Left="0", Right="1", Rihgt="2"), ["Rihgt"]),
        (joined({"how": "outer", "key": "id"}, Left="0", Right="1"), ["/configuration/how", '"left"']),
        (joined({}, Left="0", Right="1"), ["/configuration/key is missing"]),
        (joined({"key": "id", "hwo": "left"}, Left="0", Right="1"), ["hwo", "how"]),
        ({"key": "id"}, ["/configuration is missing", "for example"]),
    ],
)
def test_mistakes_of_the_model_are_told_and_nothing_runs(made, knime, arguments, said):
    reply = made.call("Join_tables", arguments)
    assert reply.failed
    assert [part for part in said if part not in reply.content] == []
    assert knime.calls == []
    assert made.records[0].status == "invalid arguments"
    assert json.loads(made.records[0].arguments) == arguments


def test_a_parameter_that_is_no_schema_does_not_block_the_workflow(box, knime):
    odd = WorkflowTool("odd", "", {"x": {"type": "KNIME date", "default": None}})
    made = box([odd], run_workflow=knime.run)
    assert not made.call("odd", {"configuration": {"x": "2025-01-01"}}).failed
    assert made.call("odd", {"configuration": {"y": 1}}).failed


def test_a_workflow_that_fails(box, knime, data):
    made = box([JOIN], run_workflow=knime.run, registry=data)
    reply = made.call("Join_tables", joined({"key": "bad"}, Left="0", Right="1"))
    assert (reply.failed, reply.record.status) == (True, "tool error")
    assert "no such column" in reply.content
    assert len(data) == 3


def test_no_host_that_runs_workflows(box):
    reply = box([PLAIN]).call("Report", {})
    assert (reply.failed, reply.record.status) == (True, "failed")
    assert "cannot be run here" in reply.content


def test_a_denied_workflow_does_not_run(box, knime, data):
    options = ToolOptions(rules=CallRules.parse("deny if workflow"))
    made = box([JOIN], run_workflow=knime.run, registry=data, options=options)
    assert made.call("Join_tables", {"nonsense": 1}).record.status == "denied"
    assert knime.calls == []


def test_workflows_run_one_at_a_time(made, knime):
    with ThreadPoolExecutor(6) as threads:
        replies = list(threads.map(lambda _: made.call("Report", {}), range(12)))
    assert not any(reply.failed for reply in replies)
    assert (knime.most, len(knime.calls)) == (1, 12)


def test_cancel_while_another_workflow_runs(box):
    begun, go_on = threading.Event(), threading.Event()

    def run(tool, arguments, tables):
        begun.set()
        assert go_on.wait(30)
        return "done", ()

    made = box([PLAIN], run_workflow=run)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(made.call, "Report", {})
        assert begun.wait(30)
        with pytest.raises(Canceled):
            made.call("Report", {}, is_canceled=lambda: True)
        go_on.set()
        assert first.result(30).content == "done"
    assert [record.status for record in made.records] == ["canceled", "ok"]


@pytest.mark.requirement("T63")
def test_workflows_run_in_the_hosts_thread(box, knime, data):
    wake = threading.Semaphore(0)
    host = HostThread(wake.release)
    made = box([JOIN, PLAIN], run_workflow=host.here(knime.run), registry=data)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(made.call, "Report", {}) for _ in range(8)]
        while not all(call.done() for call in calls):
            wake.acquire(timeout=0.05)
            host.run_pending()
        assert [call.result().content for call in calls] == ["Report done"] * 8
    assert knime.threads == {threading.get_ident()}
    assert made.call("Report", {}).content == "Report done"  # from the host's thread itself
    failing = ThreadPoolExecutor(1).submit(
        made.call, "Join_tables", joined({"key": "bad"}, Left="0", Right="1")
    )
    while not failing.done():
        wake.acquire(timeout=0.05)
        host.run_pending()
    assert "no such column" in failing.result().content


def test_a_host_that_ends_leaves_nobody_waiting(box, knime):
    arrived = threading.Event()
    host = HostThread(arrived.set)
    made = box([PLAIN], run_workflow=host.here(knime.run))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(made.call, "Report", {})
        assert arrived.wait(30)
        host.close()
        with pytest.raises(Canceled):
            waiting.result(30)
    with ThreadPoolExecutor(1) as threads, pytest.raises(Canceled):
        threads.submit(made.call, "Report", {}).result(30)
    assert knime.calls == []
