"""A node whose run is complete when its process is killed, before the workflow has its tables."""

import json
import os
import signal
import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from examples.knime_nodes import Column, table_creator
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verify import verify_file
from knime_mcp.knwf import Connection, Workflow, write_workflow
from tests.cli.conftest import linear_line
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.new_node import new_node
from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool
from tests.support.waiting import until

ROWS = 6


def pays(**hints):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    definition = tool("pay", inputSchema=schema, annotations=hints)
    return ScriptedServer(modern(tools__list=rpc({"tools": [definition]}), tools__call=rpc(text("paid"))))


@contextmanager
def hangs():
    """A server that never answers a call, so that the node before it has ended and the workflow has not."""
    definition, over = tool("wait", inputSchema={"type": "object"}), threading.Event()

    def wait(request):
        over.wait(120)
        return rpc(text("late"))(request)

    with ScriptedServer(modern(tools__list=rpc({"tools": [definition]}), tools__call=wait)) as server:
        try:
            yield server
        finally:
            over.set()


def paid(server):
    return Counter(request.json["params"]["arguments"]["n"] for request in server.named("tools/call"))


def written(folder, nodes, lines):
    connections = tuple(Connection(*line) for line in lines)
    write_workflow(Workflow("killed", tuple(nodes), connections), folder / "killed.knwf")


def callers(host, folder, server, second, *, resume=True):
    """Six payments; then a node that calls the second server, with the first one's results as its rows."""
    pay = {"server_url": server.url, "tool_name": "pay", "resume": resume}
    wait = {"server_url": second.url, "tool_name": "wait"}
    first = new_node(host, 2, "mcp_tool_caller", pay, inputs={"Parameters": 1})
    last = new_node(host, 3, "mcp_tool_caller", wait, inputs={"Parameters": 1})
    rows = table_creator(1, [Column("n", "int", tuple(range(ROWS)))])
    lines = [(1, 1, 2, first.input_port("Parameters"))]
    lines += [(2, first.output_port("Results"), 3, last.input_port("Parameters"))]
    written(folder, (rows, first, last), lines)


def killed_at_the_second_node(run, second):
    process = run.start("killed.knwf", "out")
    until(lambda: second.named("tools/call"), seconds=60)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)


@pytest.mark.parametrize("resume", [True, False])
def test_a_complete_run_whose_tables_were_lost_is_not_made_again(host, tmp_path, resume):
    run = linear_line(tmp_path)
    with pays() as server:
        with hangs() as second:
            callers(host, tmp_path, server, second, resume=resume)
            killed_at_the_second_node(run, second)
        (first,) = [f for f in (tmp_path / "out").rglob("*.jsonl") if read_journal(f).outcome == "complete"]
        assert paid(server) == dict.fromkeys(range(ROWS), 1)
        with pays() as second:  # it has no tool `wait`: that node gives error rows
            callers(host, tmp_path, server, second, resume=resume)
            done = run("killed.knwf", "out")
        assert paid(server) == dict.fromkeys(range(ROWS), 1 if resume else 2)
    assert ("6 calls were made by a run that had ended" in done.err) == resume
    if resume:
        assert "switch off 'Resume an interrupted run' to make them again" in done.err
        kept = [(file, read_journal(file).records) for file in (tmp_path / "out").rglob("*.jsonl")]
        again = max(file for file, records in kept if {record.tool_name for record in records} == {"pay"})
        assert again != first
        assert verify_file(again).findings == ()
        taken = {(record.status, record.resumed_from is None) for record in read_journal(again).records}
        assert taken == {("ok", False)}


def test_what_only_reads_is_asked_anew(host, tmp_path):
    """An old answer would be the only harm that could be done."""
    run = linear_line(tmp_path)
    with pays(readOnlyHint=True) as server:
        with hangs() as second:
            callers(host, tmp_path, server, second)
            killed_at_the_second_node(run, second)
        with pays() as second:
            callers(host, tmp_path, server, second)
            run("killed.knwf", "out")
        assert paid(server) == dict.fromkeys(range(ROWS), 2)


def agent(host, folder, server, second, model):
    chosen = {"base_url": model.url, "model_name": "test-model"}
    asks = {"prompt_column": "text", "resume": True}
    nodes = (
        table_creator(1, [Column("text", "string", tuple(map(str, range(ROWS))))]),
        new_node(host, 2, "openai_compatible_chat_model", chosen),
        new_node(host, 3, "mcp_tool_provider", {"server_url": server.url}),
        new_node(host, 4, "mcp_agent_prompter", asks, inputs={"Tools": 1, "Data inputs": 1}),
        new_node(
            host,
            5,
            "mcp_tool_caller",
            {"server_url": second.url, "tool_name": "wait"},
            inputs={"Parameters": 1},
        ),
    )
    _, chat, tools, prompts, last = nodes
    lines = [
        (2, chat.output_port("Chat model"), 4, prompts.input_port("Chat model")),
        (3, tools.output_port("Tools"), 4, prompts.input_port("Tools")),
        (1, 1, 4, prompts.input_port("Data inputs")),
        (4, prompts.output_port("Conversation"), 5, last.input_port("Parameters")),
    ]
    written(folder, nodes, lines)


def test_an_agent_that_had_answered_all_is_not_asked_again(host, tmp_path):
    run = linear_line(tmp_path)

    def pays_one(request):
        if request.messages[-1]["role"] == "tool":
            return says("done")
        number = next(m["content"] for m in request.messages if m["role"] == "user")
        return calls(call("pay", {"n": int(number)}))

    with pays() as server, ChatServer([pays_one], repeat=True) as model:
        with hangs() as second:
            agent(host, tmp_path, server, second, model)
            killed_at_the_second_node(run, second)
        asked = len(model.requests)
        assert paid(server) == dict.fromkeys(range(ROWS), 1)
        for _ in range(2):  # killed again, where the first run was: the second one has them as its own
            with hangs() as second:
                agent(host, tmp_path, server, second, model)
                killed_at_the_second_node(run, second)
        with pays() as second:
            agent(host, tmp_path, server, second, model)
            done = run("killed.knwf", "out")
        assert paid(server) == dict.fromkeys(range(ROWS), 1)
        assert len(model.requests) == asked
    assert "6 calls were made by a run that had ended" in done.err
    assert len(list((tmp_path / "out").rglob("*.conversations"))) == 1
    rows = json.loads((tmp_path / "out" / "5 1 Results.json").read_text("utf-8"))  # the conversation's
    assert sum("done" in str(row["Conversation"]) for row in rows) == ROWS
