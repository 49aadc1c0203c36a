"""Values for the page's templates: an overview of the catalogue, lists of nodes, a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...node_details import full_description
from ...node_references import resolve_reference
from ...node_search import Tier, search
from ...tool_arguments import count_in
from ..errors import invalid_request

if TYPE_CHECKING:
    from ...catalogue_reader import Catalogue, CatalogueReader
    from ...node_search import Hit

PAGE_SIZE: Final = 25
_MOST_PAGES: Final = 10_000
_LONGEST: Final = 500


def overview(catalogue: Catalogue) -> dict[str, Any]:
    """The number of nodes of each type, and the sources of the catalogue."""
    with catalogue.reading() as reader:
        return {"types": _counts(reader), "origin": reader.origin}


def listed(catalogue: Catalogue, *, query: str, node_type: str, page: str) -> dict[str, Any]:
    """A page of the list of all nodes, or of the nodes that a search finds.

    Args:
        catalogue: The catalogue.
        query: The search text; empty for all nodes.
        node_type: Only nodes of this type; empty for all types.
        page: The page number in the request; invalid numbers count as 1.

    Returns:
        The nodes, each with the reason why the search found it; the number of nodes on all pages; the page
        and the number of pages; all types; unknown words with the words that were searched instead.
    """
    number = min(max(count_in(page) or 1, 1), _MOST_PAGES)
    offset = (number - 1) * PAGE_SIZE
    with catalogue.reading() as reader:
        types = _counts(reader)
        wanted = node_type or None
        corrected: tuple[tuple[str, str], ...] = ()
        if query.strip():
            found = search(reader, query[:_LONGEST], limit=PAGE_SIZE, offset=offset, node_type=wanted)
            entries = [(hit.node, _why(hit)) for hit in found.hits]
            total, corrected = found.total, found.corrected
        else:
            entries = [(node, "") for node in reader.summaries(wanted, offset=offset, limit=PAGE_SIZE)]
            total = sum(types.values()) if wanted is None else types.get(wanted, 0)
    return {
        "entries": entries,
        "total": total,
        "page": number,
        "pages": max(1, -(-total // PAGE_SIZE)),
        "types": tuple(types),
        "corrected": corrected,
    }


def card(catalogue: Catalogue, reference: str) -> dict[str, Any]:
    """A node, its full description, and the node that replaces it, if that is in this catalogue.

    Args:
        catalogue: The catalogue.
        reference: The node's id, its exact name, or ``TYPE.SUBTYPE``.

    Raises:
        MCPError: There is no such node.
    """
    with catalogue.reading() as reader:
        resolved = resolve_reference(reader, reference[:_LONGEST])
        if resolved.node is None:
            raise invalid_request("There is no such node in this catalogue. Search for it.", status=404)
        node = reader.at(resolved.node.row)
        successor = resolve_reference(reader, node.successor).node if node.successor else None
    return {"node": node, "description": full_description(node), "successor": successor}


def _counts(reader: CatalogueReader) -> dict[str, int]:
    return {name: len(subtypes) for name, subtypes in reader.types().items()}


def _why(hit: Hit) -> str:
    """The reason why a search found a node; empty if the node's name shows the reason."""
    if hit.tier is Tier.CALLED:
        return f"also called {' '.join(hit.words)}" if hit.words else "also called so"
    if hit.tier is Tier.EXACT or hit.field in ("", "name", "id") or not hit.words:
        return ""
    return f"found in its {hit.field}: {', '.join(hit.words)}"
