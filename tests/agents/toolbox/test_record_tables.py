"""Tables from records, odd ones included."""

import json

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from knime_mcp.runs.result_records import find_records, records_table

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


def table(*records):
    return records_table(list(records))


def test_types_by_kind_of_value():
    made = table(
        {"b": True, "i": 1, "f": 0.5, "s": "x", "n": None, "l": [1], "o": {"a": 1}, "m": 1},
        {
            "b": None,
            "i": -(2**63),
            "f": None,
            "s": None,
            "n": None,
            "l": None,
            "o": {},
            "m": 2.5,
            "new": "y",
        },
    )
    assert [str(field.type) for field in made.schema] == [
        *("bool", "int64", "double", "string", "string", "string", "string", "double", "string")
    ]
    first = {"b": True, "i": 1, "f": 0.5, "s": "x", "n": None, "l": "[1]", "o": '{"a":1}', "m": 1.0}
    second = {"b": None, "i": -(2**63), "f": None, "s": None, "n": None, "l": None, "o": "{}", "m": 2.5}
    assert made.to_pylist() == [{**first, "new": None}, {**second, "new": "y"}]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, "a"], ["1", "a"]),
        ([True, 1], ["true", "1"]),
        ([2**63, 1], ["9223372036854775808", "1"]),
        ([2**53 + 1, 0.5], ["9007199254740993", "0.5"]),
        ([{"a": 1}, "a"], ['{"a":1}', "a"]),
        (["\ud83d", None], ["\ufffd", None]),
    ],
)
def test_what_fits_no_type_is_text(values, expected):
    made = table(*({"v": value} for value in values))
    assert made.column("v").to_pylist() == expected
    assert made.schema.field("v").type == pa.string()


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=4), min_size=1, max_size=5))
def test_no_value_of_a_record_is_lost(records):
    assume(any(records))
    made = records_table(records)
    assert made.num_rows == len(records)
    assert made.num_columns == len({key for record in records for key in record})
    assert len(set(made.column_names)) == made.num_columns
    keys = list(dict.fromkeys(key for record in records for key in record))
    for key, column in zip(keys, made.columns, strict=True):
        for record, cell in zip(records, column.to_pylist(), strict=True):
            value = record.get(key)
            assert (value is None) == (cell is None)
            if isinstance(value, bool | list | dict) and isinstance(cell, str):
                assert json.loads(cell) == value
            elif isinstance(value, int) and isinstance(cell, str):
                assert int(cell) == value
            elif isinstance(value, int | float) and not isinstance(cell, str):
                assert cell == value


def test_names_that_knime_would_refuse():
    assert table({"": 1, " ": 2, "column": 3, "a ": 4, "a": 5}).column_names == [
        *("column", "column (2)", "column (3)", "a", "a (2)")
    ]


def test_a_hundred_thousand_records():
    made = records_table([{"id": n, "name": f"n{n}", "score": n / 2} for n in range(100_000)])
    assert made.num_rows == 100_000
    assert [str(field.type) for field in made.schema] == ["int64", "string", "double"]
    assert made.column("score")[99_999].as_py() == 49_999.5


def test_objects_that_are_no_rows():
    assert records_table([{f"k{n}": n} for n in range(1001)]) is None
    assert records_table([{f"k{n}": n} for n in range(1000)]).num_columns == 1000


def test_where_records_are_found():
    rows = [{"a": 1}, {}]
    assert list(find_records(rows)) == [("", rows)]
    assert list(find_records({"result": rows})) == [("", rows)]
    assert list(find_records({"total": 2, "rows": rows, "more": [{"b": 1}]})) == [
        ("rows", rows),
        ("more", [{"b": 1}]),
    ]
    for nothing in ([], {}, None, [None], 1, "text", [1], [{"a": 1}, 2], [{}], {"rows": []}, [[{"a": 1}]]):
        assert list(find_records(nothing)) == []
