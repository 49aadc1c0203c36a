"""An execution of the node *MCP Tool Caller*: what it calls, and what it says about the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...audit.journal import SUFFIX
from ...runs.cell_arguments import parse_arguments_setting
from ...runs.definitions import pinned_tool
from ...runs.parameter_table import ParameterRows, PlannedCalls
from ...runs.table_run import TableRun
from ...types.canonical import canonical_json
from ...types.errors import Canceled, MCPError, SettingInvalid
from ..node_settings import connection, shared_parameters
from . import settings
from .sessions import JOURNALS, named_tool, pinned, routes_of
from .tool_lookup import ToolLookup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...runs.engine import Run
    from ...runs.one_call import CallOutcome
    from .sessions import Sessions


def run_calls(
    node: Any,
    ctx: Any,
    tools: Any,
    rows: Any,
    sessions: Sessions,
    dispatcher: Run,
    folder: Path,
    take: Callable[[CallOutcome], None],
) -> TableRun:
    """Makes the calls of the node.

    Args:
        node: The node, for its settings.
        ctx: KNIME's execution context.
        tools: The table *Tools*, or None.
        rows: The table *Parameters* as Arrow table with RowIDs, or None.
        sessions: The sessions of this execution.
        dispatcher: What its calls share.
        folder: The workflow's data area.
        take: Called with each finished call, in the order of the rows.

    Raises:
        Canceled: The run was canceled; the message names the journal.
        MCPError: A call failed, and calls that fail end the run; the message names the journal.
        JournalWriteError: The disk is full, or the journal cannot be written for another reason.
    """
    plan = _planned(node, ctx, tools, rows, sessions, dispatcher)
    about, journals, earlier = _about(node, tools), folder / JOURNALS, None
    if node.resume:
        from ...runs.resuming import latest_to_resume

        earlier = latest_to_resume(journals, about)
    run = TableRun(
        plan=plan,
        shared=dispatcher,
        stop=sessions.stop,
        concurrency=node.concurrency,
        fail=node.on_error == settings.OnError.fail.name,
        journal_file=journals / f"{dispatcher.id}{SUFFIX}",
        about=about,
        earlier=earlier,
    )
    ctx.set_progress(0.0, f"0 of {plan.total} calls")
    ending = run.run(
        take,
        is_canceled=ctx.is_canceled,
        on_finished=lambda count: ctx.set_progress(count / plan.total, f"call {count} of {plan.total}"),
    )
    if run.failure is not None:
        raise _failure(run, run.failure)
    if ending == "canceled":
        raise Canceled(
            f"Canceled after {run.summary.finished} of {plan.total} calls",
            fix=f"The finished calls are kept in {run.journal_file}. Switch on 'Resume an interrupted run' "
            "and execute again to make only the others",
        )
    run.summary.unmatched = plan.unmatched
    return run


def _failure(run: TableRun, outcome: CallOutcome) -> MCPError:
    record = outcome.record
    text = record.error or record.status.value
    if isinstance(outcome.error, MCPError):
        what = text  # already names the place and the advice
    else:
        row = f" in row {record.input_row}" if record.input_row is not None else ""
        what = f"Tool {record.tool_name or 'unknown'} failed{row}: {text}"
    if run.plan.total == 1 or run.journal is None:
        return MCPError(what)
    return MCPError(
        what,
        fix=f"{run.journal.count} of {run.plan.total} calls are kept in {run.journal.path}. To go on with "
        "the others, correct the row or set 'If a call fails' to 'Make an error row', switch on 'Resume an "
        "interrupted run', and execute again",
    )


def _planned(node: Any, ctx: Any, tools: Any, rows: Any, sessions: Sessions, dispatcher: Run) -> PlannedCalls:
    per_row = shared_parameters.chosen_column(node.tool_per_row_column)
    is_json = node.arguments_source == settings.ArgumentsSource.json_column.name
    lookup = ToolLookup((), ()) if tools is None else _lookup(tools, node.tool_column)
    tool, problem = None, None
    try:
        if tools is None:
            route, name = connection.route_from_settings(node), settings.chosen_tool(node)
            sessions.know(route)
            tool = named_tool(route, name)
            definition = dispatcher.definitions.find(route, name, is_canceled=ctx.is_canceled)
            tool = pinned(pinned_tool(definition, route, shown_name=name), node.pinned_digest)
        elif per_row is None:
            tool = pinned(lookup.find(settings.chosen_tool(node)), node.pinned_digest)
            sessions.know(*routes_of([tool]))
        else:
            sessions.know(*routes_of(lookup.tools))
    except (SettingInvalid, Canceled):
        raise
    except MCPError as error:
        problem = error  # fails every call: gives error rows or fails the node, as the settings say
    return PlannedCalls(
        find_tool=lambda name: pinned(lookup.find(name), node.pinned_digest),
        tool=tool,
        problem=problem,
        values=parse_arguments_setting(node.arguments_json),
        pairs=[(pair.name, pair.value) for pair in node.arguments],
        parameters=None if rows is None else ParameterRows(table=rows),
        tool_column=per_row,
        json_column=shared_parameters.chosen_column(node.arguments_column) if is_json else None,
    )


def _lookup(tools: Any, column: str) -> ToolLookup:
    from ...types.columns import read_tools, tool_column_names

    names = tool_column_names(tools.schema, column)
    row_ids = tools[names].get().to_pyarrow().column(0).to_pylist()
    return ToolLookup(read_tools(tools, column), row_ids)


def _about(node: Any, tools: Any) -> str:
    """Identifies this node's runs among the journals of a workflow."""
    server = None if tools is not None else connection.route_from_settings(node).display
    says = ("tool_column", "tool", "tool_name", "tool_per_row_column", "arguments_column")
    chosen = {name: getattr(node, name) for name in says}
    return canonical_json({"node": "mcp_tool_caller", "server": server, **chosen})
