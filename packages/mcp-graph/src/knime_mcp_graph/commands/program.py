"""The command ``mcpgraph``: runs the command that is named, or serves, as the npm program of that name does.

That is without typer, whose imports would take a third of the time until a server on standard input answers.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.cli.app import prepare, until_canceled
from knime_mcp.cli.command_errors import ExitCode, UsageError, exit_code
from knime_mcp.cli.files import check_journal, read_text, recorded_run
from knime_mcp.cli.serving import LogLevel, announce, end_now, log_to_stderr
from knime_mcp.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import typer

    from knime_mcp.web.tool_server import ToolServer

    from ..api import McpGraphApi
    from ..graph_service import GraphService


class DialectChoice(StrEnum):
    AUTO = "auto"
    TARGET = "target"
    NEXT = "next"


COMMANDS: Final = {
    "new": "graph_commands:new",
    "check": "graph_commands:check",
    "run": "graph_commands:run",
    "record": "graph_testing:record",
    "test": "graph_testing:run_cases",
    "show": "graph_commands:show",
    "studio": "graph_editing:studio",
    "serve": "graph_commands:serve",
    "toolkit": "graph_editing:toolkit",
}
"""Module and function of each command."""


def main() -> None:
    until_canceled(_run)


def _run() -> None:
    first = sys.argv[1] if len(sys.argv) > 1 else None
    if first in COMMANDS:
        prepare()
        build_app(first)(prog_name="mcpgraph")
    options = parser().parse_args()
    sys.exit(exit_code(lambda: _serve(options)))


def build_app(first: str | None = None) -> typer.Typer:
    """Builds the command line; of its first word only, if that names a command."""
    from knime_mcp.cli.commands import command_line

    app = command_line(__package__ or "", COMMANDS, first)
    app.callback()(lambda: None)  # a single command is still named
    return app


def _serve(options: Namespace) -> ExitCode:
    return serve_document(
        options.graph, mcp=options.mcp, dialect=options.dialect, secret_arguments=options.secret_argument
    )


def parser() -> ArgumentParser:
    asked = ArgumentParser(
        prog="mcpgraph",
        description="Serve the tools of a graph document over standard input and output.",
        epilog=f"Commands, each with a --help of its own: {', '.join(COMMANDS)}.",
        allow_abbrev=False,
    )
    asked.add_argument(
        "-g",
        "--graph",
        metavar="FILE",
        type=Path,
        default=Path("config.yaml"),
        help="the graph document (%(default)s)",
    )
    asked.add_argument("-m", "--mcp", metavar="MCP.json", type=Path, help="further servers")
    asked.add_argument(
        "--dialect",
        type=DialectChoice,
        choices=list(DialectChoice),
        default=DialectChoice.AUTO,
        help="how the document is written (%(default)s)",
    )
    asked.add_argument(
        "--secret-argument",
        metavar="NAME",
        action="append",
        default=[],
        help="hide this argument in histories of runs; may be repeated",
    )
    asked.add_argument("-v", "--version", action="version", version=VERSION)
    return asked


_SWITCH_SECONDS = 0.0005
_GRACE_SECONDS = 3
"""Time for runs to finish after a signal over HTTP."""


def serve_document(
    file: Path,
    *,
    http: int | None = None,
    host: str = "127.0.0.1",
    mcp: Path | None = None,
    dialect: DialectChoice = DialectChoice.AUTO,
    audit: Path | None = None,
    secret_arguments: Sequence[str] = (),
    reload: bool = True,
    validate: bool = True,
    log_level: LogLevel = LogLevel.INFO,
    tokens: Path | None = None,
) -> ExitCode:
    """Serves a document until the client leaves or a signal comes.

    The port `http` is 0 for any; without one, the client is at standard input and output. With `tokens`, over
    HTTP, clients need a bearer token of this file.
    """
    check_journal(audit)
    known = None if tokens is None else tokens_in(tokens)
    gc.disable()  # collections during the imports would take a tenth of the start
    import anyio

    from knime_mcp.web.tool_server import ToolServer

    from ..api import McpGraphApi, spans_from_environment
    from ..graph_service import GraphService, Reload

    # A thread that computes gives way this often. With Python's 5 ms, the answers of other calls would wait
    # for it several times each.
    sys.setswitchinterval(_SWITCH_SECONDS)
    log_to_stderr(log_level, "[%(levelname)s] %(message)s")
    for noisy in ("mcp", "uvicorn", "opentelemetry"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with ExitStack() as stack:
        stack.callback(gc.enable)
        about = f"mcpgraph serve {file.name}"
        run = stack.enter_context(recorded_run(audit, about=about))
        spans = spans_from_environment()
        if spans is not None:
            stack.callback(spans.close)

        def load() -> McpGraphApi:
            return McpGraphApi(
                file,
                mcp_file=mcp,
                dialect=dialect,
                run=run,
                spans=spans,
                check_schemas=validate,
                secret_arguments=secret_arguments,
            )

        # Made before the document is loaded, so that no change is missed.
        watch = Reload([file, *([mcp] if mcp else [])], load) if reload else None
        # With the old dialect, tools are listed without output schemas, like the programs of that dialect.
        service = GraphService(load(), output_schemas=dialect is not DialectChoice.TARGET)
        gc.enable()
        gc.freeze()  # long-lived objects; collecting them would delay calls
        stack.callback(service.close)
        served = ToolServer(service, changing=True)
        service.on_change = served.tell_of_change
        beside = [] if watch is None else [partial(watch.run, service)]
        signaled = False
        if http is None:  # at a signal runs end at once, as no client reads answers
            signaled = served.run_stdio(*beside)
        else:
            anyio.run(lambda: _serve_http(service, served, host, http, known, beside))
    if signaled:
        end_now()
    return ExitCode.OK


async def _serve_http(
    service: GraphService,
    served: ToolServer,
    host: str,
    port: int,
    tokens: Sequence[str] | None,
    beside: Sequence[Callable[[], Coroutine[Any, Any, None]]],
) -> None:
    """Serves until a signal comes. Without tokens, only those who ask for this machine are let in."""
    import anyio

    from knime_mcp.web.listening import Listener, serve
    from knime_mcp.web.tool_server import LOOPBACK, PATH

    def end() -> None:
        served.end_streams()
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, service.end_runs)

    app = served.http_app(checks_host=tokens is None and host in LOOPBACK, tokens=tokens)
    listener = Listener(app, host, port, grace=2 * _GRACE_SECONDS)
    async with anyio.create_task_group() as group:
        for task in beside:
            group.start_soon(task)
        await serve([listener], on_ready=lambda urls: announce(f"{urls[0]}{PATH}"), on_end=end)
        # What is beside goes on without an end.
        group.cancel_scope.cancel()


def tokens_in(file: Path) -> list[str]:
    """The bearer tokens in a file: one a line; empty lines, and those that begin with #, are left out."""
    lines = map(str.strip, read_text(file).splitlines())
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise UsageError(f"There is no token in {file}: write one a line.")
    if any(not token.isascii() or " " in token for token in tokens):
        raise UsageError(f"A token in {file} has characters that no header can carry.")
    return tokens


if __name__ == "__main__":
    main()
