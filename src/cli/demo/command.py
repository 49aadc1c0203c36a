"""``knime-mcp demo``: runs the extension's own nodes on a real MCP server, without any account."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ...types.errors import Canceled
from ..errors import CommandError, ExitCode, reports_errors
from ..files import check_folder
from ..interrupt import Interrupt
from ..terminal import note, say


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
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
) -> ExitCode:
    """Show what this does, in a few seconds, without any account.

    Starts two MCP servers on this machine: node knowledge, and a small one that reads files. Runs KNIME's
    nodes MCP Tool Provider and MCP Tool Caller against them, and shows the tables that they make. Nothing
    leaves this machine.
    """
    root = extension_root()
    with Interrupt() as interrupt:
        return _serve(root, port, interrupt) if serve else _run(root, port, out, interrupt)


def extension_root() -> Path:
    """Finds the folder of knime.yml and of the examples: the checkout, or the copy inside the wheel.

    Raises:
        CommandError: There is no such folder.
    """
    package = Path(__file__).resolve().parents[2]
    for root in (package.parent, package):
        if (root / "knime.yml").is_file() and (root / "examples" / "demo").is_dir():
            return root
    raise CommandError(
        "This installation came without the demo's example files. Run the demo from a clone of the project."
    )


def _serve(root: Path, port: int, interrupt: Interrupt) -> ExitCode:
    from .processes import DemoServer

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
    from .processes import DemoServer, ServerProcess
    from .story import DemoStory

    check_folder(out)
    began = time.perf_counter()
    # Both start at the same time, as imports take most of the time and use one core each.
    with ServerProcess("nodes_server") as nodes, DemoServer(_files(root), port) as server:
        if interrupt():
            raise Canceled("The demo was stopped")
        story = DemoStory(root, nodes, server, out, interrupt)
        story.tell()
    story.close(time.perf_counter() - began)
    return ExitCode.OK


def _files(root: Path) -> Path:
    return root / "examples" / "demo" / "files"
