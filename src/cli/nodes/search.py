"""``knime-mcp nodes search``: finds nodes by their purpose, also in the words of other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...types.short_texts import counted
from ..errors import ExitCode, reports_errors
from ..terminal import note, one_line, print_json, show, table
from .catalogue import CatalogueOption, open_catalogue, tell_origin

if TYPE_CHECKING:
    from ...knowledge.node_search import Hit


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

    Example: knime-mcp nodes search VLOOKUP
    """
    from ...knowledge.node_search import search as search_catalogue
    from ...knowledge.node_service import NodeKnowledgeMCPService

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
                show(
                    table(None, ("node", "ask for it as", "found by", "what it does"), map(_row, found.hits))
                )
            nodes = counted(found.total, "node")
            note(f"{len(found.hits):,} of {nodes}." if found.total else "Nothing was found.")
            tell_origin(reader.origin)
    return ExitCode.OK if found.hits else ExitCode.FAILED


def _row(hit: Hit) -> tuple[str, str, str, str]:
    node = hit.node
    name = f"{node.name} (deprecated)" if node.deprecated else node.name
    how = f"{hit.field}: {', '.join(hit.words)}" if hit.words else hit.field
    return name, node.id, one_line(how, 40), one_line(_description(node), 90)


def _description(node: Any) -> str:
    instead = f"Use {node.successor} instead. " if node.deprecated and node.successor else ""
    return f"{instead}{node.short_description}"
