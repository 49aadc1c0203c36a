"""``mcpgraph toolkit``, as a process, with the project's own client."""

import asyncio
import json
import os
from contextlib import contextmanager

import pytest

from knime_mcp.client.mcp_client import MCPClient, StdioServer
from knime_mcp.web.tool_server import RequestedCall
from knime_mcp_graph.toolkit import Toolkit
from tests.graph.graphs import call, transform
from tests.graph.live import DEADLINE, PROGRAM, graph_file, run
from tests.support import commands
from tests.support.peers import OWN_CODE

DOUBLE = {
    "name": "double",
    "description": "Twice the number.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
    "outputSchema": {"type": "object"},
    "nodes": [
        {"id": "entry", "type": "entry", "next": "twice"},
        {"id": "twice", "type": "transform", "transform": {"expr": "{'r': entry.n * 2}"}, "next": "exit"},
        {"id": "exit", "type": "exit"},
    ],
}


@pytest.fixture
def file(tmp_path):
    """A document with a comment, and a case of its tool."""
    echo = call("echo", "{n: {expr: entry.n}}", following="y")
    file = graph_file(tmp_path, echo, transform("{'r': x.received.n}", node="y") + "  # the number alone")
    reply = {"server": "fx", "tool": "echo", "result": {"structuredContent": {"received": {"n": 4}}}}
    case = {"name": "four", "tool": "t", "arguments": {"n": 4}, "calls": [reply], "result": {"r": 4}}
    (tmp_path / "graph.tests.json").write_text(json.dumps({"cases": [case]}))
    return file


@contextmanager
def toolkit(file):
    """Calls the tools of a toolkit in a process of its own; failures are given as text."""
    command = commands.relayed([*PROGRAM, "toolkit", file])
    server = StdioServer(name="toolkit", command=command, env=OWN_CODE)
    with MCPClient(stdio=server) as client:

        def ask(name, **arguments):
            result = client.call_tool(name, arguments, timeout=DEADLINE)
            return result.content[0].text if result.is_error else result.structured_content

        yield ask


def toolkit_here(file):
    """The same, in this process."""
    served = Toolkit(file)

    def ask(name, **arguments):
        answer = run(served.call(RequestedCall(tool=name, arguments=arguments, meta={}, any_json=True)))
        return answer["content"][0]["text"] if answer.get("isError") else answer["structuredContent"]

    return ask


def test_a_tool_is_added_run_changed_and_taken_back(file):
    before = file.read_text()
    with toolkit(file) as ask:
        assert ask("listGraphTools") == {
            "tools": [{"name": "t", "description": "d"}],
            "servers": ["fx"],
            "problems": [],
        }
        assert ask("addGraphTool", tool=DOUBLE) == {"saved": True, "warnings": [], "failedBefore": []}
        added = file.read_text()
        assert added.startswith(before)
        assert ask("runGraphTool", toolName="double", arguments={"n": 21}) == {"r": 42}
        assert ask("runGraphTool", toolName="t", arguments={"n": 1}) == {"r": 1}
        assert ask("getGraphTool", toolName="double") == {"tool": DOUBLE}
        thrice = json.loads(json.dumps(DOUBLE).replace("* 2", "* 3"))
        assert ask("updateGraphTool", toolName="double", tool=thrice)["saved"]
        assert file.read_text() == added.replace("* 2", "* 3")
        assert ask("runGraphTool", toolName="double", arguments={"n": 21}) == {"r": 63}
        assert ask("undo") == {"saved": True, "canUndo": True}
        assert file.read_text() == added
        assert ask("deleteGraphTool", toolName="double")["saved"]
        assert file.read_text() == before
        assert ask("undo")["canUndo"]
        assert not ask("undo")["canUndo"]
        assert "no change of yours" in ask("undo")
        assert "echo" in [tool["name"] for tool in ask("listMcpServerTools", serverName="fx")["tools"]]
    assert file.read_text() == before


def test_what_breaks_the_document_or_a_case_is_refused(file):
    before = file.read_text()
    with toolkit(file) as ask:
        tool = ask("getGraphTool", toolName="t")["tool"]
        wrong = json.loads(json.dumps(tool).replace('"next": "y"', '"next": "z"'))
        said = ask("updateGraphTool", toolName="t", tool=wrong)
        assert "Nothing was changed" in said
        assert "graph.yaml:12:" in said
        assert "(at tools[0].nodes[1].next)" in said
        other = json.loads(json.dumps(tool).replace("x.received.n", "x.received.n + 1"))
        said = ask("updateGraphTool", toolName="t", tool=other)
        assert "four: result.r: expected 4, got 5" in said
        assert "graph.tests.json" in said
        assert "four" in ask("deleteGraphTool", toolName="t")
        assert "already" in ask("addGraphTool", tool=tool)
        assert "Did you mean 't'?" in ask("deleteGraphTool", toolName="tt")
        assert "tool" in ask("addGraphTool")
        assert file.read_text() == before
        assert ask("testGraph") == {"ok": True, "cases": [{"name": "four", "tool": "t", "failures": []}]}
        assert "no change of yours" in ask("undo")


def test_changes_of_others_are_kept(file):
    ask = toolkit_here(file)
    assert ask("addGraphTool", tool=DOUBLE)["saved"]
    theirs = file.read_text().replace("the number alone", "a person was here")
    file.write_text(theirs)
    assert "somebody else" in ask("undo")
    assert file.read_text() == theirs
    assert ask("deleteGraphTool", toolName="double")["saved"]
    assert "a person was here" in file.read_text()
    assert ask("undo")["saved"]
    assert file.read_text() == theirs
    file.write_text(theirs.replace("type: exit", "type: exitt"))
    assert "exitt" in ask("runGraphTool", toolName="t")
    assert "exitt" in ask("addGraphTool", tool={**DOUBLE, "name": "again"})


def test_a_case_that_failed_before_stops_no_change(file):
    kept_in = file.with_suffix(".tests.json")
    kept_in.write_text(kept_in.read_text().replace('{"r": 4}', '{"r": 5}'))
    assert toolkit_here(file)("addGraphTool", tool=DOUBLE)["failedBefore"] == ["four"]


def test_an_error_that_was_there_before_stops_no_change_of_another_tool(file):
    file.write_text(file.read_text().replace("x.received.n", "$foo(x.received.n)"))
    file.with_suffix(".tests.json").unlink()
    ask = toolkit_here(file)
    (told,) = ask("addGraphTool", tool=DOUBLE)["warnings"]
    assert "'$foo'" in told
    wrong = json.loads(json.dumps(DOUBLE).replace("entry.n * 2", "$bar(1)"))
    said = ask("updateGraphTool", toolName="double", tool=wrong)
    assert "1 error:" in said
    assert "'$bar'" in said


def test_expressions_and_rules_are_tried_on_the_last_run(file):
    ask = toolkit_here(file)
    ask("addGraphTool", tool=DOUBLE)
    assert ask("runGraphTool", toolName="double", arguments={"n": 21}) == {"r": 42}
    assert ask("testJSONata", expression="twice.r + entry.n") == {"result": 63}
    assert ask("testJSONata", expression="n", context={"n": [1]}) == {"result": [1]}
    assert ask("testJSONata", expression="nothing") == {"isUndefined": True}
    assert "Expected" in ask("testJSONata", expression="(")
    rule = {">": [{"var": "twice.r"}, 40]}
    assert ask("testJSONLogic", expression=rule) == {"result": True, "holds": True}
    standard = {"var": ["a.b", 0]}
    assert ask("testJSONLogic", expression=standard, context={}, standard=True) == {
        "result": 0,
        "holds": False,
    }


def test_a_change_whose_call_is_canceled_is_not_saved(file):
    before, served = file.read_text(), Toolkit(file)
    cases = file.with_name("graph.tests.json")
    cases.unlink()
    os.mkfifo(cases)  # the change waits for its cases until they are written

    async def canceled():
        asked = RequestedCall(tool="addGraphTool", arguments={"tool": DOUBLE}, meta={}, any_json=True)
        change = asyncio.create_task(served.call(asked))
        out = await asyncio.to_thread(open, cases, "w")
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        with out:
            out.write('{"cases": []}')
        # It gets its turn only when the change has ended.
        return await served.call(RequestedCall(tool="listGraphTools", arguments={}, meta={}, any_json=True))

    tools = run(canceled())["structuredContent"]["tools"]
    assert [tool["name"] for tool in tools] == ["t"]
    assert file.read_text() == before
