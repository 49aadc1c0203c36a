"""``knime-mcp nodes types``: lists the types of nodes and their subtypes."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ..errors import ExitCode, UsageError, reports_errors
from ..terminal import print_json, show, table
from .catalogue import CatalogueOption, open_catalogue, tell_origin

_SHOWN: Final = 6


@reports_errors
def types(
    node_type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="Only this type, with all of its subtypes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the types as JSON.")] = False,
    catalogue: CatalogueOption = None,
) -> ExitCode:
    """List the types of nodes, how many there are of each, and their subtypes.

    Example: knime-mcp nodes types TRIGGER
    """
    from ...knowledge.node_service import NodeKnowledgeService

    with open_catalogue(catalogue) as opened:
        service = NodeKnowledgeService(opened)
        node_types = service.get_node_types(node_type)
        if node_type is not None and not node_types:
            known = ", ".join(service.get_node_types())
            raise UsageError(f"There is no node type '{node_type}'. Types: {known}.")
        if as_json:
            print_json(node_types)
        else:
            _print(node_types, whole=node_type is not None)
            tell_origin(opened.origin)
    return ExitCode.OK


def _print(node_types: dict[str, list[str]], *, whole: bool) -> None:
    if whole:
        rows = [(name, subtype) for name, subtypes in node_types.items() for subtype in subtypes]
        show(table(None, ("type", "subtype"), rows))
        return
    counted = [(name, str(len(subtypes)), _some(subtypes)) for name, subtypes in node_types.items()]
    show(table(None, ("type", "nodes", "such as"), counted))


def _some(subtypes: list[str]) -> str:
    shown = ", ".join(subtype.rpartition(".")[2] for subtype in subtypes[:_SHOWN])
    return f"{shown}, …" if len(subtypes) > _SHOWN else shown
