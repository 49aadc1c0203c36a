"""The node *MCP Tool Caller*: calls a tool once, or once per row of a table.

This module holds the ports, checks the settings, and makes a run of them; the dialog is in `caller_dialog`,
what comes of the calls in `calls_report`. The node keeps no state between calls of KNIME, and imports large
modules in `execute` only.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import knime.extension as knext

from ..types.columns import ToolLookup, choose_form, is_tool_column, tool_column_names
from ..types.errors import ArgumentsInvalid, Canceled, MCPError, SettingInvalid, ToolFailed
from ..types.routing import ServerRoute
from ..types.texts import canonical_json, visible
from ..types.tool import MCPTool
from .caller.caller_dialog import BY_NAME, CallerDialog, loaded
from .calling_hints import decode_choices, offered
from .node_settings import connection, shared_parameters
from .node_settings.connection import ConnectionSettings, chosen_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..runs.argument_sources import PlannedCalls
    from ..runs.call_values import CallOutcome
    from ..runs.table_run import TableRun
    from .caller.calls_report import ResultsLayout
    from .node_settings.connection import Sessions

_ROWS_NAMED: Final = 10


class Target(NamedTuple):
    """The tool that a node without a table calls."""

    route: ServerRoute
    name: str  # the server's
    shown_name: str
    digest: str = ""  # of its definition when the Provider listed it


@knext.node(
    name="MCP Tool Caller",
    node_type=knext.NodeType.MANIPULATOR,
    icon_path="icons/caller.png",
    category="/community/mcp",
    id="mcp_tool_caller",
    after="mcp_tool_provider",
    keywords=["MCP", "Model Context Protocol", "tool", "call", "batch", "AI", "server"],
)
@knext.input_table(
    "Tools",
    "Optional: tools from *MCP Tool Provider* or *Workflow to Tool*, also concatenated. Without it, enter the"
    " server's address and the tool's name in the dialog.",
    optional=True,
)
@knext.input_table(
    "Parameters",
    "Optional: one call per row. Columns named like the tool's parameters give its arguments; a missing cell"
    " leaves the argument out, or is null where the tool demands the argument and accepts null. Without this"
    " table the tool is called once.",
    optional=True,
)
@shared_parameters.credential_port("the server whose tools name no credential of their own.")
@knext.output_table(
    "Results",
    "One row per call: the columns of *Parameters*, then the *Result* as text, the *Status*, and the *Error*"
    " with what to do next. *All columns* adds the result as JSON, the first image, paths of files, the tool"
    " and its server, protocol and digest, the arguments as sent, and when and how long. Columns of"
    " *Parameters* with the name of one of these get ` (input)` behind it.",
)
@knext.output_table(
    "Records",
    "What the tool gave, with types: the lists of records in the results as rows, from structured content,"
    " JSON, lines of JSON, CSV, or a table in Markdown. A result that is one object is one row. *Input row*"
    " is the RowID of the call's row, *List* the name of the list in the result, *Position* the place in it.",
)
@knext.output_view("Calls", "What became of the calls, and the tool with its description and parameters.")
class MCPToolCaller(CallerDialog):
    """Calls a tool of an MCP server, once or once per row.

    Takes a tool, from the *MCP Tool Provider* or by the address of its server, and calls it: once with the
    arguments from the dialog, or once per row of a *Parameters* table.

    **How to use it**

    - Connect the *Tools* table of an *MCP Tool Provider* and choose the tool in the dialog. Or leave the
      input open and enter *Server URL* and *Tool name*.
    - For one call, enter the arguments as names and values. The Provider's table has an example for each tool
      in the column *Example arguments*.
    - For many calls, connect a *Parameters* table with columns named like the tool's parameters. What is the
      same for all rows can stay in the dialog.

    **What is checked**

    Arguments are compared with the tool's schema before anything is sent; a row that does not fit becomes an
    error row that says what is wanted, and where. Whole numbers in number columns become integers where the
    tool wants them, text is read as JSON where it wants lists or objects, and dates become ISO 8601. If the
    server has changed the tool since you saw it, the node warns, or refuses on request.

    **When something goes wrong**

    Failed calls become rows with *Status* and *Error*, and one warning on the node counts them. Finished
    calls are also kept in a journal in the workflow's data area: after a run that was canceled or failed,
    switch on *Resume an interrupted run* to make only the calls that are missing.

    **Proof of what happened**

    The calls in the journal are chained by hashes. The node hands on the last hash as flow variable
    `mcp_audit_head`: kept in another place, it proves that nobody changed the journal or cut off its end.

    **Secrets**

    Credentials, and arguments that a tool declares as passwords, do not appear in the results, the journal or
    in error messages; a mark stands in their place.
    """

    def _modify_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        # KNIME loads a node's saved settings here before it asks for the choices of a dialog, which depend
        # on them.
        loaded.credentials = parameters.get("credentials")
        loaded.tool = parameters.get("tool", BY_NAME)
        loaded.called = parameters.get("tool_name", "") if loaded.tool == BY_NAME else loaded.tool
        loaded.names = [argument.get("name", "") for argument in parameters.get("arguments") or ()]
        return parameters

    def configure(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        try:
            self._check_calls(tools, parameters)
            self.options(tools)
            if tools is None:
                route = self.target(ctx.flow_variables).route
                connection.refuse_commands(route)
                connection.find_credential(ctx, route.credential)
            elif not tool_column_names(tools, self.tool_column):
                raise SettingInvalid(
                    "The Tools table has no tool column",
                    setting="tool_column",
                    fix="Connect the Tools output of an MCP Tool Provider or a Workflow to Tool node, or"
                    " choose under 'Tool column' the column that holds tools as JSON",
                )
            return self._layout(parameters).schema(
                parameters
            ), None  # the records' columns are in the results
        except MCPError as error:
            raise connection.as_setting_error(error) from None

    def execute(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> tuple[Any, Any, Any]:
        from ..runs.result_records import RecordsCollector
        from ..runs.saved_files import BlobStore
        from .caller.calls_report import ResultsWriter, calls_page
        from .views.journal_page import recorded_step
        from .views.run_page import Steps

        # First, as a workflow that was never saved has none:
        # nothing may be called whose record cannot be kept.
        folder = connection.data_area(ctx)
        rows = None if parameters is None else parameters.to_pyarrow()
        # In batches: a whole table would hold all results in memory until the last call has ended.
        output = knext.BatchOutputTable.create(row_ids="keep")
        layout = self._layout(None if parameters is None else parameters.schema)
        writer = ResultsWriter(layout, rows, output.append)
        steps = Steps()
        timeouts = self.options(tools).timeouts
        records_output = knext.BatchOutputTable.create(row_ids="keep")
        sessions = connection.Sessions(
            ctx, credential, timeouts, pinning=self.pinning, secret_arguments=self.secret_arguments
        )
        with closing(RecordsCollector()) as found:

            def take(outcome: CallOutcome) -> None:
                writer.add(outcome)
                found.add(outcome)
                steps.add(recorded_step(outcome.record, folder / connection.JOURNALS / sessions.run.id))

            with sessions:
                sessions.run.save_blob = BlobStore(folder, sessions.run.id).save
                run = self._run_calls(ctx, tools, rows, sessions, folder, take)
            writer.close()
            for piece in found.pieces():
                records_output.append(piece)
        if found.warning:
            run.summary.notes[found.warning] = None
        journal = sessions.run.journal
        ctx.flow_variables["mcp_audit_head"] = "" if journal is None else journal.anchor
        summary = run.summary
        warnings = [visible(summary.warning() or "")]
        if self.save_audit_workflow_to.strip() and run.journal_file is not None:
            from ..audit.journal_reading import read_journal
            from .audit_workflow import save_after_run

            records = read_journal(run.journal_file).records
            warnings.append(
                save_after_run(records, self.save_audit_workflow_to, folder, sessions.run.id) or ""
            )
        # KNIME shows only the last warning that a node sets, so all of them are one text.
        if any(warnings):
            ctx.set_warning(" ".join(filter(None, warnings)))
        return output, records_output, knext.view_html(calls_page(summary, steps))

    def _run_calls(
        self,
        ctx: Any,
        tools: Any,
        rows: Any,
        sessions: Sessions,
        folder: Path,
        take: Callable[[CallOutcome], None],
    ) -> TableRun:
        """Makes the calls; ``take`` is called with each finished one, in the order of the rows.

        ``tools`` and ``rows`` are the tables *Tools* and *Parameters*, this one as Arrow table with RowIDs.
        ``folder`` is the workflow's data area. The message of an error that ends the run names the journal.
        """
        from ..audit.journal import SUFFIX
        from ..runs.first_look import first_look
        from ..runs.table_run import TableRun

        # A single call is over before a server could announce a change.
        sessions.run.definitions.are_watched = rows is not None
        plan = self._planned(ctx, tools, rows, sessions)
        if look := first_look(plan, sessions.run.secrets):
            sessions.notes += filter(None, (*look.notes, look.comma, look.mixed))
            if look.unfit:
                plan.problem = ArgumentsInvalid(look.unfit, fix="Rename a column of the Parameters table")
        about, journals, opened = (
            self._about(ctx, tools),
            folder / connection.JOURNALS,
            connection.opening(ctx),
        )
        with ExitStack() as stack:
            earlier = None
            if self.resume:
                from ..runs.resuming import latest_to_resume, taken_as_complete

                earlier = stack.enter_context(latest_to_resume(journals, about, opened))
                if remark := taken_as_complete(earlier):
                    sessions.notes.append(remark)
            table_run = TableRun(
                plan=plan,
                run=sessions.run,
                stop=sessions.stop,
                concurrency=self.options(tools).concurrency,
                fail=self.on_error == "fail",
                journal_file=journals / f"{sessions.run.id}{SUFFIX}",
                about=about,
                opened=opened,
                earlier=earlier,
            )
            ctx.set_progress(0.0, f"0 of {plan.total} calls")
            ending = table_run.make_calls(
                take,
                is_canceled=ctx.is_canceled,
                on_finished=lambda count: ctx.set_progress(
                    count / plan.total, f"call {count} of {plan.total}"
                ),
            )
        if table_run.failure is not None:
            raise _failure(table_run, table_run.failure)
        if ending == "canceled":
            raise Canceled(
                f"Canceled after {table_run.summary.finished} of {plan.total} calls",
                fix=f"The finished calls are kept in {table_run.journal_file}. Switch on"
                " 'Resume an interrupted run' and execute again to make only the others",
            )
        table_run.summary.unmatched = plan.unmatched
        table_run.summary.notes |= dict.fromkeys(sessions.notes)
        return table_run

    def _planned(self, ctx: Any, tools: Any, rows: Any, sessions: Sessions) -> PlannedCalls:
        from ..runs.argument_sources import PlannedCalls, parse_arguments_setting
        from ..runs.checked_calls import pinned_tool
        from ..runs.parameter_rows import ParameterRows
        from .caller.calls_report import outcome_columns

        per_row = chosen_column(self.tool_per_row_column)
        lookup = ToolLookup((), ()) if tools is None else ToolLookup.of_table(tools, self.tool_column)
        if lookup.unreadable:
            rows_named = ", ".join(islice(lookup.unreadable, _ROWS_NAMED))
            sessions.notes.append(f"Tools that cannot be read were left out: row {rows_named}")
        tool, problem = None, None
        try:
            if tools is None:
                route, name, shown_name, digest = self.target(ctx.flow_variables)
                sessions.know(route)
                # From server and name only, as the error rows have it if its definition cannot be had.
                tool = MCPTool(shown_name, "", "", dataclasses.replace(route, tool=None).uri, name)
                definition = sessions.run.definitions.find(route, name, is_canceled=ctx.is_canceled)
                tool = _pinned(pinned_tool(definition, route, shown_name=shown_name), digest)
            elif per_row is None:
                tool = lookup.find(self.chosen_tool())
                sessions.know(*connection.routes_of([tool]))
            else:
                sessions.know(*connection.routes_of(lookup.tools))
        except (SettingInvalid, Canceled):
            raise
        except MCPError as error:
            problem = error  # fails every call: gives error rows or fails the node, as the settings say
        return PlannedCalls(
            find_tool=lookup.find,
            tool=tool,
            problem=problem,
            values=parse_arguments_setting(self.arguments_json),
            pairs=[(pair.name, pair.value) for pair in self.arguments],
            parameters=None if rows is None else ParameterRows(table=rows),
            tool_column=per_row,
            json_column=chosen_column(self.arguments_column),
            outcomes=outcome_columns(() if rows is None else rows.column_names),
        )

    def _about(self, ctx: Any, tools: Any) -> str:
        """Identifies this node's runs among the journals of a workflow."""
        server = None if tools is not None else self.target(ctx.flow_variables).route.url
        says = ("tool_column", "tool", "tool_name", "tool_per_row_column", "arguments_column")
        chosen = {name: getattr(self, name) for name in says}
        place = connection.place_in_workflow(ctx)
        return canonical_json({"node": "mcp_tool_caller", "place": place, "server": server, **chosen})

    def _layout(self, parameters: Any) -> ResultsLayout:
        from .caller.calls_report import image_type, plan_results

        return plan_results(
            () if parameters is None else [column.name for column in parameters],
            all_columns=choose_form("auto") if self.all_columns else None,
            images=image_type() is not None,
        )

    def options(self, tools: Any) -> ConnectionSettings:
        """What the connection options say; a table or its schema, or None, stands for the input *Tools*."""
        names = (*connection.OF_CALLS, "concurrency")
        if tools is None:
            return ConnectionSettings.parse(
                self.connection_options, names=(*connection.OF_SERVER, "digest", *names)
            )
        instead = ". Others are for the MCP Tool Provider: tools in a table remember how to reach a server"
        return ConnectionSettings.parse(self.connection_options, names=names, instead=instead)

    def chosen_tool(self) -> str:
        """The name of the tool for all calls; empty if no tool is chosen."""
        return self.tool_name.strip() if self.tool == BY_NAME else self.tool

    def target(self, flow_variables: Mapping[str, Any]) -> Target:
        """The tool to call without a *Tools* table: one that a Provider announced, or the settings' one.

        `SettingInvalid` says what is wrong with the settings of the connection.
        """
        options = self.options(None)
        known = None if self.tool == BY_NAME else offered(decode_choices(flow_variables)).get(self.tool)
        url = self.server_url.strip()
        if known is None and self.tool != BY_NAME and not url:
            raise SettingInvalid(
                f"The tool '{visible(self.tool)}' is not known now, and there is no server URL",
                setting="tool",
                fix="Execute the MCP Tool Provider whose flow variable port is connected, or choose another"
                " tool",
            )
        if known is None or not known.route or url not in ("", known.server):
            name = self.chosen_tool()
            route = connection.route_from_settings(self, options)
            return Target(dataclasses.replace(route, digest=None), name, name, route.digest or "")
        digest = options.route.digest or known.digest
        return Target(ServerRoute.parse(known.route), known.tool or known.name, known.name, digest)

    def _check_calls(self, tools: Any, parameters: Any) -> None:
        """Checks the settings for the tool and its arguments against the specs of the inputs."""
        from ..runs.argument_sources import parse_arguments_setting

        per_row = chosen_column(self.tool_per_row_column)
        if per_row is not None and tools is None:
            raise SettingInvalid(
                "Each row is to name its own tool, but there is no table of tools",
                setting="tool_per_row_column",
                fix="Connect the Tools table of an MCP Tool Provider, or choose <none> for the column",
            )
        _check_column(per_row, parameters, "tool_per_row_column")
        if any(column.name == per_row and is_tool_column(column) for column in parameters or ()):
            raise SettingInvalid(
                f"The column '{per_row}' holds tools, not their names",
                setting="tool_per_row_column",
                fix="Choose a column with names, such as 'Tool name' of the Tools table",
            )
        if per_row is None and not self.chosen_tool():
            raise SettingInvalid(
                "No tool is chosen",
                setting="tool_name",
                fix="Open the dialog and choose a tool, or enter the name of one",
            )
        column = chosen_column(self.arguments_column)
        if column is not None and parameters is not None:
            _check_column(column, parameters, "arguments_column")
        self._check_placeholders()
        parse_arguments_setting(self.arguments_json)

    def _check_placeholders(self) -> None:
        """Refuses a step of an audit workflow whose secret arguments were not filled in."""
        from .recorded_steps import PLACEHOLDER

        texts = [self.arguments_json, *(pair.value for pair in self.arguments)]
        missing = ", ".join(dict.fromkeys(place for text in texts for place in PLACEHOLDER.findall(text)))
        if missing:
            raise SettingInvalid(
                f"The arguments hold placeholders for secrets that were not recorded: {missing}",
                setting="arguments",
                fix="Open the dialog and enter their values",
            )


def _pinned(tool: MCPTool, digest: str) -> MCPTool:
    """Pins a tool to the digest of a definition; empty changes nothing."""
    if not digest:
        return tool
    route = dataclasses.replace(tool.route, tool=None, digest=digest)
    return dataclasses.replace(tool, parameter_schema=tool.schema_json, server_uri=route.uri)


def _failure(table_run: TableRun, outcome: CallOutcome) -> MCPError:
    record = outcome.record
    text = record.error or record.status.value
    if isinstance(outcome.error, MCPError):
        # A copy, as the same error may be that of other rows.
        error = outcome.error.at()
        error.what = text  # already names the place and the advice
        error.server = error.tool = error.row = error.fix = None
    else:
        row = f" in row {record.input_row}" if record.input_row is not None else ""
        error = ToolFailed(f"Tool {record.tool_name or 'unknown'} failed{row}: {text}")
    journal = table_run.run.journal
    if table_run.plan.total != 1 and journal is not None:
        error.fix = (
            f"{journal.count} of {table_run.plan.total} calls are kept in {journal.path}. To go on with "
            "the others, correct the row or set 'If a call fails' to 'Make an error row', switch on 'Resume "
            "an interrupted run', and execute again"
        )
    return error


def _check_column(name: str | None, parameters: Any | None, setting: str) -> None:
    if name is None:
        return
    if parameters is None:
        raise SettingInvalid(
            f"The column '{name}' is chosen, but there is no Parameters table",
            setting=setting,
            fix="Connect a table to the Parameters input, or choose <none>",
        )
    if name not in [column.name for column in parameters]:
        raise SettingInvalid(
            f"The Parameters table has no column '{name}'",
            setting=setting,
            fix="Open the dialog and choose a column",
        )
