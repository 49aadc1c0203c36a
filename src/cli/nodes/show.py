"""``knime-mcp nodes show``: shows everything known about a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CommandError, ExitCode, reports_errors
from ..terminal import note, one_line, print_json, say, show, table
from .catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ...knowledge.node_model import NodeSpec, Parameter, Port


@reports_errors
def show_node(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its name, its id, or TYPE.SUBTYPE.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what the tool get_node_details answers.")
    ] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """Show a node: what it does, its ports and its settings.

    Example: knime-mcp nodes show Joiner
    """
    from ...knowledge.node_details import node_details
    from ...knowledge.node_references import resolved_node

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
    from ...knowledge.node_details import full_description

    say(spec.name, "bold")
    say(f"{spec.id}  ({' / '.join(spec.category)})")
    if spec.deprecated:
        instead = f" Use {spec.successor} instead." if spec.successor else ""
        say(f"Deprecated.{instead}", "yellow")
    say("")
    say(full_description(spec))
    for title, ports in (("Inputs", spec.input_ports), ("Outputs", spec.output_ports)):
        if ports:
            show(table(title, ("port", "type", "", "what for"), map(_port, ports)))
    _print_parameters("Settings", spec.parameters)
    _print_parameters("Taken at run time", spec.input_params)
    _print_parameters("Handed on at run time", spec.output_params)
    if spec.attached_nodes:
        say(f"Can be attached: {', '.join(spec.attached_nodes)}")


def _print_parameters(title: str, parameters: tuple[Parameter, ...]) -> None:
    if parameters:
        columns = ("name", "type", "default", "allowed", "what for")
        show(table(title, columns, map(_parameter, parameters)))


def _port(port: Port) -> tuple[str, str, str, str]:
    marks = [mark for mark, there in (("optional", port.optional), ("several", port.group)) if there]
    return port.name, port.type, ", ".join(marks), one_line(port.description)


def _parameter(parameter: Parameter) -> tuple[str, str, str, str, str]:
    default = _value(parameter.default_value) if parameter.has_default else ""
    if parameter.required and not default:
        default = "(required)"
    return (
        parameter.label or parameter.name,
        parameter.type or "",
        one_line(default, 30),
        one_line(_allowed(parameter), 60),
        one_line(parameter.description, 100),
    )


def _allowed(parameter: Parameter) -> str:
    if parameter.enum_values:
        return ", ".join(_value(value) for value in parameter.enum_values)
    return ", ".join(parameter.range)


def _value(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
