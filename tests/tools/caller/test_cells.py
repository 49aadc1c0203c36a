"""Cells of *Parameters* that Python cannot read: no storage goes to a server, no other row suffers."""

import base64
import sys
from datetime import date, time, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.support.real_knime import register_value_factory
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

IN_TURN = {"connection_options": "concurrency = 1"}

TIME = "org.knime.core.data.v2.time."
CELLS = "org.knime.core.data.v2.value.cell.DictEncodedDataCellValueFactory"
LISTS = "org.knime.core.data.v2.value.ListValueFactory"
MISSING = pa.array([False, True])


@pytest.fixture
def periods(cells):
    """KNIME has no Python value for periods. One of a year, two months and three days, and a missing one."""
    parts = [pa.array([number, None], pa.int32()) for number in (1, 2, 3)]
    return cells(TIME + "PeriodValueFactory", pa.StructArray.from_arrays(parts, names="012", mask=MISSING))


def said(result):
    """Status and error of each row; not all of the cells beside them can be read."""
    assert result.ok, result.failure
    assert not result.problems
    return result.outputs[0].arrow.select(["Status", "Error"]).to_pylist()


@pytest.fixture
def echoed(call):
    """Calls a tool per row; gives what became of the rows, and what the server was sent."""

    def run(rows, wanted=None, **settings):
        takes = {name: wanted or {} for name in rows}
        echo = tool("echo", inputSchema={"type": "object", "properties": takes})
        script = modern(tools__list=rpc({"tools": [echo]}), tools__call=rpc({"content": []}))
        with ScriptedServer(script) as server:
            result = call(
                None,
                rows,
                server_url=server.url,
                tool_name="echo",
                **IN_TURN,
                **settings,
            )
            sent = [request.params.get("arguments", {}) for request in server.named("tools/call")]
        return said(result), sent

    return run


def test_a_type_without_values_is_an_error_row(echoed, periods):
    rows, sent = echoed({"period": periods, "n": [1, 2]})
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert "column 'period' cannot be read" in rows[0]["Error"]
    assert "Convert the column first, with the node Duration to String" in rows[0]["Error"]
    assert sent == [{"n": 2}]


def test_lists_of_a_type_without_values(echoed, cells, periods):
    lists = cells(LISTS, pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), periods))
    rows, sent = echoed({"periods": lists})
    assert rows[0]["Status"] == "invalid arguments"
    assert not sent


def test_a_type_without_values_as_all_arguments(echoed, periods):
    rows, sent = echoed({"p": periods}, arguments_column="p")
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert sent == [{}]


class Smiles(str):
    """As KNIME's values of molecules, which are texts of classes of their own."""


@pytest.fixture
def molecules(cells, monkeypatch):
    """A column of a type that another extension brings, with such values."""
    from knime.api.types import PythonValueFactory

    class Factory(PythonValueFactory):
        def __init__(self):
            super().__init__(Smiles)

        def decode(self, storage):
            return None if storage is None else Smiles(storage)

    monkeypatch.setitem(sys.modules, "molecules", SimpleNamespace(Smiles=Smiles, Factory=Factory))
    java = "org.example.SmilesValueFactory"
    register_value_factory(java, "string", "molecules", "Factory", "molecules.Smiles")
    return cells(java, pa.array(["CCO", None]))


@pytest.mark.parametrize("wanted", [{}, {"type": "string", "minLength": 3}])
def test_molecules_are_sent_as_the_texts_that_they_are(echoed, molecules, wanted):
    rows, sent = echoed({"molecule": molecules}, wanted)
    assert [row["Status"] for row in rows] == ["ok", "ok"]
    assert sent == [{"molecule": "CCO"}, {}]


def test_a_column_that_no_tool_wants_is_not_read(call, periods):
    script = modern(tools__list=rpc({"tools": [tool("echo")]}), tools__call=rpc({"content": []}))
    with ScriptedServer(script) as server:
        result = call(None, {"period": periods}, server_url=server.url, tool_name="echo")
    assert [row["Status"] for row in said(result)] == ["ok", "ok"]


def test_one_value_out_of_range_does_no_harm_to_the_others(echoed, cells):
    days = cells(TIME + "LocalDateValueFactory", pa.array([0, 10**9, None, 1], pa.int64()))
    rows, sent = echoed({"date": days})
    assert [row["Status"] for row in rows] == ["ok", "invalid arguments", "ok", "ok"]
    assert "OverflowError" in rows[1]["Error"]
    assert sent == [{"date": "1970-01-01"}, {}, {"date": "1970-01-02"}]


def test_arguments_in_a_column_of_dates(echoed, cells):
    days = cells(TIME + "LocalDateValueFactory", pa.array([0], pa.int64()))
    rows, sent = echoed({"d": days}, arguments_column="d")
    assert "is a date, but arguments are an object" in rows[0]["Error"]
    assert not sent


def test_pictures_and_paths_are_sent(host, echoed, tmp_path):
    from knime.types.builtin import FSLocationValue
    from PIL import Image

    (tmp_path / "note.txt").write_text("hello")
    location = FSLocationValue("LOCAL", None, str(tmp_path / "note.txt"))
    columns = {
        "picture": host.column_of([Image.new("RGB", (2, 2), "red"), None], Image.Image),
        "place": host.column_of([location, None], FSLocationValue),
    }
    rows, sent = echoed(columns, {"type": "string"})
    assert [row["Status"] for row in rows] == ["ok", "ok"], rows
    assert base64.b64decode(sent[0]["picture"]).startswith(b"\x89PNG")
    assert sent[0]["place"] == str(tmp_path / "note.txt")
    assert sent[1] == {}
    rows, sent = echoed(columns, {"type": "string", "description": "as a data URL"})
    assert sent[0]["picture"].startswith("data:image/png;base64,")
    assert sent[0]["place"] == "data:text/plain;base64,aGVsbG8="


@pytest.mark.real_knime
@pytest.mark.parametrize(
    ("cell_class", "node"),
    [
        ("org.knime.core.data.blob.BinaryObjectDataCell", "Binary Objects to Strings"),
        ("org.knime.core.data.uri.URIDataCell", "URI to String"),
        ("org.knime.base.data.xml.SvgCell", "Renderer to Image"),
        ("org.knime.knip.base.data.img.ImgPlusCell", "Renderer to Image"),
    ],
)
def test_cells_that_only_java_reads_name_the_node_that_converts(echoed, cells, cell_class, node):
    stored = pa.StructArray.from_arrays([pa.array(["x", None])], names="0", mask=MISSING)
    column = cells(CELLS, stored, data_type={"cell_class": cell_class})
    rows, sent = echoed({"a": column})
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert f"Convert the column first, with the node {node}" in rows[0]["Error"]
    assert sent == [{}]


def test_columns_without_any_value_are_arguments_left_out(echoed):
    columns = {"nothing": pa.nulls(2), "text": pa.nulls(2, pa.string()), "n": pa.nulls(2, pa.int64())}
    rows, sent = echoed(columns, {"type": "string"})
    assert [row["Status"] for row in rows] == ["ok", "ok"]
    assert sent == [{}, {}]


def test_dates_with_zones_durations_and_times_are_iso(host, echoed, cells):
    values = {
        "day": (date(2026, 7, 1), "2026-07-01"),
        "time": (time(12, 30), "12:30:00"),
        "duration": (timedelta(days=1, seconds=90.5), "PT24H1M30.5S"),
    }
    columns = {name: host.column_of([value, None], type(value)) for name, (value, _) in values.items()}
    days, nanoseconds = (date(2026, 7, 1) - date(1970, 1, 1)).days, 45_000 * 10**9
    parts = [pa.array([days, None]), pa.array([nanoseconds, None])]
    zone = [pa.array([7200, None], pa.int32()), pa.array(["Europe/Berlin", None])]
    for name, factory, stored in (
        ("local", "LocalDateTimeValueFactory", parts),
        ("zoned", "ZonedDateTimeValueFactory2", [*parts, *zone]),
    ):
        names = "0123"[: len(stored)]
        columns[name] = cells(TIME + factory, pa.StructArray.from_arrays(stored, names=names, mask=MISSING))
    rows, sent = echoed(columns, {"type": "string"})
    assert [row["Status"] for row in rows] == ["ok", "ok"], rows
    texts = {name: text for name, (_, text) in values.items()}
    assert sent == [{**texts, "local": "2026-07-01T12:30:00", "zoned": "2026-07-01T12:30:00+02:00"}, {}]


def test_lists_and_sets_are_arrays_of_what_the_tool_wants(echoed):
    lists = {
        "numbers": pa.array([[1, 2], []]),
        "texts": pa.array([["1", None], None]),
    }
    rows, sent = echoed(lists, {"type": "array"})
    assert [row["Status"] for row in rows] == ["ok", "ok"], rows
    assert sent == [
        {"numbers": [1, 2], "texts": ["1", None]},
        {"numbers": []},
    ]


@pytest.mark.parametrize("category", ["RELATIVE", "MOUNTPOINT", "CUSTOM_URL", "CONNECTED", "HUB_SPACE"])
def test_a_path_elsewhere_is_text_and_its_content_the_error_of_its_row(host, echoed, tmp_path, category):
    from knime.types.builtin import FSLocationValue

    (tmp_path / "here.txt").write_text("hello")
    places = [
        FSLocationValue(category, "x", "some/file"),
        FSLocationValue("LOCAL", None, f"{tmp_path}/here.txt"),
    ]
    column = {"place": host.column_of(places, FSLocationValue)}
    _, sent = echoed(column, {"type": "string"})
    assert sent[0] == {"place": "some/file"}
    rows, sent = echoed(column, {"type": "string", "contentEncoding": "base64"})
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert "the node Files to Binary Objects" in rows[0]["Error"]
    assert sent == [{"place": "aGVsbG8="}]


@pytest.mark.real_knime
def test_xml_sets_and_vectors_are_sent(host, echoed):
    import xml.etree.ElementTree as ET

    from knime.types.builtin import BooleanSetValue, DenseByteVectorValue

    xml = host.column_of([ET.ElementTree(ET.fromstring("<a><b/></a>"))], ET.ElementTree)
    sets = host.column_of([BooleanSetValue(True, False, True)], BooleanSetValue)
    vectors = host.column_of([DenseByteVectorValue(b"hello")], DenseByteVectorValue)
    rows, sent = echoed({"xml": xml, "vector": vectors}, {"type": "string"})
    assert [row["Status"] for row in rows] == ["ok"], rows
    assert sent == [{"xml": "<a><b /></a>", "vector": "aGVsbG8="}]
    rows, sent = echoed({"set": sets}, {"type": "array"})
    assert sent == [{"set": [True, None]}]


def test_text_and_numbers_become_what_the_tool_wants(echoed):
    rows, sent = echoed({"n": ["5", "2.0", "x"]}, {"type": "integer"})
    assert [row["Status"] for row in rows] == ["ok", "ok", "invalid arguments"]
    assert sent == [{"n": 5}, {"n": 2}]
    _, sent = echoed({"t": [5, 6]}, {"type": "string"})
    assert sent == [{"t": "5"}, {"t": "6"}]
    rows, sent = echoed({"b": ["true", "FALSE", "yes"]}, {"type": "boolean"})
    assert [row["Status"] for row in rows] == ["ok", "ok", "invalid arguments"]
    assert sent == [{"b": True}, {"b": False}]
    _, sent = echoed({"t": [True]}, {"type": "string"})
    assert sent == [{"t": "true"}]


@pytest.mark.parametrize(
    ("cell", "wanted", "node"),
    [
        ("five", {"type": "integer"}, "String to Number"),
        ("1,5", {"type": ["number", "null"]}, "String to Number"),
        ("yes", {"type": "boolean"}, "Rule Engine"),
        ("a; b", {"type": "array"}, "Cell Splitter"),
        ("<a/>", {"type": "object"}, "String to JSON"),
        (2.5, {"type": "integer"}, "Number Rounder"),
        (3, {"type": "array", "items": {"type": "integer"}}, "Create Collection Column"),
        (True, {"anyOf": [{"type": "integer"}, {"enum": [0.5]}]}, "Rule Engine"),
    ],
)
def test_a_cell_that_does_not_fit_names_the_node_that_converts_its_column(echoed, cell, wanted, node):
    rows, sent = echoed({"a": [cell]}, wanted)
    assert rows[0]["Status"] == "invalid arguments"
    assert f"the node {node}" in rows[0]["Error"]
    assert "/a" in rows[0]["Error"]
    assert not sent


def test_a_cell_with_a_wrong_value_of_the_right_type_names_no_node(echoed):
    rows, _ = echoed({"a": ["red", "x"]}, {"enum": ["red", "blue"]})
    assert [row["Status"] for row in rows] == ["ok", "invalid arguments"]
    assert "the node" not in rows[1]["Error"]
    assert "one of" in rows[1]["Error"]
