"""``knime-mcp demo``: runs the extension's own nodes on a real MCP server, without any account."""

from __future__ import annotations

import json
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..types.errors import Canceled
from .command_errors import CommandError, ExitCode, Interrupt, reports_errors
from .files import TableFile, check_folder, read_table
from .terminal import complain, note, one_line, out, say, show_table

if TYPE_CHECKING:
    import pyarrow as pa

    from ..headless import NodeResult, OutputTable
    from .demo_page import DemoPage
    from .demo_servers import ServerProcess


@reports_errors
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the tables.")] = Path(
        "demo-output"
    ),
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Only run the MCP server that reads files, until Ctrl-C, so that you can use it."
        ),
    ] = False,
    show_page: Annotated[
        bool, typer.Option("--open", help="Show the results as a page in the browser, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
) -> ExitCode:
    """Show what this does, in a few seconds, without any account.

    Starts two MCP servers on this machine: node knowledge, and a small one that reads files. Runs KNIME's
    nodes MCP Tool Provider and MCP Tool Caller against them, and shows the tables that they make. Nothing
    leaves this machine.
    """
    root = extension_root()
    with Interrupt() as interrupt:
        if serve:
            return _serve(root, port, interrupt)
        return _run(root, port, out, interrupt, show_page=show_page)


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
    from .demo_servers import DemoServer

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


def _run(root: Path, port: int, out: Path, interrupt: Interrupt, *, show_page: bool) -> ExitCode:
    from .demo_servers import DemoServer, NodesServer

    check_folder(out)
    began = time.perf_counter()
    # Both start at the same time, as imports take most of the time and use one core each.
    with NodesServer() as nodes, DemoServer(_files(root), port) as server:
        if interrupt():
            raise Canceled("The demo was stopped")
        story = DemoStory(root, nodes, server, out, interrupt)
        story.tell()
    story.close(time.perf_counter() - began)
    if show_page:
        _show(story, interrupt)
    return ExitCode.OK


def _show(story: DemoStory, interrupt: Interrupt) -> None:
    import webbrowser

    from .demo_page import served

    with served(story.page(), NODE_QUERY) as url:
        say(f"\nThe results as a page, on this machine only: {url}")
        note("Ctrl-C ends it.")
        if not webbrowser.open(url):
            note("No browser could be opened. Open the page yourself.")
        while not interrupt():
            time.sleep(0.2)


def _files(root: Path) -> Path:
    return root / "examples" / "demo" / "files"


PROVIDER, CALLER = "mcp_tool_provider", "mcp_tool_caller"
NODE_QUERY = "VLOOKUP"


class DemoStory:
    """Runs the nodes against the demo's servers and explains the results to a newcomer."""

    def __init__(
        self, root: Path, nodes: ServerProcess, files: ServerProcess, out: Path, interrupt: Interrupt
    ) -> None:
        self._root = root
        self._nodes = nodes
        self._files = files
        self._out = out
        self._interrupt = interrupt
        self._written: list[Path] = []
        self._catalogues: dict[str, OutputTable] = {}
        self._results: OutputTable | None = None

    def tell(self) -> None:
        say("knime-mcp demo: MCP tools in KNIME tables\n", "bold")
        _tell(
            "The nodes below are the extension's own, run without KNIME Analytics Platform by a stand-in for"
            " KNIME's Python API. Two MCP servers run on this machine only, on the official MCP Python SDK:"
            f" node knowledge at {self._nodes.url} (process {self._nodes.pid}), and one that reads the files"
            f" in examples/demo/files at {self._files.url} (process {self._files.pid})."
        )
        self._node_knowledge()
        tools = self._provider()
        self._one_call(tools)
        self._batch(tools)

    def close(self, seconds: float) -> None:
        """Prints the place of the files and the next steps, after the servers have ended."""
        say("\nWritten:", "bold")
        for file in self._written:
            say(f"  {file}")
        say(f"  {self._workflow / 'data'}  (the journals that the Caller keeps of its calls)")
        say(f"\nDone in {seconds:.1f} s, and both servers have ended. Next:", "bold")
        say("  knime-mcp nodes serve --http 8080   serves node knowledge, for you and your agents")
        say("  knime-mcp demo --open               shows all this in the browser, with charts")
        say("  knime-mcp demo --serve              keeps the server that reads files running")
        say("  knime-mcp --help                    everything else, with any MCP server")

    def _node_knowledge(self) -> None:
        tools = self._listed(
            "1. MCP Tool Provider lists the tools of node knowledge: which nodes exist, how they are set up",
            self._nodes,
        )
        self._write("node-knowledge", tools)
        arguments = [{"name": "query", "value": NODE_QUERY}, {"name": "max_results", "value": "3"}]
        result = self._run(CALLER, [tools.as_input()], {"tool": "search_nodes", "arguments": arguments})
        (row,) = result.outputs[0].to_pylist()
        answer = json.loads(row["Structured result"])
        say(
            f'\n2. MCP Tool Caller asks it for "{NODE_QUERY}", among {answer["catalogue"]["nodes"]} nodes',
            "bold",
        )
        for node in answer["nodes"]:
            _tell(f"{node['name']}: {node['description']}")

    def _provider(self) -> OutputTable:
        tools = self._listed(
            "3. MCP Tool Provider lists the tools of the server that reads files", self._files
        )
        _tell(f"In KNIME the table has {len(tools.column_names)} columns: {', '.join(tools.column_names)}.")
        self._write("tools", tools)
        return tools

    def _listed(self, title: str, server: ServerProcess) -> OutputTable:
        result = self._run(PROVIDER, [], {"server_url": server.url})
        tools: OutputTable = result.outputs[0]
        self._catalogues[server.url] = tools
        rows = [
            (row["Tool name"], _parameters(row["Parameters"]), one_line(row["Description"], 80))
            for row in tools.to_pylist()
        ]
        say(f"\n{title}", "bold")
        show_table(None, ("Tool name", "Parameters", "Description"), rows)
        return tools

    def _one_call(self, tools: OutputTable) -> None:
        arguments = [{"name": "text", "value": "desk"}, {"name": "path", "value": "meeting_notes.md"}]
        parameters = {"tool": "search_text", "arguments": arguments}
        result = self._run(CALLER, [tools.as_input()], parameters)
        (row,) = result.outputs[0].to_pylist()
        say(
            '\n4. MCP Tool Caller calls one tool: search_text, text = "desk", path = "meeting_notes.md"',
            "bold",
        )
        say(f"   Status: {row['Status']}, {row['Duration (s)']:.3f} s. Result:")
        for match in json.loads(row["Structured result"])["result"]:
            _tell(f"{match['path']}, line {match['line']}: {match['text']}")

    def _batch(self, tools: OutputTable) -> None:
        file = self._root / "examples" / "demo" / "parameters.csv"
        parameters = _typed(read_table(file).table)
        result = self._run(CALLER, [tools.as_input(), parameters], {"tool": "count_words"})
        output: OutputTable = result.outputs[0]
        rows = [
            (row["path"], row["Status"], _words(row["Structured result"]) or one_line(row["Error"], 80))
            for row in output.to_pylist()
        ]
        say("\n5. MCP Tool Caller calls count_words once per row of parameters.csv", "bold")
        show_table(None, ("path", "Status", "what came of it"), rows)
        _tell("The bad row is a row like the others. The node goes on, and warns:")
        for warning in result.warnings:
            _tell(warning)
        self._write("results", output)
        self._results = output

    def page(self) -> DemoPage:
        """What was seen, for the browser."""
        from .demo_page import DemoPage, ToolCatalogue

        return DemoPage(
            self._workflow / "data" / "mcp-audit",
            [ToolCatalogue(url, tools.to_pylist()) for url, tools in self._catalogues.items()],
            self._results.to_pylist() if self._results else [],
        )

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

    @property
    def _workflow(self) -> Path:
        """The folder for journals and result files, like the workflow's folder in KNIME."""
        return self._out / "workflow"

    def _write(self, name: str, output: OutputTable) -> None:
        from ..headless.workflows.run_results import plain_table

        self._out.mkdir(parents=True, exist_ok=True)
        for ending in (".csv", ".parquet"):
            file = self._out / f"{name}{ending}"
            with TableFile(file) as written:
                written.write(plain_table(output))
            self._written.append(file)


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
