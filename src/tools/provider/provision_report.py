"""What is said of listed servers: the error or the warnings, the tables *Tools* and *Servers*, and the view.

The schemas for ``configure`` and the tables for ``execute`` are made from the same lists of columns, so that
they cannot differ; names and types of columns must not change. A failed node has no output in KNIME, so its
message contains all information: the failed phase, the reason, and what to do next.

The view is for the person who decides which tools a model gets: the description, parameters and security
findings of each tool, and for a failed server every step of connecting up to the failed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from ...client.validation.argument_schemas import listed_parameters, resolve
from ...types.columns import (
    ROW_ID,
    ColumnForm,
    arrow_columns,
    column_name,
    knime_columns,
    knime_type,
    write_tools,
)
from ...types.routing import ServerRoute
from ...types.texts import compact_json, counted, shortened, visible, without_surrogates
from ..calling_hints import example_arguments, signature, type_in_words
from ..node_settings.connection import sent_in_clear
from ..views.html import (
    Html,
    badge,
    details,
    element,
    heading,
    join,
    note,
    page,
    paragraph,
    properties,
    table,
)
from .findings import findings_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...client.protocol.tools import ToolDefinition
    from ...types.columns import ColumnKind
    from ...types.errors import MCPError
    from ...types.tool import MCPTool
    from .findings import SecurityFinding
    from .provide import ProvidedTool, Provision, ServerOutcome

ForAgents = Literal["all", "read_only", "none"]
"""Which tools KNIME's own agents may run: they ask nobody before a call."""


def failure(provision: Provision) -> MCPError:
    """The error if a failed server stops the node; it describes the first one."""
    failed = provision.failed
    first = failed[0]
    error = first.error
    assert error is not None, "it failed"
    many = len(provision.outcomes) > 1
    lead = f"{len(failed)} of {len(provision.outcomes)} servers failed. The first: " if many else ""
    others = [f"{each.request.server or each.request.row} ({each.phase})" for each in failed[1:6]]
    more = f" Also failed: {', '.join(others)}." if others else ""
    warn = "set 'If a server fails' to 'Warn and go on'"
    keep = (
        f" To keep the tools of the others, {warn}."
        if many
        else f" To see every step of the connection in the view, {warn}."
    )
    fix = error.fix or "Check the URL in a browser or with whoever runs the server"
    whole = error.at(server=first.request.server or None)  # of the same class, and so with its code
    whole.what = visible(f"{lead}No tools, because phase '{first.phase}' failed: {error.what}")
    # A single server may come from the dialog, where there are no rows.
    whole.row = first.request.row if many else None
    whole.fix = f"{fix.rstrip('.')}.{more}{keep}"
    return whole


def warnings(provision: Provision) -> list[str]:
    if not provision.outcomes:
        return ["The Servers table has no rows, so no server was asked."]
    failed = provision.failed
    messages: list[str] = []
    if failed:
        said = failed[0].error.sentence if failed[0].error else ""
        messages.append(
            f"{len(failed)} of {counted(len(provision.outcomes), 'server')} failed; first, in phase"
            f" '{failed[0].phase}': {said} The Servers table and the view say more."
        )
    messages += _finding_warnings(provision)
    messages += [
        f"Your credential is sent unencrypted to {outcome.request.server}. Use https if the server offers it."
        for outcome in provision.outcomes
        if outcome.request.credential and outcome.error is None and sent_in_clear(outcome.request.server)
    ]
    messages += _name_warnings(provision)
    messages += [
        f"{outcome.request.server} offers '{name}' in a form that cannot be used: {why}"
        f"{'' if len(outcome.dropped) == 1 else f' ({len(outcome.dropped) - 1} more)'}."
        for outcome in provision.outcomes
        # One per server, as the view lists all of them.
        for name, why in outcome.dropped[:1]
    ]
    messages += [
        f"{outcome.request.server} {_why_empty(outcome)}"
        for outcome in provision.outcomes
        if not outcome.tools and outcome.error is None
    ]
    return [visible(text) for text in messages]  # names and messages are texts of servers


def _finding_warnings(provision: Provision) -> list[str]:
    suspicious = [tool for tool in provision.tools if tool.findings]
    messages = [
        f"{outcome.request.server}: the server's instructions have security findings; first:"
        f" {outcome.findings[0].what}"
        for outcome in provision.outcomes
        if outcome.findings
    ]
    if suspicious:
        name, first = suspicious[0].shown_name, suspicious[0].findings[0]
        messages.append(
            f"{counted(len(suspicious), 'tool')} of {len(provision.tools)} with security findings; first:"
            f" '{name}' at {first.where or '/'}: {first.what.rstrip('.')}."
            " Read them in the column Security findings before a model gets these tools."
        )
    return messages


def _name_warnings(provision: Provision) -> list[str]:
    messages: list[str] = []
    ambiguous, repeated = provision.names.ambiguous, provision.names.repeated
    if ambiguous:
        messages.append(
            f"{counted(len(ambiguous), 'tool name')} on several servers (first: '{ambiguous[0]}');"
            " they are shown as 'name @ server'."
        )
    if repeated:
        server, name = repeated[0]
        messages.append(f"{server} lists '{name}' more than once; a call reaches whichever the server takes.")
    if provision.useless_patterns:
        messages.append(
            f"No tool matches {', '.join(repr(pattern) for pattern in provision.useless_patterns)}."
        )
    return messages


def _why_empty(outcome: ServerOutcome) -> str:
    if outcome.offered:
        return f"lists {counted(outcome.offered, 'tool')}, but the settings include none of them."
    return "lists no tools. Its tools may depend on who asks: check the credential."


TOOLS_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Tool name", "string"),
    ("Tool type", "string"),
    ("Server", "string"),
    ("Title", "string"),
    ("Description", "string"),
    ("Parameters", "string"),
    ("Example arguments", "string"),
    ("Read only", "boolean"),
    ("Destructive", "boolean"),
    ("Context tokens", "int32"),
    ("Security findings", "string"),
    ("Digest", "string"),
    ("Notes", "string"),
)
"""After the tool column."""

SERVERS_COLUMNS: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Status", "string"),
    ("Server", "string"),
    ("Server version", "string"),
    ("Protocol", "string"),
    ("Tools", "int32"),
    ("Phase", "string"),
    ("Error", "string"),
    ("Next step", "string"),
)


def tools_schema(form: ColumnForm) -> Any:
    import knime.extension as knext

    tool = knext.Column(knime_type(form), column_name(form))
    return knext.Schema.from_columns([tool, *knime_columns(TOOLS_COLUMNS)])


def servers_schema() -> Any:
    import knime.extension as knext

    return knext.Schema.from_columns(knime_columns(SERVERS_COLUMNS))


def tools_table(
    tools: Sequence[ProvidedTool], form: ColumnForm, *, for_agents: ForAgents, settings: dict[str, Any]
) -> pa.Table:
    """The table *Tools*; the shown names are unique and become the RowIDs.

    ``settings`` are those of the node that calls a tool for KNIME's own agents.
    """
    import pyarrow as pa

    cells = None
    notes: Sequence[str | None] = [None] * len(tools)
    if form is ColumnForm.CARRIER:  # KNIME's agents take no other form
        from ..agent_parameters import cell_names, notes_of
        from ..tool_segment import tool_cell

        names = cell_names(tool.shown_name for tool in tools)
        refusals = [_refusal(tool.tool, for_agents) for tool in tools]
        each = list(zip((tool.tool for tool in tools), names, refusals, strict=True))
        cells = [tool_cell(tool, name, settings, refusal=refusal) for tool, name, refusal in each]
        notes = [notes_of(tool, name, refused=refusal) for tool, name, refusal in each]
    rows = [(*_tool_row(tool), said) for tool, said in zip(tools, notes, strict=True)]
    ids = pa.array([tool.shown_name for tool in tools], pa.string())
    column = write_tools([tool.tool for tool in tools], form, cells)
    return pa.table({ROW_ID: ids, column_name(form): column, **arrow_columns(TOOLS_COLUMNS, rows)})


def _refusal(tool: MCPTool, for_agents: ForAgents) -> str:
    """Why KNIME's own agents are not to run a tool, with what to do; empty if they may."""
    setting = "'For KNIME's agents' of MCP Tool Provider"
    match for_agents:
        case "all":
            return ""
        case "read_only":
            if tool.is_read_only:
                return ""
            return (
                f"'{tool.name}' may change something, and KNIME's own agents ask nobody before a call. Set"
                f" {setting} to 'All tools' to allow it, or use MCP Agent Prompter, which has rules for calls"
            )
        case "none":
            return f"{setting} allows them no tools, so '{tool.name}' is not called"
        case _:
            assert_never(for_agents)


def servers_table(outcomes: Sequence[ServerOutcome]) -> pa.Table:
    """The table *Servers*; the rows of the requests become the RowIDs."""
    import pyarrow as pa

    ids = pa.array([outcome.request.row for outcome in outcomes], pa.string())
    rows = [_server_row(outcome) for outcome in outcomes]
    return pa.table({ROW_ID: ids, **arrow_columns(SERVERS_COLUMNS, rows)})


def _context_tokens(definition: ToolDefinition, shown_name: str) -> int:
    """Estimates the tokens that a tool takes in a model's context.

    A quarter of the UTF-8 bytes of name, description and schema as sent to a model, rounded up: a rule of
    thumb that is right within a third for English and JSON.
    """
    shown = {"name": shown_name, "description": definition.description or ""}
    return -(-len(compact_json(shown | {"parameters": definition.input_schema}).encode()) // 4)


def _tool_row(tool: ProvidedTool) -> tuple[Any, ...]:
    definition = tool.definition
    return (
        tool.shown_name,
        "mcp",
        ServerRoute.parse(tool.tool.server_uri.partition("#")[0]).url,  # read once for all its tools
        _text(definition.display_title),
        _text(definition.description),
        tool.tool.schema_json,
        example_arguments(definition.input_schema),
        definition.read_only,
        definition.destructive,
        _context_tokens(definition, tool.shown_name),
        findings_json(tool.findings),
        definition.digest,
    )


def _server_row(outcome: ServerOutcome) -> tuple[Any, ...]:
    error, server = outcome.error, outcome.server
    name_and_version = " ".join(filter(None, (server.name, server.version))) if server else None
    return (
        "failed" if error else "ok",
        outcome.request.server or None,
        _text(name_and_version or None),
        server.protocol_version if server else None,
        len(outcome.tools),
        outcome.phase,
        _text(error.what) if error else None,
        _text(error.fix) if error else None,
    )


def _text(text: str | None) -> str | None:
    return None if text is None else without_surrogates(text)


_MAX_DETAILED: Final = 4_000_000  # characters; browsers stay quick below
_CLAIMED: Final = "Declared by the server, not verified"


def catalogue(provision: Provision) -> str:
    """The view of the outcomes of all servers, a self-contained HTML page."""
    tools, failed = provision.tools, provision.failed
    suspicious = sum(1 for tool in tools if tool.findings)
    of_servers = f"from {counted(len(provision.outcomes), 'server')}"
    summary = [badge(f"{counted(len(tools), 'tool')} {of_servers}", "good" if tools else "neutral")]
    if failed:
        summary.append(badge(f"{counted(len(failed), 'server')} failed", "bad"))
    if suspicious:
        summary.append(badge(f"{counted(suspicious, 'tool')} with security findings", "warning"))
    sections: list[Html] = []
    for outcome in provision.outcomes:
        # Behind the first tool that has no room, none is shown at length.
        sections.append(_server_section(outcome, _MAX_DETAILED - sum(map(len, sections))))
    return page("MCP tools", heading(1, "MCP tools"), element("p", join(summary, " ")), *sections)


def _server_section(outcome: ServerOutcome, room: int) -> Html:
    server, request, error = outcome.server, outcome.request, outcome.error
    title = (server.title or server.name) if server else ""
    status = (
        badge(f"failed: {outcome.phase}", "bad")
        if error
        else badge(counted(len(outcome.tools), "tool"), "good" if outcome.tools else "warning")
    )
    parts: list[Html] = [
        heading(2, title or request.server or f"Row {request.row}", " ", status),
        properties(
            (
                ("Address", request.server),
                ("Credential", request.route.credential if request.route else None),
                ("Server", " ".join(filter(None, (server.name, server.version))) if server else None),
                ("Protocol", f"{server.protocol_version} over {server.transport}" if server else None),
                ("Time", f"{outcome.seconds:.2f} s" if outcome.steps else None),
            )
        ),
    ]
    if error is not None:
        parts.append(note(element("b", error.what), kind="bad"))
        parts += [note(element("b", "Next step: "), error.fix)] if error.fix else []
        parts += [_steps(outcome)] if outcome.steps else []
    elif not outcome.tools:
        parts.append(note("No tools to show.", kind="warning"))
    parts.append(_findings(outcome.findings))
    if outcome.offered > len(outcome.tools):
        filtered = f"{len(outcome.tools):,} of {outcome.offered:,} tools, as filtered in the settings."
        parts.append(paragraph(filtered, soft=True))
    if outcome.dropped:
        parts.append(note("Tools that cannot be used as they are defined:", kind="warning"))
        parts.append(table(("Tool", "Why"), outcome.dropped))
    parts += _tools(outcome.tools, room)
    if server and server.instructions:
        parts.append(details("What the server tells models", paragraph(server.instructions)))
    return element("section", *parts)


def _steps(outcome: ServerOutcome) -> Html:
    """Every step of connecting, up to the failed one."""
    return table(
        ("Step", "", "What", "Detail", "Seconds"),
        (
            (
                step.phase,
                badge("ok", "good") if step.ok else badge("failed", "bad"),
                step.what,
                step.detail,
                f"{step.seconds:.3f}",
            )
            for step in outcome.steps
        ),
    )


def _tools(tools: Sequence[ProvidedTool], room: int) -> list[Html]:
    shown: list[Html] = []
    for number, tool in enumerate(tools):
        detailed = _tool_details(tool)
        room -= len(detailed)
        if room < 0:
            rest = [(each.shown_name, _first_line(each)) for each in tools[number:]]
            shown.append(
                note(f"The remaining {counted(len(rest), 'tool')} in short; the table has everything.")
            )
            return [*shown, table(("Tool", "Description"), rest)]
        shown.append(detailed)
    return shown


def _tool_details(tool: ProvidedTool) -> Html:
    """What a person reads before a model gets the tool; schemas and examples are in the table."""
    definition, line = tool.definition, _first_line(tool)
    labels = [
        badge("read only", "good", title=_CLAIMED) if definition.read_only else "",
        badge("destructive", "bad", title=_CLAIMED) if definition.destructive else "",
        badge(counted(len(tool.findings), "finding"), "warning") if tool.findings else "",
    ]
    description = (definition.description or "").strip() or "No description."
    schema = definition.input_schema
    parameters, needed = listed_parameters(schema)
    rows = (
        (
            element("code", name),
            type_in_words(schema, part),
            "required" if name in needed else "",
            about if isinstance(about := resolve(schema, part).get("description"), str) else "",
        )
        for name, part in parameters.items()
    )
    return details(
        join(
            (element("b", tool.shown_name), *filter(None, labels), element("span", line, class_="soft")), " "
        ),
        _findings(tool.findings),
        paragraph(description) if description != line else Html(),
        properties(
            (
                ("Title", definition.display_title),
                ("Call", f"{definition.name}({signature(schema)})"),
                ("Digest", definition.digest),
            )
        ),
        table(("Parameter", "Type", "", "Description"), rows)
        if parameters
        else paragraph("Takes no arguments.", soft=True),
    )


def _findings(findings: Sequence[SecurityFinding]) -> Html:
    notes: list[Html] = []
    for each in findings:
        kind, where = element("b", each.kind.capitalize()), element("code", each.where or "/")
        notes.append(note(kind, " at ", where, f": {each.what}", kind="warning"))
    return join(notes)


def _first_line(tool: ProvidedTool) -> str:
    return shortened(" ".join((tool.definition.description or "").split()), 120)
