"""Converts inputs and outputs between host and ports of a node, and finds what KNIME's Java side refuses.

The rules are those of ``_PortTypeRegistry`` in KNIME's ``_node_backend_launcher.py`` (knime-python).
"""

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from knime._arrow import LogicalTypeExtensionType, check_batches, schema_of, storage_of
from knime.api import table as knime_table
from knime.api.schema import (
    Column,
    CredentialPortObjectSpec,
    PortObjectSpec,
    Schema,
    wrap_primitive,
)
from knime.api.table import ArrowSourceTable
from knime.extension.nodes import InvalidParametersError
from knime.extension.ports import CredentialPortObject, Port, PortGroup, PortObject, PortType

from .column_types import JavaType, factory_of, java_type
from .node_results import CredentialPort, HostError, OutputTable

if TYPE_CHECKING:
    from .host import ExtensionHost


def table_problems(data: Any) -> list[str]:
    """The problems for which KNIME cannot read a table with its own types."""
    names = data.schema.names
    # KNIME's Python side takes them in silence; only its Java side fails.
    problems = [f"duplicate column names {names}"] if len(set(names)) != len(names) else []
    for field in data.schema:
        problems += _column_problems(field.name, field.type)
    return problems + _row_id_problems(data)


def _column_problems(name: str, dtype: Any) -> list[str]:
    if not isinstance(dtype, LogicalTypeExtensionType):
        return [f"column {name!r}: no logical type (plain Arrow {dtype})"]
    known = java_type(dtype)
    if known is None:
        return [f"column {name!r}: KNIME has no value factory {dtype.logical_type}"]
    wanted = dtype.storage_type if known.storage is None else storage_of(known.storage)
    if wanted != dtype.storage_type:
        return [f"column {name!r}: storage {dtype.storage_type}, but {known.shown} is stored as {wanted}"]
    return []


def _row_id_problems(data: Any) -> list[str]:
    ids = [row_id for chunk in data.column(0).chunks for row_id in chunk.storage.to_pylist()]
    twice = [row_id for row_id, count in Counter(ids).items() if count > 1]
    problems = ["a RowID is missing"] if None in ids else []
    return problems + ([f"duplicate RowIDs, e.g. {twice[:3]}"] if twice else [])


def promise_problems(port: int, promised: Any, data: Any) -> list[str]:
    """The differences between a table and the schema that configure() returned for its port."""
    if not isinstance(promised, Schema):
        return []
    names = list(data.schema.names[1:])
    if names != promised.column_names:
        return [f"output {port}: columns {names} but configure promised {promised.column_names}"]
    wanted = [factory_of(wrap_primitive(column.ktype)) for column in promised]
    given = [factory_of(field.type) for field in list(data.schema)[1:]]
    return [] if wanted == given else [f"output {port}: column types {given} but configure promised {wanted}"]


def type_problems(spec: Any) -> list[str]:
    """The problems of a schema from configure() that has columns with types unknown to KNIME."""
    columns = [column for column in spec if _known_type(column) is None] if isinstance(spec, Schema) else []
    return [f"configure: Java has no columns of the type {c.ktype}, as {c.name!r} is" for c in columns]


def _known_type(column: Column) -> JavaType | None:
    return java_type(wrap_primitive(column.ktype))


def described(schema: Schema) -> Schema:
    """The schema with KNIME's additions to the metadata of input columns."""
    return Schema.from_columns([_described(column) for column in schema])


def _described(column: Column) -> Column:
    known = _known_type(column)
    if known is None:
        raise HostError(f"column {column.name!r}: KNIME has no columns of the type {column.ktype}")
    # KNIME injects these two keys into the metadata of input columns; nothing else tells of them.
    own = {"preferred_value_type": known.preferred, "displayed_column_type": known.shown}
    return Column(column.ktype, column.name, {**(column.metadata or {}), **own})


def source_table(data: Any, row_ids: str) -> Any:
    """A table for execute(), from Arrow data or a table, else `HostError`. Needs a running backend."""
    if isinstance(data, knime_table.ArrowSourceTable):
        return data
    made: Any = (
        data if isinstance(data, knime_table.Table) else knime_table.Table.from_pyarrow(data, row_ids=row_ids)
    )
    arrow = _as_read(made._data)
    problems = table_problems(arrow)
    if problems:
        raise HostError("no node could deliver this input table: " + "; ".join(problems))
    return knime_table.made(arrow, described(schema_of(arrow)))


def _as_read(data: Any) -> Any:
    """Arrow data as KNIME reads it from a file: all columns with the same chunks, and empty metadata."""
    import pyarrow as pa

    schema = pa.schema([field.with_metadata({}) for field in data.schema])
    return pa.Table.from_batches(data.to_batches(), schema)


def written(table: Any) -> Any:
    """The data of an output table as it is written for KNIME. A lazy view in a list is no table."""
    if isinstance(table, knime_table.BatchOutputTable):
        data: Any = table._all()  # pyright: ignore[reportPrivateUsage]
        if data is None:
            raise ValueError("a BatchOutputTable without batches has no columns")
    elif isinstance(table, knime_table.Table):
        data = table._data  # pyright: ignore[reportPrivateUsage]
    else:
        raise TypeError(f"a table port needs a Table or BatchOutputTable, not {type(table).__name__}")
    check_batches([len(batch) for batch in data.to_batches()])
    return data


AnyPort = Port | PortGroup


class PortCredentials:
    """The secrets of credential ports, which the specs of these ports read."""

    def __init__(self) -> None:
        self._known: dict[str | None, CredentialPort] = {}

    def spec(self, port: CredentialPort) -> CredentialPortObjectSpec:
        """The spec of a port. It has only the key; the secrets stay in this store."""
        if port.available:
            self._known[port.key] = port
        return CredentialPortObjectSpec(port.key)

    # KNIME asks its Java side by these names. A LookupError says that the upstream node was not executed.
    def get_auth_schema(self, key: str | None) -> str:
        return self._known[key].schema

    def get_auth_parameters(self, key: str | None) -> str:
        return self._known[key].parameters

    def get_expires_after(self, key: str | None) -> dt.datetime | None:
        seconds = self._known[key].expires_after
        return None if seconds is None else dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)


_CREDENTIALS = PortCredentials()
CredentialPortObjectSpec._java_callback = _CREDENTIALS  # pyright: ignore[reportPrivateUsage]


def arranged(
    ports: Sequence[AnyPort], given: Sequence[Any] | None, convert: Callable[[AnyPort, Any], Any]
) -> list[Any]:
    """One argument per declared port: the converted input, None for an open port, a list for a group."""
    if given is None:
        given = [[] if isinstance(port, PortGroup) else None for port in ports]
    if len(given) != len(ports):
        raise HostError(f"{len(given)} inputs for {len(ports)} ports: {[port.name for port in ports]}")
    arguments: list[Any] = []
    for port, value in zip(ports, given, strict=True):
        if isinstance(port, PortGroup):
            arguments.append([convert(port, entry) for entry in cast("list[Any]", value or [])])
        else:
            arguments.append(None if value is None else convert(port, value))
    return arguments


def require_connected(ports: Sequence[AnyPort], given: Sequence[Any]) -> None:
    """Raises HostError if a port that is not optional has no input."""
    for port, value in zip(ports, given, strict=False):
        if isinstance(port, Port) and not port.optional and value is None:
            raise HostError(f"input port {port.name!r} is not optional")


def input_spec(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    if value is None:
        return None
    match port.type:
        case PortType.CREDENTIAL:
            return _credential_spec(port, value)
        case PortType.TABLE:
            if isinstance(value, Schema):
                return described(value)
            return value.schema if isinstance(value, ArrowSourceTable) else host.table(value).schema
        case _:
            return _custom_spec(host, port, value.spec if isinstance(value, PortObject) else value)


def _credential_spec(port: AnyPort, value: Any) -> CredentialPortObjectSpec:
    if not isinstance(value, CredentialPort):
        raise HostError(f"port {port.name!r} needs a CredentialPort, not {type(value).__name__}")
    return _CREDENTIALS.spec(value)


def _custom_spec(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """A custom spec as it arrives from another node: serialized, and read by the registered class."""
    expected: PortType = port.type
    incoming = host.port_types.of_spec(_class_of(value))
    if incoming is None:
        raise InvalidParametersError(
            f"port {port.name!r} needs {expected.name}; {type(value).__name__} is unknown"
        )
    if not expected.is_super_type_of(incoming):
        raise InvalidParametersError(f"port {port.name!r} needs {expected.name}, not {incoming.name}")
    return _read_spec(incoming, through_json(value.serialize()))


def _read_spec(kind: PortType, document: Any) -> Any:
    try:
        return kind.spec_class.deserialize(document, None)  # type: ignore[attr-defined]
    except TypeError:  # KNIME also accepts implementations without the second argument
        return kind.spec_class.deserialize(document)  # type: ignore[attr-defined]


def _data(value: Any) -> bytes:
    """The data of a port object, which KNIME stores beside its spec."""
    return bytes(memoryview(value.serialize()))


def input_object(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """The argument of execute() for a port. Needs a running backend."""
    match port.type:
        case PortType.CREDENTIAL:
            return CredentialPortObject(_credential_spec(port, value))
        case PortType.TABLE:
            return source_table(value, "auto")
        case _:
            spec = _custom_spec(host, port, value.spec)
            return _class_of(value).deserialize(spec, _data(value))


def _class_of(value: object) -> Any:
    return type(value)


def as_list(results: Any) -> Any:
    """What a node returns, a tuple as a list: lists within are those of groups of ports."""
    return list(cast("tuple[Any, ...]", results)) if isinstance(results, tuple) else results


def per_port(results: Any, ports: Sequence[AnyPort]) -> list[list[Any]]:
    """The results of configure() or execute(), as one list per port.

    A list of another length than the ports counts as the content of a single group, as in KNIME.
    """
    results = as_list(results)
    if isinstance(results, list) and len(cast("list[Any]", results)) != len(ports):
        results = [results]
    entries = cast("list[Any]", results) if isinstance(results, list) else [results]
    return [cast("list[Any]", entry) if isinstance(entry, list) else [entry] for entry in entries]


def checked_spec(host: "ExtensionHost", port: AnyPort, spec: Any) -> Any:
    """Returns a spec from configure(); raises AssertionError or TypeError if it does not fit the port."""
    if spec is None:
        return None
    wanted: type[PortObjectSpec] = Schema if port.type == PortType.TABLE else port.type.spec_class
    if not issubclass(_class_of(spec), wanted):
        raise AssertionError(
            f"output {port.name!r} needs a spec of {wanted.__name__}, not {type(spec).__name__}"
        )
    return spec


def through_json(value: Any) -> Any:
    """The value as KNIME's Java side hands it over: what is no JSON fails here as it does there."""
    return json.loads(json.dumps(value))


def spec_document(port: AnyPort, spec: Any) -> Any:
    """A spec as the JSON document that KNIME stores."""
    if spec is None:
        return None
    document = spec.serialize()
    if isinstance(port.type, PortType):
        document = {"id": port.type.id, "data": document}
    return through_json(document)


def output(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """An output of execute() as KNIME stores it; raises an error if it does not fit the port."""
    if port.type == PortType.TABLE:
        data = written(value)
        return OutputTable(data, table_problems(data), host)
    if not isinstance(value, port.type.object_class):
        raise AssertionError(f"output {port.name!r} needs {port.type.name}, not {type(value).__name__}")
    spec = checked_spec(host, port, value.spec)
    if spec is None:
        raise AssertionError(f"the object of output {port.name!r} has no spec")
    return spec_document(port, spec), _data(value)
