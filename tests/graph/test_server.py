"""The server, as a process, with the official client: both eras, both transports, all recorded cases."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from mcp.client import Client

from knime_mcp.graph import McpGraphApi
from knime_mcp.graph.serving.service import GraphService
from tests.graph.forked_program import started
from tests.graph.graphs import ENTRY, EXIT, call, document, transform
from tests.graph.live import (
    DEADLINE,
    ERAS,
    PROGRAM,
    SERVE,
    client_of,
    client_of_fork,
    graph_file,
    is_alive,
    run,
    served,
)
from tests.support.waiting import until

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.json"))
FIXTURE = HERE / "case_server.py"


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


@pytest.mark.requirement("G8")
@pytest.mark.parametrize(("case", "dialect"), list(recorded()))
@pytest.mark.requirement("G4")
@pytest.mark.requirement("G16")
def test_recorded_cases(case, dialect, tmp_path):
    said = case["dialects"][dialect]
    file = tmp_path / "graph.yaml"
    if "yaml" in said:  # without it, there is no file
        file.write_text(filled(said["yaml"], tmp_path))
    argv, log = ["--dialect", dialect, "-g", file], tmp_path / "log"
    if case.get("mcp_json"):
        (tmp_path / "mcp.json").write_text(filled(json.dumps(case["mcp_json"]), tmp_path))
        argv += ["-m", tmp_path / "mcp.json"]
    if said.get("startup", {}).get("kind") == "startup_error":
        with started(argv, log) as (process, _, out):
            process.join(DEADLINE)
            assert process.exitcode == 1
            with pytest.raises(EOFError):
                out.recv_bytes()
        for part in said["startup"]["must_contain"]:
            assert part in log.read_text()
        return

    async def calls():
        async with client_of_fork(argv, log) as client:
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


@pytest.mark.requirement("G2")
@pytest.mark.parametrize("mode", ERAS)
def test_both_eras(tmp_path, mode):
    file = graph_file(tmp_path, transform("{'r': entry.v}"))

    async def calls():
        async with client_of([*PROGRAM, "-g", file], mode=mode) as client:
            assert (await client.call_tool("t", {"v": 5})).structured_content == {"r": 5}
            assert [t.name for t in (await client.list_tools()).tools] == ["t"]

    run(calls())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_schema_of_no_object_does_not_break_the_list(tmp_path, transport, mode):
    file = graph_file(tmp_path, transform("entry.v"), schema="{type: array}", output="{type: string}")

    async def listed(client):
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("t", {"v": "x"})
        if mode == "legacy":
            assert (tool.output_schema, result.is_error) == (None, True)
        else:
            assert (tool.output_schema, result.structured_content) == ({"type": "string"}, "x")

    async def over_stdio():
        async with client_of([*PROGRAM, "-g", file], mode=mode) as client:
            await listed(client)

    async def over_http(url):
        async with Client(url, mode=mode) as client:
            await listed(client)

    if transport == "stdio":
        run(over_stdio())
    else:
        with served(*SERVE, file, "--http", "0") as server:
            run(over_http(server.url))


@pytest.mark.parametrize(
    "properties",
    ["{v: {type: any}}", "{v: {pattern: '('}}", "{v: {$ref: '#/nowhere'}}", "{v: {maximum: .inf}}"],
)
def test_an_output_schema_that_no_client_can_compile_is_not_listed(properties):
    made = document(ENTRY, transform("entry"), EXIT, output=f"{{type: object, properties: {properties}}}")
    service = GraphService(McpGraphApi(made))
    for any_json in (True, False):
        assert ["outputSchema" in listed for listed in service.tools(any_json=any_json)] == [False]
    service.close()


def test_schemas_are_listed_as_every_client_can_read_them():
    properties = "{type: object, properties: {a: true, b: false, c: {type: number, default: .nan}}}"
    service = GraphService(McpGraphApi(document(ENTRY, transform("entry"), EXIT, schema=properties)))
    (listed,) = service.tools(any_json=False)
    wanted = {"a": {}, "b": {"not": {}}, "c": {"type": "number", "default": None}}
    assert json.loads(json.dumps(listed))["inputSchema"]["properties"] == wanted
    service.close()


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
            await asyncio.to_thread(until, mark.read_text, "the server notes how it ended")
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


@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGINT"])
def test_the_process_ends_with_all_its_children_and_logs_no_values(tmp_path, end):
    file = graph_file(tmp_path, call("count", "{secret: {expr: entry.secret}}"))
    with served(*PROGRAM, "-g", file) as server:
        server.greet()
        answer = server.ask("tools/call", 2, name="t", arguments={"secret": "hush-hush"})
        child = answer["result"]["structuredContent"]["pid"]
        assert server.end(end) == 0, server.said
        until(lambda: not is_alive(child), "its child outlived it")
    assert "hush-hush" not in "".join(server.said)
    assert "Traceback" not in "".join(server.said)
