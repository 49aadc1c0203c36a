"""The view of listed servers, for the person who decides which tools a model gets.

It has the description, parameters and security findings of each tool, and for a failed server every step of
connecting up to the failed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...client.validation.argument_schemas import listed_parameters, resolve
from ...types.texts import counted, shortened
from ..calling_hints import example_arguments, signature, type_in_words
from ..views.html import (
    Html,
    badge,
    details,
    element,
    heading,
    join,
    json_block,
    note,
    page,
    paragraph,
    properties,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .findings import Finding
    from .provide import ProvidedTool, Provision, ServerOutcome

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
    room = _Room(_MAX_DETAILED)
    return page(
        "MCP tools",
        heading(1, "MCP tools"),
        element("p", join(summary, " ")),
        *(_server_section(outcome, room) for outcome in provision.outcomes),
    )


class _Room:
    """The number of characters that are left for details on the page."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def takes(self, html: Html) -> bool:
        self._left -= len(html)
        return self._left >= 0


def _server_section(outcome: ServerOutcome, room: _Room) -> Html:
    server, request = outcome.server, outcome.request
    title = (server.title or server.name) if server else ""
    parts: list[Html] = [
        heading(2, title or request.server or f"Row {request.row}", " ", _status(outcome)),
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
    if outcome.error is not None:
        parts.append(note(element("b", outcome.error.what), kind="bad"))
        if outcome.error.fix:
            parts.append(note(element("b", "Next step: "), outcome.error.fix))
    if outcome.error is not None and outcome.steps:
        parts.append(_steps(outcome))
    parts.append(_findings(outcome.findings))
    if outcome.error is None and not outcome.tools:
        parts.append(note("No tools to show.", kind="warning"))
    if outcome.offered > len(outcome.tools):
        parts.append(
            paragraph(
                f"{len(outcome.tools):,} of {outcome.offered:,} tools, as filtered in the settings.",
                soft=True,
            )
        )
    if outcome.dropped:
        parts.append(note("Tools that cannot be used as they are defined:", kind="warning"))
        parts.append(table(("Tool", "Why"), outcome.dropped))
    parts += _tools(outcome.tools, room)
    if server and server.instructions:
        parts.append(details("What the server tells models", paragraph(server.instructions)))
    if outcome.error is None and outcome.steps:
        parts.append(details("Steps of the connection", _steps(outcome)))
    return element("section", *parts)


def _status(outcome: ServerOutcome) -> Html:
    if outcome.error is not None:
        return badge(f"failed: {outcome.phase}", "bad")
    return badge(counted(len(outcome.tools), "tool"), "good" if outcome.tools else "warning")


def _steps(outcome: ServerOutcome) -> Html:
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


def _tools(tools: Sequence[ProvidedTool], room: _Room) -> list[Html]:
    shown: list[Html] = []
    for number, tool in enumerate(tools):
        detailed = _tool_details(tool)
        if not room.takes(detailed):
            rest = tools[number:]
            names = table(("Tool", "Description"), ((each.shown_name, _first_line(each)) for each in rest))
            shown.append(
                note(f"The remaining {counted(len(rest), 'tool')} in short; the table has everything.")
            )
            shown.append(names)
            break
        shown.append(detailed)
    return shown


def _tool_details(tool: ProvidedTool) -> Html:
    definition = tool.definition
    labels = [
        badge("read only", "good", title=_CLAIMED) if definition.read_only else "",
        badge("destructive", "bad", title=_CLAIMED) if definition.destructive else "",
        badge(counted(len(tool.findings), "finding"), "warning") if tool.findings else "",
    ]
    line = element("span", _first_line(tool), class_="soft")
    title = definition.display_title
    return details(
        join((element("b", tool.shown_name), *filter(None, labels), line), " "),
        _findings(tool.findings),
        _description(tool),
        properties(
            (
                ("Title", title if title != definition.name else None),
                ("Name at the server", definition.name if definition.name != tool.shown_name else None),
                ("Call", f"{definition.name}({signature(definition.input_schema)})"),
                ("Digest", definition.digest),
            )
        ),
        _parameters(definition.input_schema),
        heading(3, "Example arguments"),
        json_block(example_arguments(definition.input_schema)),
        details("Schema of the arguments", json_block(definition.input_schema)),
        details("Schema of the result", json_block(result)) if (result := definition.output_schema) else None,
    )


def _description(tool: ProvidedTool) -> Html:
    """The description, unless the line above it has all of it."""
    text = tool.definition.description or ""
    if not text:
        return paragraph("No description.", soft=True)
    return paragraph(text) if text.strip() != _first_line(tool) else Html()


def _parameters(schema: dict[str, Any]) -> Html:
    parameters, needed = listed_parameters(schema)
    if not parameters:
        return paragraph("Takes no arguments.", soft=True)
    rows: list[tuple[str | Html, ...]] = []
    for name, part in parameters.items():
        description = resolve(schema, part).get("description")
        rows.append(
            (
                element("code", name),
                type_in_words(schema, part),
                "required" if name in needed else "",
                description if isinstance(description, str) else "",
            )
        )
    return table(("Parameter", "Type", "", "Description"), rows)


def _findings(findings: Sequence[Finding]) -> Html:
    notes: list[Html] = []
    for each in findings:
        kind, where = element("b", each.kind.capitalize()), element("code", each.where or "/")
        notes.append(note(kind, " at ", where, f": {each.what}", kind="warning"))
    return join(notes)


def _first_line(tool: ProvidedTool) -> str:
    return shortened(" ".join((tool.definition.description or "").split()), 120)
