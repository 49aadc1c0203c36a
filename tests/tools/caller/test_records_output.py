"""The second output of the Caller."""

import json

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


def test_the_view_shows_records_as_tables(call, answering):
    rows = [{"id": number, "text": "<b>x</b>" * 40, "tags": [1]} for number in range(12)]
    with answering(json.dumps({"found": rows})) as server:
        page = call(None, server_url=server.url, tool_name="rows").view_html
    assert "<h3>found</h3>" in page
    for text in (
        "<th",
        "id</th>",
        "tags</th>",
        "[1]",
        "… and 2 more rows, in Records",
        "The answer as it came",
    ):
        assert text in page
    assert "<b>x</b>" not in page
    with answering("hello") as server:
        assert "The answer as it came" not in call(None, server_url=server.url, tool_name="rows").view_html
    with answering(json.dumps([{f"key {number}": 1 for number in range(20)}])) as server:
        assert "… and 12 more columns" in call(None, server_url=server.url, tool_name="rows").view_html
