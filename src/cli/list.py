"""``knime-mcp list``: lists the tools of one or several servers."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..audit.table_formats import WRITABLE, either
from ..types.texts import counted
from .command_errors import ExitCode, Interrupt, at_terminal, reports_errors
from .connection_options import ConnectionOptions, servers, takes_connection
from .files import JSON, TableFile, check_table, json_rows, writing
from .shared_options import RawCsvOption
from .terminal import complain, json_pieces, note, one_line, print_json, show_table

if TYPE_CHECKING:
    from ..tools.provider.provide import ProvidedTool, Provision, ServerOutcome


@reports_errors
@takes_connection
def list_tools(
    urls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SERVER",
            help="One or several servers, by URL or name. May be left out with --stdio.",
            autocompletion=servers,
        ),
    ] = None,
    include: Annotated[
        str,
        typer.Option(metavar="PATTERNS", help="Only these tools: names with * and ?, separated by commas."),
    ] = "",
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put this in front of the names.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print tools and servers as JSON.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Write the tools into a {either(*WRITABLE, JSON)} file."),
    ] = None,
    raw_csv: RawCsvOption = False,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """List the tools of one or several servers.

    The table is the one that KNIME's node MCP Tool Provider makes. A server that fails does not lose the
    others.
    """
    check_table(out, as_json=True)
    routes = connection.routes(urls or [])
    from .sessions import CommandSessions

    with Interrupt() as interrupt, CommandSessions(connection, interrupt) as sessions:
        provision = sessions.provide(routes, include=include, prefix=prefix)
    _write(provision, out, raw_csv=raw_csv)
    if as_json:
        print_json(_as_json(provision))
    elif out is None:
        _print(provision)
    return _report(provision)


def _write(provision: Provision, out: Path | None, *, raw_csv: bool) -> None:
    if out is None:
        return
    if out.suffix.lower() == JSON:
        with writing(out), out.open("w", encoding="utf-8") as file:
            file.writelines(chain(json_pieces(_as_json(provision)), "\n"))
    else:
        with TableFile(out, raw_csv=raw_csv) as file:
            file.write(_tools_table(provision))
    note(f"Wrote {counted(len(provision.tools), 'tool')} to {out}")


def _as_json(provision: Provision) -> dict[str, Any]:
    from ..tools.provider.provision_report import servers_table

    return {
        "tools": json_rows(_tools_table(provision)),
        "servers": json_rows(servers_table(provision.outcomes)),
    }


def _tools_table(provision: Provision) -> Any:
    from ..tools.provider.provision_report import tools_table
    from ..types.columns import ColumnForm

    # As text, which no agent of KNIME runs.
    return tools_table(provision.tools, ColumnForm.PORTABLE, for_agents="none", settings={})


def _print(provision: Provision) -> None:
    for outcome in provision.outcomes:
        if outcome.error is None:
            rows = [_row(tool) for tool in outcome.tools]
            show_table(_title(outcome), ("tool", "parameters", "", "description"), rows)


def _title(outcome: ServerOutcome) -> str:
    server = outcome.server
    if server is None:
        return outcome.request.server
    name = " ".join(part for part in (server.title or server.name, server.version) if part)
    offered = counted(outcome.offered, "tool")
    shown = f"{len(outcome.tools):,} of {offered}" if len(outcome.tools) < outcome.offered else offered
    protocol = f"protocol {server.protocol_version}"
    return f"{name or 'A server'} at {outcome.request.server}: {shown} ({protocol})"


def _row(tool: ProvidedTool) -> tuple[str, str, str, str]:
    from ..tools.calling_hints import signature

    definition = tool.definition
    marks = [
        "read only" if definition.read_only else "",
        "destructive" if definition.destructive else "",
        "look at its definition" if tool.findings else "",
    ]
    return (
        tool.shown_name,
        signature(definition.input_schema),
        ", ".join(filter(None, marks)),
        one_line(definition.description),
    )


def _report(provision: Provision) -> ExitCode:
    from ..tools.provider.provision_report import warnings

    failed = provision.failed
    for outcome in failed:
        complain(at_terminal(outcome.error or "The server failed"))
    # The first warning counts the failed servers, each of which was just named.
    for text in warnings(provision)[1 if failed else 0 :]:
        note(text)
    return ExitCode.FAILED if failed else ExitCode.OK
