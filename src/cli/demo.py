"""``knime-mcp demo``: runs the extension's own nodes on a real MCP server, without any account."""

from __future__ import annotations

import json
import shutil
import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..types.errors import Canceled
from .command_errors import CommandError, ExitCode, Interrupt, reports_errors
from .files import TableFile, check_folder, read_table
from .terminal import complain, note, one_line, out, say, show_table

if TYPE_CHECKING:
    import pyarrow as pa

    from ..headless import NodeResult, OutputTable
    from .demo_process import DemoServer


@reports_errors
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write what it makes.")] = Path(
        "demo-output"
    ),
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Only run the MCP server, until Ctrl-C, so that you can use it."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
) -> ExitCode:
    """Show what this does, in a few seconds, without any account.

    Starts a small MCP server on this machine, which reads example files. Runs the nodes MCP Tool Provider and
    MCP Tool Caller against it, and writes the table that they make and a page with the record of each call.
    Nothing leaves this machine.
    """
    root = extension_root()
    with Interrupt() as interrupt:
        if serve:
            return _serve(root, port, interrupt)
        return _run(root, port, out, interrupt)


def extension_root() -> Path:
    """Finds the folder of knime.yml and of the examples: the checkout, or the copy inside the wheel.

    Raises:
        CommandError: There is no such folder.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package):
        if (root / "knime.yml").is_file() and (root / "examples" / "demo").is_dir():
            return root
    raise CommandError(
        "This installation came without the demo's example files. Run the demo from a clone of the project."
    )


def _serve(root: Path, port: int, interrupt: Interrupt) -> ExitCode:
    from .demo_process import DemoServer

    with DemoServer(_files(root), port) as server:
        say(f"The demo's MCP server runs on this machine only: {server.url}")
        say(f"Try, in another terminal:  knime-mcp list {server.url}")
        note("Ctrl-C ends it.")
        while not interrupt():
            if server.wait(0.2):
                raise CommandError(
                    "The demo's server ended by itself. Start it again, with another --port if it was taken."
                )
    return ExitCode.OK


def _run(root: Path, port: int, out: Path, interrupt: Interrupt) -> ExitCode:
    from .demo_process import DemoServer

    check_folder(out)
    began = time.perf_counter()
    # The workflow's folder begins empty, so that no journal of an earlier run is in the way.
    with DemoServer(_files(root), port) as server, TemporaryDirectory() as workflow:
        if interrupt():
            raise Canceled("The demo was stopped")
        story = DemoStory(root, server, out, Path(workflow), interrupt)
        story.tell()
    story.close(time.perf_counter() - began)
    return ExitCode.OK


def _files(root: Path) -> Path:
    return root / "examples" / "demo" / "files"


PROVIDER, CALLER = "mcp_tool_provider", "mcp_tool_caller"


class DemoStory:
    """Runs the nodes against the demo's server and explains the results to a newcomer."""

    def __init__(
        self, root: Path, server: DemoServer, out: Path, workflow: Path, interrupt: Interrupt
    ) -> None:
        self._root = root
        self._server = server
        self._out = out
        self._workflow = workflow
        self._interrupt = interrupt
        self._table = out / "results.csv"
        self._journal = out / "calls.jsonl"
        self._page = out / "audit.html"

    def tell(self) -> None:
        say("knime-mcp demo: MCP tools in KNIME tables\n", "bold")
        _tell(
            "The nodes below are the extension's own, run without KNIME Analytics Platform by a stand-in for"
            " KNIME's Python API. An MCP server runs on this machine only, on the official MCP Python SDK: it"
            f" reads the files in examples/demo/files, at {self._server.url} (process {self._server.pid})."
        )
        self._batch(self._provider())
        self._audit()

    def close(self, seconds: float) -> None:
        """Prints the place of the files and the next steps, after the server has ended."""
        say("\nWritten:", "bold")
        say(f"  {self._table}: the table of step 2")
        say(f"  {self._page}: the record of each call, for a browser")
        say(f"  {self._journal}: the journal that the Caller kept of them")
        say(f"\nDone in {seconds:.1f} s, and the server has ended. Next:", "bold")
        say("  knime-mcp demo --serve              keeps the server running, to try other commands")
        say("  knime-mcp --help                    everything else, with any MCP server")

    def _provider(self) -> OutputTable:
        result = self._run(PROVIDER, [], {"server_url": self._server.url})
        tools: OutputTable = result.outputs[0]
        rows = [
            (row["Tool name"], _parameters(row["Parameters"]), one_line(row["Description"], 80))
            for row in tools.to_pylist()
        ]
        say("\n1. MCP Tool Provider lists the tools of the server", "bold")
        show_table(None, ("Tool name", "Parameters", "Description"), rows)
        _tell(f"In KNIME the table has {len(tools.column_names)} columns: {', '.join(tools.column_names)}.")
        return tools

    def _batch(self, tools: OutputTable) -> None:
        from ..headless.workflows.run_results import plain_table

        file = self._root / "examples" / "demo" / "parameters.csv"
        parameters = _typed(read_table(file).table)
        result = self._run(CALLER, [tools.as_input(), parameters], {"tool": "count_words"})
        output: OutputTable = result.outputs[0]
        rows = [
            (row["path"], row["Status"], _words(row["Structured result"]) or one_line(row["Error"], 80))
            for row in output.to_pylist()
        ]
        say("\n2. MCP Tool Caller calls count_words once per row of parameters.csv", "bold")
        show_table(None, ("path", "Status", "what came of it"), rows)
        _tell("The bad row is a row like the others. The node goes on, and warns:")
        for warning in result.warnings:
            _tell(warning)
        self._out.mkdir(parents=True, exist_ok=True)
        with TableFile(self._table) as written:
            written.write(plain_table(output))

    def _audit(self) -> None:
        from ..audit.calls_table import ordered_calls
        from ..audit.verify import verify_file
        from .audit_page import audit_pages

        (journal,) = (self._workflow / "data" / "mcp-audit").glob("*.jsonl")
        shutil.copyfile(journal, self._journal)
        verified = verify_file(self._journal)
        calls = ordered_calls(self._journal)
        for file, page in audit_pages(self._page, self._journal.name, calls, verified, lambda _: None):
            file.write_text(page, encoding="utf-8")
        say("\n3. The Caller has recorded every call, each with the hash of the one before", "bold")
        _tell(f"Verified, the records are: {verified.verdict.value}.")

    def _run(self, node_id: str, inputs: list[Any], parameters: dict[str, Any]) -> NodeResult:
        from ..headless import HeadlessError, load_extension

        try:
            host = load_extension(self._root)
            # Ports that are left out are the last ones, and optional.
            unconnected = [None] * (len(host.declared(node_id).input_ports) - len(inputs))
            result = host.run_node(
                node_id,
                [*inputs, *unconnected],
                parameters,
                cancel=self._interrupt,
                workflow_dir=self._workflow,
            )
        except HeadlessError as error:
            raise CommandError(f"The extension does not load or run: {error}") from None
        if self._interrupt():
            raise Canceled("The demo was stopped")
        for problem in result.problems:
            complain(problem)
        if not result.ok:
            why = (result.failure or {}).get("message", "for an unknown reason")
            raise CommandError(f"The node {node_id} failed: {why}")
        return result


def _tell(text: str) -> None:
    """Prints a paragraph in short lines."""
    say(textwrap.fill(text, min(100, out().width), initial_indent="   ", subsequent_indent="   "))


def _typed(parameters: pa.Table) -> pa.Table:
    """The parameter table with whole numbers as numbers, like KNIME's CSV Reader."""
    import pyarrow as pa
    from pyarrow import compute

    for position, name in enumerate(parameters.column_names):
        column = parameters[name]
        if compute.all(compute.match_substring_regex(column, r"^\d+$")).as_py():
            parameters = parameters.set_column(position, name, column.cast(pa.int64()))
    return parameters


def _parameters(schema: str) -> str:
    from ..tools.calling_hints import signature

    return signature(json.loads(schema))


def _words(structured: str | None) -> str:
    if structured is None:
        return ""
    parsed = json.loads(structured)
    by_count = sorted(parsed["most_common"].items(), key=lambda pair: -pair[1])
    common = ", ".join(f"{word} ({count})" for word, count in by_count)
    return f"{parsed['words']} words, {parsed['distinct']} different, most common: {common}"
