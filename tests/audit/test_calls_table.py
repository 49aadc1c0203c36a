"""The table *Tool calls*: exact columns, files and back, and what programs do to tables."""

import csv
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from knime_mcp.audit.calls_table import (
    TableError,
    calls_table,
    read_calls,
    records_of,
    write_calls,
)
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.table_formats import read_table_file
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file, verify_table
from knime_mcp.types.arrow import TOOL_STORAGE, encode_tools
from knime_mcp.types.tool import from_json_text
from tests.audit.calls import write_run

pytestmark = pytest.mark.quick


@pytest.fixture
def written(tmp_path):
    return write_run(tmp_path / "r1.jsonl")[0]


def test_columns_and_types_are_the_contract(written):
    """Further columns may come, but these stay as they are, in this order."""
    columns = [(field.name, str(field.type)) for field in calls_table(written).schema]
    contract = [
        ("Tool (JSON)", "string"),
        ("Tool name", "string"),
        ("Tool type", "string"),
        ("Server", "string"),
        ("Digest", "string"),
        ("Run", "string"),
        ("Call", "int32"),
        ("Iteration", "int32"),
        ("Input row", "string"),
        ("Arguments", "string"),
        ("Status", "string"),
        ("Result", "string"),
        ("Structured result", "string"),
        ("Error", "string"),
        ("Started at", "timestamp[us, tz=UTC]"),
        ("Duration (s)", "double"),
        ("Attempts", "int32"),
        ("Server version", "string"),
        ("Protocol", "string"),
        ("Previous hash", "string"),
        ("Hash", "string"),
    ]
    assert [column for column in columns if column in contract] == contract


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_records_survive_a_file(written, tmp_path, ending):
    file = tmp_path / f"t{ending}"
    write_calls(written, file)
    assert read_calls(file) == written == read_calls(tmp_path / "r1.jsonl")


def test_no_calls_at_all(tmp_path):
    for ending in (".csv", ".parquet"):
        write_calls([], tmp_path / f"t{ending}")
        assert read_calls(tmp_path / f"t{ending}") == []


def test_tools_as_cells(written):
    table = calls_table(written)
    tools = [from_json_text(record.tool) for record in written]
    cells = table.set_column(0, "Tool", encode_tools(tools))
    assert cells.schema.field("Tool").type == TOOL_STORAGE
    assert records_of(cells) == written
    assert verify_table(cells).consistent
    without = table.drop_columns(["Tool (JSON)"])
    assert records_of(without, tools) == written
    assert verify_table(without, tools).consistent


def test_a_csv_as_knime_writes_it(written, tmp_path):
    """Java's times, doubles and line ends; missing and empty cells look the same; a RowID in front."""
    file = tmp_path / "t.csv"
    rows = []
    for number, row in enumerate(calls_table(written).to_pylist()):
        moment = row["Started at"]
        texts = {name: "" if value is None else str(value) for name, value in row.items()}
        iso = moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds")
        texts["Started at"] = iso.replace("+00:00", "Z").replace(":00Z", "Z") + "[UTC]"
        texts["Duration (s)"] = {1e-06: "1.0E-6", 12345.678901: "12345.678901"}.get(
            row["Duration (s)"], texts["Duration (s)"]
        )
        rows.append({"RowID": f"Row{number}", **texts, "My note": "x"})
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert verify_file(file).consistent
    assert [record.tool_name for record in read_calls(file)] == [record.tool_name for record in written]
    assert [record.duration for record in read_calls(file)] == [record.duration for record in written]


def test_types_and_layout_that_programs_change(written):
    table = calls_table(written)

    def with_column(name, values):
        nonlocal table
        table = table.set_column(table.column_names.index(name), name, pa.array(values))

    with_column("Call", [float(record.call) for record in written])
    with_column("Attempts", [str(record.attempts) for record in written])
    with_column("Iteration", [""] * len(written))
    with_column("Duration (s)", [f"{record.duration:f}".replace(".", ",") for record in written])
    with_column("Arguments", [json.dumps(json.loads(record.arguments), indent=2) for record in written])
    with_column("Tool (JSON)", [json.dumps(json.loads(record.tool), indent=1) for record in written])
    berlin = table["Started at"].cast(pa.timestamp("us", tz="+02:00"))
    table = table.set_column(table.column_names.index("Started at"), "Started at", berlin)
    assert verify_table(table).consistent
    assert [record.started_at for record in records_of(table)] == [record.started_at for record in written]


def test_json_that_became_values(written):
    """As KNIME's JSON cells are in Python."""
    table = calls_table(written)
    cells = pa.array([json.loads(record.arguments) for record in written])
    table = table.set_column(table.column_names.index("Arguments"), "Arguments", cells)
    assert records_of(table) == written
    assert verify_table(table).consistent


def test_a_csv_that_lost_almost_everything(tmp_path):
    """What replay needs: tool name, server, arguments, digest."""
    file = tmp_path / "t.csv"
    file.write_text(
        "Digest,Server,Tool name,Arguments,Error\n"
        'sha256:ab,https://h/mcp,search,"{""a"":1}",\n'
        ",,Flow,{},It broke\n",
        encoding="utf-8",
    )
    assert read_calls(file) == [
        CallRecord(
            run="",
            tool_name="search",
            server="https://h/mcp",
            digest="sha256:ab",
            arguments='{"a":1}',
            status=CallStatus.OK,
        ),
        CallRecord(run="", tool_name="Flow", arguments="{}", error="It broke", status=CallStatus.TOOL_ERROR),
    ]
    assert verify_file(file).verdict is Verdict.UNVERIFIABLE


def test_results_of_any_length(written, tmp_path):
    from dataclasses import replace

    long = [replace(record, result='long "text"\n' * 300_000) for record in written[:2]]
    write_calls(long, tmp_path / "t.csv")
    assert read_calls(tmp_path / "t.csv") == long


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"", "empty"),
        ("t.csv", b"a,b\n1,2\n", "no column Tool name and no column Arguments"),
        ("t.csv", b"Tool name,Arguments\n1,2,3\n", "has 3 cells in line 2"),
        (
            "t.csv",
            b"Tool name,Arguments,Status\na,{},fine\n",
            "The column Status cannot be read in row 1: 'fine'",
        ),
        ("t.csv", b"Tool name,Arguments,Call\na,{},1\nb,{},x\n", "The column Call cannot be read in row 2"),
        ("t.csv", b"Tool name,Arguments,Started at\na,{},soon\n", "Started at cannot be read in row 1"),
        ("t.csv", b"\xff\xfe\n", "UTF-8"),
        ("t.parquet", b"PAR1", "cannot be read as Parquet"),
        ("t.xls", b"", "the ending of its name has to be"),
    ],
)
def test_what_is_no_table_of_calls(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(TableError) as caught:
        read_calls(file)
    assert words in str(caught.value)


def test_a_tool_column_that_is_none(written, tmp_path):
    table = calls_table(written).rename_columns(["Tool", *calls_table(written).column_names[1:]])
    numbers = table.set_column(0, "Tool", pa.array(range(len(written))))
    assert verify_table(numbers).verdict is Verdict.ALTERED
    other = table.set_column(0, "Tool", pa.array([{"x": 1}] * len(written)))
    with pytest.raises(TableError, match="Tool"):
        verify_table(other)


def test_parquet_is_plain_parquet(written, tmp_path):
    write_calls(written, tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").equals(calls_table(written))
    assert read_table_file(tmp_path / "t.parquet").table.equals(calls_table(written))


def test_json_lines_are_a_table_too_and_the_chain_can_be_followed(written, tmp_path):
    file = tmp_path / "t.jsonl"
    write_calls(written, file)
    assert read_calls(file) == records_of(calls_table(written))
    assert verify_file(file).verdict is Verdict.UNANCHORED


def test_only_endings_that_say_what_to_write(written, tmp_path):
    with pytest.raises(TableError, match="the ending of its name has to be"):
        write_calls(written, tmp_path / "t.json")


@pytest.mark.parametrize("cell", ["99999999999", "-1", "1e300"])
def test_numbers_that_are_none(written, cell):
    table = calls_table(written)
    column = pa.array([cell] * table.num_rows, pa.string())
    changed = table.set_column(table.column_names.index("Call"), "Call", column)
    with pytest.raises(TableError, match="The column Call cannot be read in row 1"):
        records_of(changed)
