"""Tables as they cross to Python and back: as Arrow files, through KNIME's own sinks and sources."""

import contextlib
import json
from collections import Counter

from .callbacks import ExecuteCallback
from .java_side import JavaSource, JavaTable, RigError
from .java_types import JAVA_VALUE_FACTORIES, list_of, struct
from .loading import any_host


@contextlib.contextmanager
def tables_usable(host):
    """KNIME's own table backend, as while a node executes; gives it."""
    import knime._arrow._table as kat
    import knime._backend._gateway as kg
    import knime.api.table as kt

    callback, before = ExecuteCallback(host), kt._backend
    kt._backend = kat._ArrowBackend(lambda: kg.data_sink_mapper(callback.create_sink()))
    kt._backend.file_store_handler = callback
    try:
        yield kt._backend
    finally:
        kt._backend.close()
        kt._backend = before


def column_of(values, value_type, host=None):
    """An Arrow array of Python values, encoded by their registered value factory; None is a missing cell."""
    import pyarrow as pa

    host = any_host(host)
    import knime.api.schema as ks

    dtype = ks.logical(value_type).to_pyarrow()
    with tables_usable(host):
        storage = [None if value is None else dtype.encode(value) for value in values]
    return pa.ExtensionArray.from_storage(dtype, pa.array(storage, type=dtype.storage_type))


def table_from_pyarrow(data, row_ids="auto", host=None):
    """The table that a node gets in execute(), of Arrow data or a table of the API."""
    import pyarrow as pa

    host = any_host(host)
    import knime._arrow._table as kat
    import knime._backend._gateway as kg
    import knime.api.table as kt

    with tables_usable(host) as backend:
        table = data if isinstance(data, kt.Table) else kt.Table.from_pyarrow(data, row_ids=row_ids)
        sink = backend.create_sink()
        table._write_to_sink(sink)
        sink.close()
    path = sink._java_data_sink.path
    problems = unreadable_by_java(pa.ipc.open_file(pa.memory_map(path)).read_all())
    if problems:
        raise RigError("KNIME could not make such an input table: " + "; ".join(problems))
    source = kat.ArrowSourceTable(kg.data_source_mapper(JavaSource(path, table.column_names)))
    source._host_path = path
    source._inject_metadata(ExecuteCallback(host).get_preferred_value_types_as_json)
    return source


def java_table(host, data):
    """A table as Java hands it over."""
    source = data if hasattr(data, "_host_path") else table_from_pyarrow(data, host=host)
    return JavaTable(JavaSource(source._host_path, source.column_names))


def read_sink(java_sink):
    """The Arrow table that Java would find in the file of a closed sink, the RowIDs first."""
    import pyarrow as pa

    if java_sink.size is None:
        raise RigError("sink was not closed")
    with pa.OSFile(java_sink.path) as file:
        return pa.ipc.open_file(file).read_all()


def unreadable_by_java(table):
    """What Java would choke on when it opens an Arrow table."""
    names = table.schema.names
    problems = [f"duplicate column names {names}"] if len(set(names)) != len(names) else []
    for field in table.schema:
        problems += [f"column {field.name!r}: {what}" for what in _column_problems(field.type)]
    if table.num_columns and table.num_rows:
        ids = _row_ids(table)
        problems += ["null RowID"] if None in ids else []
        twice = [row_id for row_id, count in Counter(ids).items() if count > 1]
        problems += [f"duplicate RowIDs, e.g. {twice[:3]}"] if twice else []
    return problems


def _column_problems(dtype):
    import knime._arrow._dictencoding as kas
    import knime._arrow._types as katy

    if kas.is_struct_dict_encoded(dtype) or katy.is_dict_encoded_value_factory_type(dtype):
        return []
    if not katy.is_value_factory_type(dtype):
        return [f"no logical type (plain Arrow {dtype})"]
    try:
        logical_type = json.loads(dtype.logical_type)
        java_class = logical_type["value_factory_class"]
    except (ValueError, KeyError, TypeError):
        return [f"logical type is not JSON: {dtype.logical_type!r}"]
    if "data_type" in logical_type:
        return []
    if java_class not in JAVA_VALUE_FACTORIES:
        return [f"unknown Java ValueFactory {java_class}: 'Unknown ValueFactory class' in KNIME"]
    wanted, found = JAVA_VALUE_FACTORIES[java_class][0], _spec_of(dtype)
    problems = list(_named_fields(dtype))
    if wanted is not None and wanted != found:
        name = java_class.rpartition(".")[2]
        problems.append(f"storage {json.dumps(found)} but {name} wants {json.dumps(wanted)}")
    return problems


def _spec_of(dtype):
    """The storage of an Arrow type as Java describes it."""
    import pyarrow as pa

    if isinstance(dtype, pa.ExtensionType):
        return _spec_of(dtype.storage_type)
    if pa.types.is_struct(dtype):
        return struct(*[_spec_of(dtype.field(i).type) for i in range(dtype.num_fields)])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return list_of(_spec_of(dtype.value_type))
    names = {
        "string": "string",
        "large_binary": "variable_width_binary",
        "bool": "boolean",
        "int32": "int",
        "int64": "long",
        "double": "double",
        "float": "float",
        "int8": "byte",
        "null": "void",
    }
    return names.get(str(dtype), f"?{dtype}")


def _named_fields(dtype):
    """Structs whose fields are not called by their positions, as Java wants them."""
    import pyarrow as pa

    if isinstance(dtype, pa.ExtensionType):
        yield from _named_fields(dtype.storage_type)
    elif pa.types.is_struct(dtype):
        fields = [dtype.field(i) for i in range(dtype.num_fields)]
        if [field.name for field in fields] != [str(i) for i in range(len(fields))]:
            yield f"struct fields {[field.name for field in fields]} are not '0', '1', …"
        for field in fields:
            yield from _named_fields(field.type)
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        yield from _named_fields(dtype.value_type)


def _row_ids(table):
    import pyarrow as pa

    chunks = table.column(0).chunks
    return [
        row_id
        for chunk in chunks
        for row_id in (chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk).to_pylist()
    ]


class OutputTable:
    """An output table as Java finds it, with what it could not read."""

    def __init__(self, arrow, host):
        self.arrow, self._host = arrow, host
        self.problems = unreadable_by_java(arrow)

    @property
    def column_names(self):
        return self.arrow.schema.names[1:]

    @property
    def row_ids(self):
        return _row_ids(self.arrow)

    @property
    def logical_types(self):
        return {f.name: json.loads(f.type.logical_type)["value_factory_class"] for f in self.arrow.schema}

    def to_pylist(self):
        with tables_usable(self._host):  # cells in file stores are decoded late and need a backend
            columns = {name: self.arrow.column(name).to_pylist() for name in self.column_names}
        if not columns:
            return [{}] * self.arrow.num_rows
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def as_input(self):
        """The same data as input table of another node."""
        renamed = self.arrow.rename_columns(["<RowID>", *self.column_names])
        return table_from_pyarrow(renamed, "keep", self._host)
