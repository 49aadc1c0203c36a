"""``knime-mcp make-component``: a tool as a KNIME component with a setting for each of its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..types.texts import counted
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, ToolArgument, UrlArgument, is_command, takes_connection
from .files import check_output, writing
from .terminal import note


@reports_errors
@takes_connection
def make_component(
    url: UrlArgument = None,
    tool: ToolArgument = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.knwf", help="The component to write; else TOOL.knwf.")
    ] = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Make a KNIME component of a tool.

    Import it into KNIME and drag it into a workflow: its dialog has a typed setting for each parameter of the
    tool, its outputs are Records and Result.

    Example: knime-mcp make-component http://127.0.0.1:8931/mcp count_words --out count_words.knwf
    """
    route, words = connection.one_route(url, tool)
    if len(words) != 1:
        raise UsageError("Which tool? Write its name after the server.")
    if is_command(route):
        raise UsageError(
            f"{route.url} is a command on this computer, which KNIME does not start. Run it as an HTTP"
            " server, and enter its URL."
        )
    if out is not None and out.suffix.lower() != ".knwf":
        raise UsageError(f"{out} should end in .knwf, as it is a KNIME component.")
    check_output(out)
    from ..knwf import KnwfError
    from ..tools.tool_component import file_stem, save_component
    from .sessions import CommandSessions

    with Interrupt() as interrupt, CommandSessions(connection, interrupt) as sessions:
        found = sessions.find_tool(route, words[0])
    file = out or Path(f"{file_stem(found)}.knwf")
    try:
        with writing(file):
            settings = save_component(found, file)
    except KnwfError as error:
        raise CommandError(f"{found.name} cannot be a component: {error}.") from None
    note(f"Wrote {file}, with {counted(settings, 'setting')}")
    note("It was checked here, but not opened in KNIME itself: look at it there before you share it")
    return ExitCode.OK
