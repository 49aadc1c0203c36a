"""The Caller node on a server that misbehaves: each row has its own status, error and journal line."""

import json
from collections import Counter

import pyarrow as pa
import pytest

from tests.faults.rows import script_for
from tests.support.scripted_server import Part, ScriptedServer, http, modern, rpc, rpc_error, text, tool


def test_rows_that_may_have_run_are_not_made_again_by_a_resumed_node(host, tmp_path):
    answers = {
        0: http(202, content_type=None),
        1: http(200, "OK", content_type="text/plain"),
        2: rpc_error(-32603, "Bad Gateway", status=502),
        3: rpc_error(-32001, "Request timed out"),
        4: [Part.CLOSE],
        5: rpc_error(-32602, "Bad amount"),
        6: rpc(text("no stock", isError=True, resultType="complete")),
        7: rpc(text("hi", resultType="complete")),
    }

    def call(request):
        answer = answers[request.params["arguments"]["row"]]
        return answer(request) if callable(answer) else answer

    def execute():
        result = host.run(
            "mcp_tool_caller",
            [None, host.table(pa.table({"j": [json.dumps({"row": row}) for row in answers]})), None],
            {
                "server_url": server.url,
                "tool_name": "echo",
                "arguments_column": "j",
                "all_columns": True,
                "resume": True,
            },
            workflow_dir=tmp_path / "workflow",
        )
        assert result.ok, result.failure
        return result.outputs[0].arrow["Status"].to_pylist()

    with ScriptedServer(modern(tools__call=call)) as server:
        unknown = ["outcome unknown"] * 5
        assert execute() == [*unknown, "failed", "tool error", "ok"]
        # The node tells of a run that may have been lost by its journal: of one that did not come to its end.
        (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
        lines = journal.read_text("utf-8").splitlines(keepends=True)
        journal.write_text("".join(lines[:-1]), "utf-8")
        assert execute() == [*unknown, "failed", "tool error", "ok"]
        rows = Counter(request.params["arguments"]["row"] for request in server.named("tools/call"))
    assert rows == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 1}


@pytest.mark.parametrize("way", ["modern-json", "legacy-sse"])
def test_rows_that_fail_stand_beside_rows_that_do_not(way, host, tmp_path):
    faults = {
        1: [Part.CLOSE],
        3: http(200, "<html><title>Sign in</title>", content_type="text/html"),
        5: http(401, headers={"WWW-Authenticate": "Bearer"}),
        6: http(200, "{"),
    }
    script = script_for(way, None)
    call = script["tools/call"]
    script["tools/call"] = lambda r: faults.get(r.params["arguments"]["row"]) or call(r)
    script["tools/list"] = rpc({"tools": [tool()]})
    with ScriptedServer(script) as server:
        result = host.run(
            "mcp_tool_caller",
            [
                None,
                host.table(pa.table({"j": [json.dumps({"row": i, "bad": False}) for i in range(8)]})),
                None,
            ],
            {
                "server_url": server.url,
                "tool_name": "echo",
                "arguments_column": "j",
                "all_columns": True,
                "connection_options": "concurrency = 4",
            },
            workflow_dir=tmp_path / "workflow",
        )
    assert result.ok, result.failure
    table = result.outputs[0].arrow
    rows = dict(zip(table["Input row"].to_pylist(), table["Status"].to_pylist(), strict=True))
    refused, unknown = {5}, {1, 3, 6}
    assert {number for number, status in enumerate(rows.values()) if status == "failed"} == refused
    assert {number for number, status in enumerate(rows.values()) if status == "outcome unknown"} == unknown
    errors = table["Error"].to_pylist()
    for number, words in {1: "before it replied", 3: "Sign in", 5: "401", 6: "not valid JSON"}.items():
        assert words in errors[number]
    (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
    assert len([line for line in journal.read_text("utf-8").splitlines() if '"input_row"' in line]) == 8
