"""The node *MCP Tool Caller*: calls a tool once, or once per row of a table.

This module holds the dialog and the ports, checks the settings, and calls the modules that do the work. The
node keeps no state between calls of KNIME, and imports large modules in `execute` only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ..types.errors import MCPError, SettingInvalid
from ..types.texts import shortened, visible
from .node_settings import connection, shared_parameters
from .node_settings.connection import NO_COLUMN, chosen_column
from .node_settings.flow_choices import decode_choices
from .node_settings.shared_parameters import column_choices, labelled

if TYPE_CHECKING:
    from .caller.results_table import ResultsLayout


_log = logging.getLogger(__name__)

_BY_NAME: Final = "<by name>"
"""The choice to use *Tool name* instead. First and default: see `credentials.NO_CREDENTIAL`."""
_TOOLS, _PARAMETERS = 0, 1  # ports
_MOST_CONCURRENT: Final = 64
_LONGEST_DESCRIPTION: Final = 300


class _ArgumentsSource(knext.EnumParameterOptions):
    columns = ("Columns", "Each column that is named like a parameter of the tool gives that argument.")
    json_column = ("A JSON column", "One column holds all arguments of the row as a JSON object.")


class _OnError(knext.EnumParameterOptions):
    row = (
        "Make an error row",
        "The other calls go on. The row says in *Status* and *Error* what went wrong and what to do.",
    )
    fail = (
        "Fail",
        "The node fails at the first failed call. The calls that finished are kept, see *Resume an"
        " interrupted run*.",
    )


@knext.parameter_group(label="Argument")
class _Argument:
    """An argument with name and value."""

    name = knext.StringParameter(
        "Name", "Name of the parameter, exactly as the tool has it.", default_value=""
    )
    value = knext.StringParameter(
        "Value",
        "The value. Text is taken as it is; numbers, `true`, `false`, and for lists and objects JSON such as"
        ' `["a", "b"]`, are read as such where the tool wants them.',
        default_value="",
    )


def _tool_choices(context: Any) -> list[Any]:
    """Offers the tools that Providers announced. Never raises, as the dialog would not open then."""
    try:
        tools = decode_choices(context.flow_variables)
    except Exception as error:
        _log.debug("No tools in the dialog: %s", type(error).__name__)
        tools = []
    first = (_BY_NAME, "The tool named below", "Enter the name under *Tool name*.")
    offered = ((entry.name, visible(entry.label), visible(_about(entry))) for entry in tools)
    return labelled([first, *offered])


def _about(entry: Any) -> str:
    short = shortened(" ".join(entry.description.split()), _LONGEST_DESCRIPTION)
    kind = "Workflow" if entry.type == "workflow" else f"MCP tool at {entry.server}"
    return f"{kind}. {short}" if short else kind


def _parameter_columns(specs: list[Any]) -> list[str]:
    schema = specs[_PARAMETERS]
    return [] if schema is None else [column.name for column in schema]


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
    tool = knext.StringParameter(
        "Tool",
        "Which tool to call. The tools of every *MCP Tool Provider* whose flow variables reach this node are"
        " offered here, with their parameters: connect the Provider's *Tools* table, or its flow variable"
        f" port. Choose `{_BY_NAME}` to enter a name instead.",
        default_value=_BY_NAME,
        choices=_tool_choices,
    )
    tool_name = knext.StringParameter(
        "Tool name",
        "Name of the tool to call: as the *Tools* table shows it, its RowID, or `name @ server` where several"
        " servers have a tool of that name. Without a *Tools* table, the name that the server knows.",
        default_value="",
    )
    arguments = knext.ParameterArray(
        label="Arguments",
        description="What to call the tool with, as names and values. With a *Parameters* table these are the"
        " same for every row, and a row's own values win.",
        parameters=_Argument(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add argument",
        array_title="Argument",
    )

    arguments_json = knext.MultilineStringParameter(
        "Arguments as JSON",
        'Arguments as one JSON object, such as `{"city": "Konstanz", "days": 3}`, for values that are lists,'
        " objects or null. Arguments entered as name and value win over these.",
        default_value="",
        number_of_lines=6,
        is_advanced=True,
    )
    arguments_source = knext.EnumParameter(
        "Arguments of a row",
        "Where a row of *Parameters* holds its arguments.",
        default_value=_ArgumentsSource.columns.name,
        enum=_ArgumentsSource,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )
    arguments_column = knext.StringParameter(
        "Column with the arguments",
        "Which column of *Parameters* holds the arguments of a row as a JSON object: a JSON or String"
        " column.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, _parameter_columns),
        is_advanced=True,
    )
    tool_per_row_column = knext.StringParameter(
        "Column with the tool's name",
        "Which column of *Parameters* names the tool of each row, as *Tool name* does. Choose"
        f" `{NO_COLUMN}` to call the same tool for every row.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, _parameter_columns),
        is_advanced=True,
    )
    tool_column = shared_parameters.tool_column(_TOOLS)
    on_error = knext.EnumParameter(
        "If a call fails",
        "What to do when a tool fails, cannot be reached, or does not take the arguments.",
        default_value=_OnError.row.name,
        enum=_OnError,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )
    resume = knext.BoolParameter(
        "Resume an interrupted run",
        "After a run that was canceled, failed or was killed: rows whose call gave a result are filled in"
        " from that run and not called again. Row, tool and arguments must be the same. Does nothing after a"
        " run that came to its end.",
        default_value=False,
        is_advanced=True,
    )
    concurrency = knext.IntParameter(
        "Calls at a time",
        "How many calls may be on their way at once. Lower it for servers that complain about too many"
        " requests. Workflow tools always run one by one.",
        default_value=4,
        min_value=1,
        max_value=_MOST_CONCURRENT,
        is_advanced=True,
    )
    expand_structured = knext.StringParameter(
        "Structured values as columns",
        "Properties of the structured result that get columns of their own, separated by commas, with their"
        " type after a colon if it is not text: `city, temperature: number, tags: json`. Types are string,"
        " number, integer, boolean and json. The column *Structured result* always has all of it.",
        default_value="",
        is_advanced=True,
    )
    pinning = shared_parameters.pinning()
    pinned_digest = knext.StringParameter(
        "Pinned digest",
        "The *Digest* of the definition that you want to call, from the *Tools* or *Results* table. Empty"
        " takes the one that the tool cell remembers.",
        default_value="",
        is_advanced=True,
    )
    save_audit_workflow_to = shared_parameters.save_audit_workflow_to()
    send_credentials_as = shared_parameters.send_credentials_as()
    header_name = shared_parameters.header_name()
    issuer = shared_parameters.issuer()
    scope = shared_parameters.scope()
    extra_headers = shared_parameters.extra_headers()
    transport = shared_parameters.transport()
    connect_timeout = shared_parameters.connect_timeout()
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    _with_tools = knext.DialogContextCondition(shared_parameters.is_connected(_TOOLS))
    _with_parameters = knext.DialogContextCondition(shared_parameters.is_connected(_PARAMETERS))
    for _setting in (server_url, credentials, send_credentials_as, extra_headers, transport):
        _setting.rule(_with_tools, knext.Effect.HIDE)
    for _setting in (arguments_source, tool_per_row_column):
        _setting.rule(_with_parameters, knext.Effect.SHOW)
    tool_column.rule(_with_tools, knext.Effect.SHOW)
    tool_name.rule(knext.OneOf(tool, [_BY_NAME]), knext.Effect.SHOW)
    header_name.rule(knext.OneOf(send_credentials_as, ["header"]), knext.Effect.SHOW)
    for _setting in (issuer, scope):
        _setting.rule(knext.OneOf(send_credentials_as, ["client_credentials"]), knext.Effect.SHOW)
    arguments_column.rule(
        knext.OneOf(arguments_source, [_ArgumentsSource.json_column.name]), knext.Effect.SHOW
    )
    del _setting, _with_tools, _with_parameters

    def configure(self, ctx: Any, tools: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        """Checks the settings and announces the columns, without network access."""
        from ..types.columns import tool_column_names

        try:
            self._check_calls(tools, parameters)
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
        from ..runs.saved_blobs import BlobStore
        from .caller.execution import Sessions, data_area, run_calls
        from .caller.results_table import ResultsWriter
        from .views.calls_page import calls_page

        folder = data_area(ctx)
        rows = None if parameters is None else parameters.to_pyarrow()
        output = knext.BatchOutputTable.create(row_ids="keep")
        layout = self._layout(None if parameters is None else parameters.schema)
        writer = ResultsWriter(layout, rows, output.append)
        timeouts = connection.timeouts_from_settings(self)
        with Sessions(ctx, credential, timeouts, pinning=self.pinning) as sessions:
            sessions.run.save_blob = BlobStore(folder, sessions.run.id).save
            run = run_calls(self, ctx, tools, rows, sessions, folder, writer.add)
        writer.close()
        journal = sessions.run.journal
        ctx.flow_variables["mcp_audit_head"] = "" if journal is None else journal.head
        summary = run.summary
        summary.unfit, summary.absent, summary.properties = writer.unfit, writer.absent, writer.properties
        warnings = [visible(summary.warning() or "")]
        if self.save_audit_workflow_to.strip() and run.journal_file is not None:
            from ..audit.journal import read_journal
            from .audit_workflow import save_after_run

            records = read_journal(run.journal_file).records
            warnings.append(
                save_after_run(records, self.save_audit_workflow_to, folder, sessions.run.id) or ""
            )
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

    def chosen_tool(self) -> str:
        """The name of the tool for all calls; empty if no tool is chosen."""
        return self.tool_name.strip() if self.tool == _BY_NAME else self.tool

    def _check_calls(self, tools: Any, parameters: Any) -> None:
        """Checks the settings for the tool and its arguments against the specs of the inputs."""
        from ..runs.cell_arguments import parse_arguments_setting
        from ..types.columns import is_tool_column

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
        if self.arguments_source == _ArgumentsSource.json_column.name and parameters is not None:
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
