"""An agent's calls are recorded however its run ends."""

import shutil
import threading
import time

import pytest

from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.engine import new_run
from knime_mcp.tools.node_settings.connection import client_for
from knime_mcp.types.tool import WorkflowTool
from tests.support.chat_server import call, calls

HUGE = 20_000_000


@pytest.mark.parametrize("per_row", [False, True])
def test_a_journal_that_is_deleted_ends_the_run(servers, script, ask, tools_of, tmp_path, per_row):
    def deletes(request):
        shutil.rmtree(tmp_path / "workflow" / "data" / "mcp-audit")
        return calls(call("add", {"a": 1})).after(1.5)  # the journal looks for its file once a second

    asks = {"data": [{"text": ["a", "b", "c"]}], "prompt_column": "text"} if per_row else {}
    result = ask(script(deletes), tools_of(servers[0].url("/one")), **asks)  # nothing more is asked
    assert not result.ok
    assert "deleted" in str(result.failure)


def test_a_workflow_that_ends_after_its_run_is_on_record(script, ask, workflow_tool, journals):
    began = []

    def greets(request):
        began.append(time.monotonic())
        return calls(call("Greet"))

    def slow(tool, parameters, inputs, hints):
        time.sleep(began[0] + 4.0 - time.monotonic())  # KNIME cannot be interrupted
        return "é" * HUGE, []

    result = ask(script(greets), workflow_tool("Greet"), time_limit="3", tool_handler=slow)
    assert "was not done after 3 seconds" in result.failure["message"]
    (lines,) = journals()
    assert [(line["status"], len(line["result"])) for line in lines[1:-1]] == [("ok", HUGE)]
    assert lines[-1]["calls"] == 1


def test_a_call_that_does_not_end_is_on_record_as_such():
    began, let_go, kept = threading.Event(), threading.Event(), []

    def workflow(tool, arguments, tables):
        began.set()
        let_go.wait(30)
        return "late", ()

    run = new_run(lambda route: client_for(route, None), id="r", secrets=["h1dd3n-4way"])
    run.run_workflow = workflow
    run.records.on_record = kept.append
    with run.pool:
        wanted = PlannedCall(tool=WorkflowTool("Greet", "", {}), arguments={"a": "h1dd3n-4way"}, iteration=2)
        thread = threading.Thread(target=run.call, args=(wanted,))
        thread.start()
        assert began.wait(30)
        run.records.finish(0.01)
        let_go.set()
        thread.join(30)
        run.records.finish(0.0)
    (record,) = kept
    assert (record.status, record.iteration, record.tool_name) == ("canceled", 2, "Greet")
    assert "whether it did its work is not known" in record.error
    assert record.started_at is not None
    assert "h1dd3n" not in record.arguments
