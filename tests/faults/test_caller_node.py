"""The Caller node on a server that misbehaves: each row has its own status, error and journal line."""

import json

import pyarrow as pa
import pytest

from tests.faults.rows import script_for
from tests.support.scripted_server import Part, ScriptedServer, http, rpc, tool


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
                "arguments_source": "json_column",
                "arguments_column": "j",
                "concurrency": 4,
            },
            workflow_dir=tmp_path / "workflow",
        )
    assert result.ok, result.failure
    table = result.outputs[0].arrow
    rows = dict(zip(table["Input row"].to_pylist(), table["Status"].to_pylist(), strict=True))
    refused, unknown = {3, 5}, {1, 6}
    assert {number for number, status in enumerate(rows.values()) if status == "failed"} == refused
    assert {number for number, status in enumerate(rows.values()) if status == "outcome unknown"} == unknown
    errors = table["Error"].to_pylist()
    for number, words in {1: "before it replied", 3: "Sign in", 5: "401", 6: "not valid JSON"}.items():
        assert words in errors[number]
    (journal,) = (tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl")
    assert len([line for line in journal.read_text("utf-8").splitlines() if '"input_row"' in line]) == 8
