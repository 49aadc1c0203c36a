"""The whole way: an agent over real servers and a workflow, its audit, the replay, the workflow, its run."""

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonpatch
import pyarrow as pa
import pytest

from examples.knime_nodes import Column, concatenate_node, message_output_node, table_creator
from knime_mcp.knwf import (
    Configuration,
    Connection,
    PortOf,
    Segment,
    VariableControl,
    Workflow,
    configuration_node,
    write_segment,
    write_workflow,
)
from tests.support import peers
from tests.support import real_knime as rig
from tests.support.archives import check_archive, read_workflow
from tests.support.chat_server import call, calls, says
from tests.support.linear_run import LinearRun
from tests.support.new_node import new_node

pytestmark = [pytest.mark.peer, pytest.mark.requirement("T49", "T50", "T61")]

ROOT = Path(__file__).parents[3]
DEADLINE = 120
DETERMINISTIC = ["echo", "get-sum", "read_text_file", "convert_time"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "notes.txt").write_text("Desks are brown.\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def urls(folder):
    """server-everything, a filesystem server, and a clock."""
    with (
        peers.running(peers.everything("streamableHttp")) as everything,
        peers.running(peers.filesystem(folder)) as files,
        peers.running(peers.clock()) as clock,
    ):
        yield [server.url("/mcp") for server in (everything, files, clock)]


@pytest.fixture
def segment(host, urls, tmp_path):
    """A workflow that says its parameter through server-everything: the tool *Repeat* is made of it."""
    text = Configuration(kind="string", variable="text", parameter="text", value="nothing")
    echo = new_node(
        host,
        2,
        "mcp_tool_caller",
        {
            "server_url": urls[0],
            "tool_name": "echo",
            "arguments": [{"name": "message", "value": "-"}],
            "on_error": "fail",
        },
        variables=[VariableControl(("arguments", "0", "value"), used="text")],
    )
    nodes = (
        configuration_node(1, text),
        echo,
        table_creator(3, [Column("Result", "string", ())]),
        concatenate_node(4),
        message_output_node(5),
    )
    lines = [(1, 1, 2, 0), (2, echo.output_port("Results"), 4, 1), (3, 1, 4, 2), (4, 1, 5, 1)]
    file = tmp_path / "Repeat.knwf"
    write_workflow(Workflow("Repeat", nodes, tuple(Connection(*line) for line in lines)), file)
    return file


@pytest.fixture
def runs_the_segment(segment, tmp_path):
    """Runs the workflow, as KNIME does for the tool, and counts the runs."""
    ran = []

    def run(tool, parameters, inputs, hints):
        out = tmp_path / f"segment-{len(ran)}"
        ran.append(parameters)
        (row,) = LinearRun(out, parameters).run(read_workflow(segment)).rows(5)
        return row["Result"], []

    run.ran = ran
    return run


def test_agent_audit_replay_export_run(
    host, urls, folder, segment, runs_the_segment, script, ask, tools_of, rows_of, journals, tmp_path
):
    from knime.types.tool import WorkflowTool as KnimeTool

    whole = read_workflow(segment)
    kept = replace(whole, nodes=whole.nodes[:-1], connections=whole.connections[:-1])
    host.add_file_store("repeat", write_segment(Segment(workflow=kept, outputs=(PortOf(4, 1),))))
    workflow_tool = KnimeTool("Repeat", "Says it", {"text": {"type": "string"}}, 4, [], [], "repeat")
    mcp = tools_of(*urls, column_form="carrier")
    cells = mcp["Tool"].get().to_pyarrow().column(1)
    tools = host.table(
        pa.table(
            {"Tool": pa.chunked_array([host.tool_column([workflow_tool]), *cells.chunks]).combine_chunks()}
        )
    )
    notes, made = folder / "notes.txt", folder / "made.txt"
    made.unlink(missing_ok=True)
    at = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    wanted = [
        call("echo", {"message": "Grüße 😀"}),
        call("get-sum", {"a": 1, "b": 2}),
        call("read_text_file", {"path": str(notes)}),
        call("get_file_info", {"path": str(notes)}),
        call("convert_time", at),
        call("get_current_time", {"timezone": "UTC"}),
        call("write_file", {"path": str(made), "content": "made by the agent"}),
        call("Repeat", {"configuration": {"text": "again and again"}}),
    ]
    # One after the other, so that the order is this one.
    chat = script(*(calls(own) for own in wanted), says("Desks are brown."))
    agent = ask(
        chat,
        tools,
        user_message="Which colour do desks have?",
        tool_handler=runs_the_segment,
        save_audit_workflow_to=str(tmp_path / "audit.knwf"),
    )
    recorded = rows_of(agent, 1)
    assert [row["Status"] for row in recorded] == ["ok"] * 8, [row["Error"] for row in recorded]
    assert made.read_text("utf-8") == "made by the agent"
    assert runs_the_segment.ran == [{"text": "again and again"}]
    assert recorded[-1]["Result"] == "Echo: again and again"
    assert recorded[-1]["Digest"].startswith("sha256:")

    def replay(**parameters):
        result = host.run(
            "tool_call_replayer",
            [agent.outputs[1].as_input(), None],
            {"expected_head": agent.flow_variables["mcp_audit_head"], **parameters},
            tool_handler=runs_the_segment,
            workflow_dir=tmp_path / "replay",
        )
        assert rows_of(result, 1)[-1]["Verdict"] == "unchanged since you noted its head"
        return {row["Tool name"]: row for row in rows_of(result)}

    made.write_text("kept", encoding="utf-8")
    os.utime(notes, (1_700_000_000, 1_700_000_000))
    found = replay()
    assert {name: found[name]["Verdict"] for name in DETERMINISTIC} == dict.fromkeys(DETERMINISTIC, "same")
    assert found["write_file"]["Verdict"] == found["Repeat"]["Verdict"] == "skipped"
    assert made.read_text("utf-8") == "kept"
    assert len(runs_the_segment.ran) == 1
    for name in ("get_file_info", "get_current_time"):
        row = found[name]
        assert row["Verdict"] == "different", row
        before, now = (document(row, side) for side in ("Recorded", "New"))
        assert before != now
        assert jsonpatch.apply_patch(before, json.loads(row["Patch"])) == now
    assert replay(also_call="Repeat")["Repeat"]["Verdict"] == "same"
    assert len(runs_the_segment.ran) == 2

    audit = tmp_path / "audit.knwf"
    assert [own for own in check_archive(audit) if own.severity == "error"] == []
    assert rig_problems(host, audit) == []
    stored = read_workflow(audit)
    texts = [note.text for note in stored.annotations]
    assert any("Which colour do desks have?" in text for text in texts)
    assert any("Desks are brown." in text for text in texts)
    assert [node.name for node in stored.nodes] == ["MCP Tool Caller"] * 7 + ["Repeat"]

    LinearRun(tmp_path / "made").run(stored)
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "made").rglob("*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]
    again = [line for line in lines if line["kind"] == "call"]
    # Nodes that do not wait for each other run in any order. The metanode calls with the agent's words.
    names = [*(row["Tool name"] for row in recorded[:-1]), "echo"]
    assert sorted(line["tool_name"] for line in again) == sorted(names)
    made_again = {(line["tool_name"], line["arguments"], line["result"]) for line in again}
    for row in recorded[:-1]:
        if row["Tool name"] in DETERMINISTIC:
            assert (row["Tool name"], row["Arguments"], row["Result"]) in made_again
    assert recorded[-1]["Result"] in {line["result"] for line in again}
    assert made.read_text("utf-8") == "made by the agent"  # executing a step makes its call again


def document(row, side):
    """The result that the patch is about: text, or a JSON object or list, and the structured result."""
    found = {"status": row[f"{side} status"], "result": row[f"{side} result"]}
    try:
        parsed = json.loads(found["result"])
        found["result"] = parsed if isinstance(parsed, dict | list) else found["result"]
    except ValueError:
        pass
    structured = row[f"{side} structured result"]
    return found if structured is None else {**found, "structured_result": json.loads(structured)}


def rig_problems(host, file):
    """The problems that the rig reports; only KNIME's own Python has a rig."""
    return rig.check_knwf(str(file), host.host)["problems"] if os.environ.get("KNIME_PYTHON_ROOT") else []
