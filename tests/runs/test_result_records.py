"""Records in results of every form, and their table."""

import json
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest

from knime_mcp.runs.result_records import RecordsCollector, declared_columns, records_of, records_table
from knime_mcp.types.tool import MCPTool

TWO = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TWO),
        json.dumps({"result": TWO}),
        f"```json\n{json.dumps(TWO, indent=2)}\n```",
        '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        "a,b\n1,x\n2,y\n",
        "a;b\r\n1;x\r\n2;y",
        "a\tb\n1\tx\n2\ty",
        "```csv\na,b\n1,x\n2,y\n```",
        "| a | b |\n|---|:-:|\n| 1 | x |\n| 2 | y |",
        "Here they are:\n\na | b\n--|--\n1 | x\n2 | y\n\nThat is all.",
    ],
)
def test_records_in_text(text):
    assert records_of(None, text) == [("", TWO)]
    assert records_of({"result": text}, text) == [("", TWO)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Dear all,\nthanks, bye",
        "One, two, and three.\nFour, five.",
        "[1, 2]",
        "{ not json",
        "a | b | c",
        "a,a\n1,2\n3,4",
        "[" * 100_000,
    ],
)
def test_what_is_no_list_of_records(text):
    assert records_of(None, text) == []


def test_structured_content_comes_first_and_one_object_is_one_record():
    assert records_of({"rows": TWO, "n": 2}, "a,b\n1,2\n3,4") == [("rows", TWO)]
    assert records_of({"t": 21.5}, "21.5") == []
    assert records_of({"t": 21.5}, "21.5", single=True) == [("", [{"t": 21.5}])]
    assert records_of(None, '{"t": 21.5}', single=True) == [("", [{"t": 21.5}])]


def test_cells_of_text_have_types_that_lose_nothing():
    ((_, records),) = records_of(None, "n,f,zip,flag,gap\n1,0.5,01234,true,\n-2,3,5,false,7\n")
    assert records == [
        {"n": 1, "f": 0.5, "zip": "01234", "flag": True, "gap": None},
        {"n": -2, "f": 3.0, "zip": "5", "flag": False, "gap": 7},
    ]


def test_dates_and_moments_have_their_types_and_the_rest_stays_text():
    made = records_table(
        [
            {
                "d": "2026-01-31",
                "l": "2026-01-31T12:00:00",
                "m": "2026-01-31T12:00:00Z",
                "o": "2026-01-31T12:00:00+02:00",
                "x": "2026-02-31",
                "mixed": "2026-01-31",
                "o2": {"a": [1]},
            },
            {"mixed": "soon"},
        ]
    )
    assert [str(field.type) for field in made.schema] == [
        *("date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "string", "string", "string", "string")
    ]
    assert made.to_pylist()[0] == {
        "d": date(2026, 1, 31),
        "l": datetime(2026, 1, 31, 12),
        "m": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "o": "2026-01-31T12:00:00+02:00",
        "x": "2026-02-31",
        "mixed": "2026-01-31",
        "o2": '{"a":[1]}',
    }


SCHEMA = {
    "type": "object",
    "properties": {
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "price": {"type": "number"},
                    "on": {"type": "string", "format": "date"},
                    "at": {"type": ["string", "null"], "format": "date-time"},
                    "note": {"type": "string"},
                },
            },
        }
    },
}


def test_an_output_schema_gives_columns_and_types():
    assert declared_columns(SCHEMA) == {
        "id": "int",
        "price": "float",
        "on": "date",
        "at": "moment",
        "note": "",
    }
    assert declared_columns({"type": "object", "properties": {"result": {"type": "integer"}}}) == {}


def outcome(structured, *, row="Row0", schema=SCHEMA, ok=True, text=""):
    tool = MCPTool("t", "", {}, "http://127.0.0.1:1/mcp", "t", output_schema=schema or None)
    record = SimpleNamespace(
        ok=ok,
        structured_result=None if structured is None else json.dumps(structured),
        result=text,
        input_row=row,
        tool_name="t",
    )
    return SimpleNamespace(record=record, tool=tool)


def collected(*outcomes):
    with RecordsCollector() as found:
        for each in outcomes:
            found.add(each)
        return pa.concat_tables(found.pieces())


def test_records_of_many_calls_are_one_table():
    made = collected(
        outcome({"rows": [{"id": 1, "price": 2, "at": "2026-01-31T12:00:00+02:00"}, {"id": 2, "new": "x"}]}),
        outcome(None, row="Row1", ok=False, text=json.dumps(TWO)),
        outcome({"rows": [{"id": 3, "price": 2.5, "Position": 9}]}, row="Row2"),
    )
    assert made.column_names == [
        *("<RowID>", "Input row", "Tool name", "List", "Position"),
        *("id", "price", "on", "at", "note", "new", "Position (2)"),
    ]
    assert made.column("<RowID>").to_pylist() == ["Row0", "Row1", "Row2"]
    assert made.column("Input row").to_pylist() == ["Row0", "Row0", "Row2"]
    assert made.column("Position").to_pylist() == [1, 2, 1]
    assert made.column("price").to_pylist() == [2.0, None, 2.5]
    assert made.column("at").to_pylist()[0] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert str(made.schema.field("on").type) == "date32[day]"


def test_without_records_there_is_a_table_without_rows():
    made = collected(outcome(None, text="hello"))
    assert made.num_rows == 0
    assert "Input row" in made.column_names


def test_pieces_have_the_same_size_and_types():
    with RecordsCollector() as found:
        for start in range(0, 25_000, 5):
            found.add(outcome([{"n": start + i} for i in range(5)], schema={}))
        found.add(outcome([{"n": 0.5}], schema={}))
        pieces = list(found.pieces())
    assert [piece.num_rows for piece in pieces] == [10_000, 10_000, 5_001]
    assert {str(piece.schema.field("n").type) for piece in pieces} == {"double"}
