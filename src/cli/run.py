"""``knime-mcp run``: runs a KNIME workflow without KNIME."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..audit.arrow_cells import as_text, in_microseconds
from ..audit.table_formats import READABLE, either
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions
from .files import check_folder, read_table, writing
from .shared_options import pairs
from .terminal import StatusLine, complain, note, one_line, print_json, say, show_table
from .workflow_files import load_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from ..headless.host import ExtensionHost
    from ..headless.workflows import CredentialValue, NodeOutcome, NodeStep, RunReport
    from ..knwf import Workflow


_SERVERS = r"(.+?)=(https?:.+)"
_ROWS_SHOWN = 20
_COLUMNS_SHOWN = 8
_TELL_LITTLE = ("Tool type", "Server", "Tool", "Tool (JSON)", "Digest")


@reports_errors
def run(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.knwf", help="A workflow or component that KNIME exported."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set what the workflow leaves open: the flow variable or parameter of a Configuration"
            " node, or a workflow variable; may be repeated.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=TABLE",
            help=f"Give a Workflow Input its table: a {either(*READABLE)} file, or a .knwf file, which"
            " becomes a table with the workflow as a tool; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the tables at the end of the workflow there, as CSV and Parquet, the views of its"
            " nodes as HTML, and the workflow's data area with the journals of calls.",
        ),
    ] = None,
    credential: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=OTHER",
            help="Where the workflow names the credential NAME, use OTHER; may be repeated. Without this"
            " every credential is looked up by the workflow's own name: in the environment variables"
            " KNIME_MCP_<NAME>_USERNAME and KNIME_MCP_<NAME>_PASSWORD, then in the system's keyring"
            " (keyring set knime-mcp:<NAME> USER).",
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Where nodes name the server OLD, call NEW; may be repeated. No credential goes to another"
            " host unless NEW has #credential=NAME. OLD may be stdio:NAME, a server that was a command.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what became of every node as JSON, without tables.")
    ] = False,
) -> ExitCode:
    """Run a KNIME workflow without KNIME.

    Runs the nodes of this extension and the native nodes that they need; the error names every node that does
    not run here, before anything runs. The exit code is 1 if a node fails, or a call of a Caller; what is not
    behind a failed node still runs.

    Example: knime-mcp run examples/first-call.knwf --set server_url=http://127.0.0.1:8931/mcp
    """
    chosen = pairs(settings, "--set")
    renamed = pairs(credential, "--credential")
    tables = {name: Path(path) for name, path in pairs(inputs, "--input").items()}
    unsaid = "does not say which server to call instead of which. Write OLD=NEW, NEW as URL."
    servers = pairs(server, "--server", form=_SERVERS, wrong=unsaid)
    with Interrupt() as interrupt:
        report, files = _run(file, chosen, servers, tables, out, _lookup(renamed), interrupt)
    if as_json:
        from ..headless.workflows.run_results import summary

        print_json(summary(report, files))
    elif out is None:
        _show(report)
    for path in files:
        note(f"Wrote {path}")
    return _ended(report)


def _lookup(renamed: Mapping[str, str]) -> Callable[[str], CredentialValue | None]:
    """Makes the function that looks up credentials in the same places as other commands."""
    from ..headless.workflows import CredentialValue
    from .credentials import Credentials

    known = Credentials(ConnectionOptions())

    def find(name: str) -> CredentialValue | None:
        credential = known(renamed.get(name, name))
        return None if credential is None else CredentialValue(credential.username, credential.password)

    return find


def _run(
    file: Path,
    settings: Mapping[str, str],
    servers: Mapping[str, str],
    tables: Mapping[str, Path],
    out: Path | None,
    find_credential: Callable[[str], CredentialValue | None],
    interrupt: Interrupt,
) -> tuple[RunReport, list[Path]]:
    workflow, host = _loaded(file)
    from ..headless.workflows import OptionInvalid, RunOptions, run_workflow
    from ..headless.workflows.run_results import write_results

    check_folder(out)
    folder = Path(tempfile.mkdtemp(prefix="knime-mcp-run-")) if out is None else out / "workflow"
    report: RunReport | None = None
    try:
        with _Progress() as progress:
            options = RunOptions(
                workflow_dir=folder,
                beside=file.absolute().parent,
                servers=servers,
                settings=settings,
                find_credential=find_credential,
                is_canceled=interrupt,
                inputs={name: read_input(path, host) for name, path in tables.items()},
                watcher=progress,
            )
            try:
                report = run_workflow(workflow, host, options)
            except OptionInvalid as error:
                raise UsageError(str(error)) from None
        if out is None:
            return report, []
        with writing(out):
            return report, write_results(report, out)
    finally:
        if out is None:
            _leave(folder, keep=report is None or not report.ok)


def _loaded(file: Path) -> tuple[Workflow, ExtensionHost]:
    from ..audit.table_formats import is_device
    from ..knwf import KnwfError, OtherNode, around, read_workflow
    from ..knwf.workflow_model import node_label

    if is_device(file):
        raise CommandError(f"{file} is a device or a pipe, not a file.")
    try:
        workflow = around(read_workflow(file))
    except KnwfError as error:
        raise CommandError(f"{file} cannot be read as a workflow: {error}.") from None
    containers = {node_label(node) for node in workflow.nodes if isinstance(node, OtherNode)}
    for problem in workflow.problems:
        # What is in metanodes and components is read later, and told with their names.
        if problem.severity == "warning" and problem.where not in containers:
            note(f"{problem.where}: {problem.what}")
    return workflow, load_host()


def _leave(folder: Path, *, keep: bool) -> None:
    """Removes the workflow's temporary folder, unless it has journals of a run that failed."""
    if keep and any(folder.rglob("*")):
        note(f"Files of this run are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


class _Progress(StatusLine):
    """Shows the running node: in one changing line on a terminal, elsewhere in a line per node."""

    _head = ""

    def started(self, step: NodeStep, position: int, total: int) -> None:
        """See `Watcher`."""
        self._head = f"{position + 1} of {total}: {step.label}"
        if not self.show(self._head):
            note(self._head)

    def progressed(self, step: NodeStep, progress: float, message: str | None) -> None:  # noqa: ARG002
        """See `Watcher`."""
        self.show(f"{self._head} {progress:.0%} {message or ''}")

    def finished(self, outcome: NodeOutcome) -> None:
        """See `Watcher`."""
        from ..headless.workflows import NodeStatus
        from ..headless.workflows.run_results import failed_calls, row_counts

        if outcome.status is NodeStatus.EXECUTED:
            rows = ", ".join(counted(count, "row") for count in row_counts(outcome))
            note(f"{self._head}: {outcome.seconds:.2f} s{rows and f', {rows}'}")
        tell = complain if failed_calls(outcome) else note
        for warning in outcome.done.warnings:
            tell(f"{outcome.label}: {warning}")


def _show(report: RunReport) -> None:
    """Prints the tables at the end of the workflow, shortened for a terminal."""
    from ..headless.workflows.run_results import end_tables, plain_table

    for own in end_tables(report):
        data = plain_table(own.table)
        size = f"{counted(data.num_rows, 'row')}, {counted(data.num_columns, 'column')}"
        say(f"{own.outcome.label} - {own.port}: {size}", "bold")
        names = _telling(data)
        shown = data.slice(0, _ROWS_SHOWN).select(names).to_pylist()
        # One row with many columns is read from top to bottom.
        if len(shown) == 1 and len(names) > _COLUMNS_SHOWN:
            show_table(None, ["", ""], [[name, _cell(shown[0][name], 400)] for name in names])
            continue
        # What went wrong must not be among the columns that are cut off.
        if "Error" in names[_COLUMNS_SHOWN:]:
            names = [*names[: _COLUMNS_SHOWN - 1], "Error"]
        names = names[:_COLUMNS_SHOWN]
        show_table(None, names, [[_cell(row[name], 160) for name in names] for row in shown])
        if data.num_rows > len(shown):
            note(f"{data.num_rows - len(shown)} more rows; --out FOLDER writes all of them")


def _telling(data: Any) -> list[str]:
    """The columns for people: without empty columns, and with what is the same in most rows last."""
    filled = [n for n in data.column_names if data.column(n).null_count < data.num_rows] or data.column_names
    return sorted(filled, key=lambda name: name in _TELL_LITTLE)


def _cell(value: Any, limit: int) -> str:
    return "" if value is None else one_line(str(value), limit)


def _ended(report: RunReport) -> ExitCode:
    from ..headless.workflows import NodeStatus, label
    from ..headless.workflows.run_results import failed_calls

    for remark in report.plan.notes:
        note(remark)
    counts = {status: [o for o in report.outcomes if o.status is status] for status in NodeStatus}
    for outcome in counts[NodeStatus.FAILED]:
        complain(f"{outcome.label} failed: {outcome.message}")
    for outcome in counts[NodeStatus.NOT_RUN]:
        complain(f"{outcome.label} was not run: {outcome.message}.")
    for own in report.plan.left_out:
        note(f"{label(own.node)} was left out: {own.why}. No other node needs it")
    executed = len(counts[NodeStatus.EXECUTED])
    nodes = counted(len(report.outcomes), "node")
    if report.canceled:
        complain(f"Canceled after {executed:,} of {nodes}.")
        return ExitCode.CANCELED
    note(f"{executed:,} of {nodes} executed")
    return ExitCode.OK if report.ok and not any(map(failed_calls, report.outcomes)) else ExitCode.FAILED


def read_input(file: Path, host: ExtensionHost) -> Any:
    """Reads a table, in one of `table_formats.FORMATS`; a ``.knwf`` file becomes a table with one tool."""
    if file.suffix.lower() == ".knwf":
        from ..headless.workflows import make_workflow_tool, tools_table

        return tools_table(host, [make_workflow_tool(file, host)])
    table = read_table(file).table
    if not table.num_columns:
        raise CommandError(f"{file} has no columns.")
    if not all(name.strip() for name in table.column_names):
        raise CommandError(f"{file} has a column without a name. Name it, or remove it.")
    for position, field in enumerate(table.schema):
        table = table.set_column(position, field.name, _knime_column(table.column(position)))
    return table


def _knime_column(column: pa.ChunkedArray[Any]) -> Any:
    """The column with a type that KNIME has, otherwise as text."""
    import pyarrow as pa

    column = in_microseconds(column)
    kind = _knime_type(column.type)
    try:
        return as_text(column) if kind is None else column.cast(kind)
    except pa.ArrowInvalid:  # a number that is too large
        return as_text(column)


def _knime_type(kind: Any) -> Any:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _knime_type(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _knime_type(kind.value_type)
        is_plain = inner is not None and not types.is_nested(inner) and not types.is_temporal(inner)
        return pa.list_(inner) if is_plain else None
    if types.is_integer(kind):
        # KNIME has no unsigned numbers, and half of `uint32` is beyond its integers.
        return pa.int64() if kind.bit_width == 64 or kind == pa.uint32() else pa.int32()
    if types.is_floating(kind) or types.is_decimal(kind):
        return pa.float64()
    if str(kind) in ("string", "large_string", "string_view"):
        return pa.string()
    return kind if types.is_boolean(kind) or types.is_null(kind) or types.is_temporal(kind) else None
