"""The node *MCP Tool Provider*: the tools of MCP servers as a table.

This module holds the dialog and the ports, and calls the modules that do the work. The node keeps no state
between calls of KNIME, and imports large modules in `execute` only.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import knime.extension as knext

from ..types.columns import ColumnForm, choose_form
from ..types.errors import MCPError, SettingInvalid
from ..types.texts import counted
from .node_settings import connection, shared_parameters
from .node_settings.connection import (
    NO_COLUMN,
    ConnectionSettings,
    check_one_origin,
    chosen_column,
    credential_from_port,
    find_credential,
)

if TYPE_CHECKING:
    from ..client.mcp_client import MCPClient
    from .provider.provide import Provision, ServerRequest

_SERVERS: Final = 0
_LIKELY_URL_COLUMNS: Final = ("server url", "url", "server", "address", "endpoint", "server_url")


class _OnFailure(knext.EnumParameterOptions):
    fail = ("Fail", "The node fails and says which server, in which phase, why, and what to do.")
    warn = (
        "Warn and go on",
        "The tools of the other servers are kept; the *Servers* table and the view say what went wrong.",
    )


class _ColumnForm(knext.EnumParameterOptions):
    auto = ("Automatic", "A tool cell where this KNIME has tool cells, else text.")
    carrier = ("Tool cell", "Goes into one column with workflow tools, for Concatenate.")
    portable = ("Text", "A String column *Tool (JSON)*, which any KNIME and any file can hold.")


class _ForAgents(knext.EnumParameterOptions):
    read_only = ("Read-only tools", "Those of which the server says that they change nothing.")
    all = ("All tools", "For servers that you trust: KNIME's agents ask nobody before a call.")
    none = ("None", "KNIME's agents get an answer that says so.")


def _is_text(column: Any) -> bool:
    return column.ktype == knext.string()


@knext.node(
    name="MCP Tool Provider",
    node_type=knext.NodeType.SOURCE,
    icon_path="icons/provider.png",
    category="/community/mcp",
    id="mcp_tool_provider",
    keywords=["MCP", "Model Context Protocol", "tool", "agent", "AI", "LLM", "server"],
)
@knext.input_table(
    "Servers",
    "Optional: one row per MCP server, to list several servers at once. Choose the column with their"
    " addresses in the dialog; a column with the names of credentials is optional.",
    optional=True,
)
@shared_parameters.credential_port(
    "the server for which no credential is chosen. Tools do not remember it: connect it to *MCP Tool Caller*"
    " as well."
)
@knext.output_table(
    "Tools",
    "One row per tool; the RowID is the name under which the tool is shown. The first column holds the tool"
    " itself, for MCP Tool Caller and agents; the others say what it does, what it wants, what it costs in a"
    " model's context, and what the security scan found. Use a Row Filter to keep the tools that you want to"
    " hand out.",
)
@knext.output_table(
    "Servers",
    "One row per server: whether it answered, its version and protocol, how many tools it gave, and"
    " otherwise in which phase it failed, why, and what to do next.",
)
@knext.output_view(
    "MCP tools",
    "A catalogue of the tools with their parameters and findings and, for a server that failed, every step"
    " of the connection.",
)
class MCPToolProvider:
    """Lists the tools of MCP servers into a table.

    An MCP server offers tools: functions with a name, a description and parameters, which the *MCP Tool
    Caller* calls from a workflow and a language model calls as an agent. This node connects to one server,
    or to all servers of a table, and gives one row per tool.

    **How to use it**

    - Enter the *Server URL*. If the server wants to know who you are, add a *Credentials Configuration*
      node, connect its flow variable port to this node and choose the credential.
    - Execute, and open the view to read what the tools do.
    - Connect the *Tools* table to *MCP Tool Caller* or to an agent. To mix them with workflow tools, use
      *Concatenate*.

    **What a row is worth**

    A tool's row remembers the definition that you saw. If the server changes the tool later, *MCP Tool
    Caller* can notice and refuse. The cell holds the address of the server and the *name* of the
    credential, never a password.

    **KNIME's own agents**

    *Agent Prompter* and *Agent Chat Widget* of KNIME's AI extension run the tools, too, beside workflow tools
    from *Workflow to Tool*: connect the *Tools* table to them. By default they may run read-only tools, see
    *For KNIME's agents*.

    **Security**

    Descriptions come from the server, and a model follows what it reads. Every text is scanned for
    instructions to the model, hidden characters and the like; what is found is in the column *Security
    findings*. Nothing is changed, and a tool without findings is not thereby harmless.

    The node also sets a flow variable, `mcp_tools: ` and the host, with which the dialog of *MCP
    Tool Caller* can offer the tools by name, and call them without the *Tools* table.
    """

    # Connection
    server_url = shared_parameters.server_url()
    server_url_column = knext.ColumnParameter(
        "Column with server URLs",
        "Which column of the *Servers* table holds the addresses, such as `https://host/mcp`.",
        port_index=0,
        column_filter=_is_text,
    )
    credentials = shared_parameters.credentials()
    credentials_column = knext.ColumnParameter(
        "Column with credential names",
        "Which column of the *Servers* table names the credential of each server. The credentials themselves"
        " come from *Credentials Configuration* nodes. Rows without a name use none.",
        port_index=0,
        column_filter=_is_text,
        include_none_column=True,
        default_value=NO_COLUMN,
    )
    connection_options = shared_parameters.connection_options(
        " `asks_back = true` also lists tools that a server has only where it can ask a person"
        " (*elicitation*) or a model (*sampling*), as in *MCP Agent Chat*; in other nodes they may fail."
    )

    # Tool
    include = knext.StringParameter(
        "Tools to include",
        "Which tools to keep, by the names that the server gives them: patterns separated by commas, where"
        " `*` stands for any text and `?` for one character, such as `search_*, get_issue`. Empty keeps all."
        " A pattern after `!` drops tools, such as `!delete_*`. Every tool that a model gets costs context"
        " and attention: keep what you need.",
        default_value="",
    )

    # Errors
    on_failure = knext.EnumParameter(
        "If a server fails",
        "What to do when a server cannot be reached or does not answer as it should.",
        default_value=_OnFailure.fail.name,
        enum=_OnFailure,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )

    # Output
    column_form = knext.EnumParameter(
        "Form of the tool column",
        "How the tools are stored in the table. All nodes of this extension read all forms.",
        default_value=_ColumnForm.auto.name,
        enum=_ColumnForm,
        is_advanced=True,
    )
    for_agents = knext.EnumParameter(
        "For KNIME's agents",
        "Which of the tools *Agent Prompter* and *Agent Chat Widget* of KNIME's AI extension may run. They"
        " take a tool cell for a workflow, and ask nobody before they call it. The column *Notes* says what"
        " is different there. Nodes of this extension are not concerned: they have rules of their own.",
        default_value=_ForAgents.read_only.name,
        enum=_ForAgents,
        is_advanced=True,
    )
    save_components_to = knext.StringParameter(
        "Save tools as components in",
        "A folder that gets a component (`.knwf`) for each tool, to be imported: a node with a setting for"
        " each parameter, and the outputs *Records* and *Result*. What is not a full path is in the"
        " workflow's data area. Empty saves nothing. The files are checked, but not opened in KNIME: look"
        " at a component before you share it.",
        default_value="",
        is_advanced=True,
    )

    shared_parameters.headings(
        Connection=[server_url, server_url_column],
        Tools=[include],
        Errors=[on_failure],
        Output=[column_form],
    )
    _with_servers = knext.DialogContextCondition(shared_parameters.is_connected(_SERVERS))
    for _setting in (server_url, credentials):
        _setting.rule(_with_servers, knext.Effect.HIDE)
    for _setting in (server_url_column, credentials_column):
        _setting.rule(_with_servers, knext.Effect.SHOW)
    del _setting, _with_servers

    def configure(self, ctx: Any, servers: Any, credential: Any) -> tuple[Any, Any]:  # noqa: ARG002
        from .provider.provision_report import servers_schema, tools_schema

        try:
            self._check(ctx, servers)
            form = self._form()
        except MCPError as error:
            raise connection.as_setting_error(error) from None
        return tools_schema(form), servers_schema()

    def execute(self, ctx: Any, servers: Any, credential: Any) -> tuple[Any, Any, Any]:
        from ..runs.server_questions import ServerQuestions
        from .provider import provision_report
        from .provider.provide import NameFilter, provide
        from .provider.provision_report import catalogue, failure

        requests = self._requests(ctx, servers, credential)
        if self.on_failure == _OnFailure.fail.name:  # all servers are wanted, or none: before any is asked
            for request in requests:
                if request.error is not None:
                    raise connection.as_setting_error(request.error.at(row=request.row)) from None
        ctx.set_progress(0.0, f"Connecting to {counted(len(requests), 'server')}")
        options = self._options()
        timeouts = options.timeouts
        questions = ServerQuestions() if options.asks_back else None  # nobody is asked while tools are listed

        def open_client(request: ServerRequest, trace: Any) -> MCPClient:
            assert request.route is not None, "a request without a route has an error and is not asked"
            return connection.client_for(
                request.route, request.credential, timeouts=timeouts, trace=trace, questions=questions
            )

        provision = provide(
            requests,
            open_client,
            name_filter=NameFilter(self.include),
            on_progress=ctx.set_progress,
            is_canceled=ctx.is_canceled,
        )
        if provision.failed and self.on_failure == _OnFailure.fail.name:
            raise failure(provision) from None
        form = self._form()
        tools = _table(
            provision_report.tools_table(
                provision.tools,
                form,
                for_agents=cast("Any", self.for_agents),
                settings={f"{name}_timeout": float(value) for name, value in asdict(timeouts).items()},
            )
        )
        reached = _table(provision_report.servers_table(provision.outcomes))
        self._announce(ctx, provision)
        return tools, reached, knext.view_html(catalogue(provision))

    def _form(self) -> ColumnForm:
        return choose_form(cast("Literal['auto', 'carrier', 'portable']", self.column_form))

    def _options(self) -> ConnectionSettings:
        names = (*connection.OF_SERVER, *connection.OF_CALLS, "asks_back")
        return ConnectionSettings.parse(self.connection_options, names=names)

    def _check(self, ctx: Any, servers: Any) -> None:
        options = self._options()
        if servers is None:
            route = connection.route_from_settings(self, options)
            connection.refuse_commands(route)
            # Only for its error: a name that KNIME does not know is a wrong setting, and seen before the
            # node runs.
            find_credential(ctx, route.credential)
            return
        # The addresses are not known yet; with any other one the rest of the settings can be checked.
        connection.route_from_settings(self, options, url="https://host/mcp", credential="")
        if chosen_column(self.server_url_column) is None:
            texts = [column.name for column in servers if _is_text(column)]
            # KNIME reads the parameters back after configure, so that the guessed column is kept.
            self.server_url_column = _likely_column(texts)
        # An empty column may have no type.
        usable = {column.name: _is_text(column) or column.ktype == knext.null() for column in servers}
        for setting in ("server_url_column", "credentials_column"):
            column = chosen_column(getattr(self, setting))
            if column is None or usable.get(column):
                continue
            raise SettingInvalid(
                f"The column '{column}' of the Servers table holds no texts"
                if column in usable
                else f"The Servers table has no column '{column}'",
                setting=setting,
                fix="Open the dialog and choose a String column",
            )

    def _requests(self, ctx: Any, servers: Any, port: Any) -> list[ServerRequest]:
        """Makes a request per server; credentials are looked up here, in KNIME's own thread."""
        rows = [("Row0", None, None)] if servers is None else self._rows(servers)
        options = self._options()
        requests = [self._request(ctx, options, *row) for row in rows]
        if port is None:
            return requests
        token = credential_from_port(port)
        unnamed = {r.row: r.server for r in requests if r.error is None and r.credential is None}
        # A token is meant for one server: another one could use it against the first.
        check_one_origin(unnamed.values())
        return [replace(r, credential=token) if r.row in unnamed else r for r in requests]

    def _request(
        self, ctx: Any, options: ConnectionSettings, row: str, url: str | None, credential: str | None
    ) -> ServerRequest:
        from .provider.provide import ServerRequest

        route = None
        try:
            route = connection.route_from_settings(self, options, url=url, credential=credential)
            connection.refuse_commands(route)
            found_credential = find_credential(ctx, route.credential)
            return ServerRequest(row=row, route=route, credential=found_credential)
        except MCPError as error:
            return ServerRequest(row=row, route=route, error=error)

    def _rows(self, servers: Any) -> list[tuple[str, str, str]]:
        wanted = {
            name: column
            for name in ("server_url", "credentials")
            if (column := chosen_column(getattr(self, f"{name}_column")))
        }
        # Two settings may name the same column, and a selection must not.
        columns = servers[list(dict.fromkeys(wanted.values()))].get().to_pyarrow()
        ids = columns.column(0).to_pylist()
        texts = {name: columns.column(column).to_pylist() for name, column in wanted.items()}
        names = texts.get("credentials", [None] * len(ids))
        # A missing name means no credential: a server must not get the credential of another row.
        return [
            (str(row), url or "", name or "")
            for row, url, name in zip(ids, texts["server_url"], names, strict=True)
        ]

    def _announce(self, ctx: Any, provision: Provision) -> None:
        from .calling_hints import ToolChoice, encode_choices, parameter_hints, variable_name
        from .provider.provision_report import warnings

        choices = [
            ToolChoice(
                name=tool.shown_name,
                route=replace(tool.tool.route, tool=None, digest=None).uri,
                tool="" if tool.tool.tool_name == tool.shown_name else tool.tool.tool_name,
                digest=tool.tool.digest or "",
                parameters=parameter_hints(tool.definition.input_schema),
                description=tool.tool.description,
            )
            for tool in provision.tools
        ]
        if choices:  # KNIME drops empty arrays
            # Several Providers may lead into one Caller, so each needs a variable of its own.
            servers = [outcome.request.server for outcome in provision.outcomes]
            name = variable_name(servers, taken=ctx.flow_variables)
            ctx.flow_variables[name] = encode_choices(choices)
        messages = list(warnings(provision))
        if self.save_components_to.strip():
            from pathlib import Path

            from .tool_component import save_components

            folder = Path(ctx.get_workflow_data_area_dir()) / self.save_components_to.strip()
            problem = save_components([tool.tool for tool in provision.tools], folder)
            messages += [problem] if problem else []
        if messages:
            ctx.set_warning("\n".join(messages))


def _table(data: Any) -> Any:
    return knext.Table.from_pyarrow(data, row_ids="keep")


def _likely_column(names: list[str]) -> str:
    by_name = {name.lower(): name for name in names}
    likely = [by_name[name] for name in _LIKELY_URL_COLUMNS if name in by_name]
    if likely or len(names) == 1:
        return [*likely, *names][0]
    if not names:
        raise SettingInvalid(
            "The Servers table has no String column that could hold the addresses",
            setting="server_url_column",
            fix="Connect a table with a row per server and a String column with its URL",
        )
    raise SettingInvalid(
        "No column with server URLs is chosen",
        setting="server_url_column",
        fix="Open the dialog and choose the String column of the Servers table that holds the addresses",
    )
