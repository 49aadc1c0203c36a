"""Runs KNIME's own nodes: Workflow Input and Output, Table Creator, Concatenate, Configuration nodes.

Their tables are made from plain Arrow data, with KNIME's types.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from ...knwf import Config, created_columns, read_boundary, read_concatenation, read_configuration
from ...knwf.configuration_nodes import VALUE_KEYS
from ...types.columns import ROW_ID
from ..column_types import factory_of
from ..node_results import CredentialValue, OutputTable
from .flow_variables import FlowVariable, VariableKind, parsed
from .node_kind import Done, Ports, Ready, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ...knwf import Concatenation, Configuration, NativeNode
    from ..host import ExtensionHost
    from .node_kind import Job


def made_table(host: ExtensionHost, columns: pa.Table, row_ids: Sequence[str] | None = None) -> OutputTable:
    """A table with KNIME's types from plain Arrow columns; by default with the RowIDs Row0, Row1, …."""
    import pyarrow as pa

    ids = [f"Row{i}" for i in range(columns.num_rows)] if row_ids is None else list(row_ids)
    whole = pa.table([pa.array(ids, pa.string()), *columns.columns], names=[ROW_ID, *columns.column_names])
    return given_table(host, whole, "keep")


def given_table(host: ExtensionHost, data: Any, row_ids: str = "auto") -> OutputTable:
    """The caller's table, from an `OutputTable`, Arrow data, or a table of the API."""
    return data if isinstance(data, OutputTable) else OutputTable(host.table(data, row_ids)._data, (), host)


def arriving_table(value: Any) -> OutputTable:
    """The table that arrives at a port; WorkflowError for anything else."""
    if not isinstance(value, OutputTable):
        raise WorkflowError("Something else than a table arrives at its input")
    return value


def first_cell(table: OutputTable) -> str | None:
    """The text of the first cell; None if the table has no cells."""
    if not table.arrow.num_rows or not table.column_names:
        return None
    value = table.column(table.column_names[0])[0]
    return "?" if value is None else str(value)


class BoundaryNode:
    """Runs Workflow Inputs, which output the caller's table or their default, and the output nodes."""

    def ready(self, node: NativeNode) -> Ready:
        boundary = read_boundary(node)
        if not boundary.is_table:
            raise WorkflowError("It carries something else than a table, which is not run here")
        match boundary.kind:
            case "input":
                return Ready(Ports(("Default Input",), (False,), ("Workflow Input",)))
            case "output":
                return Ready(Ports((boundary.parameter,), (True,)))
            case "message":
                return Ready(Ports(("Tool message",), (True,)))

    def run(self, job: Job) -> Done:
        boundary, (arriving,) = read_boundary(job.node), job.inputs
        given = job.world.values.get(job.node.id)
        if given is not None:
            return Done(outputs=(given_table(job.world.host, given),))
        if arriving is None:
            raise WorkflowError(
                f"Nobody gave the workflow its input '{boundary.parameter}', and it has no default",
                fix="Give it a table, or connect a default to the node's own input",
            )
        table = arriving_table(arriving)
        return Done(outputs=(table,) if boundary.kind == "input" else ())


class TableCreator:
    def ready(self, node: NativeNode) -> Ready:
        created_columns(node)
        return Ready(Ports(outputs=("Manually created table",)))

    def run(self, job: Job) -> Done:
        import pyarrow as pa
        from knime._arrow import storage_of

        columns = created_columns(job.node)
        try:
            arrays = [pa.array(column.cells, storage_of(column.type)) for column in columns]
        except (pa.ArrowInvalid, OverflowError) as error:
            raise WorkflowError(f"A number in the table is too large for its column: {error}") from None
        data = pa.table(arrays, names=[column.name for column in columns])
        model = job.node.model or Config("model")
        start = model.integer("rowIdStartValue") or 0
        prefix, suffix = model.text("rowIdPrefix", "Row"), model.text("rowIdSuffix")
        ids = [f"{prefix}{start + i}{suffix}" for i in range(data.num_rows)]
        return Done(outputs=(made_table(job.world.host, data, ids),))


_VALUE: Final = "org.knime.core.data.v2.value."
_VOID: Final = f"{_VALUE}VoidValueFactory"
#: Numeric types from the narrowest to the widest. Cells of a type can be converted to all later types.
_NUMBERS: Final = tuple(f"{_VALUE}{name}ValueFactory" for name in ("Boolean", "Int", "Long", "Double"))


class Concatenate:
    def ready(self, node: NativeNode) -> Ready:
        read_concatenation(node)
        count = node.inputs or 2
        names = tuple(f"Table {i + 1}" for i in range(count))
        return Ready(Ports(names, (True,) * count, ("Concatenated tables",)))

    def run(self, job: Job) -> Done:
        settings = read_concatenation(job.node)
        inputs = [arriving_table(value) for value in job.inputs]
        tables: list[Any] = [table.arrow for table in inputs]
        names = _names(tables, settings)
        keys = [table.row_ids for table in inputs]
        ids, kept = _unique(keys, settings)
        columns = [
            _column(name, tables) if (own := _tools(name, inputs, job.world.host)) is None else own
            for name in names
        ]
        dropped = sum(map(len, keys)) - len(ids)
        arrow = _built(tables[0].schema.field(0), ids, columns, names, kept if dropped else None)
        warnings = (f"Filtered out {dropped} duplicate row(s).",) if dropped else ()
        return Done(outputs=(OutputTable(arrow, (), job.world.host),), warnings=warnings)


def _names(tables: Sequence[Any], settings: Concatenation) -> list[str]:
    found = dict.fromkeys(name for table in tables for name in table.schema.names[1:])
    if not settings.intersection:
        return list(found)
    return [name for name in found if all(name in table.schema.names[1:] for table in tables)]


def _unique(keys: Sequence[Sequence[str]], settings: Concatenation) -> tuple[list[str], list[int]]:
    """The RowIDs of the result, and the positions of the rows that are kept."""
    whole = [key for own in keys for key in own]
    if settings.row_ids == "new":
        return [f"Row{i}" for i in range(len(whole))], list(range(len(whole)))
    ids: dict[str, int] = {}
    for position, own in enumerate(whole):
        key = own
        if key in ids and settings.row_ids == "skip":
            continue
        if key in ids and settings.row_ids == "fail":
            raise WorkflowError(
                f"The RowID '{key}' is in the tables more than once",
                fix="Let the Concatenate node make new RowIDs or append a suffix",
            )
        # The name with its suffix may be taken, too.
        while key in ids:
            key += settings.suffix
        ids[key] = position
    return list(ids), list(ids.values())


def _tools(name: str, tables: Sequence[OutputTable], host: ExtensionHost) -> Any:
    """The concatenated column, if it has tools in several forms; None for other columns.

    KNIME has one cell type for tools of workflows and of servers. Outside KNIME there can be two, which are
    converted to one here, so that the result is the same.
    """
    import pyarrow as pa

    from ...types.columns import ColumnForm, read_tools, tool_column_names, write_tools

    has = [name in table.column_names for table in tables]
    # Tools in one form need nothing special.
    if len({t.logical_types[name] for t, own in zip(tables, has, strict=True) if own}) < 2:
        return None
    sources = [table.as_input() for table in tables]
    if [name in tool_column_names(source.schema) for source in sources] != has:
        return None
    tools: list[Any] = []
    with host.tables_usable():
        for source, own in zip(sources, has, strict=True):
            tools += read_tools(source, name) if own else [None] * source.num_rows
        column = write_tools(tools, ColumnForm.NATIVE)
    return host.table(pa.table([column], names=[name]))._data.column(1).combine_chunks()


def _column(name: str, tables: Sequence[Any]) -> Any:
    """The concatenated column, with missing cells for tables that do not have the column."""
    import pyarrow as pa

    types = [table.schema.field(name).type for table in tables if name in table.schema.names]
    wanted = _common(name, types)
    storage: list[Any] = [pa.array([], wanted.storage_type)]
    for table in tables:
        own = table.column(name) if name in table.schema.names else None
        if own is None or (own.type != wanted and factory_of(own.type) == _VOID):
            storage.append(pa.nulls(table.num_rows, wanted.storage_type))
        elif own.type == wanted:
            storage += [chunk.storage for chunk in own.chunks]
        else:
            storage += [_widened(chunk.storage, wanted) for chunk in own.chunks]
    # One chunk, because the chunks of KNIME's tables have the same size.
    return pa.ExtensionArray.from_storage(wanted, pa.concat_arrays(storage))


def _widened(storage: Any, wanted: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_boolean(storage.type):
        storage = storage.cast(pa.int32())
    return storage.cast(wanted.storage_type, safe=False)


def _common(name: str, types: Sequence[Any]) -> Any:
    """The type for the cells of all tables; WorkflowError where KNIME makes a column of mixed types."""
    known = [kind for kind in types if factory_of(kind) != _VOID] or list(types)
    if all(kind == known[0] for kind in known):
        return known[0]
    factories = [factory_of(kind) for kind in known]
    if all(factory in _NUMBERS for factory in factories):
        return known[factories.index(max(factories, key=_NUMBERS.index))]
    shown = " and ".join(
        sorted({factory.rpartition(".")[2].removesuffix("ValueFactory") for factory in factories})
    )
    raise WorkflowError(
        f"The column '{name}' has different types in the tables ({shown}), which only KNIME can put into one",
        fix="Rename the column in one of the tables, or convert it",
    )


def _built(
    row_id_field: Any,
    ids: Sequence[str],
    columns: Sequence[Any],
    names: Sequence[str],
    kept: list[int] | None,
) -> Any:
    import pyarrow as pa

    if kept is not None:
        rows = pa.array(kept, pa.int64())
        columns = [pa.ExtensionArray.from_storage(c.type, c.storage.take(rows)) for c in columns]
    key = pa.ExtensionArray.from_storage(row_id_field.type, pa.array(ids, row_id_field.type.storage_type))
    return pa.table([key, *columns], names=[row_id_field.name, *names])


#: A moment as Java writes and reads it: date, time, offset and zone, of which parts may be missing.
_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)?(?:(?:T|^)(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)"
    r"(Z|[+-]\d\d:\d\d(?::\d\d)?)?(\[[\w/+:.-]+\])?)?"
)
_KINDS: Final[Mapping[str, VariableKind]] = {
    "string": "STRING",
    "integer": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "credentials": "CREDENTIALS",
    "choice": "STRING",
    "date": "STRING",
    "file": "STRING",
}


class ConfigurationNode:
    """Runs Configuration nodes, which make a flow variable from the caller's value or the default."""

    def ready(self, node: NativeNode) -> Ready:
        read_configuration(node)
        return Ready(Ports(outputs=("Flow Variable Output",)))

    def run(self, job: Job) -> Done:
        config = read_configuration(job.node)
        if config.kind == "credentials":
            variable = FlowVariable(config.variable, "CREDENTIALS", _credential(config, job))
            return Done(outputs=(None,), variables=(variable,))
        value = job.world.values.get(job.node.id, config.value)
        validate(config, value)
        kind = _KINDS[config.kind]
        more: tuple[FlowVariable, ...] = ()
        match config.kind:
            case "boolean" if config.as_number:
                kind, value = "INTEGER", int(bool(value))
            case "choice":
                place = config.choices.index(value) if value in config.choices else -1
                more = (FlowVariable(f"{config.variable} (index)", "INTEGER", place),)
            case "date":
                now = config.now and job.node.id not in job.world.values
                value = date_text(config, _now() if now else value)
            case "file":
                value, address = _file(value)
                # KNIME makes a third variable, "… (Path)", of a type that no node here can use.
                more = (FlowVariable(f"{config.variable} (URL)", "STRING", address),)
            case _:
                pass
        return Done(outputs=(None,), variables=(*more, FlowVariable(config.variable, kind, value)))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _file(value: str) -> tuple[str, str]:
    """The path and the address of the file that a person chose."""
    path = Path(unquote(urlsplit(value).path) if value.startswith("file:") else value)
    if not value:
        raise WorkflowError("No file or URL provided", fix="Choose a file; --set NAME=PATH does it here")
    if not value.startswith("file:") and "://" in value:
        raise WorkflowError(f"'{value}' is an address, which only KNIME downloads", fix="Download it first")
    if not path.exists():
        raise WorkflowError(f'No such file: "{path}"')
    return str(path), path.absolute().as_uri().replace("file:///", "file:/")  # as Java writes it


def date_text(config: Configuration, value: str) -> str:
    """The part of a moment that the flow variable has, as KNIME's node writes it."""
    day, clock, offset, zone = _parts(config, value)
    if clock.count(":") == 1:
        clock += ":00"
    match config.date:
        case "LOCAL_DATE":
            return day
        case "LOCAL_TIME":
            return clock
        case "LOCAL_DATE_TIME":
            return f"{day}T{clock}"
        case "ZONED_DATE_TIME":
            return f"{day}T{clock}{offset}{zone}"


def _parts(config: Configuration, value: str) -> tuple[str, str, str, str]:
    found = _MOMENT.fullmatch(value)
    if found is None or not any(found.groups()):
        raise WorkflowError(
            f"'{value}' of '{config.variable}' is no date or time",
            fix="Write it as 2026-01-31, 2026-01-31T12:30:00 or 2026-01-31T12:30:00+01:00",
        )
    day, clock, offset, zone = (part or "" for part in found.groups())
    return day, clock, offset, zone


def _set_date(config: Configuration, text: str) -> str:
    """A date that was set: what its text leaves out is as in the default, as in KNIME."""
    given, default = _parts(config, text), _parts(config, str(config.value))
    day, clock = (own or other for own, other in zip(given[:2], default[:2], strict=True))
    offset, zone = given[2:] if given[2] else default[2:]
    return f"{day}T{clock}{offset}{zone}"


def _credential(config: Configuration, job: Job) -> CredentialValue:
    given = job.world.values.get(job.node.id)
    found = given if isinstance(given, CredentialValue) else job.world.find_credential(config.variable)
    if found is None:
        stored = (
            " (the password in the file is encrypted, which only KNIME reads)"
            if config.saved_password
            else ""
        )
        raise WorkflowError(f"There is no password for the credentials '{config.variable}'{stored}")
    return CredentialValue(found.login or str(config.value), found.password)


def validate(config: Configuration, value: Any) -> None:
    """Checks a value with the same rules as the node, and raises a WorkflowError as it does."""
    if config.minimum is not None and value < config.minimum:
        raise WorkflowError(
            f"The set {config.kind} {value} is smaller than the allowed minimum of {config.minimum:g}"
        )
    if config.maximum is not None and value > config.maximum:
        raise WorkflowError(
            f"The set {config.kind} {value} is bigger than the allowed maximum of {config.maximum:g}"
        )
    if config.kind == "choice" and config.choices and value not in config.choices:
        offered = ", ".join(repr(choice) for choice in config.choices)
        raise WorkflowError(f"'{value}' is no choice of '{config.variable}', which offers {offered}")
    if config.kind == "string" and config.pattern:
        try:
            matches = re.fullmatch(config.pattern, value) is not None
        except re.error as error:
            raise WorkflowError(
                f"The pattern '{config.pattern}' of '{config.variable}' cannot be read here: {error}",
                fix="Java's regular expressions differ in places; run the workflow in KNIME",
            ) from None
        if not matches:
            raise WorkflowError(
                config.message.replace("?", value) or f"'{value}' does not match '{config.pattern}'"
            )


def from_text(config: Configuration, text: str) -> Any:
    """The value from a text on the command line."""
    if config.kind == "credentials":
        raise WorkflowError(
            f"'{config.variable}' are credentials, which do not belong on a command line",
            fix="Put them into the environment or the keyring: --help says how",
        )
    value = (
        _set_date(config, text)
        if config.kind == "date"
        else parsed(config.variable, _KINDS[config.kind], text)
    )
    validate(config, value)
    return value


def from_json(config: Configuration, value: Any) -> Any:
    """The value from a tool call's JSON, with KNIME's rules."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if config.kind == "credentials":
            return CredentialValue(str(inner.get("username") or ""), str(inner.get("password") or ""))
        key = VALUE_KEYS.get(config.kind, config.kind)
        if key not in inner:
            raise WorkflowError(f"Expected {config.kind} value for key '{key}'")
        value = inner[key]
        if config.kind == "boolean" and value is None:
            value = False
    read = _read(config, value)
    validate(config, read)
    return read


def _read(config: Configuration, value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match config.kind:
        case "string" | "choice" | "file" if isinstance(value, str):
            return value
        case "date" if isinstance(value, str):
            return _set_date(config, value)
        case "string" if is_number:
            return json.dumps(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, str):
            return value.lower() == "true"  # KNIME reads every other text as false
        case "integer" if is_number:
            return parsed(config.variable, "INTEGER", str(int(value)))  # decimals are cut off
        case "double" if is_number:
            return float(value)
        case "integer" | "double" if isinstance(value, str):
            return parsed(config.variable, _KINDS[config.kind], value)
        case _:
            shown = "null" if value is None else type(value).__name__
            wanted = "string" if _KINDS[config.kind] == "STRING" else config.kind
            raise WorkflowError(f"'{config.parameter}' has to be a JSON {wanted}, not {shown}")
