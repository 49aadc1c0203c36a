"""Where the arguments of calls come from: the dialog, columns of any type, a JSON column."""

import json
from datetime import date

import pyarrow as pa
import pytest

from tests.support.host import HAS_JSON


@pytest.mark.requirement("T56")
def test_wrong_arguments_are_not_sent_and_say_where(server, tools_of, call, rows_of):
    tools = tools_of(server.url("/one"))
    before = rows_of(call(tools, tool_name="called"))[0]["Result"]
    result = call(tools, {"a": ["one", None, "x"], "Status": ["kept", "too", None]}, tool_name="add")
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["invalid arguments"] * 3
    assert [row["Status (input)"] for row in rows] == ["kept", "too", None]
    assert all(row["Attempts"] == 0 for row in rows)
    assert "/a" in rows[0]["Error"]
    assert "integer" in rows[0]["Error"]
    assert "Row1" in rows[1]["Error"]
    assert rows_of(call(tools, tool_name="called"))[0]["Result"] == before
    assert result.warnings[-1].startswith("3 of 3 calls failed; first: row Row0, ")


def test_arguments_come_from_a_json_column(server, host, tools_of, call, rows_of):
    texts = ['{"value": {"deep": [1, null]}}', "", "{broken", "[1]", None]
    result = call(
        tools_of(server.url("/one")),
        {"j": pa.array(texts, pa.string()), "value": ["x"] * 5},
        tool_name="echo",
        arguments_column="j",
    )
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["ok", *["invalid arguments"] * 4]
    assert rows[0]["Result"] == "{'deep': [1, None]}"
    assert "column 'j'" in rows[2]["Error"]
    assert "JSON object" in rows[3]["Error"]


def test_arguments_come_from_knime_json_cells(server, host, tools_of, call, rows_of):
    if not HAS_JSON:
        with pytest.raises(TypeError):
            host.column_of([{"a": 5}, None], dict)
        return
    column = host.column_of([{"a": 5}, None], dict)
    rows = rows_of(
        call(
            tools_of(server.url("/one")),
            pa.table({"args": column}),
            tool_name="add",
            arguments={"b": "7"},
            arguments_column="args",
        )
    )
    assert rows[0]["Result"] == "12"
    assert rows[1]["Status"] == "invalid arguments"


def test_values_of_the_dialog_are_for_all_rows_and_rows_win(server, tools_of, call, rows_of):
    result = call(
        tools_of(server.url("/one")),
        {"a": [1, 2]},
        tool_name="add",
        arguments={"b": "100"},
        arguments_json='{"a": 50, "b": 50}',
    )
    assert [row["Result"] for row in rows_of(result)] == ["101", "102"]


def test_texts_dates_and_doubles_are_read_as_the_tool_wants_them(server, tools_of, call, rows_of):
    result = call(
        tools_of(server.url("/one")),
        {"value": ['{"x": [1, 2]}']},
        tool_name="echo",
    )
    assert rows_of(result)[0]["Result"] == "{'x': [1, 2]}"
    result = call(
        tools_of(server.url("/one")),
        {"CITY": pa.array([date(2026, 1, 31)], pa.date32()), "days": [2.0]},
        tool_name="weather",
    )
    assert json.loads(rows_of(result)[0]["Arguments"]) == {"city": "2026-01-31", "days": 2}
