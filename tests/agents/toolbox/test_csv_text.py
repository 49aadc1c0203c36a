"""Lists of records are CSV for a model, and nothing else is."""

import pytest

from knime_mcp.agents.toolbox.replies import csv_text

pytestmark = pytest.mark.quick


def test_records_are_lines_in_which_texts_are_no_numbers():
    records = [
        {"number": "007", "name": "Oak, large", "price": 9.5, "sold": True, "note": None},
        {"number": "D-1", "name": 'A "desk"', "price": 10, "sold": False, "note": ""},
        {"number": "null", "name": " x", "price": -1, "sold": None, "note": "-"},
    ]
    assert csv_text(records) == (
        'number,name,price,sold,note\n"007","Oak, large",9.5,true,\nD-1,"A ""desk""",10,false,""\n'
        '"null"," x",-1,,"-"'
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"a": 1},
        [],
        [{"a": 1}],
        [1, 2],
        [{}, {}],
        [{"a": 1}, {"b": 1}],
        [{"a": [1]}, {"a": [2]}],
    ],
)
def test_anything_else_stays_as_it_is(value):
    assert csv_text(value) is None
