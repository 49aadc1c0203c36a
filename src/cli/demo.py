"""``knime-mcp demo``: the first commands, with a real MCP server, and without any account."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..types.errors import Canceled
from .command_errors import CommandError, ExitCode, Interrupt, reports_errors
from .files import check_folder
from .terminal import note, out, say

if TYPE_CHECKING:
    from collections.abc import Callable


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
    examples = _examples()
    check_folder(out)
    from .demo_server import DemoServer

    began = time.perf_counter()
    with Interrupt() as interrupt, DemoServer(examples / "files", port) as server:
        if serve:
            say(f"The demo's MCP server runs on this machine only: {server.url}")
            say(f"Try, in another terminal:  knime-mcp list {server.url}")
            note("Ctrl-C ends it.")
            while not interrupt():
                time.sleep(0.2)
            return ExitCode.OK
        _tell_story(server.url, os.path.relpath(examples / "parameters.csv"), out, interrupt)
    say(f"\nDone in {time.perf_counter() - began:.1f} s, and the server has ended. Next:", "bold")
    say(f"  knime-mcp open {shlex.quote(str(out)):<26} the runs in a browser, and a server to try")
    say(f"  knime-mcp demo --serve --port {server.port:<12} its server again, to type these commands")
    say("  knime-mcp                                 the first commands, with any MCP server")
    say("\nThe page of this run, for a browser:", "bold")
    say(f"  {(out / 'audit.html').resolve().as_uri()}")
    return ExitCode.OK


def _examples() -> Path:
    """The folder of the demo's files: in the checkout, or the copy inside the wheel."""
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package):
        if (root / "examples" / "demo").is_dir():
            return root / "examples" / "demo"
    raise CommandError(
        "This installation came without the demo's example files. Run the demo from a clone of the project."
    )


def _tell_story(url: str, table: str, folder: Path, interrupt: Callable[[], bool]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    journal, results, page = (str(folder / name) for name in ("calls.jsonl", "results.csv", "audit.html"))
    Path(journal).unlink(missing_ok=True)
    say("knime-mcp demo: MCP tools in tables\n", "bold")
    _say_wrapped(
        "What the nodes MCP Tool Provider and MCP Tool Caller do in KNIME, by the code that they run. An MCP"
        " server runs on this machine only, on the official MCP Python SDK: it reads the files in"
        " examples/demo/files."
    )
    say("\n1. The tools of the server, as MCP Tool Provider lists them", "bold")
    _type("list", url)
    say("\n2. count_words, called once per row of a table, as MCP Tool Caller does", "bold")
    _say_wrapped("One row names a file that is not there: it becomes a row like the others, with its error.")
    failed_row = ExitCode.FAILED
    _type("batch", url, "count_words", table, "--out", results, "--audit", journal, ends=(failed_row,))
    say("\n3. Every call was recorded, with the hash of the one before", "bold")
    _type("audit", "show", journal)
    _type("audit", "verify", journal, ends=(ExitCode.OK, ExitCode.NOBODY_VOUCHES))
    _type("audit", "show", journal, "--html", page)
    if interrupt():
        raise Canceled("The demo was stopped")


def _type(*words: str, ends: tuple[ExitCode, ...] = (ExitCode.OK,)) -> None:
    """Shows a command, and runs it."""
    from .commands import build_app

    # By it, commands say how to go on.
    sys.argv[1:] = words
    say(f"\n$ {shlex.join(('knime-mcp', *words))}", "bold cyan")
    try:
        build_app(words[0])(words, prog_name="knime-mcp")
    except SystemExit as end:
        if end.code == ExitCode.CANCELED:
            raise Canceled("The demo was stopped") from None
        if end.code not in ends:
            raise CommandError(f"The demo ends here, as knime-mcp {words[0]} failed.") from None


def _say_wrapped(text: str) -> None:
    say(textwrap.fill(text, min(100, out().width), initial_indent="   ", subsequent_indent="   "))
