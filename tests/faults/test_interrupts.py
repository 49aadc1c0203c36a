"""Ctrl-C once and twice in every command at every stage of a call: it ends, and says so, always."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from knime_mcp.audit.signatures import add_key
from tests.faults.bomb_ways import GRAPH
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.scripted_server import Part, ScriptedServer, legacy, rpc, tool

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "examples" / "audit" / "what-the-agent-did.jsonl"
COMMANDS = ("call", "batch", "list", "agent", "graph")
CLIENT = "knime_mcp.client."
# By name: the function that is interrupted, and the commands that come to it.
STAGES = {
    "connect": (CLIENT + "network:dial", COMMANDS),
    "TLS": (CLIENT + "network:Dialer.handshake", COMMANDS),
    "headers": (CLIENT + "transports.connections:HttpConnection.receive", COMMANDS),
    "body": (CLIENT + "transports.connections:HttpConnection.chunk", COMMANDS),
    "decoding": (CLIENT + "protocol.messages:ValueCounter.count", COMMANDS),
    "validating": (CLIENT + "validation.schemas:check_structured_content", ("call", "batch")),
    "journal": ("knime_mcp.audit.journal:Journal.append", ("call", "batch", "agent", "graph")),
    "signing": ("knime_mcp.audit.signatures:Sealer.note", ("call", "batch", "agent", "graph")),
    "table": ("knime_mcp.cli.files:TableFile.write", ("batch", "list")),
    "page": ("knime_mcp.agents.timeline_page:timeline_page", ("agent",)),
    "drawing": ("knime_mcp.cli.terminal:show_table", ("batch", "list")),
    "resuming": ("knime_mcp.cli.files:journal_to_resume", ("batch",)),
}
WAITING = ("connect", "TLS", "headers", "body")
"""The stages at which the client waits for the server."""
BEFORE_THE_REPLY = (*WAITING, "decoding", "resuming")
ECHO = tool(
    annotations={"readOnlyHint": True},
    inputSchema={"type": "object", "properties": {"x": {"type": "integer"}}},
    outputSchema={"type": "object", "properties": {"v": {"type": "array", "items": {"type": "integer"}}}},
)
HALF = [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", Part.STALL]
# More bytes than there may be values, so that these are counted; and few values, so that all passes.
LARGE = {"content": [], "structuredContent": {"v": [1], "text": "x" * 3_000_000}}
TASKS = [
    (command, stage, signals)
    for stage, (_, commands) in STAGES.items()
    for command in commands
    for signals in (1, 2)
]


@contextlib.contextmanager
def servers():
    """By stage: the URL of a server that stays there; ``*`` is one that replies."""
    others = [{**ECHO, "name": f"echo{n}", "_meta": {"text": "x" * 1_000_000}} for n in range(3)]
    long_list = rpc({"tools": [ECHO, *others]})
    listing = rpc({"tools": [ECHO]})
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):  # who comes after them is not let in
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        large = stack.enter_context(ScriptedServer(legacy(tools__list=long_list, tools__call=rpc(LARGE))))
        replies = ScriptedServer(
            legacy(tools__list=listing, tools__call=rpc({**LARGE, "structuredContent": {"v": [1]}}))
        )
        urls = {
            "connect": f"http://127.0.0.1:{full.getsockname()[1]}/mcp",
            "TLS": f"https://127.0.0.1:{silent.getsockname()[1]}/mcp",
            "decoding": large.url,
            "*": stack.enter_context(replies).url,
        }
        for stage, reply in (("headers", [Part.STALL]), ("body", HALF)):
            calls_stay = ScriptedServer(legacy(tools__list=listing, tools__call=reply))
            lists_stay = ScriptedServer(legacy(tools__list=reply))
            urls[stage] = stack.enter_context(calls_stay).url
            urls[f"{stage}, list"] = stack.enter_context(lists_stay).url
        yield urls


def words(command, stage, urls, model):
    url = urls.get(f"{stage}, {command}") or urls.get(stage) or urls["*"]
    audit = ["--audit", "run.jsonl"] if stage in {"journal", "signing"} else []
    match command:
        case "call":
            return ["call", url, "echo", "x=1", "--json", *audit]
        case "batch":
            out = ["--out", "out.parquet"] if stage == "table" else []
            resume = ["--resume", "earlier.jsonl"] if stage == "resuming" else []
            return ["batch", url, "echo", "rows.csv", *out, *audit, *resume]
        case "list":
            return ["list", url, *(["--out", "tools.csv"] if stage == "table" else [])]
        case "graph":
            return ["mcpgraph", "run", "graph.yaml", "go", *audit]
        case _:
            model_options = ["--model-url", model, "--model", "test-model"]
            return ["agent", "go", "--server", url, *model_options, "--html", "page.html", *audit]


def answer(request):
    """The model's next turn; by what was asked, as several agents ask at once, and some end in between."""
    return says("done") if request.messages[-1]["role"] == "tool" else calls(call("echo", {"x": 1}))


def outcomes(tasks, tmp_path_factory):
    """What came of tasks: exit code, and what was written."""
    home = tmp_path_factory.mktemp("home")
    add_key(home / "keys.json", "me", "now", keyring=False)
    with servers() as urls, ChatServer([answer], repeat=True) as model:
        asked = []
        for command, stage, signals in tasks:
            folder = tmp_path_factory.mktemp("task")
            (folder / "rows.csv").write_text("x\n1\n2\n")
            shutil.copy(RECORDED, folder / "earlier.jsonl")
            url = urls.get(stage) or urls["*"]
            (folder / "graph.yaml").write_text(GRAPH.format(url=url).replace("args: {}", "args: {x: 1}"))
            task = {"words": words(command, stage, urls, model.url), "folder": str(folder)}
            waits = 0.1 if stage in WAITING else 0
            asked.append({**task, "stage": STAGES[stage][0], "signals": signals, "after": waits})
        keys = {"KNIME_MCP_AUDIT_KEYS": str(home / "keys.json")}
        environment = {**os.environ, **keys, "HOME": str(home), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.interrupted"],
            input=json.dumps(asked),
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = {}
    for line in map(json.loads, done.stdout.splitlines()):
        folder = Path(asked[line["number"]]["folder"])
        found[tasks[line["number"]]] = (line["code"], (folder / "err").read_text("utf-8"))
    return found


@pytest.mark.long
def test_ctrl_c_ends_every_command_at_every_stage(tmp_path_factory):
    assert wrong_ends(TASKS, tmp_path_factory) == []


def test_ctrl_c_ends_a_command_at_each_stage(tmp_path_factory):
    some = {stage: (command, stage, signals) for command, stage, signals in reversed(TASKS)}
    assert wrong_ends(list(some.values()), tmp_path_factory) == []


def wrong_ends(tasks, tmp_path_factory):
    wrong = []
    for (command, stage, signals), (code, said) in outcomes(tasks, tmp_path_factory).items():
        # What was asked for is kept if it is there already; the second Ctrl-C does not ask.
        is_late = code == 0 and signals == 1 and stage not in BEFORE_THE_REPLY
        is_said = "Stopping. Ctrl-C once more" in said or "Canceled." in said or code == 0
        if not (code == 3 or is_late) or not is_said or "Traceback" in said:
            wrong.append((command, stage, signals, code, said))
    return wrong
