"""Writes the results of a run: tables as CSV and Parquet, views as HTML pages, and a summary."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...audit.table_formats import TableWriter
from ..column_types import JAVA_TYPES, PLAIN, TOOL_VALUE
from ..node_results import OutputTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from .workflow_run import NodeOutcome, RunReport

#: File systems allow 255 bytes, of which a number and an ending need some.
_MAX_NAME_BYTES: Final = 200
_NOT_IN_NAMES: Final = re.compile(r"[^\w ().-]+")
_PNG: Final = "org.knime.core.data.image.png.PNGImageValueFactory"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTable:
    outcome: NodeOutcome
    port: str  # the name of the output, or of the input for a node without outputs
    table: OutputTable


def end_tables(report: RunReport) -> Iterator[EndTable]:
    """The output tables that no executed node uses, and the input tables of nodes without outputs."""
    outcomes = {outcome.node.id: outcome for outcome in report.outcomes}
    for outcome in report.ends:
        ports = outcome.step.ready.ports
        for name, value in zip(ports.outputs, outcome.done.outputs, strict=False):
            if isinstance(value, OutputTable):
                yield EndTable(outcome=outcome, port=name, table=value)
        if ports.outputs:
            continue
        for name, source in zip(ports.inputs, outcome.step.sources[1:], strict=True):
            value = None if source is None else outcomes[source[0]].done.outputs[source[1] - 1]
            if isinstance(value, OutputTable):
                yield EndTable(outcome=outcome, port=name, table=value)


def failed_calls(outcome: NodeOutcome) -> int:
    """The number of rows of an MCP Tool Caller whose call has no result; the node executed all the same."""
    tables = outcome.done.outputs
    if outcome.node.node_id != "mcp_tool_caller" or not tables or "Status" not in tables[0].column_names:
        return 0
    return sum(status != "ok" for status in tables[0].column("Status"))


def row_counts(outcome: NodeOutcome) -> tuple[int, ...]:
    return tuple(own.arrow.num_rows for own in outcome.done.outputs if isinstance(own, OutputTable))


def plain_table(table: OutputTable) -> pa.Table:
    """The table with types that every program can read, without RowIDs.

    Numbers, texts, booleans and lists of these keep their types. A tool becomes the JSON text of its portable
    form, a picture a text with its size, and any other value its text in Python.
    """
    import pyarrow as pa

    names = table.column_names
    types = table.logical_types
    columns: dict[str, Any] = {}
    for name in names:
        column = table.arrow.column(name)
        if types[name] in PLAIN:
            columns[name] = pa.chunked_array(
                [chunk.storage for chunk in column.chunks], column.type.storage_type
            )
        else:
            columns[name] = pa.array(_texts(table, name, types[name]), pa.string())
    return pa.table(list(columns.values()), names=list(columns))


def _texts(table: OutputTable, name: str, factory: str) -> list[str | None]:
    tools = _tools(table, name, factory)
    if tools is not None:
        return tools
    values = table.column(name)
    if factory == _PNG:
        return [None if value is None else f"PNG, {value.width} x {value.height}" for value in values]
    return [None if value is None else _text(value) for value in values]


def _tools(table: OutputTable, name: str, factory: str) -> list[str | None] | None:
    from ...types.columns import read_tools, tool_column_names
    from ...types.tool import to_json_text

    known = JAVA_TYPES.get(factory)
    if known is not None and known.preferred != TOOL_VALUE:
        return None
    source = table.as_input()
    if name not in tool_column_names(source.schema, None):
        return None
    return [None if tool is None else to_json_text(tool) for tool in read_tools(source, name)]


def _text(value: Any) -> str:
    if hasattr(value, "fs_category"):  # as KNIME shows a path
        return f"({value.fs_category}, {value.fs_specifier or ''}, {value.path})"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def file_name(outcome: NodeOutcome, port: str, total: int) -> str:
    """The name of a result file: id and name of the node, and the port's name if there are several files.

    *Results* stands for the node.
    """
    node = outcome.node
    parts = f"{node.id} {node.name}" + (f" - {port}" if total > 1 and port != "Results" else "")
    # Windows takes no spaces and dots at the end of a name.
    plain = _NOT_IN_NAMES.sub("_", parts).strip(" .").encode()[:_MAX_NAME_BYTES]
    # The cut may be within a character.
    return plain.decode(errors="ignore")


def write_results(report: RunReport, folder: Path) -> list[Path]:
    """Writes the tables at the end of a workflow, each as CSV and Parquet, and the views of its nodes.

    If the workflow failed, the results of executed nodes are written. The folder is created if it does not
    exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    used: set[str] = set()
    tables = list(end_tables(report))
    for own in tables:
        total = sum(1 for other in tables if other.outcome is own.outcome)
        name = _unused(file_name(own.outcome, own.port, total), used)
        data = plain_table(own.table)
        for file in (folder / f"{name}.csv", folder / f"{name}.parquet"):
            with TableWriter(file) as writer:
                writer.write(data)
            files.append(file)
    for outcome in report.outcomes:
        if outcome.done.view_html is not None:
            name = _unused(file_name(outcome, "", 1), used, ".html")
            (folder / f"{name}.html").write_text(outcome.done.view_html, encoding="utf-8")
            files.append(folder / f"{name}.html")
    return files


def _unused(name: str, used: set[str], ending: str = "") -> str:
    found, count = name, 1
    # Windows and macOS take names for equal that differ in case only.
    while found.lower() + ending in used:
        count += 1
        found = f"{name} {count}"
    used.add(found.lower() + ending)
    return found


def summary(report: RunReport, files: list[Path]) -> dict[str, Any]:
    """The report of a run as JSON, for other programs: docs/command-line.md describes it."""
    return {
        "workflow": report.plan.workflow.name,
        "ok": report.ok and not any(map(failed_calls, report.outcomes)),
        "notes": list(report.plan.notes),
        "nodes": [_node(outcome) for outcome in report.outcomes],
        "left_out": [
            {"id": own.node.id, "name": own.node.name, "why": own.why} for own in report.plan.left_out
        ],
        "files": [str(file) for file in files],
    }


def _node(outcome: NodeOutcome) -> dict[str, Any]:
    ports = outcome.step.ready.ports.outputs
    return {
        "id": outcome.node.id,
        "name": outcome.node.name,
        "label": outcome.node.annotation,
        "inside": outcome.step.inside or None,
        "status": outcome.status.value,
        "message": outcome.message or None,
        "warnings": list(outcome.done.warnings),
        "failed_calls": failed_calls(outcome),
        "seconds": round(outcome.seconds, 3),
        "outputs": [
            {"port": name, "rows": value.arrow.num_rows, "columns": value.column_names}
            for name, value in zip(ports, outcome.done.outputs, strict=False)
            if isinstance(value, OutputTable)
        ],
    }
