"""The two services of the design documents: types, details and search, and the same as tools by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.types.errors import ArgumentsInvalid, MCPError, ToolNotFound

from .compatible_nodes import find_compatible
from .configuration_check import check_configuration
from .node_details import MOST_TOKENS, DetailLevel, brief, details_at, filled, first_that_fit
from .node_index import index_of
from .node_model import SourceKind
from .node_references import resolve_type, resolved_node
from .node_search import search
from .outline_check import check_workflow
from .query_words import folded
from .tool_arguments import count_in, read_arguments
from .tool_definitions import TOOLS
from .vocabulary import vocabulary
from .workflow_outline import read_outline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .catalogue_reader import Catalogue, CatalogueReader
    from .node_model import CatalogueOrigin, NodeSpec, NodeSummary
    from .node_references import Resolved
    from .node_search import SearchAnswer
    from .outline_check import WorkflowCheck
    from .tool_definitions import KnowledgeTool


_MOST_NARROWED: Final = 500
_FEW_NODES: Final = 10
_MOST_SOURCES: Final = 4
_MOST_UNKNOWN: Final = 3

_LONGEST_SHOWN: Final = 500
_MOST_VALID: Final = 50


class NodeKnowledgeMCPService:
    """The tools, by name. Thread-safe."""

    def __init__(self, catalogue: Catalogue, tools: Sequence[KnowledgeTool] = TOOLS) -> None:
        self.catalogue = catalogue
        self._tools = {tool.name: tool for tool in tools}
        # Load these now, so that the first call does not wait for them.
        vocabulary()
        with catalogue.reading() as reader:
            index_of(reader)

    def get_available_tools(self) -> tuple[KnowledgeTool, ...]:
        return tuple(self._tools.values())

    def invoke_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Calls a tool; the structured result fits the tool's output schema.

        Raises `ToolNotFound`, `ArgumentsInvalid` (which says what is allowed), or `CatalogueError`.
        """
        if name not in self._tools:
            known = tuple(self._tools)
            raise ToolNotFound(
                f"There is no tool '{name[:80]}'", suggestions=known, fix=f"Tools: {', '.join(known)}."
            )
        read, changed = read_arguments(self._tools[name], arguments)
        with self.catalogue.reading() as reader:
            found = _HANDLERS[name](_Call(name, read, reader))
            origin = origin_as_json(reader.origin)
        # The keys of that answer are types of nodes, none of which begins with `_`.
        under = "_" if name == "get_node_types" else ""
        if changed:
            found[f"{under}warning"] = " ".join(filter(None, [found.get(f"{under}warning", ""), *changed]))
        found[f"{under}catalogue"] = origin
        return found

    def is_brief(self, arguments: Mapping[str, Any] | None) -> bool:
        """Returns whether a call takes only a few milliseconds, so that the event loop can run it.

        Under load a worker thread waits for the GIL after every file access, for longer than the call takes.
        """
        nodes = (arguments or {}).get("nodes", [])
        return isinstance(nodes, list) and len(cast("list[Any]", nodes)) <= _FEW_NODES

    def problem(self) -> str | None:
        """The reason why the catalogue cannot be read; None if it can be read."""
        try:
            with self.catalogue.reading() as reader:
                reader.type_names()
        except MCPError as problem:
            return str(problem)
        return None


def origin_as_json(origin: CatalogueOrigin) -> dict[str, Any]:
    """The version and sources of a catalogue in short, for every answer."""
    sources = [source.text for source in origin.sources[:_MOST_SOURCES]]  # installations have hundreds
    if len(origin.sources) > _MOST_SOURCES:
        sources.append(f"{len(origin.sources) - _MOST_SOURCES} more")
    return {
        "version": origin.version,
        "built_at": origin.built_at,
        "nodes": origin.nodes,
        "origin": "; ".join(sources),
    }


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool, with a view of the catalogue."""

    tool: str
    arguments: dict[str, Any]
    reader: CatalogueReader

    def get(self, name: str) -> Any:
        return self.arguments.get(name)

    def invalid(self, name: str, what: str, fix: str) -> ArgumentsInvalid:
        return ArgumentsInvalid(what, pointer=f"/{name}", tool=self.tool, fix=fix)

    def node(self) -> tuple[NodeSummary, str]:
        """The node in the argument `node`, and a warning if it was corrected."""
        given: Mapping[str, str] = self.arguments["node"]
        resolved = resolved_node(self.reader, given)
        if resolved.node is None:
            written = given.get("id") or f"{given.get('node_type', '')}.{given.get('subtype', '')}"
            raise self.invalid("node", f"{resolved.error}: '{written[:120]}'", resolved.hint)
        return resolved.node, resolved.warning

    def node_type(self, name: str) -> tuple[str | None, str]:
        """The node type in an argument (None if it is missing), and a warning if it was corrected."""
        wanted = self.get(name)
        if wanted is None:
            return None, ""
        found, warning = resolve_type(self.reader, wanted)
        if found is None:
            fix = f"Node types: {', '.join(self.reader.type_names())}."
            raise self.invalid(name, f"There is no node type '{wanted[:80]}'", fix)
        return found, warning

    def offset(self) -> int:
        """The number of results to skip."""
        version, _, offset = (self.get("cursor") or f"{self.reader.origin.version}:0").partition(":")
        first = count_in(offset)
        if first is None or len(version) != len(self.reader.origin.version):
            what = "The cursor is not one of this server"
            raise self.invalid("cursor", what, "Leave it out to begin at the first result.")
        if version != self.reader.origin.version:
            what = "The catalogue was built anew since the answer before"
            raise self.invalid("cursor", what, "Leave the cursor out to begin again.")
        return first

    def next_cursor(self, shown: int, total: int) -> str | None:
        """The cursor of the page after this one, which has so many results; None if this is the last."""
        end = self.offset() + shown
        return f"{self.reader.origin.version}:{end}" if end < total else None


def _get_node_types(call: _Call) -> dict[str, Any]:
    types = call.reader.types()
    name, warning = call.node_type("type_filter")
    if name is not None:
        types = {name: types[name]}
    pairs = [(name, subtype) for name, subtypes in types.items() for subtype in subtypes]
    offset = call.offset()
    shown = first_that_fit(pairs[offset : offset + call.arguments["max_results"]], MOST_TOKENS)
    found: dict[str, Any] = {}
    for name, subtype in shown:
        found.setdefault(name, []).append(subtype)
    if cursor := call.next_cursor(len(shown), len(pairs)):
        found |= {"_total": len(pairs), "_next_cursor": cursor}
    return found | filled(_warning=warning)


def _get_node_details(call: _Call) -> dict[str, Any]:
    wanted, most, asked = call.arguments["nodes"], call.arguments["max_tokens"], call.arguments["detail"]
    nodes: list[dict[str, Any]] = []
    level = asked
    for level in DetailLevel(asked).and_shorter:
        nodes = details_as_json(
            call.reader,
            wanted[call.offset() :],
            level,
            include_examples=call.arguments["include_examples"],
            include_schemas=call.arguments["include_schemas"],
        )
        if len(first_that_fit(nodes, most)) == len(nodes):
            break
    shown = first_that_fit(nodes, most)
    warning = "" if level == asked else f"In the form '{level}': '{asked}' takes more than {most:,} tokens."
    return {"nodes": shown} | filled(next_cursor=call.next_cursor(len(shown), len(wanted)), warning=warning)


def _search_nodes(call: _Call) -> dict[str, Any]:
    node_type, warning = call.node_type("node_type")
    answer = search(
        call.reader,
        call.arguments["query"],
        limit=call.arguments["max_results"],
        offset=call.offset(),
        node_type=node_type,
    )
    detail = call.get("detail") or ("full" if call.arguments["include_details"] else None)
    hits = hits_as_json(call.reader, answer, DetailLevel(detail) if detail else None)
    hits = first_that_fit(hits, MOST_TOKENS)
    warnings = [warning, *(f"'{word}' was not found, '{instead}' was." for word, instead in answer.corrected)]
    if answer.cut:
        warnings.append("Only the beginning of the query was looked at.")
    hint = ""
    if not folded(call.arguments["query"]):
        hint = "The query has no words. Say what the node does."
    elif not answer.total:
        hint = "Use other or fewer words, best in English: what the node does, or its name elsewhere."
    elif answer.unknown:
        words = " and ".join(f"'{word}'" for word in answer.unknown[:_MOST_UNKNOWN])
        hint = f"No node here mentions {words}; what was found is about the other words."
    if hint and not any(source.kind is SourceKind.KNIME for source in call.reader.origin.sources):
        hint += " Not all nodes of KNIME are here; knime-nodes build takes in those of your installation."
    found: dict[str, Any] = {"nodes": hits, "total": answer.total}
    return found | filled(
        next_cursor=call.next_cursor(len(hits), answer.total),
        warning=" ".join(filter(None, warnings)),
        hint=hint,
    )


def _find_compatible(call: _Call) -> dict[str, Any]:
    node, warning = call.node()
    among: dict[int, int] | None = None
    if (call.get("query") or "").strip():
        hits = search(call.reader, call.arguments["query"], limit=_MOST_NARROWED).hits
        among = {hit.node.row: place for place, hit in enumerate(hits)}
    spec = call.reader.at(node.row)
    listed, total = find_compatible(
        call.reader,
        spec,
        after=call.arguments["direction"] == "after",
        port=call.get("port"),
        offset=call.offset(),
        limit=call.arguments["max_results"],
        among=among,
    )
    hint = ""
    if not total and not (spec.input_ports or spec.output_ports or spec.settings_known):
        hint = "The ports of this node are not known here."
    elif not total:
        hint = "Nothing in this catalogue fits. Other ports, or another query, may find something."
    elif listed and not listed[0].is_certain:
        hint = "The types of these ports are not known, so this is only what may fit."
    nodes = [
        brief(entry.node)
        | {"via": [{"output": output, "input": into, "type": kind} for output, into, kind in entry.via]}
        for entry in listed
    ]
    shown = first_that_fit(nodes, MOST_TOKENS)
    found = {
        "node": brief(node),
        "direction": call.arguments["direction"],
        "nodes": shown,
        "total": total,
    }
    return found | filled(next_cursor=call.next_cursor(len(shown), total), warning=warning, hint=hint)


def _check_configuration(call: _Call) -> dict[str, Any]:
    node, warning = call.node()
    check = check_configuration(call.reader.at(node.row), call.arguments["settings"])
    found: dict[str, Any] = {
        "node": brief(node),
        "valid": check.valid,
        "problems": [asdict(problem) for problem in check.problems],
        "notes": list(check.notes),
        "defaults": dict(check.defaults or {}),
    }
    return found | filled(warning=warning)


def _check_workflow(call: _Call) -> dict[str, Any]:
    check = check_workflow(call.reader, read_outline(call.arguments["workflow"]))
    return workflow_check_as_json(check, call.arguments["max_results"])


def workflow_check_as_json(check: WorkflowCheck, most: int | None = None) -> dict[str, Any]:
    """What a check found, errors first; at most so many entries of each kind, and how many more there are."""
    findings = sorted(check.findings, key=lambda finding: finding.severity != "error")
    not_judged = [{"where": where, "why": why} for where, why in check.not_judged]
    found: dict[str, Any] = {
        "valid": check.valid,
        "problems": [filled(**asdict(finding)) for finding in findings],
        "judged": {"nodes": check.nodes, "settings": check.settings, "connections": check.connections},
        "not_judged": not_judged,
        "notes": check.notes,
    }
    more = {key: len(found[key]) - most for key in ("problems", "not_judged", "notes")} if most else {}
    found |= {key: found[key][:most] for key in more}
    left_out = [f"{number} more {key.replace('_', ' ')}" for key, number in more.items() if number > 0]
    return found | filled(warning=f"Left out: {', '.join(left_out)}." if left_out else "")


_HANDLERS: Final[Mapping[str, Callable[[_Call], dict[str, Any]]]] = {
    "get_node_types": _get_node_types,
    "get_node_details": _get_node_details,
    "search_nodes": _search_nodes,
    "find_compatible": _find_compatible,
    "check_configuration": _check_configuration,
    "check_workflow": _check_workflow,
}


class NodeSpecRegistryWrapper:
    """The registry of the design documents: all specifications by type and subtype."""

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
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.registry = NodeSpecRegistryWrapper(catalogue)

    def get_node_types(self, type_filter: str | None = None) -> dict[str, list[str]]:
        """Subtypes by type, for all types or one; empty if the type does not exist.

        Old names and other spellings of a type are accepted. A catalogue that cannot be read is an error, so
        an empty answer never stands for a failure.
        """
        types = self.registry.get_node_types()
        if type_filter is None:
            return types
        with self.catalogue.reading() as reader:
            meant, _ = resolve_type(reader, type_filter)
        return {meant: types[meant]} if meant is not None else {}

    def get_node_details(
        self, nodes: Sequence[Mapping[str, str]], include_examples: bool = True, include_schemas: bool = True
    ) -> list[dict[str, Any]]:
        """All fields of each node; see `details_as_json`."""
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
        """The nodes that match a query, the best first, each with ``relevance_score``."""
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
    """The nodes for references with ``node_type`` and ``subtype``, or with ``id``, in order.

    The entry for an unknown node has ``error``, ``hint``, ``suggestions`` and ``valid``; that for a corrected
    reference has ``warning``.
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
