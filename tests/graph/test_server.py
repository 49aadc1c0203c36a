"""The server, as a process, with the official client: both eras, both transports, all recorded cases."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.graph.graphs import ENTRY, EXIT, call, tool, transform, yaml

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.json"))
FIXTURE = HERE / "case_server.py"
PROGRAM = [sys.executable, "-m", "knime_mcp.cli.mcpgraph"]
SERVE = [sys.executable, "-m", "knime_mcp.cli.app", "graph", "serve"]


@asynccontextmanager
async def client_of(argv, *, mode="legacy", **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    parameters = StdioServerParameters(
        command=argv[0], args=[str(part) for part in argv[1:]], env=environment
    )
    with Path(os.devnull).open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode, **options) as client:
            yield client


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 100))


def graph_file(folder, *nodes, more="", **options):
    file = folder / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, *nodes, EXIT, **options), more=more))
    return file


def recorded():
    for file in CASES:
        case = json.loads(file.read_text("utf-8"))
        if case["kind"] == "quirk" or case.get("requires"):
            continue  # quirks are decided on in docs/graph-deviations.md; others need Node, see tests/peers
        for dialect in case["dialects"]:
            yield pytest.param(case, dialect, id=f"{case['id']}-{dialect}")


def filled(text, folder):
    values = {"PYTHON": sys.executable, "FIXTURE_SERVER": str(FIXTURE), "WORKDIR": str(folder)}
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


@pytest.mark.parametrize(("case", "dialect"), list(recorded()))
@pytest.mark.requirement("G4")
@pytest.mark.requirement("G16")
def test_recorded_cases(case, dialect, tmp_path):
    said = case["dialects"][dialect]
    file = tmp_path / "graph.yaml"
    file.write_text(filled(said["yaml"], tmp_path))
    argv = [*PROGRAM, "--dialect", dialect, "-g", file]
    if case.get("mcp_json"):
        (tmp_path / "mcp.json").write_text(filled(json.dumps(case["mcp_json"]), tmp_path))
        argv += ["-m", tmp_path / "mcp.json"]
    if said.get("startup", {}).get("kind") == "startup_error":
        ended = subprocess.run(argv, input="", capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode != 0
        assert not ended.stdout
        for part in said["startup"]["must_contain"]:
            assert part in ended.stderr
        return

    async def calls():
        async with client_of(argv) as client:
            if "tools" in said:
                listed = (await client.list_tools()).tools
                assert [t.model_dump(by_alias=True, exclude_none=True) for t in listed] == said["tools"]
                assert client.instructions == said["initialize"].get("instructions")
            for asked in said.get("calls", []):
                await compare(client, asked)

    run(calls())


async def compare(client, asked):
    result = await client.call_tool(asked["tool"], asked["arguments"])
    wanted = asked["expect"]
    text = result.content[0].text
    if wanted["kind"] == "result":
        assert not result.is_error, text
        assert result.structured_content == wanted["structuredContent"]
        assert json.loads(text) == wanted["structuredContent"]
    else:
        assert result.is_error
        for part in wanted["must_contain"]:
            assert part in text


def test_overlapping_calls_all_succeed(tmp_path):
    file = graph_file(
        tmp_path,
        call("sleep", "{seconds: {expr: entry.s}}", following="y"),
        transform("{'r': entry.n}", node="y"),
    )

    async def calls():
        async with client_of([*PROGRAM, "-g", file]) as client:
            found = await asyncio.gather(*[client.call_tool("t", {"n": n, "s": 0.2}) for n in range(50)])
            assert [result.structured_content for result in found] == [{"r": n} for n in range(50)]

    run(calls())


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_both_eras(tmp_path, mode):
    file = graph_file(tmp_path, transform("{'r': entry.v}"))

    async def calls():
        async with client_of([*PROGRAM, "-g", file], mode=mode) as client:
            assert (await client.call_tool("t", {"v": 5})).structured_content == {"r": 5}
            assert [t.name for t in (await client.list_tools()).tools] == ["t"]

    run(calls())


def test_history_comes_when_it_is_asked_for(tmp_path):
    file = graph_file(tmp_path, transform("{'r': 1}", following="y"), transform("$error('no')", node="y"))

    async def calls():
        async with client_of([*PROGRAM, "-g", file]) as client:
            plain = await client.call_tool("t", {})
            assert plain.is_error
            assert not plain.meta
            asked = await client.call_tool("t", {}, meta={"knime-mcp/history": True})
            history = asked.meta["knime-mcp/history"]
            assert [record["nodeId"] for record in history] == ["entry", "x", "y"]
            assert history[1]["output"] == {"r": 1}
            assert "no" in history[2]["error"]["message"]

    run(calls())


def test_progress_and_cancel_reach_running_calls(tmp_path):
    mark = tmp_path / "mark"
    file = graph_file(
        tmp_path,
        call("progress", following="y"),
        call("sleep", f"{{seconds: {{expr: entry.s}}, mark: {str(mark)!r}}}", node="y"),
    )

    async def calls():
        told = []

        async def progress(_done, _total, message):
            told.append(message)

        async with client_of([*PROGRAM, "-g", file]) as client:
            await client.call_tool("t", {"s": 0}, progress_callback=progress)
            assert "x: step 1" in told
            assert "y" in told
            mark.unlink()
            with pytest.raises(Exception, match=r"(?i)timed? ?out"):
                await client.call_tool("t", {"s": 60}, read_timeout_seconds=2)
            for _ in range(500):
                if mark.exists() and mark.read_text():
                    break
                await asyncio.sleep(0.02)
            assert mark.read_text() == "canceled"
            await client.call_tool("t", {"s": 0})

    run(calls())


def test_others_are_served_while_an_expression_does_not_end(tmp_path):
    more = "executionLimits: {maxExecutionTimeMs: 3000}\n"
    endless = "entry.go ? ($f := function($n) {$f($n + 1)}; $f(1)) : {'r': 1}"
    file = graph_file(tmp_path, transform(endless), more=more)

    async def calls():
        async with client_of([*PROGRAM, "-g", file]) as client:
            slow = asyncio.create_task(client.call_tool("t", {"go": True}))
            for _ in range(5):
                assert (await client.call_tool("t", {})).structured_content == {"r": 1}
            assert not slow.done()
            result = await slow
            assert result.is_error
            assert "maximum execution time (3000ms)" in result.content[0].text

    run(calls())


def test_a_changed_document_is_taken_over_and_a_broken_one_is_not(tmp_path):
    file = graph_file(tmp_path, transform("{'r': 'old'}"))

    async def calls():
        async with client_of([*PROGRAM, "-g", file]) as client:
            assert (await client.call_tool("t", {})).structured_content == {"r": "old"}
            file.write_text("version: [")
            await asyncio.sleep(0.7)
            assert (await client.call_tool("t", {})).structured_content == {"r": "old"}
            graph_file(tmp_path, transform("{'r': 'new'}"))
            for _ in range(400):
                if (await client.call_tool("t", {})).structured_content == {"r": "new"}:
                    return
                await asyncio.sleep(0.05)
            raise AssertionError("the new document was not taken over")

    run(calls())


def start(argv):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def ask(process, number, method, **params):
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
    )
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def is_gone(pid):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGINT"])
def test_the_process_ends_with_all_its_children_and_logs_no_values(tmp_path, end):
    file = graph_file(tmp_path, call("count", "{secret: {expr: entry.secret}}"))
    process = start([*PROGRAM, "-g", file])
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        information = {"name": "t", "version": "1"}
        ask(process, 1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=information)
        answer = ask(process, 2, "tools/call", name="t", arguments={"secret": "hush-hush"})
        child = answer["result"]["structuredContent"]["pid"]
        if end != "stdin":
            process.send_signal(getattr(signal, end))
        _out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert is_gone(child)
        assert "hush-hush" not in err
        assert "Traceback" not in err
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def test_streamable_http(tmp_path):
    file = graph_file(tmp_path, transform("{'r': entry.v}"))
    process = start([*SERVE, file, "--http", "0"])
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        url = None
        while url is None:
            line = process.stderr.readline()
            assert line, "it ended"
            found = re.search(r"http://\S+", line)
            url = found[0] if found else None

        async def calls(mode):
            async with Client(url, mode=mode) as client:
                found = await asyncio.gather(*[client.call_tool("t", {"v": n}) for n in range(20)])
                assert [result.structured_content for result in found] == [{"r": n} for n in range(20)]

        run(calls("legacy"))
        run(calls("2026-07-28"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
