"""What a server calls, whatever it speaks: the list of tools, and a call by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ..types.errors import ArgumentsInvalid, MCPError, ToolNotFound
from .answers.arguments import read_arguments
from .answers.compatibility import Direction, UnknownPortError, find_compatible
from .answers.configuration_check import check_configuration
from .answers.corrections import resolve_type
from .answers.detail_levels import DetailLevel
from .answers.details import brief
from .answers.node_service import (
    NodeKnowledgeService,
    NodeSpecRegistryWrapper,
    details_as_json,
    hits_as_json,
    not_found,
    resolved_node,
)
from .answers.tool_definitions import TOOLS, TOOLS_BY_NAME
from .model import SourceKind
from .searching.search import search
from .searching.search_index import index_of
from .searching.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .answers.tool_definitions import ToolDefinition
    from .catalogue import Catalogue, CatalogueReader
    from .model import CatalogueOrigin, NodeSummary

__all__ = ["NodeKnowledgeMCPService", "NodeKnowledgeService", "NodeSpecRegistryWrapper"]

_MOST_NARROWED: Final = 500
_FEW_NODES: Final = 10
_MOST_SOURCES: Final = 4


class NodeKnowledgeMCPService:
    """The tools, by name. Thread-safe.

    Args:
        catalogue: What the tools know.

    Raises:
        CatalogueError: It is damaged.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        # What the first question would wait for.
        vocabulary()
        with catalogue.reading() as reader:
            index_of(reader)

    def get_available_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools, always in the same order."""
        return TOOLS

    def get_tool(self, name: str) -> ToolDefinition:
        """A tool by its name.

        Raises:
            ToolNotFound: There is none.
        """
        found = TOOLS_BY_NAME.get(name)
        if found is None:
            known = tuple(TOOLS_BY_NAME)
            raise ToolNotFound(
                f"There is no tool '{name[:80]}'", suggestions=known, fix=f"Tools: {', '.join(known)}."
            )
        return found

    def invoke_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Calls a tool.

        Args:
            name: Its name.
            arguments: Its arguments, as a client sent them.

        Returns:
            The structured result, which fits the tool's output schema.

        Raises:
            ToolNotFound: There is no such tool.
            ArgumentsInvalid: The arguments cannot be used; says what is allowed.
            CatalogueError: The catalogue is missing, damaged, or another version's.
        """
        tool = self.get_tool(name)
        read, changed = read_arguments(tool, arguments)
        with self.catalogue.reading() as reader:
            found = _HANDLERS[name](reader, read)
            origin = origin_as_json(reader.origin)
        under = "_" if name == "get_node_types" else ""
        if changed:
            found[f"{under}warning"] = " ".join(filter(None, [found.get(f"{under}warning", ""), *changed]))
        found[f"{under}catalogue"] = origin
        return found

    def is_brief(self, arguments: Mapping[str, Any] | None) -> bool:
        """Whether a call takes a few milliseconds, and so belongs into the thread that reads requests.

        Threads only take turns at the interpreter. Under load, each look at a file costs a thread its turn,
        and it waits longer for the next one than the call takes.

        Args:
            arguments: Of the call, as they came.
        """
        nodes = (arguments or {}).get("nodes", [])
        return isinstance(nodes, list) and len(cast("list[Any]", nodes)) <= _FEW_NODES

    def problem(self) -> str | None:
        """Why the catalogue cannot be read; None if it can."""
        try:
            with self.catalogue.reading() as reader:
                reader.type_names()
        except MCPError as problem:
            return str(problem)
        return None


def origin_as_json(origin: CatalogueOrigin) -> dict[str, Any]:
    """What a catalogue was built from, in a line: part of every answer."""
    # An installation has hundreds.
    sources = [
        " ".join(filter(None, (source.kind.value, source.name, source.version)))
        for source in origin.sources[:_MOST_SOURCES]
    ]
    if len(origin.sources) > _MOST_SOURCES:
        sources.append(f"{len(origin.sources) - _MOST_SOURCES} more")
    return {
        "version": origin.version,
        "built_at": origin.built_at,
        "nodes": origin.nodes,
        "origin": "; ".join(sources),
    }


def _get_node_types(reader: CatalogueReader, arguments: dict[str, Any]) -> dict[str, Any]:
    types = reader.types()
    warning = ""
    wanted = arguments.get("type_filter")
    if wanted is not None:
        name, warning = _known_type(reader, wanted, types, "type_filter", "get_node_types")
        types = {name: types[name]}
    pairs = [(name, subtype) for name, subtypes in types.items() for subtype in subtypes]
    offset, limit = _offset(reader, arguments, "get_node_types"), arguments["max_results"]
    found: dict[str, Any] = {}
    for name, subtype in pairs[offset : offset + limit]:
        found.setdefault(name, []).append(subtype)
    if warning:
        found["_warning"] = warning
    if offset + limit < len(pairs):
        found |= {"_total": len(pairs), "_next_cursor": _cursor(reader, offset + limit)}
    return found


def _get_node_details(reader: CatalogueReader, arguments: dict[str, Any]) -> dict[str, Any]:
    nodes = details_as_json(
        reader,
        arguments["nodes"],
        DetailLevel(arguments["detail"]),
        include_examples=arguments["include_examples"],
        include_schemas=arguments["include_schemas"],
    )
    return {"nodes": nodes}


def _search_nodes(reader: CatalogueReader, arguments: dict[str, Any]) -> dict[str, Any]:
    offset, limit = _offset(reader, arguments, "search_nodes"), arguments["max_results"]
    node_type, warning = arguments.get("node_type"), ""
    if node_type is not None:
        node_type, warning = _known_type(reader, node_type, reader.type_names(), "node_type", "search_nodes")
    answer = search(reader, arguments["query"], limit=limit, offset=offset, node_type=node_type)
    detail = DetailLevel.FULL if arguments["include_details"] else None
    if arguments.get("detail"):
        detail = DetailLevel(arguments["detail"])
    found: dict[str, Any] = {"nodes": hits_as_json(reader, answer, detail), "total": answer.total}
    if offset + limit < answer.total:
        found["next_cursor"] = _cursor(reader, offset + limit)
    warnings = [warning, *(f"'{word}' was not found, '{instead}' was." for word, instead in answer.corrected)]
    if answer.cut:
        warnings.append("Only the beginning of the query was looked at.")
    if any(warnings):
        found["warning"] = " ".join(filter(None, warnings))
    if not answer.total:
        found["hint"] = "Use other or fewer words: what the node does, or what it is called elsewhere."
        if not any(source.kind is SourceKind.KNIME for source in reader.origin.sources):
            found["hint"] += " Of KNIME only well-known nodes are here; knime-mcp nodes build takes in all."
    return found


def _find_compatible(reader: CatalogueReader, arguments: dict[str, Any]) -> dict[str, Any]:
    offset, limit = _offset(reader, arguments, "find_compatible"), arguments["max_results"]
    node, warning = _node_argument(reader, arguments["node"], "find_compatible")
    direction = Direction(arguments["direction"])
    among: dict[int, int] | None = None
    if (arguments.get("query") or "").strip():
        hits = search(reader, arguments["query"], limit=_MOST_NARROWED).hits
        among = {hit.node.row: place for place, hit in enumerate(hits)}
    try:
        listed, total = find_compatible(
            reader,
            index_of(reader),
            reader.at(node.row),
            direction=direction,
            port=arguments.get("port"),
            offset=offset,
            limit=limit,
            among=among,
        )
    except UnknownPortError as error:
        raise ArgumentsInvalid(str(error), pointer="/port", tool="find_compatible") from None
    found: dict[str, Any] = {
        "node": brief(node),
        "direction": direction.value,
        "nodes": [
            brief(entry.node)
            | {"via": [{"output": output, "input": into, "type": kind} for output, into, kind in entry.via]}
            for entry in listed
        ],
        "total": total,
    }
    if offset + limit < total:
        found["next_cursor"] = _cursor(reader, offset + limit)
    if warning:
        found["warning"] = warning
    if not total:
        found["hint"] = "Nothing in this catalogue fits. Other ports, or another query, may find something."
    elif listed and not listed[0].is_certain:
        found["hint"] = "The types of these ports are not known, so this is only what may fit."
    return found


def _check_configuration(reader: CatalogueReader, arguments: dict[str, Any]) -> dict[str, Any]:
    node, warning = _node_argument(reader, arguments["node"], "check_configuration")
    check = check_configuration(reader.at(node.row), arguments["settings"])
    found: dict[str, Any] = {
        "node": brief(node),
        "valid": check.valid,
        "problems": [
            {"setting": entry.setting, "problem": entry.problem, "fix": entry.fix} for entry in check.problems
        ],
        "notes": list(check.notes),
        "defaults": dict(check.defaults or {}),
    }
    return found | ({"warning": warning} if warning else {})


def _node_argument(reader: CatalogueReader, given: Mapping[str, str], tool: str) -> tuple[NodeSummary, str]:
    resolved = resolved_node(reader, given)
    if resolved.node is None:
        entry = not_found(resolved, given)
        written = given.get("id") or f"{given.get('node_type', '')}.{given.get('subtype', '')}"
        raise ArgumentsInvalid(
            f"{entry['error']}: '{written[:120]}'", pointer="/node", tool=tool, fix=entry["hint"]
        )
    return resolved.node, resolved.warning


def _known_type(
    reader: CatalogueReader, wanted: str, types: Iterable[str], argument: str, tool: str
) -> tuple[str, str]:
    meant = resolve_type(wanted, types, index_of(reader).old_names)
    if meant.name is None:
        raise ArgumentsInvalid(
            f"There is no node type '{wanted[:80]}'",
            pointer=f"/{argument}",
            tool=tool,
            fix=f"Node types: {', '.join(types)}.",
        )
    return meant.name, meant.warning


def _cursor(reader: CatalogueReader, offset: int) -> str:
    return f"{reader.origin.version}:{offset}"


def _offset(reader: CatalogueReader, arguments: dict[str, Any], tool: str) -> int:
    cursor = arguments.get("cursor")
    if not cursor:
        return 0
    version, _, offset = cursor.partition(":")
    if not (offset.isascii() and offset.isdigit() and len(offset) < 9):
        raise ArgumentsInvalid(
            "The cursor is not one of this server",
            pointer="/cursor",
            tool=tool,
            fix="Leave it out to begin at the first result.",
        )
    if version != reader.origin.version:
        raise ArgumentsInvalid(
            "The catalogue was built anew since the answer before",
            pointer="/cursor",
            tool=tool,
            fix="Leave the cursor out to begin again.",
        )
    return int(offset)


_HANDLERS: Final[Mapping[str, Callable[[CatalogueReader, dict[str, Any]], dict[str, Any]]]] = {
    "get_node_types": _get_node_types,
    "get_node_details": _get_node_details,
    "search_nodes": _search_nodes,
    "find_compatible": _find_compatible,
    "check_configuration": _check_configuration,
}
