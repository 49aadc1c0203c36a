"""The node *MCP Tool Caller*: calls a tool once, or once per row of a table.

This module holds the ports, checks the settings, and calls the modules that do the work; the dialog is in
`caller_dialog`. The node keeps no state between calls of KNIME, and imports large modules in `execute` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import knime.extension as knext

from ..types.columns import choose_form, is_tool_column, tool_column_names
from ..types.errors import MCPError, SettingInvalid
from ..types.routing import ServerRoute
from ..types.texts import visible
from .caller.caller_dialog import BY_NAME, ArgumentsSource, CallerDialog, ResultColumns, loaded
from .calling_hints import decode_choices, offered
from .node_settings import connection
from .node_settings.connection import chosen_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runs.call_values import CallOutcome
    from .caller.calls_report import ResultsLayout


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
    " leaves the argument out. Without this table the tool is called once.",
    optional=True,
)
@knext.input_port(
    "Credential",
    "Optional: who you are, from a node such as *OAuth2 Authenticator* or *Secrets Retriever*. Its token is"
    " sent as Bearer token to the server whose tools name no credential of their own.",
    knext.PortType.CREDENTIAL,
    optional=True,
)
@knext.output_table(
    "Results",
    "One row per call, after the columns of *Parameters*: the tool, the arguments as sent, the *Status*, the"
    " *Result* as text and as JSON, the *Error* with what to do next, the first image, paths of other files,"
    " and when and how long. Columns of *Parameters* with the name of one of these get ` (input)` behind it.",
)
@knext.output_table(
    "Records",
    "The lists of records in the results as rows with typed columns: from structured content, JSON, lines of"
    " JSON, CSV, or a table in Markdown. A result that is one object is one row. *Input row* is the RowID of"
    " the call's row, *List* the name of the list in the result, *Position* the place in it.",
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
        loaded.tool = parameters.get("tool", BY_NAME)
        loaded.called = parameters.get("tool_name", "") if loaded.tool == BY_NAME else loaded.tool
        loaded.names = [argument.get("name", "") for argument in parameters.get("arguments") or ()]
        return parameters

    def configure(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        try:
            self._check_calls(tools, parameters)
            connection.timeouts_from_settings(self)
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
        from ..runs.engine import BlobStore
        from ..runs.result_records import RecordsCollector
        from .caller.calls_report import ResultsWriter, calls_page
        from .caller.execution import Sessions, data_area, run_calls

        folder = data_area(ctx)
        rows = None if parameters is None else parameters.to_pyarrow()
        # In batches: a whole table would hold all results in memory until the last call has ended.
        output = knext.BatchOutputTable.create(row_ids="keep")
        layout = self._layout(None if parameters is None else parameters.schema)
        writer = ResultsWriter(layout, rows, output.append)
        timeouts = connection.timeouts_from_settings(self)
        records_output = knext.BatchOutputTable.create(row_ids="keep")
        sessions = Sessions(
            ctx, credential, timeouts, pinning=self.pinning, secret_arguments=self.secret_arguments
        )
        with RecordsCollector() as found:

            def take(outcome: CallOutcome) -> None:
                writer.add(outcome)
                found.add(outcome)

            with sessions:
                sessions.run.save_blob = BlobStore(folder, sessions.run.id).save
                run = run_calls(self, ctx, tools, rows, sessions, folder, take)
            writer.close()
            for piece in found.pieces():
                records_output.append(piece)
        if found.warning:
            run.summary.notes[found.warning] = None
        journal = sessions.run.journal
        ctx.flow_variables["mcp_audit_head"] = "" if journal is None else journal.anchor
        summary = run.summary
        summary.unfit, summary.absent, summary.properties = writer.unfit, writer.absent, writer.properties
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
        return output, records_output, knext.view_html(calls_page(summary))

    def _layout(self, parameters: Any) -> ResultsLayout:
        from .caller.calls_report import image_type, json_type, plan_results

        if self.json_cells and json_type() is None:
            raise SettingInvalid(
                "This KNIME has no JSON cells",
                setting="json_cells",
                fix="Install the KNIME JSON-Processing extension, or switch off 'Structured result as JSON"
                " cells'",
            )
        return plan_results(
            () if parameters is None else [column.name for column in parameters],
            form=choose_form("auto"),
            images=image_type() is not None,
            expand=self.expand_structured,
            compact=self.result_columns == ResultColumns.compact.name,
            json_cells=self.json_cells,
        )

    def chosen_tool(self) -> str:
        """The name of the tool for all calls; empty if no tool is chosen."""
        return self.tool_name.strip() if self.tool == BY_NAME else self.tool

    def target(self, flow_variables: Mapping[str, Any]) -> Target:
        """The tool to call without a *Tools* table: one that a Provider announced, or the settings' one.

        `SettingInvalid` says what is wrong with the settings of the connection.
        """
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
            return Target(connection.route_from_settings(self), name, name)
        return Target(ServerRoute.parse(known.route), known.tool or known.name, known.name, known.digest)

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
        if self.arguments_source == ArgumentsSource.json_column.name and parameters is not None:
            column = chosen_column(self.arguments_column)
            if column is None:
                raise SettingInvalid(
                    "No column with arguments is chosen",
                    setting="arguments_column",
                    fix="Open the dialog and choose the column of the Parameters table that holds them as"
                    " JSON",
                )
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
