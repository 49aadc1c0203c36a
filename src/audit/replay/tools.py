"""The recorded tools as servers define them now: found, missing, or changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...types.errors import ToolNotFound
from ..definitions import changed_parts, pinned_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...client.protocol.tools import ToolDefinition
    from ...types.routing import ServerRoute
    from ...types.tool import MCPTool

_NO_PARTS = ("definition",)


@dataclass(frozen=True, slots=True)
class CurrentTool:
    """A tool of a record, as its server defines it now.

    Attributes:
        tool: The tool to call, pinned to the current definition.
        changes: The parts of the definition that differ from the recorded one.
        read_only: Whether the server declares the tool as read-only, without contradicting itself.
    """

    tool: MCPTool
    changes: tuple[str, ...]
    read_only: bool


def current_tool(
    listing: Mapping[str, ToolDefinition],
    tool: MCPTool,
    route: ServerRoute,
    digest: str | None,
    new_name: str | None = None,
) -> CurrentTool:
    """Finds a recorded tool among the tools that its server offers now.

    Args:
        listing: The server's tools, by name.
        tool: The tool of the record. If its table lost the tool cell, it has the name shown to people and no
            definition.
        route: The server.
        digest: Digest of the definition that was called, or None.
        new_name: The server's new name for the tool, if a person gave one. It does not count as a change.

    Returns:
        The tool as it is now.

    Raises:
        ToolNotFound: The server has no such tool any more; suggests similar names.
    """
    definition = listing.get(new_name or tool.tool_name)
    if (
        new_name is None
        and not tool.schema_json
        and digest
        and (definition is None or definition.digest != digest)
    ):
        # The digest covers the name, so a tool with the same digest is the recorded one under its real name.
        same = (other for other in listing.values() if other.digest == digest)
        definition = next(same, definition)
    if definition is None:
        raise _missing(tool, new_name or tool.tool_name, route, listing)
    current = pinned_tool(definition, route, shown_name=tool.name)
    is_read_only = definition.read_only is True and definition.destructive is not True
    changes = _changes(tool, digest, definition)
    if new_name is not None and tool.schema_json and changes == _NO_PARTS:
        changes = ()  # only the name is new, which the digest covers
    return CurrentTool(current, changes, is_read_only)


def _missing(
    tool: MCPTool, name: str, route: ServerRoute, listing: Mapping[str, ToolDefinition]
) -> ToolNotFound:
    alike = [
        other.name
        for other in listing.values()
        if tool.schema_json
        and (other.description or "") == tool.description
        and other.input_schema == tool.parameter_schema
    ]
    renamed = (
        f"It may have been renamed: {' and '.join(map(repr, alike))} has its description and parameters."
        f" Say so under 'Renamed tools' (--tool {tool.tool_name}={alike[0]})"
        if alike
        else "Ask whoever runs the server what became of it"
    )
    return ToolNotFound(
        f"The server has no tool {name!r}{' any more' if name == tool.tool_name else ''}",
        server=route.display,
        tool=tool.name,
        fix=renamed,
    )


def _changes(tool: MCPTool, digest: str | None, definition: ToolDefinition) -> tuple[str, ...]:
    if digest == definition.digest or (digest is None and not tool.schema_json):
        return ()
    changes = changed_parts(tool, definition)
    # Without a recorded digest only the parts in the cell can show a change.
    return () if digest is None and changes == _NO_PARTS else changes
