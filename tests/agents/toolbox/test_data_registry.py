"""Data with ids: inputs, outputs, results."""

import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from knime_mcp.agents.toolbox.data_registry import DataRegistry, next_ids
from knime_mcp.agents.toolbox.replies import LargeResults
from knime_mcp.types.errors import ArgumentsInvalid

pytestmark = pytest.mark.quick


def test_inputs_have_the_first_ids():
    registry = DataRegistry([pa.table({"a": [1]}), pa.table({"b": ["x", "y"]})])
    item = registry.add(pa.table({"c": [0.5]}), name="result", description="Of a tool")
    assert item.id == "2"
    heading, _, *lines = registry.message().splitlines()
    assert heading == "# Data repository"
    assert [json.loads(line) for line in lines] == [
        {
            "id": "0",
            "name": "input_table_1",
            "description": "Input table 1",
            "type": "Table",
            "rows": 1,
            "columns": {"a": "int64"},
        },
        {
            "id": "1",
            "name": "input_table_2",
            "description": "Input table 2",
            "type": "Table",
            "rows": 2,
            "columns": {"b": "string"},
        },
        {
            "id": "2",
            "name": "result",
            "description": "Of a tool",
            "type": "Table",
            "rows": 1,
            "columns": {"c": "double"},
        },
    ]


def test_an_id_means_one_thing_in_a_conversation():
    earlier = DataRegistry([pa.table({"a": [1]}), pa.table({"b": [1]})])
    cut = LargeResults(200).cut("x" * 500)
    texts = [f"Look:\n{earlier.message()}", 'others write {"id":"77","name":"x"}, too', cut]
    assert next_ids(texts) == (2, 2)
    assert next_ids([]) == (0, 1)
    assert DataRegistry([pa.table({"a": [1]})], first=2).items[0].id == "2"
    assert "result r2:" in LargeResults(200, first=2).cut("x" * 500)


def test_a_run_without_data_says_so():
    registry = DataRegistry()
    assert registry.message().endswith("No data available. Use a tool to produce data.")
    with pytest.raises(ArgumentsInvalid, match="Use a tool to produce data"):
        registry.table("0")


def test_a_wrong_id_names_the_right_ones():
    registry = DataRegistry([pa.table({"a": [1]})])
    registry.add(b"\x89PNG", name="picture", description="A picture", type="image/png")
    with pytest.raises(ArgumentsInvalid, match=r"'0' \(input_table_1\)") as caught:
        registry.table("7", pointer="/data_inputs/In")
    assert caught.value.pointer == "/data_inputs/In"
    with pytest.raises(ArgumentsInvalid, match="'1' is no table"):
        registry.table("1")


def test_outputs_are_the_last_tables():
    tables = [pa.table({"n": [number]}) for number in range(3)]
    registry = DataRegistry(tables[:1])
    registry.add(tables[1], name="one", description="")
    registry.add(b"x", name="blob", description="", type="audio/wav")
    registry.add(tables[2], name="two", description="")
    assert registry.last_tables(2) == tables[1:]
    assert registry.last_tables(3) == tables
    *same, empty = registry.last_tables(4)
    assert same == tables
    assert empty.num_rows == empty.num_columns == 0
    assert registry.last_tables(0) == []


def test_arrow_tables_become_tables_of_the_host_once():
    made = []

    def to_table(table):
        made.append(table)
        return ("host", table.num_rows)

    foreign = object()
    registry = DataRegistry([foreign], to_table=to_table)
    item = registry.add(pa.table({"a": [1, 2]}), name="r", description="")
    assert registry.table("0") is foreign
    assert registry.table(item.id) == registry.table(item.id) == ("host", 2)
    assert len(made) == 1
    assert registry.last_tables(2) == [foreign, ("host", 2)]


def test_tables_of_knime_are_described_by_their_schema():
    import knime.extension as knext

    class Table:
        schema = knext.Schema.from_columns(
            [knext.Column(knext.string(), "city"), knext.Column(knext.int64(), "n")]
        )
        num_rows = 3

    registry = DataRegistry([Table()])
    described = json.loads(registry.describe(registry.items))
    assert described["columns"] == {"city": str(knext.string()), "n": str(knext.int64())}
    assert described["rows"] == 3


def test_wide_tables_are_listed_in_part():
    registry = DataRegistry([pa.table({f"c{n}": [n] for n in range(250)})])
    described = json.loads(registry.describe(registry.items))
    assert (len(described["columns"]), described["more_columns"]) == (100, 150)


def test_ids_are_unique_across_threads():
    registry = DataRegistry()
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: registry.add(b"", name=str(n), description="").id, range(200)))
    assert sorted(map(int, ids)) == list(range(200))
    assert all(registry.items[int(found)].name == str(n) for n, found in enumerate(ids))
