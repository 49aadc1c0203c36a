"""What the page shows of the catalogue: an overview, lists to leaf through, and a node's card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...answers.corrections import resolve_reference
from ...answers.details import full_description
from ...searching.search import Tier, search
from ...searching.search_index import index_of
from ..errors import invalid_request

if TYPE_CHECKING:
    from ...catalogue import Catalogue
    from ...model import CatalogueOrigin, NodeSpec, NodeSummary

PAGE_SIZE: Final = 25
_MOST_PAGES: Final = 10_000
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What there is.

    Attributes:
        types: How many nodes of each type.
        origin: What the catalogue was built from.
    """

    types: dict[str, int]
    origin: CatalogueOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A node in a list.

    Attributes:
        node: The node.
        why: Why a search found it, where that is not plain to see.
    """

    node: NodeSummary
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """A page of a list.

    Attributes:
        entries: What is on it.
        total: How many there are on all pages.
        page: Its number, from 1.
        pages: How many pages there are.
        types: All types, to choose one.
        corrected: Words that were not found, and those that were taken instead.
    """

    entries: list[Entry]
    total: int
    page: int
    pages: int
    types: tuple[str, ...]
    corrected: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All about a node.

    Attributes:
        node: The node.
        description: Its description.
        successor: The node to use instead, if it is in this catalogue.
        sections: Titles, and what is set or given there; what is shown at first, and the rest.
    """

    node: NodeSpec
    description: str
    successor: NodeSummary | None
    sections: list[dict[str, Any]]


def overview(catalogue: Catalogue) -> Overview:
    """What there is.

    Raises:
        CatalogueError: The catalogue cannot be read.
    """
    with catalogue.reading() as reader:
        types = {name: len(subtypes) for name, subtypes in reader.types().items()}
        return Overview(types=types, origin=reader.origin)


def listed(catalogue: Catalogue, *, query: str, node_type: str, page: str) -> NodeList:
    """A page of a list: of what a search finds, or of all.

    Args:
        catalogue: The catalogue.
        query: What to search for; empty: all nodes.
        node_type: Only this type; empty: every type.
        page: The page's number as it was sent; what is none counts as 1.

    Raises:
        CatalogueError: The catalogue cannot be read.
    """
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 9 else 1
    number = min(max(number, 1), _MOST_PAGES)
    offset = (number - 1) * PAGE_SIZE
    with catalogue.reading() as reader:
        types = {name: len(subtypes) for name, subtypes in reader.types().items()}
        wanted = node_type or None
        corrected: tuple[tuple[str, str], ...] = ()
        if query.strip():
            found = search(reader, query[:_LONGEST], limit=PAGE_SIZE, offset=offset, node_type=wanted)
            entries = [Entry(node=hit.node, why=_why(hit.tier, hit.field, hit.words)) for hit in found.hits]
            total, corrected = found.total, found.corrected
        else:
            summaries = reader.summaries(wanted, offset=offset, limit=PAGE_SIZE)
            entries = [Entry(node=node) for node in summaries]
            total = sum(types.values()) if wanted is None else types.get(wanted, 0)
    return NodeList(
        entries=entries,
        total=total,
        page=number,
        pages=max(1, -(-total // PAGE_SIZE)),
        types=tuple(types),
        corrected=corrected,
    )


def card(catalogue: Catalogue, reference: str) -> Card:
    """All about a node.

    Args:
        catalogue: The catalogue.
        reference: Its id, its exact name, or ``TYPE.SUBTYPE``.

    Raises:
        CatalogueError: The catalogue cannot be read.
        MCPError: There is no such node.
    """
    with catalogue.reading() as reader:
        index = index_of(reader)
        resolved = resolve_reference(reader, index, reference[:_LONGEST])
        if resolved.node is None:
            raise invalid_request("There is no such node in this catalogue. Search for it.", status=404)
        node = reader.at(resolved.node.row)
        successor = resolve_reference(reader, index, node.successor).node if node.successor else None
    sections = (
        ("Settings", node.parameters),
        ("Takes at run time", node.input_params),
        ("Gives at run time", node.output_params),
    )
    return Card(
        node=node,
        description=full_description(node),
        successor=successor,
        sections=[
            {
                "title": title,
                "shown": [entry for entry in parameters if not entry.advanced],
                "advanced": [entry for entry in parameters if entry.advanced],
            }
            for title, parameters in sections
            if parameters
        ],
    )


def _why(tier: Tier, field: str, words: tuple[str, ...]) -> str:
    if tier is Tier.CALLED:
        return f"also called {' '.join(words)}" if words else "also called so"
    if tier is Tier.EXACT or field in ("", "name", "id") or not words:
        return ""
    return f"found in its {field}: {', '.join(words)}"
