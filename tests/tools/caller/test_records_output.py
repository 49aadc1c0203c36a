"""The second output of the Caller."""

import pytest

from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

pytestmark = pytest.mark.quick


CSV = "id,city,since,score\n1,Konstanz,2026-01-31,0.5\n2,Bern,2025-12-01,2\n"


@pytest.fixture
def answering():
    """A server whose one tool gives the text; it is running while the test does."""

    def start(text):
        content = rpc({"content": [{"type": "text", "text": text}]})
        takes = {"type": "object", "properties": {"q": {"type": "string"}}}
        listed = rpc({"tools": [tool("rows", inputSchema=takes)]})
        return ScriptedServer(modern(tools__list=listed, tools__call=content))

    return start


def test_records_are_rows_keyed_to_their_call(call, answering):
    with answering(CSV) as server:
        result = call(None, {"q": ["a", "b"]}, server_url=server.url, tool_name="rows")
    assert result.ok, result.failure
    assert not result.problems
    records = result.outputs[1]
    assert records.column_names == [
        "Input row",
        "Tool name",
        "List",
        "Position",
        "id",
        "city",
        "since",
        "score",
    ]
    rows = records.to_pylist()
    assert [row["Input row"] for row in rows] == ["Row0", "Row0", "Row1", "Row1"]
    assert [(row["id"], row["city"], str(row["since"])[:10], row["score"]) for row in rows[:2]] == [
        (1, "Konstanz", "2026-01-31", 0.5),
        (2, "Bern", "2025-12-01", 2.0),
    ]


def test_moments_and_no_records(call, answering):
    with answering('[{"at": "2026-01-31T12:00:00Z", "local": "2026-01-31T12:00:00", "ok": true}]') as server:
        result = call(None, server_url=server.url, tool_name="rows")
        assert result.ok, result.failure
        assert not result.problems
        (row,) = result.outputs[1].to_pylist()
    assert (str(row["at"])[:16], str(row["local"])[:16], row["ok"]) == (
        "2026-01-31 12:00",
        "2026-01-31 12:00",
        True,
    )
    with answering("nothing") as server:
        result = call(None, server_url=server.url, tool_name="rows")
    assert result.ok, result.failure
    assert result.outputs[1].to_pylist() == []
