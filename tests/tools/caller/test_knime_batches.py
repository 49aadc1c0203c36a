"""Tables as Java writes them: cells that are stored once per batch are still there after the calls."""

import json

import pyarrow as pa
import pytest

from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

CELLS = "org.knime.core.data.v2.value.cell.DictEncodedDataCellValueFactory"
ROW_IDS = "org.knime.core.data.v2.value.DefaultRowKeyValueFactory"
ECHO = modern(
    tools__list=rpc({"tools": [tool("echo")]}), tools__call=rpc({"content": [{"type": "text", "text": "x"}]})
)


def logical(factory, storage, **more):
    from knime._arrow._types import LogicalTypeExtensionType

    text = json.dumps({"value_factory_class": factory, **more}, separators=(",", ":"))
    return pa.ExtensionArray.from_storage(LogicalTypeExtensionType(None, storage.type, text), storage)


def xml_cells(texts):
    """A batch of XML cells: bytes and the serializer's name, each of them once."""
    from knime._arrow._dictencoding import DictKeyGenerator, struct_dict_encode

    data = pa.array([None if text is None else text.encode() for text in texts], pa.large_binary())
    names = pa.array([None if text is None else "XMLCell" for text in texts], pa.string())
    storage = pa.StructArray.from_arrays(
        [
            struct_dict_encode(data, DictKeyGenerator(), data.type),
            struct_dict_encode(names, DictKeyGenerator(), names.type, pa.uint32()),
        ],
        names=["0", "1"],
        mask=pa.array([text is None for text in texts]),
    )
    return logical(CELLS, storage, data_type={"cell_class": "org.knime.core.data.xml.XMLCell"})


def texts_of(column):
    """The cells as Java reads them: a key's value stands where the key is first in its batch."""
    found = []
    for chunk in column.chunks:
        keys, values = chunk.storage.field(0).storage.flatten()
        first = {}
        for key, value, valid in zip(
            keys.to_pylist(), values.to_pylist(), chunk.storage.is_valid().to_pylist(), strict=True
        ):
            found.append(first.setdefault(key, value).decode() if valid else None)
    return found


@pytest.fixture
def java_table(host):
    """Makes an input table of cells, written in batches."""
    from knime._arrow._backend import schema_with_knime_metadata
    from knime._arrow._table import ArrowSourceTable
    from knime._backend._gateway import data_source_mapper

    def make(texts, rows_per_batch):
        path = host.host.new_file(".arrow")
        writer = None
        for start in range(0, len(texts), rows_per_batch):
            part = texts[start : start + rows_per_batch]
            ids = pa.array([f"Row{start + i}" for i in range(len(part))])
            table = pa.table([logical(ROW_IDS, ids), xml_cells(part)], names=["<RowID>", "xml"])
            if writer is None:
                schema = schema_with_knime_metadata(table.schema, rows_per_batch)
                writer = pa.ipc.new_file(path, schema)
            writer.write_table(table.cast(schema))
        writer.close()
        made = ArrowSourceTable(data_source_mapper(host.rig.JavaSource(path, ["xml"])))
        made._host_path = str(path)
        made._inject_metadata(host.rig.ExecuteCallback(host.host).get_preferred_value_types_as_json)
        return made

    return make


@pytest.mark.real_knime
@pytest.mark.parametrize(("rows", "rows_per_batch"), [(20, 20), (1000, 1000), (1500, 600), (1100, 100)])
def test_cells_that_are_stored_once_per_batch(call, java_table, rows, rows_per_batch):
    texts = [None if row % 7 == 3 else f"<a>{row % 5}</a>" for row in range(rows)]
    with ScriptedServer(ECHO) as server:
        result = call(None, java_table(texts, rows_per_batch), server_url=server.url, tool_name="echo")
    assert result.ok, result.failure
    assert result.problems == []
    assert texts_of(result.outputs[0].arrow.column("xml")) == texts
