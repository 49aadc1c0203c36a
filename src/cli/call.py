"""``knime-mcp call``: makes one call of one tool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..types.texts import beginning
from .command_errors import ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, ToolArgument, UrlArgument, takes_connection
from .files import (
    check_folder,
    check_journal,
    json_record,
    open_journal,
    split_pairs,
    text_or_file,
    with_pairs,
)
from .shared_options import SaveDirOption
from .terminal import LONGEST_ERROR, complain, note, print_json, print_text


@reports_errors
@takes_connection
def call(
    url: UrlArgument = None,
    tool: ToolArgument = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments. A value becomes a number, true or false, or a list where the tool wants one;"
            " KEY:=JSON says it in JSON.",
        ),
    ] = None,
    json_arguments: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE", help="All arguments as a JSON object, or a file with one; @- reads stdin."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole record of the call as JSON.")
    ] = False,
    save_dir: SaveDirOption = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Add the record of the call to this journal.")
    ] = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Call a tool once and print what it answers.

    Example: knime-mcp call http://127.0.0.1:8931/mcp search_text text=desk
    """
    route, words = connection.one_route(url, tool, *(arguments or ()))
    if not words:
        raise UsageError("Which tool? Write its name after the server.")
    tool, *rest = words
    pairs = split_pairs(rest)
    given = _json_object(json_arguments)
    # Before the server is asked: a call must not be made that then cannot be recorded.
    check_journal(audit)
    check_folder(save_dir)
    with Interrupt() as interrupt:
        from ..runs.call_values import PlannedCall
        from ..runs.checked_calls import described_tools
        from .sessions import CommandSessions
        from .terminal import CallProgress

        with (
            CallProgress() as progress,
            CommandSessions(connection, interrupt, on_progress=progress) as sessions,
        ):
            definition = sessions.find_tool(route, tool)
            values = with_pairs(given, pairs, definition.parameter_schema)
            run = sessions.run_for([route], save_dir)
            what = {"kind": "call", "tools": described_tools([definition])}
            open_journal(audit, run, about=f"knime-mcp call {route.url} {tool}", what=what, calls=1)
            # The answer is not kept in memory beside its record.
            outcome = run.call(PlannedCall(tool=definition, arguments=values))
            outcome = replace(outcome, answer=None, error=None)
            record = outcome.record
            run.close("canceled" if record.status == "canceled" else "complete")
    for coercion in outcome.coercions:
        note(coercion)
    if outcome.note is not None:
        note(outcome.note)
    for file in record.files:
        note(f"Saved {file}")
    if as_json:
        print_json(json_record(record))
    elif record.ok:
        print_text(record.result or "")
    if record.ok:
        return ExitCode.OK
    complain(beginning(record.error or "The call failed.", LONGEST_ERROR))
    return ExitCode.CANCELED if record.status == "canceled" else ExitCode.FAILED


def _json_object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    from ..runs.argument_sources import arguments_from_json
    from ..types.errors import ArgumentsInvalid

    text_read, source = text_or_file(text, "--json-arguments")
    try:
        return arguments_from_json(text_read, source=source)
    except ArgumentsInvalid as error:
        raise UsageError(str(error)) from None
