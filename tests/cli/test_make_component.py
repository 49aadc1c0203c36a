import json

import pyarrow.parquet as pq

from knime_mcp.knwf import check_archive
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool
from tests.tools.test_tool_component import SCHEMA


def test_a_workflow_of_a_tool_runs_with_its_settings(cli, tmp_path):
    rows = rpc({"content": [{"type": "text", "text": '[{"id": 1}, {"id": 2}]'}]})
    listed = rpc({"tools": [tool("find", inputSchema=SCHEMA, title="Find things")]})
    with ScriptedServer(modern(tools__list=listed, tools__call=rows)) as server:
        made = cli("make-component", server.url, "find", "--out", "find.knwf")
        assert (made.code, "with 8 settings" in made.err) == (0, True), made.err
        assert list(check_archive(tmp_path / "find.knwf")) == []
        done = cli("run", "find.knwf", "--set", "query=x", "--set", "limit=7", "--out", "out")
        assert done.code == 0, done.err
        (sent,) = (request.params["arguments"] for request in server.named("tools/call"))
    assert sent == {"query": "x", "limit": 7, "order": "up", "exact": True, "ratio": 0.5}
    files = {file.name: file for file in (tmp_path / "out").glob("*.parquet")}
    assert pq.read_table(files["9 MCP Tool Caller - Records.parquet"])["id"].to_pylist() == [1, 2]
    (row,) = pq.read_table(files["9 MCP Tool Caller.parquet"]).to_pylist()
    assert json.loads(row["Arguments"]) == sent


def test_what_cannot_be_made_says_why(cli):
    assert cli("make-component", "http://h/mcp").code == 2
    assert cli("make-component", "http://h/mcp", "t", "--out", "t.zip").code == 2
