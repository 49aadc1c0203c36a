"""The Python API: steering a run, looking at it while it goes on and afterwards."""

import asyncio
import json
import threading
import time

import pytest

from knime_mcp_graph import Graph, GraphExecutor, Hooks, McpGraphApi, RunError, RunStatus
from knime_mcp_graph.run_control import ControlError, Controller
from knime_mcp_graph.run_state import RunState
from tests.graph.graphs import ENTRY, EXIT, call, document, tool, transform, yaml
from tests.support.scripted_server import ScriptedServer, modern
from tests.support.sse_server import SseServer

pytestmark = pytest.mark.quick


@pytest.fixture
def api():
    nodes = (ENTRY, transform("{'a': 1}", following="y"), transform("{'b': x.a + 1}", node="y"), EXIT)
    with McpGraphApi(document(*nodes)) as api:
        yield api


@pytest.mark.requirement("G3")
def test_a_document_can_be_looked_at(api):
    graph = api.graph("t")
    assert isinstance(graph, Graph)
    assert isinstance(api.executor, GraphExecutor)
    assert list(graph.edges()) == [("entry", "x", ""), ("x", "y", ""), ("y", "exit", "")]
    assert [tool.name for tool in api.list_tools()] == ["t"]
    assert api.server_info.name == "s"
    assert api.graph("other") is None


@pytest.mark.parametrize("kind", [lambda: ScriptedServer(modern()), SseServer])
def test_a_server_with_only_a_url_is_called_by_the_transport_that_it_has(tmp_path, kind):
    file, others = tmp_path / "graph.yaml", tmp_path / "mcp.json"
    nodes = (call("echo", following="y"), transform("{'said': x}", node="y"))
    file.write_text(yaml(tool(ENTRY, *nodes, EXIT), servers=""), "utf-8")
    with kind() as server:
        others.write_text(json.dumps({"mcpServers": {"fx": {"url": server.url}}}), "utf-8")
        with McpGraphApi(file, mcp_file=others) as api:
            assert api.execute_tool("t").result == {"said": "hi"}


@pytest.mark.requirement("G20")
@pytest.mark.requirement("G22")
def test_hooks_are_told_in_order(api):
    told = []
    hooks = Hooks(
        on_node_start=lambda index, node, context: told.append((index, node.id, dict(context))),
        on_node_complete=lambda record, node, context: told.append((node.id, record.output, dict(context))),
    )
    assert api.execute_tool("t", hooks=hooks).result == {"b": 2}
    assert told[2] == (1, "x", {"entry": {}})
    assert told[3] == ("x", {"a": 1}, {"entry": {}})
    assert told[-1] == ("exit", {"b": 2}, {"entry": {}, "x": {"a": 1}, "y": {"b": 2}})


def test_a_hook_that_raises_ends_the_run(api):
    def raises(*_):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        api.execute_tool("t", hooks=Hooks(on_node_start=raises))


def test_breakpoint_step_and_resume(api):
    told = []
    hooks = Hooks(
        on_pause=lambda index, node: told.append(("pause", node.id)), on_resume=lambda: told.append("resume")
    )
    run = api.start("t", hooks=hooks, breakpoints=["x", "exit"])
    assert run.controller.wait_for(RunStatus.PAUSED)
    assert run.controller.position == (1, "x")
    assert [r.node_id for r in run.history] == ["entry"]
    assert run.controller.step()
    assert run.controller.position == (2, "y")
    assert run.history[-1].output == {"a": 1}
    run.controller.resume()
    assert run.controller.wait_for(RunStatus.PAUSED)
    assert run.controller.position == (3, "exit")
    run.controller.resume()
    assert run.result(30).result == {"b": 2}
    assert run.status is RunStatus.FINISHED
    assert told == [("pause", "x"), "resume", ("pause", "y"), "resume", ("pause", "exit"), "resume"]
    assert run.context_at(2) == {"entry": {}, "x": {"a": 1}}
    with pytest.raises(IndexError):
        run.context_at(9)
    with pytest.raises(ControlError, match='Cannot step: execution status is "finished"'):
        run.controller.step()


def test_a_hook_that_says_no_pauses(api):
    run = api.start("t", hooks=Hooks(on_node_start=lambda _index, node, _context: node.id != "y"))
    assert run.controller.wait_for(RunStatus.PAUSED)
    assert run.controller.position == (2, "y")
    run.controller.resume()
    assert run.result(30).result == {"b": 2}


def test_stop_while_paused(api):
    run = api.start("t", start_paused=True)
    assert run.controller.wait_for(RunStatus.PAUSED)
    run.controller.stop()
    with pytest.raises(RunError, match="Execution was stopped"):
        run.result(30)
    assert run.status is RunStatus.STOPPED


def test_stop_ends_a_call():
    with McpGraphApi(document(ENTRY, call("sleep", "{seconds: 60}"), EXIT)) as api:
        started = threading.Event()
        hooks = Hooks(on_node_start=lambda _, node, __: started.set() if node.id == "x" else None)
        run = api.start("t", hooks=hooks)
        assert started.wait(30)
        run.controller.stop()
        with pytest.raises(RunError, match="Execution was stopped"):
            run.result(30)


@pytest.mark.requirement("G21")
def test_history_and_contexts_after_a_failure():
    with McpGraphApi(
        document(ENTRY, transform("{'a': 1}", following="y"), transform("$error('no')", node="y"), EXIT)
    ) as api:
        run = api.start("t", {"v": 1})
        with pytest.raises(RunError):
            run.result(30)
    assert run.status is RunStatus.ERROR
    assert [record.node_id for record in run.history] == ["entry", "x", "y"]
    assert run.context_at(2) == {"entry": {"v": 1}, "x": {"a": 1}}


def test_runs_are_waited_for_and_stopped_without_blocking_the_event_loop():
    async def work():
        with McpGraphApi(document(ENTRY, call("sleep", "{seconds: {expr: entry.s}}"), EXIT)) as api:
            assert (await api.start("t", {"s": 0}).wait()).result == {"slept": 0}
            started = threading.Event()
            hooks = Hooks(on_node_start=lambda _, node, __: started.set() if node.id == "x" else None)
            run = api.start("t", {"s": 60}, hooks=hooks)
            assert await asyncio.to_thread(started.wait, 30)
            run.controller.stop()
            with pytest.raises(RunError, match="stopped"):
                await asyncio.wait_for(run.wait(), 30)

    asyncio.run(work())


def test_validate_finds_mistakes_without_starting_anything(tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text("version: 1\n")
    checked = McpGraphApi.validate(file)
    assert checked.document is None
    assert checked.problems


def test_the_clock_of_a_run_stands_still_at_a_breakpoint():
    seen = []

    def paused(*_):
        seen.append(run.left)
        time.sleep(0.002)
        seen.append(run.left)
        run.controller.resume()

    made = document(ENTRY, transform("entry"), EXIT)
    run = RunState(
        expression_seconds=1,
        tool=made.tools[0],
        arguments={},
        limits=made.limits,
        hooks=Hooks(on_pause=paused),
        controller=Controller(["x"]),
        is_canceled=None,
    )
    run.pause(0, made.tools[0].by_id["x"])
    assert seen[0] == seen[1] > run.left
