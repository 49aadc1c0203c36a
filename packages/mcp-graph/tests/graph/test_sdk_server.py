"""The server, as a process, with the official client: both eras, both transports, all recorded cases."""

import asyncio
import json

import pytest

from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.graph_service import GraphService
from tests.graph.forked_program import started
from tests.graph.graphs import ENTRY, EXIT, SERVER, call, document, transform
from tests.graph.live import (
    DEADLINE,
    ERAS,
    PROGRAM,
    client_of,
    client_of_fork,
    graph_file,
    is_alive,
    official_client,
    run,
    served,
)
from tests.graph.recorded import compare, filled, recorded
from tests.support.waiting import until


def runs_here(case):
    """Quirks are decided on in docs/graph-deviations.md; others need Node, see tests/peers."""
    return case["kind"] != "quirk" and not case.get("requires")


@pytest.mark.requirement("G4", "G8", "G16")
@pytest.mark.parametrize("part", range(4))  # each case starts a server, and workers share the parts
def test_recorded_cases(subtests, tmp_path, part):
    for number, (case, dialect, said) in [*enumerate(recorded(runs_here))][part::4]:
        with subtests.test(case=case["id"], dialect=dialect):
            folder = tmp_path / str(number)
            folder.mkdir()
            as_recorded(case, dialect, said, folder)


def as_recorded(case, dialect, said, folder):
    file = folder / "graph.yaml"
    if "yaml" in said:  # without it, there is no file
        file.write_text(filled(said["yaml"], folder))
    argv, log = ["--dialect", dialect, "-g", file], folder / "log"
    if case.get("mcp_json"):
        (folder / "mcp.json").write_text(filled(json.dumps(case["mcp_json"]), folder))
        argv += ["-m", folder / "mcp.json"]
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


@pytest.mark.requirement("G2")
@pytest.mark.parametrize("mode", ERAS)
def test_both_eras(tmp_path, mode):
    file = graph_file(tmp_path, transform("{'r': entry.v}"))

    async def calls():
        async with client_of([*PROGRAM, "-g", file], mode=mode) as client:
            assert (await client.call_tool("t", {"v": 5})).structured_content == {"r": 5}
            assert [t.name for t in (await client.list_tools()).tools] == ["t"]

    run(calls())


@pytest.mark.parametrize(("transport", "mode"), list(zip(("http", "stdio"), ERAS, strict=True)))
def test_a_schema_of_no_object_does_not_break_the_list(tmp_path, transport, mode):
    file = graph_file(tmp_path, transform("entry.v"), schema="{type: array}", output="{type: string}")

    async def listed():
        async with official_client(file, transport, mode) as client:
            (tool,) = (await client.list_tools()).tools
            result = await client.call_tool("t", {"v": "x"})
        if mode == "legacy":
            assert (tool.output_schema, result.is_error) == (None, True)
        else:
            assert (tool.output_schema, result.structured_content) == ({"type": "string"}, "x")

    run(listed())


@pytest.mark.parametrize(
    "properties",
    ["{v: {type: any}}", "{v: {pattern: '('}}", "{v: {$ref: '#/nowhere'}}", "{v: {maximum: .inf}}"],
)
def test_an_output_schema_that_no_client_can_compile_is_not_listed(properties):
    made = document(ENTRY, transform("entry"), EXIT, output=f"{{type: object, properties: {properties}}}")
    service = GraphService(McpGraphApi(made))
    for any_json in (True, False):
        (listed,) = asyncio.run(service.tools(any_json=any_json))
        assert "outputSchema" not in listed
    service.close()


def test_schemas_are_listed_as_every_client_can_read_them():
    properties = "{type: object, properties: {a: true, b: false, c: {type: number, default: 1.0}}}"
    service = GraphService(McpGraphApi(document(ENTRY, transform("entry"), EXIT, schema=properties)))
    (listed,) = asyncio.run(service.tools(any_json=False))
    assert listed["inputSchema"]["properties"] == {
        "a": {},
        "b": {"not": {}},
        "c": {"type": "number", "default": 1},
    }
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


def test_credentials_of_servers_are_marked_in_history_errors_and_results(tmp_path):
    token = "tok-4f9d2c71ab"
    servers = SERVER.replace("]}", f"], env: {{TOKEN: {token}}}}}")
    way = "{id: x, type: switch, conditions: [{rule: {var: entry.fail}, next: y}], next: z}"
    failing, echo = call("fail", f"{{message: {token}}}", node="y"), call("echo", f"{{v: {token}}}", node="z")
    file = graph_file(tmp_path, way, failing, echo, servers=servers)

    async def calls():
        async with client_of([*PROGRAM, "-g", file]) as client:
            failed = await client.call_tool("t", {"fail": True}, meta={"knime-mcp/history": True})
            assert "⟨secret " in failed.content[0].text
            assert token not in failed.model_dump_json()
            done = await client.call_tool("t", {}, meta={"knime-mcp/history": True})
            assert done.structured_content["received"]["v"].startswith("⟨secret ")
            assert token not in done.model_dump_json()

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


@pytest.mark.parametrize(("transport", "mode"), list(zip(("http", "stdio"), ERAS, strict=True)))
def test_pictures_and_links_in_a_result_are_blocks_of_it(tmp_path, transport, mode):
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    page = {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}}
    value = {"out": [picture, {"deep": link}], "page": page, "no": {"type": "image", "data": 5}}

    file = graph_file(tmp_path, transform(json.dumps(value)))

    async def calls():
        async with official_client(file, transport, mode) as client:
            result = await client.call_tool("t", {})
            assert result.structured_content == value
            found = [block.model_dump(by_alias=True, exclude_none=True) for block in result.content[1:]]
            assert found == [picture, link, page]

    run(calls())
