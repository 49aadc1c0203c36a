"""``knime-nodes search``, ``show``, ``types`` and ``check-workflow``: what the catalogue says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from knime_mcp.cli.command_errors import CommandError, ExitCode, UsageError, reports_errors
from knime_mcp.cli.terminal import note, one_line, print_json, say, show_table
from knime_mcp.types.texts import counted

from .node_catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ..node_model import NodeParameter, NodeSpec, Port
    from ..node_search import Hit
    from ..outline_check import WorkflowCheck

_SHOWN: Final = 6
_MOST_UNJUDGED: Final = 20


@reports_errors
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="What the node does, its name, or its id.")
    ],
    most: Annotated[int, typer.Option("--max", "-n", min=1, max=100, help="How many nodes to show.")] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what the tool search_nodes answers.")
    ] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Find nodes by what they do, also in the words of Excel, SQL, pandas, Alteryx or n8n.

    The exit code is 1 if nothing was found.

    Example: knime-nodes search VLOOKUP
    """
    from ..node_search import search as search_catalogue
    from ..node_service import NodeKnowledgeMCPService

    query = " ".join(words)
    with open_catalogue(catalogue) as opened:
        if as_json:
            service = NodeKnowledgeMCPService(opened)
            answer = service.invoke_tool("search_nodes", {"query": query, "max_results": most})
            print_json(answer)
            return ExitCode.OK if answer["nodes"] else ExitCode.FAILED
        with opened.reading() as reader:
            found = search_catalogue(reader, query, limit=most)
            for word, instead in found.corrected:
                note(f"'{word}' was not found, '{instead}' was.")
            if found.hits:
                show_table(None, ("node", "ask for it as", "found by", "what it does"), map(_row, found.hits))
            nodes = counted(found.total, "node")
            note(f"{len(found.hits):,} of {nodes}." if found.total else "Nothing was found.")
            tell_origin(reader.origin)
    return ExitCode.OK if found.hits else ExitCode.FAILED


def _row(hit: Hit) -> tuple[str, str, str, str]:
    node = hit.node
    name = f"{node.name} (deprecated)" if node.deprecated else node.name
    how = f"{hit.field}: {', '.join(hit.words)}" if hit.words else hit.field
    instead = f"Use {node.successor} instead. " if node.deprecated and node.successor else ""
    return name, node.id, one_line(how, 40), one_line(f"{instead}{node.short_description}", 90)


@reports_errors
def show_node(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its name, its id, or TYPE.SUBTYPE.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what the tool get_node_details answers.")
    ] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Show a node: what it does, its ports and its settings.

    Example: knime-nodes show Joiner
    """
    from ..node_details import node_details
    from ..node_references import resolved_node

    with open_catalogue(catalogue) as opened, opened.reading() as reader:
        resolved = resolved_node(reader, {"id": node})
        if resolved.node is None:
            raise CommandError(f"{resolved.error}: '{node}'. {resolved.hint}")
        spec = reader.at(resolved.node.row)
        if resolved.warning:
            note(resolved.warning)
        if as_json:
            print_json(node_details(spec))
        else:
            _print(spec)
            tell_origin(reader.origin)
    return ExitCode.OK


def _print(spec: NodeSpec) -> None:
    from ..node_details import full_description

    say(spec.name, "bold")
    say(f"{spec.id}  ({' / '.join(spec.category)})")
    if spec.deprecated:
        instead = f" Use {spec.successor} instead." if spec.successor else ""
        say(f"Deprecated.{instead}", "yellow")
    say("")
    say(full_description(spec))
    for title, ports in (("Inputs", spec.input_ports), ("Outputs", spec.output_ports)):
        if ports:
            show_table(title, ("port", "type", "", "what for"), map(_port, ports))
    _print_parameters("Settings", spec.parameters)
    _print_parameters("Taken at run time", spec.input_params)
    _print_parameters("Handed on at run time", spec.output_params)
    if spec.attached_nodes:
        say(f"Can be attached: {', '.join(spec.attached_nodes)}")


def _print_parameters(title: str, parameters: tuple[NodeParameter, ...]) -> None:
    if parameters:
        columns = ("name", "type", "default", "allowed", "what for")
        show_table(title, columns, map(_parameter, parameters))


def _port(port: Port) -> tuple[str, str, str, str]:
    marks = [mark for mark, there in (("optional", port.optional), ("several", port.group)) if there]
    return port.name, port.type, ", ".join(marks), one_line(port.description)


def _parameter(parameter: NodeParameter) -> tuple[str, str, str, str, str]:
    default = _value(parameter.default_value) if parameter.has_default else ""
    if parameter.required and not default:
        default = "(required)"
    return (
        parameter.label or parameter.name,
        parameter.type or "",
        one_line(default, 30),
        one_line(", ".join(map(_value, parameter.enum_values) if parameter.options else parameter.range), 60),
        one_line(parameter.description, 100),
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@reports_errors
def types(
    node_type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="Only this type, with all of its subtypes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the types as JSON.")] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """List the types of nodes, how many there are of each, and their subtypes.

    Example: knime-nodes types TRIGGER
    """
    from ..node_index import knimes_first
    from ..node_service import NodeKnowledgeService

    with open_catalogue(catalogue) as opened:
        service = NodeKnowledgeService(opened)
        node_types = service.get_node_types(node_type)
        if node_type is not None and not node_types:
            known = ", ".join(service.get_node_types())
            raise UsageError(f"There is no node type '{node_type}'. Types: {known}.")
        if as_json:
            print_json(node_types)
        else:
            _print_types(knimes_first(node_types), whole=node_type is not None)
            tell_origin(opened.origin)
    return ExitCode.OK


def _print_types(node_types: dict[str, list[str]], *, whole: bool) -> None:
    if whole:
        rows = [(name, subtype) for name, subtypes in node_types.items() for subtype in subtypes]
        show_table(None, ("type", "subtype"), rows)
        return
    counted = [(name, str(len(subtypes)), _some(subtypes)) for name, subtypes in node_types.items()]
    show_table(None, ("type", "nodes", "such as"), counted)


def _some(subtypes: list[str]) -> str:
    # Subtypes are names of Java classes, whose packages are long and all alike.
    shown = ", ".join(subtype.rpartition(".")[2] for subtype in subtypes[:_SHOWN])
    return f"{shown}, …" if len(subtypes) > _SHOWN else shown


@reports_errors
def check_workflow(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="The outline of a workflow, as JSON."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Check a workflow: unknown nodes, wrong ports, wrong settings, deprecated nodes.

    Only what is certainly wrong is an error, and the exit code is then 1. The tool check_workflow of the MCP
    server takes the same outlines.

    Example: knime-nodes check-workflow outline.json
    """
    from ..node_service import workflow_check_as_json
    from ..outline_check import check_workflow as check_outline
    from ..workflow_outline import read_outline

    outline = read_outline(file.read_text("utf-8", "replace"))
    with open_catalogue(catalogue) as opened, opened.reading() as reader:
        check = check_outline(reader, outline)
        if as_json:
            print_json(workflow_check_as_json(check))
        else:
            _tell_check(check)
            tell_origin(reader.origin)
    return ExitCode.FAILED if check.valid is False else ExitCode.OK


def _tell_check(check: WorkflowCheck) -> None:
    for finding in check.findings:
        setting = f"setting '{finding.setting}' " if finding.setting else ""
        colour = "red" if finding.severity == "error" else "yellow"
        say(f"{finding.severity}: {finding.where}: {setting}{finding.problem}", colour)
        say(f"  {finding.fix}")
    for text in check.notes:
        note(text)
    for where, why in list(check.not_judged)[:_MOST_UNJUDGED]:
        note(f"Not judged: {where}: {why}")
    if len(check.not_judged) > _MOST_UNJUDGED:
        note(f"… and {counted(len(check.not_judged) - _MOST_UNJUDGED, 'more place')} not judged")
    wrong = sum(finding.severity == "error" for finding in check.findings)
    say(
        f"{counted(check.nodes, 'node')}, {counted(check.settings, 'configuration')} and"
        f" {counted(check.connections, 'connection')} judged: {counted(wrong, 'error')},"
        f" {counted(len(check.findings) - wrong, 'warning')}",
        "bold",
    )
