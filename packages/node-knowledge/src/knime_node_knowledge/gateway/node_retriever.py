"""The tool ``node_knowledge_retriever``: returns knowledge about nodes by name, with a similarity.

The knowledge comes from the catalogue, or from a Supabase project if one is configured (`SupabaseKnowledge`).
"""

from __future__ import annotations

import difflib
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from ..node_details import brief, full_description
from ..node_search import Tier, search
from ..query_words import folded
from ..tool_definitions import KnowledgeTool
from .gateway import ToolSource
from .gateway_bodies import NodeKnowledgeResponse, NodeKnowledgeResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..catalogue_reader import Catalogue, CatalogueReader
    from ..node_model import NodeParameter, NodeSpec, Port
    from ..node_search import Hit

TOOL: Final = KnowledgeTool(
    name="node_knowledge_retriever",
    title="What is known about nodes",
    description=(
        "Retrieve what is known about nodes, by a list of their names. Each result says how similar the node"
        " that was found is to the name; 1 is the node itself."
    ),
    parameters={
        "type": "object",
        "properties": {
            "node_names": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 500},
                "minItems": 1,
                "description": "Names of the nodes to retrieve knowledge about",
            },
            "include_metadata": {
                "type": "boolean",
                "description": "Whether to include the nodes' metadata",
                "default": False,
            },
        },
        "required": ["node_names"],
        "additionalProperties": False,
    },
    category="knowledge",
    tags=("nodes", "knowledge", "retrieval"),
    workflow_guidance="Use it with names that are known; search_nodes finds nodes by what they do.",
    usage_examples=(
        {"node_names": ["CSV Reader", "Joiner"]},
        {"node_names": ["OPENAI_CHATGPT"], "include_metadata": True},
    ),
)

_FEW_NAMES: Final = 5
_ALIAS_SIMILARITY: Final = 0.9
"""The similarity of a node to one of its earlier or alternative names."""


class NodeKnowledgeRetriever(ToolSource):
    """The source of the tool; subclasses provide the knowledge."""

    @abstractmethod
    def know(self, names: Sequence[str]) -> list[NodeKnowledgeResult]:
        """The knowledge about each of these names, in order. The metadata of an unknown name has the reason.

        Raises `MCPError` if the knowledge cannot be reached.
        """

    def get_available_tools(self) -> Sequence[KnowledgeTool]:
        return (TOOL,)

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        del name
        answer = self.retrieve_node_knowledge(
            arguments["node_names"], include_metadata=arguments.get("include_metadata", False)
        )
        return answer.model_dump()

    def retrieve_node_knowledge(
        self, node_names: Sequence[str], *, include_metadata: bool = False
    ) -> NodeKnowledgeResponse:
        """The knowledge about each name, in order. Results without knowledge always have metadata."""
        started = time.perf_counter()
        # Asked once each, and answered as often as they were named.
        names = list(dict.fromkeys(node_names))
        known = dict(zip(names, self.know(names), strict=True))
        results = [
            entry
            if include_metadata or entry.similarity_score is None
            else entry.model_copy(update={"metadata": {}})
            for entry in map(known.__getitem__, node_names)
        ]
        return NodeKnowledgeResponse(
            success=True,
            results=results,
            total_nodes=sum(entry.similarity_score is not None for entry in results),
            processing_time_ms=round((time.perf_counter() - started) * 1000),
        )


class CatalogueKnowledge(NodeKnowledgeRetriever):
    def __init__(self, catalogue: Catalogue, *, threshold: float) -> None:
        self._catalogue = catalogue
        self._threshold = threshold

    def know(self, names: Sequence[str]) -> list[NodeKnowledgeResult]:
        with self._catalogue.reading() as reader:
            return [self._know(reader, name) for name in names]

    def is_brief(self, arguments: Mapping[str, Any]) -> bool:
        """Returns whether there are few names, as each needs a search."""
        return len(arguments["node_names"]) <= _FEW_NAMES

    def _know(self, reader: CatalogueReader, name: str) -> NodeKnowledgeResult:
        hits = search(reader, name, limit=3).hits
        # Of hits that are equally similar the search's first counts.
        scored = sorted(((similarity(name, hit), -place) for place, hit in enumerate(hits)), reverse=True)
        if not scored or scored[0][0] < self._threshold:
            return NodeKnowledgeResult(
                node_name=name,
                knowledge="",
                metadata={
                    "error": "No node of this catalogue is called like that.",
                    "suggestions": [brief(hit.node) for hit in hits],
                },
            )
        score, place = scored[0]
        spec = reader.at(hits[-place].node.row)
        metadata = {
            "node_type": spec.node_type,
            "subtype": spec.subtype,
            "id": spec.id,
            "name": spec.name,
            "version": spec.version,
            "category": list(spec.category),
            "tags": list(spec.tags),
            "deprecated": spec.deprecated,
            "successor": spec.successor,
            "origin": spec.origin.text,
            "catalogue_version": reader.origin.version,
        }
        return NodeKnowledgeResult(
            node_name=name, knowledge=knowledge_text(spec), metadata=metadata, similarity_score=score
        )


def similarity(name: str, hit: Hit) -> float:
    """The similarity of a found node to a name: 1 for its name or id, 0.9 for an earlier or alternative name.

    Below that, it grows with the likeness of both names, and is higher if the node has all words of the name.
    """
    # `autojunk` leaves the frequent letters of long names out of the comparison.
    alike = difflib.SequenceMatcher(None, folded(name), folded(hit.node.name), autojunk=False).ratio()
    match hit.tier:
        case Tier.EXACT:
            score = 1.0
        case Tier.CALLED:
            score = _ALIAS_SIMILARITY
        case Tier.ALL_WORDS:
            score = 0.5 + 0.4 * alike
        case Tier.ANY_WORD:
            score = 0.8 * alike
    return round(score, 4)


def knowledge_text(spec: NodeSpec) -> str:
    """The knowledge about a node, as text for a model or a person."""
    parts = [f"{spec.name} ({spec.node_type}, {spec.subtype})"]
    if spec.deprecated:
        parts.append(f"Deprecated.{f' Use {spec.successor} instead.' if spec.successor else ''}")
    parts.append(full_description(spec))
    for title, ports in (("Inputs", spec.input_ports), ("Outputs", spec.output_ports)):
        if ports:
            parts.append("\n".join([f"{title}:", *map(_port, ports)]))
    sections = (
        ("Settings", spec.parameters),
        ("Takes at run time", spec.input_params),
        ("Gives at run time", spec.output_params),
    )
    for title, parameters in sections:
        if parameters:
            parts.append("\n".join([f"{title}:", *map(_parameter, parameters)]))
    return "\n\n".join(part for part in parts if part)


def _port(port: Port) -> str:
    traits = ", ".join(filter(None, (port.type, "optional" if port.optional else "")))
    return _line(port.name, traits, port.description)


def _parameter(parameter: NodeParameter) -> str:
    traits = [parameter.type or "", "required" if parameter.required else ""]
    if parameter.has_default:
        traits.append(f"default {parameter.default_value!r}")
    if parameter.enum_values:
        traits.append(f"one of {', '.join(map(str, parameter.enum_values))}")
    traits += parameter.range
    return _line(parameter.label or parameter.name, ", ".join(filter(None, traits)), parameter.description)


def _line(name: str, traits: str, description: str) -> str:
    named = f"- {name}{f' ({traits})' if traits else ''}"
    return f"{named}: {description}" if description else named
