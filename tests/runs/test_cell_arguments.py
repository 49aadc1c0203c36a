"""Columns and typed text to arguments."""

import json
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.audit.table_formats import read_table_file
from knime_mcp.client.validation.argument_schemas import ANYTHING, parameters_of
from knime_mcp.runs.argument_sources import (
    PlannedCalls,
    arguments_from_json,
    arguments_from_pairs,
    arguments_from_row,
    cell_to_json,
    parse_arguments_setting,
    plan_columns,
)
from knime_mcp.runs.parameter_rows import ParameterRows
from knime_mcp.types.errors import ArgumentsInvalid, SettingInvalid
from knime_mcp.types.tool import MCPTool, WorkflowTool


def tool(schema):
    return MCPTool("t", "", schema, "http://127.0.0.1:1/mcp", "t")


def mapped(schema, row):
    parameters = parameters_of(tool(schema))
    return arguments_from_row(row, plan_columns(parameters, list(row)), parameters)


def one(kind, value):
    return mapped({"type": "object", "properties": {"a": kind}}, {"a": value})


def test_a_missing_cell_is_an_omitted_argument():
    assert one({"type": ["string", "null"]}, None) == {}


def test_extension_columns_of_parquet_are_arguments(tmp_path):
    def column(kind, values, storage):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, storage))

    columns = {
        "uuid": column(pa.uuid(), [b"\0" * 15 + b"\1"], pa.binary(16)),
        "json": column(pa.json_(), ['{"a": 1}'], pa.string()),
        "bool8": column(pa.bool8(), [1], pa.int8()),
        "tensor": column(pa.fixed_shape_tensor(pa.int32(), [2]), [[1, 2]], pa.list_(pa.int32(), 2)),
        "decimal": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    text = {"type": "string"}
    read = read_table_file(tmp_path / "t.parquet").table
    properties = dict.fromkeys(columns, text) | {
        "json": {"type": "object"},
        "bool8": {"type": "boolean"},
        "tensor": {"type": "array"},
        "map": {"type": "object"},
    }
    row = {name: read.column(name).to_pylist()[0] for name in columns}
    sent = mapped({"type": "object", "properties": properties}, row)
    assert sent == {
        "uuid": "00000000-0000-0000-0000-000000000001",
        "json": {"a": 1},
        "bool8": True,
        "tensor": [1, 2],
        "decimal": "1.50",
        "map": {"a": 1},
    }


def test_cells_become_arguments(subtests):
    for schema, cell, sent in [
        ({"type": "integer"}, 5.0, 5),
        ({"type": "integer"}, 5.5, 5.5),
        ({"type": ["integer", "number"]}, 5.0, 5.0),
        ({"type": "number"}, 5.0, 5.0),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 7.0, 7),
        ({"type": "string"}, 10045.0, "10045"),
        ({"type": "string"}, -0.5, "-0.5"),
        ({"type": "string"}, 1e300, "1e+300"),
        ({"type": "array", "items": {"type": "string"}}, [1.0, 2.5], ["1", "2.5"]),
        ({"type": "string"}, Decimal("1E+3"), "1000"),
        ({"type": "string"}, Decimal("1.50"), "1.50"),
        ({"type": "string"}, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({}, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({"type": "object"}, [("a", 1)], {"a": 1}),
        ({"type": "object"}, '{"x": [1]}', {"x": [1]}),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array"}, "not json", "not json"),
        ({"type": ["array", "string"]}, "[1]", "[1]"),
        ({"type": "string"}, "[1]", "[1]"),
        ({}, "[1]", "[1]"),
        ({"type": "integer"}, "5", 5),
        ({"anyOf": [{"enum": ["low", "high"]}, {"type": "integer"}]}, "high", "high"),
        ({"anyOf": [{"enum": ["1", "2"]}, {"type": "integer"}]}, "1", "1"),
        ({"anyOf": [{"enum": [1, 2]}, {"type": "string"}]}, 2.0, 2),
        ({"anyOf": [{"const": True}, {"type": "string"}]}, True, True),
        ({"type": "string", "enum": ["1"]}, "1", "1"),
        ({"type": "integer"}, "5.5", 5.5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "integer"}, "true", "true"),
        ({"type": "integer"}, "null", None),
        ({"type": "number"}, " 2.5 ", 2.5),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, "1", "1"),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, 2.5, "2.5"),
        ({"type": "string"}, True, "true"),
        ({"type": ["string", "integer"]}, 5, 5),
        ({"type": "string"}, {"a": 1}, '{"a":1}'),
        ({"type": "array", "items": {"type": "string"}}, [1, 2], ["1", "2"]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "2"], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, 2.0], [1, 2]),
        ({"type": "array"}, ["a", None], ["a", None]),
        ({"type": "object"}, {"x": date(2026, 1, 31)}, {"x": "2026-01-31"}),
        ({"type": "string"}, datetime(2026, 1, 31, 12, 0, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
        ({"type": "string"}, date(2026, 1, 31), "2026-01-31"),
        ({"type": "string"}, time(12, 30), "12:30:00"),
        ({"type": "string"}, timedelta(hours=26, seconds=1.5), "PT26H1.5S"),
        ({"type": "string"}, -timedelta(minutes=1), "-PT1M"),
        ({"type": "string"}, timedelta(), "PT0S"),
        ({"type": "string"}, Decimal("1.50"), "1.50"),
        ({"type": "number"}, Decimal("1.50"), 1.5),
        ({"type": "integer"}, Decimal(10**30), 10**30),
        ({"type": "boolean"}, True, True),
        ({"type": "integer"}, 2**63 - 1, 2**63 - 1),
        ({"enum": [1, 2]}, 2.0, 2),
        ({"enum": [1, 2.5]}, 2.0, 2.0),
        ({"const": {"a": 1}}, '{"a": 1}', {"a": 1}),
        ({"enum": [1, "auto"]}, "1", 1),
        ({"enum": [1, "auto"]}, "auto", "auto"),
        ({"enum": [1, "auto"]}, '"auto"', '"auto"'),
        ({"anyOf": [{"type": "integer"}, {"const": "all", "type": "string"}]}, "25", 25),
        ({"anyOf": [{"type": "integer"}, {"const": "all", "type": "string"}]}, "many", "many"),
        ({"anyOf": [{"enum": [1, "auto"]}, {"type": "string"}]}, "1", "1"),
        ({"type": "integer"}, "-0", 0),
    ]:
        with subtests.test(schema=schema, cell=cell, sent=sent):
            assert one(schema, cell) == {"a": sent}


@pytest.mark.parametrize(("typed", "cell"), [("1e400", float("inf")), ("\ud83d", "\ud83d")])
def test_what_to_do_about_a_value_is_for_terminals_too(typed, cell):
    parameters = parameters_of(tool({"properties": {"a": {"type": ["number", "null"]}}}))
    for give in (
        lambda: arguments_from_pairs([("a", typed)], parameters),
        lambda: one({"type": ["number", "null"]}, cell),
    ):
        with pytest.raises(ArgumentsInvalid) as caught:
            give()
        assert caught.value.fix
        assert "node" not in caught.value.fix


def test_text_of_a_number_that_is_too_large_has_no_broken_characters():
    with pytest.raises(ArgumentsInvalid) as caught:
        one({"type": "number"}, "1e400")
    assert caught.value.fix == "Give a number that is finite, or leave it out"


def test_zero_keeps_its_sign_where_numbers_have_one():
    parameters = parameters_of(tool({"properties": {"n": {"type": "number"}, "i": {"type": "integer"}}}))
    arguments = arguments_from_pairs([("n", "-0"), ("i", "-0")], parameters)
    assert json.dumps(arguments) == '{"n": -0.0, "i": 0}'
    assert json.dumps(arguments_from_json('{"n": [-0, 10]}', source="JSON")) == '{"n": [-0.0, 10]}'


@pytest.mark.parametrize("kind", ["object", "array"])
def test_cells_of_parquet_arrive_with_maps_as_objects_and_with_nanoseconds_in_lists(tmp_path, kind):
    number_of, moment = pa.map_(pa.string(), pa.int64()), pa.timestamp("ns")
    columns = {
        "map": pa.array([[("a", 1), ("b", None)], []], number_of),
        "keys": pa.array([[(1, "x")], [(2, "y")]], pa.map_(pa.int64(), pa.string())),
        "inside": pa.array([{"m": [("a", 1)]}, None], pa.struct([("m", number_of)])),
        "each": pa.array([[[("a", 1)], None], []], pa.list_(number_of)),
        "at": pa.array([[1_001, None], []], pa.list_(moment)),
        "until": pa.array([{"end": 1_001}, None], pa.struct([("end", moment)])),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    rows = ParameterRows.of_file(read_table_file(tmp_path / "t.parquet"))
    schema = {"properties": {name: {"type": kind} for name in columns}}
    first, second = (call.arguments for call in PlannedCalls(tool=tool(schema), parameters=rows).calls())
    assert first == {
        "map": {"a": 1, "b": None},
        "keys": {"1": "x"},
        "inside": {"m": {"a": 1}},
        "each": [{"a": 1}, None],
        "at": ["1970-01-01T00:00:00.000001", None],
        "until": {"end": "1970-01-01T00:00:00.000001"},
    }
    assert second == {"map": {}, "keys": {"2": "y"}, "each": [], "at": []}


def test_a_map_with_a_key_that_stands_twice_loses_neither_value():
    table = pa.table(
        {"<RowID>": ["1"], "map": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))}
    )
    (call,) = PlannedCalls(
        tool=tool({"properties": {"map": {}}}), parameters=ParameterRows(table=table)
    ).calls()
    assert call.arguments == {"map": [["a", 1], ["a", 2]]}


def test_references_and_branches_say_what_is_wanted():
    schema = {
        "type": "object",
        "properties": {"filter": {"$ref": "#/$defs/Filter"}},
        "allOf": [{"properties": {"count": {"$ref": "#/$defs/Count"}}}],
        "$defs": {"Filter": {"type": "object"}, "Count": {"type": "integer"}},
    }
    assert mapped(schema, {"filter": '{"x": 1}', "count": 3.0}) == {"filter": {"x": 1}, "count": 3}


def test_columns_that_a_schema_requires_or_has_a_pattern_for_are_parameters_too():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a", "must"],
        "additionalProperties": {"type": "integer"},
        "patternProperties": {"^x-": {"type": "array"}, "(?=look)": {}, "(": {}, 5: {}},
    }
    row = {"a": 1.0, "must": 2.0, "x-1": "[1]", "look": "l", "other": "o"}
    parameters = parameters_of(tool(schema), list(row))
    plan = plan_columns(parameters, list(row))
    assert arguments_from_row(row, plan, parameters) == {"a": 1, "must": 2, "x-1": [1]}
    assert list(parameters_of(tool(schema))) == ["a", "must"]


def test_recursive_schemas_end():
    schema = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"next": {"$ref": "#"}}}
    assert list(parameters_of(tool(schema))) == ["next"]


@pytest.mark.parametrize(
    "cell", [float("nan"), float("inf"), Decimal("0.12345678901234567890"), object(), "half \ud83d pair"]
)
def test_what_json_cannot_hold_is_named_by_pointer(cell):
    with pytest.raises(ArgumentsInvalid) as caught:
        one({}, cell)
    assert caught.value.pointer == "/a"
    assert caught.value.fix


def test_columns_match_by_name_then_by_case_and_the_rest_is_reported():
    plan = plan_columns(["city", "Days", "x", "X"], ["City", "days", "DAYS", "x", "Status"])
    assert plan == {"city": "City", "x": "x"}


def test_columns_match_with_space_around_their_names():
    plan = plan_columns(["city", "days"], [" city ", "days", " days"])
    assert plan == {"city": " city ", "days": "days"}
    assert plan_columns(["min_length", "a_b", "ab"], ["Min Length", "A-B"]) == {"min_length": "Min Length"}


def test_columns_match_however_their_letters_are_composed():
    plan = plan_columns(["gr\u00f6\u00dfe", "\u00e4"], ["Gro\u0308SSE", "a\u0308", "A\u0308"])
    assert plan == {"gr\u00f6\u00dfe": "Gro\u0308SSE"}


def test_a_workflow_tool_has_the_parameters_of_its_configuration_nodes():
    workflow = WorkflowTool("w", "", {"limit": {"type": "integer"}, "city": {"type": "string"}})
    parameters = parameters_of(workflow)
    assert list(parameters) == ["limit", "city"]
    assert arguments_from_pairs([("limit", "5"), ("city", "5")], parameters) == {"limit": 5, "city": "5"}


def test_the_address_of_a_file_is_its_content_only_where_a_person_typed_it(tmp_path):
    file = tmp_path / "a b.bin"
    file.write_bytes(b"123")
    parameters = parameters_of(
        tool(
            {"properties": {"data": {"type": "string", "contentEncoding": "base64"}, "s": {"type": "string"}}}
        )
    )
    pairs = [("data", file.as_uri()), ("s", file.as_uri())]
    assert arguments_from_pairs(pairs, parameters, files=True) == {"data": "MTIz", "s": file.as_uri()}
    # As Java writes such addresses.
    pairs = [("data", file.as_uri().replace("///", "/"))]
    assert arguments_from_pairs(pairs, parameters, files=True) == {"data": "MTIz"}
    # A table may come from anybody, who could have any file of this computer sent.
    assert arguments_from_pairs(pairs, parameters) == dict(pairs)
    row, plan = dict(pairs), plan_columns(parameters, ["data"])
    assert arguments_from_row(row, plan, parameters) == row
    with pytest.raises(ArgumentsInvalid, match="cannot be read"):
        arguments_from_pairs([("data", "file:/no/such")], parameters, files=True)


def test_a_moment_is_sent_without_the_name_of_its_zone():
    parameters = parameters_of(
        tool({"properties": {"at": {"type": "string", "format": "date-time"}, "s": {"type": "string"}}})
    )
    text = "2026-03-04T05:06:07+01:00[Europe/Berlin]"
    assert arguments_from_pairs([("at", text), ("s", text)], parameters) == {"at": text[:25], "s": text}


def test_typed_pairs_are_read_by_the_schema():
    parameters = parameters_of(
        tool(
            {
                "properties": {
                    "n": {"type": "integer"},
                    "b": {"type": "boolean"},
                    "s": {"type": "string"},
                    "list": {"type": "array"},
                    "any": {},
                    "union": {"type": ["string", "integer"]},
                    "one of": {"enum": [0, 1]},
                    "word": {"enum": ["0", "1"]},
                }
            }
        )
    )
    pairs = [
        ("n", "5"),
        ("b", "true"),
        ("s", "5"),
        ("list", '["a"]'),
        ("any", "5"),
        ("union", "5"),
        ("one of", "1"),
        ("word", "1"),
        ("", "ignored"),
        (" n ", "6"),
        ("unknown", "x"),
    ]
    assert arguments_from_pairs(pairs, parameters) == {
        "n": 6,
        "b": True,
        "s": "5",
        "list": ["a"],
        "any": "5",
        "union": "5",
        "one of": 1,
        "word": "1",
        "unknown": "x",
    }
    assert arguments_from_pairs([("n", "five")], parameters) == {"n": "five"}


@pytest.mark.parametrize(
    ("text", "value"), [("TRUE", True), ("True", True), ("FALSE", False), (" false ", False), ("yes", "yes")]
)
def test_booleans_are_read_as_spreadsheets_and_pandas_write_them(text, value):
    parameters = parameters_of(tool({"properties": {"b": {"type": "boolean"}, "s": {"type": "string"}}}))
    assert arguments_from_pairs([("b", text), ("s", text)], parameters) == {"b": value, "s": text}


@pytest.mark.parametrize("value", [None, "", "  ", "{}", {}])
def test_empty_json_is_no_arguments(value):
    assert arguments_from_json(value, source="column 'A'") == {}


@pytest.mark.parametrize(
    "value", ["{", "[1]", "5", "null", [1], '{"a": NaN}', "[" * 100_000, f'{{"a": {"9" * 5000}}}']
)
def test_json_that_is_no_object_is_refused(value):
    with pytest.raises(ArgumentsInvalid, match="column 'A'") as caught:
        arguments_from_json(value, source="column 'A'")
    assert "JSON object" in (caught.value.fix or "")
    assert "sys." not in str(caught.value)


def test_a_missing_cell_is_null_where_the_tool_demands_the_argument_and_accepts_null():
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    names = ("left_out", "demanded", "strict", "given_to_all")
    schema = {
        "properties": dict.fromkeys(names, nullable),
        "required": ["demanded", "strict", "given_to_all"],
    }
    schema["properties"]["strict"] = {"type": "string"}
    cells = {name: pa.array([None], pa.string()) for name in names}
    rows = ParameterRows(table=pa.table({"RowID": ["Row0"], **cells}))
    planned = PlannedCalls(tool=tool(schema), parameters=rows, pairs=[("given_to_all", "x")])
    assert next(planned.calls()).arguments == {"demanded": None, "given_to_all": "x"}


def test_null_can_be_said_in_json():
    assert arguments_from_json('{"a": null}', source="x") == {"a": None}


@pytest.mark.requirement("T56")
def test_malformed_json_in_the_dialog_names_the_setting():
    with pytest.raises(SettingInvalid, match=r"line 1, column [89]") as caught:
        parse_arguments_setting('{"a": 1,}')
    assert caught.value.setting == "arguments_json"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_json_arguments_arrive_as_they_are(arguments):
    assert arguments_from_json(json.dumps(arguments), source="x") == arguments
    assert arguments_from_json(arguments, source="x") == arguments


@given(st.dictionaries(st.text(min_size=1), JSON.filter(lambda value: value is not None), max_size=5))
def test_cells_of_an_untyped_tool_arrive_as_they_are(row):
    schema = {"properties": {name: {} for name in row}}
    assert mapped(schema, row) == row


@pytest.fixture
def high_limit():
    """The limit that the library for JSONata sets when it is loaded."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("high_limit")
@pytest.mark.parametrize("value", ['{"a": ' * 3000 + "1" + "}" * 3000, "[" * 200_000])
def test_json_that_is_nested_too_deeply_is_the_fault_of_its_row(value):
    with pytest.raises(ArgumentsInvalid, match="nested too deeply"):
        arguments_from_json(value, source="column 'Arguments'")
    deep = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ArgumentsInvalid, match="nested too deeply"):
        cell_to_json(deep, ANYTHING, "/x")


def test_of_equal_names_the_last_value_counts_also_behind_an_empty_one():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    for pairs, wanted in (([("a", ""), ("a", "x")], {"a": "x"}), ([("a", "x"), ("a", "")], {})):
        (call,) = PlannedCalls(tool=tool(schema), pairs=pairs).calls()
        assert call.arguments == wanted
