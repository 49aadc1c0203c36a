"""The service and the registry of the design documents, backed by a catalogue: types, details, search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..searching.search import search
from .corrections import resolve_type, resolved_node
from .detail_levels import DetailLevel, details_at
from .details import brief

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalogue.reading import Catalogue, CatalogueReader
    from ..model import NodeSpec
    from ..searching.search import SearchAnswer
    from .corrections import Resolved


_LONGEST_SHOWN: Final = 500
_MOST_VALID: Final = 50


class NodeSpecRegistryWrapper:
    """The registry of the design documents: all specifications by type and subtype.

    Args:
        catalogue: The catalogue with the specifications.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def get_node_types(self) -> dict[str, list[str]]:
        """Subtypes by type, always in the same order."""
        return {name: list(subtypes) for name, subtypes in self._catalogue.types().items()}

    def get_spec(self, node_type: str, subtype: str) -> NodeSpec | None:
        """The node with exactly this type and subtype, or None."""
        with self._catalogue.reading() as reader:
            return reader.find(node_type, subtype)

    def list_all_specs(self) -> list[NodeSpec]:
        """All nodes, always in the same order."""
        return self._catalogue.nodes()


class NodeKnowledgeService:
    """The service of the design documents: types, details and search.

    Thread-safe. A replaced catalogue is used from the next call on.

    Args:
        catalogue: The catalogue that answers.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.registry = NodeSpecRegistryWrapper(catalogue)

    def get_node_types(self, type_filter: str | None = None) -> dict[str, list[str]]:
        """Subtypes by type, for all types or one; empty if the type does not exist.

        Args:
            type_filter: Only this type. Old names and other spellings of the case are accepted.

        Raises:
            CatalogueError: The catalogue cannot be read (so an empty answer never stands for a failure).
        """
        types = self.registry.get_node_types()
        if type_filter is None:
            return types
        with self.catalogue.reading() as reader:
            meant, _ = resolve_type(reader, type_filter)
        return {meant: types[meant]} if meant is not None else {}

    def get_node_details(
        self,
        nodes: Sequence[Mapping[str, str]],
        include_examples: bool = True,
        include_schemas: bool = True,
    ) -> list[dict[str, Any]]:
        """All fields of each node; see `details_as_json`.

        Raises:
            CatalogueError: The catalogue cannot be read.
        """
        with self.catalogue.reading() as reader:
            return details_as_json(
                reader,
                nodes,
                DetailLevel.FULL,
                include_examples=include_examples,
                include_schemas=include_schemas,
            )

    def search_nodes(
        self, query: str, max_results: int = 10, include_details: bool = False
    ) -> list[dict[str, Any]]:
        """The nodes that match a query, the best first, each with ``relevance_score``.

        Args:
            query: Any text.
            max_results: The largest number of nodes.
            include_details: Return all fields of each node.
        """
        with self.catalogue.reading() as reader:
            found = search(reader, query, limit=max_results)
            return hits_as_json(reader, found, DetailLevel.FULL if include_details else None)


def details_as_json(
    reader: CatalogueReader,
    nodes: Sequence[Mapping[str, str]],
    detail: DetailLevel,
    *,
    include_examples: bool,
    include_schemas: bool,
) -> list[dict[str, Any]]:
    """The requested nodes, in the order of the request.

    Args:
        reader: The catalogue.
        nodes: Each with ``node_type`` and ``subtype``, or with ``id``.
        detail: The level of detail.
        include_examples: Include examples.
        include_schemas: Include the schemas of run-time parameters and ports.

    Returns:
        One entry per node. For an unknown node it has ``error``, ``hint``, ``suggestions`` and ``valid``; for
        a corrected reference it has ``warning``.
    """
    found: list[dict[str, Any]] = []
    for node in nodes:
        resolved = resolved_node(reader, node)
        if resolved.node is None:
            found.append(not_found(resolved, node))
            continue
        spec = reader.at(resolved.node.row)
        entry = details_at(detail, spec, include_examples=include_examples, include_schemas=include_schemas)
        found.append(entry | ({"warning": resolved.warning} if resolved.warning else {}))
    return found


def hits_as_json(
    reader: CatalogueReader, found: SearchAnswer, detail: DetailLevel | None
) -> list[dict[str, Any]]:
    """The hits of a search as JSON, in short or at a level of detail."""
    return [
        (brief(hit.node) if detail is None else details_at(detail, reader.at(hit.node.row)))
        | {"relevance_score": hit.score, "matched_field": hit.field, "matched": list(hit.words)}
        for hit in found.hits
    ]


def not_found(resolved: Resolved, given: Mapping[str, str]) -> dict[str, Any]:
    """The entry for a node that was not found."""
    found: dict[str, Any] = {
        "node_type": given.get("node_type", "")[:_LONGEST_SHOWN],
        "subtype": given.get("subtype", given.get("id", ""))[:_LONGEST_SHOWN],
        "error": resolved.error,
        "hint": resolved.hint,
        "suggestions": [brief(node) for node in resolved.suggestions],
    }
    if resolved.valid:
        left_out = len(resolved.valid) - _MOST_VALID
        more = [f"and {left_out} more"] if left_out > 0 else []
        found["valid"] = [*resolved.valid[:_MOST_VALID], *more]
    return found
