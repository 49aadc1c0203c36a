"""Tools as a server defines them in ``tools/list``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from ...types.canonical import compact_json, definition_digest
from ...types.errors import ProtocolError
from ...types.routing import ServerRoute
from ...types.tool import MCPTool
from .jsonrpc import as_text


@dataclass(frozen=True)
class ToolDefinition:
    """A tool as its server describes it. All texts are untrusted.

    Attributes:
        name: The name to send; any text, case-sensitive.
        title: The name for people, if declared.
        description: The declared description, None if absent.
        input_schema: JSON Schema of the arguments, unchanged.
        output_schema: JSON Schema of the structured result, None if absent or not an object.
        annotations: Hints (``readOnlyHint`` …), None if absent.
        raw: The whole definition, unknown fields included.
    """

    name: str
    title: str | None
    description: str | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    raw: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_raw(cls, raw: dict[str, Any]) -> "ToolDefinition":
        """Reads one entry of ``tools``. Only the name is required; the entry is kept as `raw`.

        Raises:
            ProtocolError: The entry has no name.
        """
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            raise ProtocolError("The server lists a tool without a name")
        # Faster than a frozen class's constructor, as thousands of tools may be listed at once.
        tool = object.__new__(cls)
        get = raw.get
        values: dict[str, Any] = {
            "name": name,
            "title": title if isinstance(title := get("title"), str) else None,
            "description": about if isinstance(about := get("description"), str) else None,
            "input_schema": taken if isinstance(taken := get("inputSchema"), dict) else {},
            "output_schema": given if isinstance(given := get("outputSchema"), dict) else None,
            "annotations": hints if isinstance(hints := get("annotations"), dict) else None,
            "raw": raw,
        }
        object.__setattr__(tool, "__dict__", values)
        return tool

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all parts of the definition that a person sees when choosing the tool."""
        return definition_digest(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
        )

    @cached_property
    def input_schema_json(self) -> str:
        """The input schema as JSON text, keys in the server's order."""
        return compact_json(self.input_schema)

    @property
    def display_title(self) -> str:
        """``title``, else ``annotations.title``, else ``name`` (revision 2025-06-18, *Tool*)."""
        annotated = (self.annotations or {}).get("title")
        return self.title or as_text(annotated) or self.name

    @property
    def read_only(self) -> bool | None:
        """The server's claim that the tool changes nothing; None if it claims nothing."""
        return _flag(self.annotations, "readOnlyHint")

    @property
    def destructive(self) -> bool | None:
        """The server's claim that the tool may destroy something; None if it claims nothing."""
        return _flag(self.annotations, "destructiveHint")

    def to_tool(self, route: ServerRoute, *, shown_name: str) -> MCPTool:
        """The tool as a value for a table cell.

        Args:
            route: The tool's server, without secrets.
            shown_name: The name for people and models, unique in its table.

        Returns:
            A tool whose schema text keeps the server's order of keys.
        """
        return MCPTool(
            name=shown_name,
            description=self.description or "",
            parameter_schema=self.input_schema_json,
            server_uri=route.uri,
            tool_name=self.name,
            output_schema=self.output_schema,
            annotations=self.annotations,
            title=self.title,
        )


def parse_page(result: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    """Entries and cursor of one page of ``tools/list``.

    Returns:
        The raw entries and the cursor of the next page. An empty text *is* a cursor; only null or a missing
        cursor ends the listing.

    Raises:
        ProtocolError: The result has no list of tools.
    """
    entries = result.get("tools")
    if entries is None and result.get("resultType", "complete") in ("complete", None):
        entries = []  # some libraries write null or nothing for an empty list
    if isinstance(entries, dict) and all(key.isdecimal() for key in cast("dict[str, Any]", entries)):
        entries = list(cast("dict[str, Any]", entries).values())  # PHP's form of a list with gaps
    if not isinstance(entries, list):
        raise ProtocolError("The server's list of tools is not a list")
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        cursor = json.dumps(cursor)
    return [entry for entry in cast("list[Any]", entries) if isinstance(entry, dict)], cursor


def _flag(annotations: Mapping[str, Any] | None, name: str) -> bool | None:
    value = (annotations or {}).get(name)
    return value if isinstance(value, bool) else None
