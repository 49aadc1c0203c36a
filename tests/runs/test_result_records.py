"""Records in results of every form, and their table."""

import json
from contextlib import closing
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest

from knime_mcp.runs.result_records import (
    RecordsCollector,
    declared_columns,
    find_records,
    records_of,
    records_table,
    single_record,
)
from knime_mcp.types.tool import MCPTool

pytestmark = pytest.mark.quick


MANY = 300_000
TWO = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_records_in_text(subtests):
    for text in [
        json.dumps(TWO),
        json.dumps({"result": TWO}),
        f"```json\n{json.dumps(TWO, indent=2)}\n```",
        '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        "\n".join(json.dumps(entry, indent=2) for entry in TWO),
        "a,b\n1,x\n2,y\n",
        "a;b\r\n1;x\r\n2;y",
        "a\tb\n1\tx\n2\ty",
        "```csv\na,b\n1,x\n2,y\n```",
        "| a | b |\n|---|:-:|\n| 1 | x |\n| 2 | y |",
        "Here they are:\n\na | b\n--|--\n1 | x\n2 | y\n\nThat is all.",
        f"Found 2 rows:\n{json.dumps(TWO)}",
        f"Found 2 rows:\n\n```json\n{json.dumps(TWO)}\n```\nThat is all.",
        "```sql\nSELECT a, b\n```\n\n| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |",
        "\ufeffa,b\n1,x\n2,y\n",
        "a, b\n1, x\n2, y\n",
        json.dumps(json.dumps(TWO)),
        json.dumps(json.dumps(json.dumps(TWO, indent=1))),
        json.dumps([json.dumps(entry) for entry in TWO]),
        "\n".join(json.dumps(json.dumps(entry)) for entry in TWO),
        json.dumps("a,b\n1,x\n2,y\n"),
    ]:
        with subtests.test(text=text):
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
        "Hello, world\nThis is, well\nA text, too\n",
        "[" * 100_000,
        '{"a": 1}\nand\nmore text',
    ],
)
def test_what_is_no_list_of_records(text):
    assert records_of(None, text) == []


def test_names_of_columns_beside_rows_of_values_are_records():
    answer = {
        "columns": ["n", "f"],
        "types": ["BIGINT", "TEXT"],
        "rows": [[1, "a"], [2, None]],
        "rowCount": 2,
    }
    rows = [{"n": 1, "f": "a"}, {"n": 2, "f": None}]
    assert records_of(answer, "") == [("rows", rows)]
    assert records_of({"result": json.dumps(answer)}, "") == [("rows", rows)]
    assert records_of({"data": {"headers": ["n", "f"], "values": [[1, "a"]]}}, "") == [
        ("data.values", [{"n": 1, "f": "a"}])
    ]
    assert records_of({"columns": ["n", "n"], "rows": [[1, 2]]}, "") == []
    assert records_of({"columns": ["n", "f"], "rows": [[1]]}, "") == []
    assert records_of({"columns": ["n", 2], "rows": [[1, 2]]}, "") == []


def test_an_object_as_text_in_the_wrapping_of_an_sdk_is_one_record():
    assert single_record({"result": '{"t": 21.5}'}, '{"t": 21.5}') == {"t": 21.5}
    assert single_record({"result": "no JSON"}, "no JSON") == {"result": "no JSON"}


def test_structured_content_comes_first_and_one_object_is_one_record():
    assert records_of({"rows": TWO, "n": 2}, "a,b\n1,2\n3,4") == [("rows", TWO)]
    assert records_of({"t": 21.5}, "21.5") == []
    assert single_record({"t": 21.5}, "21.5") == {"t": 21.5}
    assert single_record({"result": {"t": 21.5}}, "") == {"t": 21.5}
    assert single_record({"result": 21.5}, "") == {"result": 21.5}
    assert single_record(None, 'It is:\n{"t": 21.5}') == {"t": 21.5}
    assert single_record([1], "none") == {}


@pytest.mark.parametrize(
    ("structured", "names"),
    [
        ({"data": {"items": TWO}, "total": 2}, ["data.items"]),
        (
            {"status": "ok", "response": {"data": {"rows": TWO, "more": TWO}}},
            ["response.data.rows", "response.data.more"],
        ),
        ({"result": {"items": TWO}}, ["items"]),
        ({"page": {"links": TWO}, "rows": TWO}, ["rows"]),
        ({"data": {"items": TWO, "page": 1, "size": 2, "total": 2}}, ["data.items"]),
        ({"id": 7, "name": "x", "since": None, "owner": {"teams": TWO}}, []),
        ({"a": {"rows": [{"a": 1}, "x"]}}, []),
    ],
)
def test_records_behind_nested_keys(structured, names):
    assert [name for name, _ in find_records(structured)] == names
    assert all(records == TWO for _, records in find_records(structured))


def test_records_that_differ_and_places_without_one():
    ((_, records),) = records_of([{"a": 1}, None, {"b": [1], "a": "x"}], "")
    assert records_table(records).to_pylist() == [
        {"a": "1", "b": None},
        {"a": None, "b": None},
        {"a": "x", "b": "[1]"},
    ]


def test_a_line_that_is_no_json_keeps_its_place_and_its_text():
    ((_, records),) = records_of(None, '{"a": "x\u2028y"}\r\n\n{"a": \n{"a": 2}\n# end\n{"a": 3}')
    assert records == [
        {"a": "x\u2028y"},
        {"Unreadable line": '{"a":'},
        {"a": 2},
        {"Unreadable line": "# end"},
        {"a": 3},
    ]


def test_records_that_were_written_as_json_twice():
    text = json.dumps(TWO)
    assert records_of({"data": text}, "") == [("data", TWO)]
    assert records_of({"result": json.dumps(text)}, "") == [("", TWO)]
    assert records_of([json.dumps(entry) for entry in TWO], "") == [("", TWO)]
    assert single_record(None, json.dumps(json.dumps(TWO[0]))) == TWO[0]
    # A text in a record is a value of it.
    assert records_of({"id": 1, "payload": text}, "") == []
    assert records_of({"note": "[unfinished"}, "") == []
    assert records_of(["{}", [1]], "") == []


def test_tables_in_text_as_programs_write_them(subtests):
    for text, rows in [
        ("p;q\n1,5;\n1.234,75;7\n", [{"p": 1.5, "q": None}, {"p": 1234.75, "q": 7}]),
        ("n;p\n1.234;0,5\n12;-2\n", [{"n": 1234, "p": 0.5}, {"n": 12, "p": -2.0}]),
        ("n;p\nx;1,234\ny;2,345\n", [{"n": "x", "p": "1,234"}, {"n": "y", "p": "2,345"}]),
        ('n,p\nx,"1,5"\ny,"2,5"\n', [{"n": "x", "p": "1,5"}, {"n": "y", "p": "2,5"}]),
        ("n;p\nx;1,5\n", [{"n": "x", "p": 1.5}]),
        ("n;p\n1;1.000\n2;2.5\n", [{"n": 1, "p": "1.000"}, {"n": 2, "p": "2.5"}]),
        ("n;p\n1;1.000\n2;2,5\n", [{"n": 1, "p": 1000}, {"n": 2, "p": 2.5}]),
        ("n,p\n1,1.000\n2,2.5\n", [{"n": 1, "p": "1.000"}, {"n": 2, "p": "2.5"}]),
        (",a\n0,TRUE\n1,False\n", [{"": 0, "a": True}, {"": 1, "a": False}]),
        ("a,a\n1,2\n3,4\n", [{"a": 1, "a (2)": 2}, {"a": 3, "a (2)": 4}]),
        ("| a | b |\n|---|--:|\n| x \\| y | 2 |\n| z |\n", [{"a": "x | y", "b": 2}, {"a": "z", "b": None}]),
        ("|    | a |\n|---:|---|\n| 0 | x |\n", [{"": 0, "a": "x"}]),
        (
            "| sku\\_id | at |\n|---|---|\n| 2\\*3 | C:\\dir \\n |\n",
            [{"sku_id": "2*3", "at": "C:\\dir \\n"}],
        ),
    ]:
        with subtests.test(text=text, rows=rows):
            assert records_of(None, text) == [("", rows)]


@pytest.mark.parametrize(
    "text",
    ["a|b\n{}-x\n".format(" " * MANY), "```\n" + " " * MANY, "[\n" * MANY, "a;b\n" + "1." * MANY + ";2"],
    ids=["spaces", "fence", "brackets", "points"],
)
def test_texts_made_to_take_long_are_read_in_time(text):
    """Quadratic work would take hours."""
    assert records_of(None, text) == []
    assert single_record(None, text) == {}


def test_cells_of_text_have_types_that_lose_nothing():
    ((_, records),) = records_of(None, "n,f,zip,flag,gap\n1,0.5,01234,true,\n-2,3,5,false,7\n")
    assert records == [
        {"n": 1, "f": 0.5, "zip": "01234", "flag": True, "gap": None},
        {"n": -2, "f": 3.0, "zip": "5", "flag": False, "gap": 7},
    ]


@pytest.mark.parametrize("number", ["9007199254740993", "-12345678.123456789"])
def test_numbers_that_a_column_of_doubles_would_change_stay_text(number):
    ((_, records),) = records_of(None, f"n,m\n{number},1\n0.5,2\n")
    assert records == [{"n": number, "m": 1}, {"n": "0.5", "m": 2}]


def test_a_zero_at_the_end_that_a_number_would_lose_stays():
    """Versions are no numbers; prices, which all have as many decimals, are."""
    ((_, records),) = records_of(None, "v,price,one\n1.9,2.50,1.5\n1.10,3.99,2\n")
    assert records == [{"v": "1.9", "price": 2.5, "one": 1.5}, {"v": "1.10", "price": 3.99, "one": 2.0}]


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
    columns = {"id": "int", "price": "float", "on": "date", "at": "moment", "note": ""}
    assert declared_columns(SCHEMA) == (columns, "rows")
    assert declared_columns({"properties": {"data": SCHEMA, "n": {"type": "integer"}}}) == (
        columns,
        "data.rows",
    )
    assert declared_columns({"properties": {"result": {"type": "integer"}}}) == ({"result": "int"}, None)
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "number"}}}
    assert declared_columns(endless) == ({"next": "", "n": "float"}, None)


def test_a_moment_that_is_in_no_year_of_utc_stays_text():
    for_ever = "9999-12-31T23:59:59-05:00"
    table = collected(outcome({"rows": [{"at": for_ever}, {"at": "2026-01-31T12:00:00Z"}]}))
    assert table.column("at").to_pylist() == [for_ever, "2026-01-31T12:00:00Z"]


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
    with closing(RecordsCollector()) as found:
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


def test_an_object_whose_list_is_empty_is_no_record():
    none, some = {"rows": [], "total": 0}, {"rows": [{"id": 1}], "total": 1}
    inner = {"data": {"rows": None}, "total": 0}
    for made in (
        collected(outcome(none, schema={}), outcome(some, row="Row1", schema={}), outcome(none, schema={})),
        collected(outcome(none), outcome(some, row="Row1")),
        collected(outcome(inner, schema={}), outcome({"data": some}, row="Row1", schema={})),
        collected(outcome({"result": []}, schema={}), outcome([{"id": 1}], row="Row1", schema={})),
    ):
        assert made.column("Input row").to_pylist() == ["Row1"]
        assert "total" not in made.column_names


def test_one_object_of_a_tool_that_gives_each_its_own_text_is_a_record():
    two = "\n".join(json.dumps(entry, indent=2) for entry in TWO)
    made = collected(
        outcome(None, text=two, schema={}), outcome(None, text='{"a": 3}', row="Row1", schema={})
    )
    assert made.column("a").to_pylist() == [1, 2, 3]
    assert made.column("Input row").to_pylist() == ["Row0", "Row0", "Row1"]


def test_an_object_that_is_the_result_has_the_types_of_the_schema():
    schema = {"properties": {"t": {"type": "number"}, "at": {"type": "string", "format": "date-time"}}}
    made = collected(outcome({"t": 21, "at": "2026-01-31T12:00:00+02:00"}, schema=schema))
    assert [(field.name, str(field.type)) for field in made.schema][-2:] == [
        ("t", "double"),
        ("at", "timestamp[us, tz=UTC]"),
    ]


def test_a_table_has_a_thousand_columns_at_most_and_says_so():
    with closing(RecordsCollector()) as found:
        found.add(outcome({f"k{n}": n for n in range(10_000)}, schema={}))
        (piece,) = found.pieces()
        assert found.warning.startswith("Records have more than 1,000 different keys")
    assert (piece.num_columns, piece.num_rows) == (1005, 1)


def test_without_records_there_is_a_table_without_rows():
    made = collected(outcome(None, text="hello"))
    assert made.num_rows == 0
    assert "Input row" in made.column_names


def test_pieces_have_the_same_size_and_types():
    with closing(RecordsCollector()) as found:
        for start in range(0, 25_000, 5):
            found.add(outcome([{"n": start + i} for i in range(5)], schema={}))
        found.add(outcome([{"n": 0.5}], schema={}))
        pieces = list(found.pieces())
    assert [piece.num_rows for piece in pieces] == [10_000, 10_000, 5_001]
    assert {str(piece.schema.field("n").type) for piece in pieces} == {"double"}
