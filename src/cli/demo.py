"""``knime-mcp demo``: lists and calls the tools of a real MCP server, without any account."""

from __future__ import annotations

import json
import shlex
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..audit.calls_table import ordered_calls
from ..types.errors import Canceled
from ..types.routing import ServerRoute
from .command_errors import CommandError, ExitCode, Interrupt, reports_errors
from .connection_options import ConnectionOptions
from .files import check_folder, read_table
from .terminal import note, one_line, out, say, show_table

if TYPE_CHECKING:
    from .demo_server import DemoServer
    from .sessions import CommandSessions


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

    Starts a small MCP server on this machine, which reads example files. Lists its tools, calls one of them
    once per row of a table, and writes the results and a page with the record of each call. Nothing leaves
    this machine.
    """
    root = _found()
    with Interrupt() as interrupt:
        if serve:
            return _serve(root, port, interrupt)
        return _run(root, port, out, interrupt)


def _found() -> Path:
    """Finds the folder of the examples: the checkout, or the copy inside the wheel.

    Raises:
        CommandError: There is no such folder.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package):
        if (root / "examples" / "demo").is_dir():
            return root
    raise CommandError(
        "This installation came without the demo's example files. Run the demo from a clone of the project."
    )


def _serve(root: Path, port: int, interrupt: Interrupt) -> ExitCode:
    from .demo_server import DemoServer

    with DemoServer(_files(root), port) as server:
        say(f"The demo's MCP server runs on this machine only: {server.url}")
        say(f"Try, in another terminal:  knime-mcp list {server.url}")
        note("Ctrl-C ends it.")
        while not interrupt():
            time.sleep(0.2)
    return ExitCode.OK


def _run(root: Path, port: int, out: Path, interrupt: Interrupt) -> ExitCode:
    from .demo_server import DemoServer

    check_folder(out)
    began = time.perf_counter()
    with DemoServer(_files(root), port) as server:
        if interrupt():
            raise Canceled("The demo was stopped")
        story = DemoStory(root, server, out, interrupt)
        story.tell()
    story.close(time.perf_counter() - began)
    return ExitCode.OK


def _files(root: Path) -> Path:
    return root / "examples" / "demo" / "files"


class DemoStory:
    """Uses the demo's server, and explains what comes of it to a newcomer."""

    def __init__(self, root: Path, server: DemoServer, out: Path, interrupt: Interrupt) -> None:
        self._root = root
        self._server = server
        self._interrupt = interrupt
        self._table = out / "results.csv"
        self._journal = out / "calls.jsonl"
        self._page = out / "audit.html"

    def tell(self) -> None:
        from .sessions import CommandSessions

        say("knime-mcp demo: MCP tools in tables\n", "bold")
        _tell(
            "What the nodes MCP Tool Provider and MCP Tool Caller do in KNIME, by the code that they run. An"
            " MCP server runs on this machine only, on the official MCP Python SDK: it reads the files in"
            f" examples/demo/files, at {self._server.url}."
        )
        with CommandSessions(ConnectionOptions(), self._interrupt) as sessions:
            route = ServerRoute(self._server.url)
            self._list(sessions, route)
            self._batch(sessions, route)
        self._audit()

    def close(self, seconds: float) -> None:
        """Prints the place of the files and the next steps, after the server has ended."""
        say("\nWritten:", "bold")
        say(f"  {self._table}: the table of step 2")
        say(f"  {self._journal}: the journal of the calls")
        say(f"\nDone in {seconds:.1f} s, and the server has ended. Next:", "bold")
        folder = shlex.quote(str(self._journal.parent))
        say(f"  knime-mcp open {folder:<21} the runs in a browser, and a server to try")
        say("  knime-mcp demo --serve               keeps the server running, to try other commands")
        say("  knime-mcp                            the first commands, with any MCP server")
        say("\nThe page of this run, for a browser:", "bold")
        say(f"  {self._page.resolve().as_uri()}")

    def _list(self, sessions: CommandSessions, route: ServerRoute) -> None:
        from ..tools.calling_hints import signature

        provision = sessions.provide([route], include="")
        for failed in provision.failed:
            raise CommandError(f"The demo's server does not list its tools: {failed.error}")
        rows = [
            (found.name, signature(found.input_schema), one_line(found.description, 80))
            for found in (tool.definition for tool in provision.tools)
        ]
        say("\n1. The tools of the server, as MCP Tool Provider lists them", "bold")
        show_table(None, ("Tool name", "Parameters", "Description"), rows)

    def _batch(self, sessions: CommandSessions, route: ServerRoute) -> None:
        from ..runs.argument_sources import PlannedCalls
        from ..runs.parameter_rows import ParameterRows
        from .batch_run import run_and_write, table_run

        self._table.parent.mkdir(parents=True, exist_ok=True)
        self._journal.unlink(missing_ok=True)
        tool = sessions.find_tool(route, "count_words")
        sessions.run_for([route])
        table = read_table(self._root / "examples" / "demo" / "parameters.csv")
        run = table_run(
            PlannedCalls(tool=tool, parameters=ParameterRows.of_file(table)),
            tool,
            sessions=sessions,
            concurrency=4,
            fail=False,
            journal_file=self._journal,
            earlier_file=None,
        )
        ending = run_and_write(
            run, self._interrupt, self._table, all_columns=False, raw_csv=False, as_json=False
        )
        if ending == "canceled":
            raise Canceled("The demo was stopped")
        rows = [
            (
                json.loads(record.arguments or "{}").get("path", ""),
                record.status.value,
                _words(record.structured_result) or one_line(record.error, 80),
            )
            for record in ordered_calls(self._journal)
        ]
        say("\n2. count_words, called once per row of parameters.csv, as MCP Tool Caller does", "bold")
        show_table(None, ("path", "Status", "what came of it"), rows)
        _tell("The bad row is a row like the others. The run goes on, and warns:")
        for warning in run.summary.warnings():
            _tell(warning)

    def _audit(self) -> None:
        from ..audit.verify import verify_file
        from ..tools.views.journal_page import journal_pages

        verified = verify_file(self._journal)
        for file, page in journal_pages(self._journal, self._page, verified):
            file.write_text(page, encoding="utf-8")
        say("\n3. Every call was recorded, with the hash of the one before", "bold")
        _tell(f"Verified, they are {verified.in_words}.")


def _tell(text: str) -> None:
    """Prints a paragraph in short lines."""
    say(textwrap.fill(text, min(100, out().width), initial_indent="   ", subsequent_indent="   "))


def _words(structured: str | None) -> str:
    if structured is None:
        return ""
    parsed = json.loads(structured)
    by_count = sorted(parsed["most_common"].items(), key=lambda pair: -pair[1])
    common = ", ".join(f"{word} ({count})" for word, count in by_count)
    return f"{parsed['words']} words, {parsed['distinct']} different, most common: {common}"
