"""The node *MCP Tool Caller*: calls a tool once, or once per row of a table.

This module holds the dialog and the ports, and calls the modules that do the work. The node keeps no state
between calls of KNIME, and imports large modules in `execute` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import knime.extension as knext

from ..types.errors import MCPError, SettingInvalid
from .audit_workflow import save_journal, save_to
from .caller import settings
from .node_settings import (
    connection,
    shared_parameters,
)

if TYPE_CHECKING:
    from .caller.results_table import ResultsLayout


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
@knext.output_view("Calls", "The tool with its description and parameters, and what became of the calls.")
class MCPToolCaller:
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

    server_url = shared_parameters.server_url()
    credentials = shared_parameters.credentials()
    tool = settings.tool
    tool_name = settings.tool_name
    arguments = settings.arguments

    arguments_json = settings.arguments_json
    arguments_source = settings.arguments_source
    arguments_column = settings.arguments_column
    tool_per_row_column = settings.tool_per_row_column
    tool_column = shared_parameters.tool_column(settings.TOOLS)
    on_error = settings.on_error
    resume = settings.resume
    concurrency = settings.concurrency
    expand_structured = settings.expand_structured
    pinning = shared_parameters.pinning()
    pinned_digest = settings.pinned_digest
    save_audit_workflow_to = save_to()
    send_credentials_as = shared_parameters.send_credentials_as()
    header_name = shared_parameters.header_name()
    issuer = shared_parameters.issuer()
    scope = shared_parameters.scope()
    extra_headers = shared_parameters.extra_headers()
    transport = shared_parameters.transport()
    connect_timeout = shared_parameters.connect_timeout()
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    _with_tools = knext.DialogContextCondition(shared_parameters.is_connected(settings.TOOLS))
    _with_parameters = knext.DialogContextCondition(shared_parameters.is_connected(settings.PARAMETERS))
    for _setting in (server_url, credentials, send_credentials_as, extra_headers, transport):
        _setting.rule(_with_tools, knext.Effect.HIDE)
    for _setting in (arguments_source, tool_per_row_column):
        _setting.rule(_with_parameters, knext.Effect.SHOW)
    tool_column.rule(_with_tools, knext.Effect.SHOW)
    tool_name.rule(knext.OneOf(tool, [settings.BY_NAME]), knext.Effect.SHOW)
    header_name.rule(knext.OneOf(send_credentials_as, ["header"]), knext.Effect.SHOW)
    for _setting in (issuer, scope):
        _setting.rule(knext.OneOf(send_credentials_as, ["client_credentials"]), knext.Effect.SHOW)
    arguments_column.rule(
        knext.OneOf(arguments_source, [settings.ArgumentsSource.json_column.name]), knext.Effect.SHOW
    )
    del _setting, _with_tools, _with_parameters

    def configure(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        """Checks the settings and announces the columns, without network access."""
        from ..types.columns import tool_column_names

        try:
            settings.check_calls(self, tools, parameters)
            connection.timeouts_from_settings(self)
            if tools is None:
                connection.route_from_settings(self)
            elif not tool_column_names(tools, self.tool_column):
                raise SettingInvalid(
                    "The Tools table has no tool column",
                    setting="tool_column",
                    fix="Connect the Tools output of an MCP Tool Provider or a Workflow to Tool node, or"
                    " choose under 'Tool column' the column that holds tools as JSON",
                )
            return self._layout(parameters).schema(parameters)
        except MCPError as error:
            raise connection.as_setting_error(error) from None

    def execute(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> tuple[Any, Any]:
        """Makes the calls."""
        from ..audit.journal import new_run_id
        from ..runs.engine import BlobStore
        from ..types.texts import visible
        from .caller.execution import Sessions, data_area, run_calls
        from .caller.results_table import ResultsWriter
        from .views.calls import calls_page

        folder, run_id = data_area(ctx), new_run_id()
        rows = None if parameters is None else parameters.to_pyarrow()
        output = knext.BatchOutputTable.create(row_ids="keep")
        layout = self._layout(None if parameters is None else parameters.schema)
        writer = ResultsWriter(layout, rows, output.append)
        with Sessions(ctx, credential, connection.timeouts_from_settings(self)) as sessions:
            dispatcher = sessions.dispatcher(run_id, self.pinning, BlobStore(folder, run_id).save)
            run = run_calls(self, ctx, tools, rows, sessions, dispatcher, folder, writer.add)
        writer.close()
        ctx.flow_variables["mcp_audit_head"] = "" if run.journal is None else run.journal.head
        summary = run.summary
        summary.unfit, summary.absent, summary.properties = writer.unfit, writer.absent, writer.properties
        warnings = [
            visible(summary.warning() or ""),
            save_journal(self.save_audit_workflow_to, folder, run_id),
        ]
        if any(warnings):
            ctx.set_warning(" ".join(filter(None, warnings)))
        return output, knext.view_html(calls_page(summary))

    def _layout(self, parameters: Any) -> ResultsLayout:
        from ..types.columns import choose_form
        from .caller.results_table import image_type, plan_results

        return plan_results(
            () if parameters is None else [column.name for column in parameters],
            form=choose_form("auto"),
            images=image_type() is not None,
            expand=self.expand_structured,
        )
