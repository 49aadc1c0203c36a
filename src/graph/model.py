"""The model of a graph document, the same for every dialect: frozen, checked, ready to run.

`documents.load_document` makes these values. They are all that an executor needs; the dialect of the document
does not matter any more (`GraphDocument.dialect` is for people). The rules: ``docs/graph-documents.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .nodes import EntryNode, ExitNode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..yaml_text import Position, Problem
    from .nodes import Node
    from .server_config import ServerConfig


class Dialect(StrEnum):
    """The two ways in which documents are written.

    Attributes:
        TARGET: Switch conditions have a ``target``; an argument that begins with ``$`` is an expression.
        NEXT: Switch conditions have a ``next``; an argument ``{expr: ...}`` is an expression.
    """

    TARGET = "target"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool and its graph.

    Attributes:
        name: Name of the tool.
        description: Description for people and models.
        input_schema: JSON Schema of the arguments, from the document.
        output_schema: JSON Schema of the result, from the document.
        nodes: The nodes, in the order of the document; ids are unique.
        title: Name for people, or None.
        annotations: MCP's hints about the tool (``readOnlyHint`` ...), or None.
        position: The tool's place in the document.
        by_id: The nodes by their ids.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    nodes: tuple[Node, ...]
    title: str | None = None
    annotations: Mapping[str, Any] | None = None
    position: Position | None = field(default=None, compare=False, repr=False)
    by_id: Mapping[str, Node] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {node.id: node for node in self.nodes})

    @property
    def entry(self) -> EntryNode:
        """The node where a run begins."""
        return next(node for node in self.nodes if isinstance(node, EntryNode))

    @property
    def exit(self) -> ExitNode:
        """The node where a run ends."""
        return next(node for node in self.nodes if isinstance(node, ExitNode))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """The description of the document's own server.

    Attributes:
        name: Name for programs.
        version: Its version.
        title: Name for people; the name if the document has none.
        instructions: How to use its tools, or None.
    """

    name: str
    version: str
    title: str
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """The limits of a run, checked before each node.

    Attributes:
        max_node_executions: Maximum number of nodes in one run.
        max_execution_time_ms: Maximum time of one run in milliseconds.
    """

    max_node_executions: int = 1000
    max_execution_time_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDocument:
    """A whole document.

    Attributes:
        version: Version of the format, from the document.
        server: The description of the document's own server.
        limits: The limits of each run.
        servers: The MCP servers that nodes call, by name.
        tools: The tools, in the order of the document; names are unique.
        dialect: The dialect of the document.
        path: The file, or None.
        warnings: The warnings that ``check`` reports; the tools can run all the same.
    """

    version: str
    server: ServerMetadata
    limits: ExecutionLimits
    servers: Mapping[str, ServerConfig]
    tools: tuple[ToolDefinition, ...]
    dialect: Dialect
    path: Path | None = None
    warnings: tuple[Problem, ...] = field(default=(), compare=False, repr=False)

    def tool(self, name: str) -> ToolDefinition | None:
        """The tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)
