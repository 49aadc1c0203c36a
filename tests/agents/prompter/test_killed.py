"""A process that is killed in a run of many prompts, and the run that resumes it."""

import json
import os
import signal

from examples.knime_nodes import Column, table_creator
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verify import verify_file
from knime_mcp.knwf import Connection, Workflow, write_workflow
from tests.cli.conftest import linear_line
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.new_node import new_node
from tests.support.waiting import until

PROMPTS = [f"prompt {number}" for number in range(12)]
STUCK = PROMPTS[3], PROMPTS[7]


def file_of(host, folder, tools_url, model_url):
    """A workflow with prompts, tools of a server, a model, and an agent."""
    model = new_node(
        host, 2, "openai_compatible_chat_model", {"base_url": model_url, "model_name": "test-model"}
    )
    provider = new_node(host, 3, "mcp_tool_provider", {"server_url": tools_url, "include": "empty_schema"})
    agent = new_node(
        host,
        4,
        "mcp_agent_prompter",
        {"prompt_column": "text", "prompt_concurrency": 4, "resume": True},
        inputs={"Tools": 1, "Data inputs": 1},
        outputs={"Data outputs": 2},
    )
    lines = [
        (2, model.output_port("Chat model"), 4, agent.input_port("Chat model")),
        (3, provider.output_port("Tools"), 4, agent.input_port("Tools")),
        (1, 1, 4, agent.input_port("Data inputs")),
    ]
    prompts = table_creator(1, [Column("text", "string", tuple(PROMPTS))])
    nodes = (prompts, model, provider, agent)
    write_workflow(
        Workflow("killed", nodes, tuple(Connection(*line) for line in lines)), folder / "killed.knwf"
    )


def prompt_of(request):
    return next(m["content"] for m in request.messages if m["role"] == "user")


def thinks(request):
    """A model that makes one call per prompt, and then answers with the tool's result."""
    prompt = prompt_of(request)
    if request.messages[-1]["role"] == "tool":
        return says(f"done with {prompt}")
    return calls(call("empty_schema", {"rows": [{"z": prompt, "a": 1}]}))


def outputs(folder):
    """The rows of the agent's tables, by port, as they were written."""
    found = {}
    for path in sorted(folder.glob("4 *.json")):
        found.setdefault(path.stem.split(" ", 2)[2], []).append(json.loads(path.read_text("utf-8")))
    return found


def test_a_killed_run_is_gone_on_with(host, shapes, tmp_path):
    run = linear_line(tmp_path)

    asked = []

    def answers(request):
        asked.append(prompt_of(request))
        return thinks(request)

    def answers_most(request):
        turn = answers(request)
        return turn.after(60.0) if prompt_of(request) in STUCK else turn

    with ChatServer([answers_most], repeat=True) as model:
        file_of(host, tmp_path, shapes.url("/legacy/json/parameterless"), model.url)
        process = run.start("killed.knwf", "out")
        # Two of the four threads are blocked for good, the others answer the prompts.
        until(lambda: asked.count(PROMPTS[-1]) == 2 and set(STUCK) <= set(asked), seconds=60)
        (conversations,) = (tmp_path / "out").rglob("*.conversations")
        until(lambda: conversations.read_bytes().count(b'"outcome"') == len(PROMPTS) - len(STUCK))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    (killed,) = (tmp_path / "out").rglob("*.jsonl")
    assert read_journal(killed).outcome is None
    assert not outputs(tmp_path / "out")

    asked.clear()
    with ChatServer([answers], repeat=True) as model:
        file_of(host, tmp_path, shapes.url("/legacy/json/parameterless"), model.url)
        done = run("killed.knwf", "out")
    assert done.code == 0, done.err
    assert sorted(asked) == sorted(STUCK * 2)
    found = outputs(tmp_path / "out")
    assert [row["Answer"] for row in found["Answers"][0]] == [f"done with {prompt}" for prompt in PROMPTS]
    recorded = found["Tool calls"][0]
    assert sorted(row["Input row"] for row in recorded) == sorted(f"Row{n}" for n in range(len(PROMPTS)))
    assert {row["Status"] for row in recorded} == {"ok"}
    assert found["Data outputs"] == [[{"z": prompt, "a": 1}] for prompt in PROMPTS[-2:]]
    (again,) = {*(tmp_path / "out").rglob("*.jsonl")} - {killed}
    content = read_journal(again)
    assert content.outcome == "complete"
    taken = [record for record in content.records if record.resumed_from is not None]
    assert len(taken) == len(PROMPTS) - len(STUCK)
    assert content.records[0].previous_hash == read_journal(killed).head
    assert verify_file(again).findings == ()
