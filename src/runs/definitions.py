"""The servers' current definitions of tools, compared with those that a person saw when choosing.

The digest in a tool cell pins the definition that a person read. Before a call, the server's current
definition can be compared with that digest. Tools are listed once per run and server, and again when the
server announces a change, or some seconds after a listing failed.
"""

from __future__ import annotations

import contextlib
import difflib
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..types.errors import Canceled, MCPError, ToolChanged, ToolNotFound
from ..types.tool import MCPTool, to_json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..client.mcp_client import MCPClient, SessionPool
    from ..client.protocol.tools import ToolDefinition
    from ..types.routing import ServerRoute
    from ..types.tool import Tool

_SUGGESTIONS = 3
# For this time after a failed listing, calls fail at once; later calls ask the server again.
_FAILURE_HOLDS_SECONDS = 5.0
# The pause before the next listing doubles after each announcement without a real change.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds


class Pinning(StrEnum):
    """The action if a tool's current definition differs from the one that a person saw."""

    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool that may be called, and a warning about changes.

    It is as the server defines it now, or as pinned if the definitions were not compared.
    """

    tool: MCPTool
    note: str | None = None


class _Listing:
    """A listing of a server's tools, and the number of list changes announced before it."""

    __slots__ = ("answer", "changes", "client", "failed_until", "pause", "pause_until")

    def __init__(self) -> None:
        self.answer: Future[dict[str, ToolDefinition]] = Future()
        self.client: MCPClient | None = None
        self.changes = 0
        self.failed_until: float | None = None
        self.pause = self.pause_until = 0.0

    @property
    def holds(self) -> bool:
        """True if the listing can still be used: no change was announced since, or it failed just now."""
        if self.failed_until is not None:
            return time.monotonic() < self.failed_until
        if self.client is None or time.monotonic() < self.pause_until:
            return True
        return self.client.tool_changes == self.changes

    def compare(self, before: _Listing | None, definitions: dict[str, ToolDefinition]) -> None:
        """Doubles the pause before the next listing if the tools did not really change."""
        if before is not None and before.client is not None and before.answer.result() == definitions:
            self.pause = min(max(2 * before.pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self.pause_until = time.monotonic() + self.pause


class Definitions:
    """The current definitions of all servers of a run. Safe to use from several threads."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._listings: dict[ServerRoute, _Listing] = {}

    def find(
        self, route: ServerRoute, tool_name: str, *, is_canceled: Callable[[], bool] | None = None
    ) -> ToolDefinition:
        """The current definition of a tool, by the name that the server knows.

        Raises `ToolNotFound` with similar names, or another `MCPError` if the tools cannot be listed. Calls
        within the next seconds get the same error.
        """
        definitions = self.listing(route, is_canceled=is_canceled)
        if tool_name not in definitions:
            similar = tuple(difflib.get_close_matches(tool_name, definitions, n=_SUGGESTIONS, cutoff=0.5))
            fix = f"Did you mean {' or '.join(similar)}? " if similar else ""
            raise ToolNotFound(
                f"The server has no tool {tool_name!r}",
                suggestions=similar,
                server=route.display,
                tool=tool_name,
                fix=f"{fix}Execute the MCP Tool Provider again to see what the server offers",
            )
        return definitions[tool_name]

    def check(
        self, tool: MCPTool, pinning: Pinning, *, is_canceled: Callable[[], bool] | None = None
    ) -> CheckedTool:
        """Compares a tool that has a digest with its server's current definition, and gives the tool to call.

        Raises `ToolChanged` if ``pinning`` is to fail, and what `find` raises.
        """
        pinned = tool.digest
        if pinning is Pinning.IGNORE or pinned is None:
            return CheckedTool(tool)
        definition = self.find(tool.route, tool.tool_name, is_canceled=is_canceled)
        if definition.digest == pinned:
            return CheckedTool(tool)
        changes = changed_parts(tool, definition)
        what = f"The server has changed the tool since it was chosen: {', '.join(changes)}"
        if pinning is Pinning.FAIL:
            raise ToolChanged(
                what,
                changes=changes,
                server=tool.route.display,
                tool=tool.name,
                fix="Read the tool's new definition; execute the MCP Tool Provider again to accept it",
            )
        return CheckedTool(pinned_tool(definition, tool.route, shown_name=tool.name), f"{tool.name}: {what}")

    def listing(
        self, route: ServerRoute, *, is_canceled: Callable[[], bool] | None = None
    ) -> dict[str, ToolDefinition]:
        """The current definitions of all tools of a server, by the names that the server knows.

        Of two with the same name it has the first, which is the one that servers call. Raises what `find`
        raises.
        """
        server = _server_of(route)
        with self._lock:
            before = listing = self._listings.get(server)
            if listing is None or not listing.holds:
                listing = self._listings[server] = _Listing()
        if listing is not before:
            self._make_listing(server, listing, before, is_canceled)
        error = listing.answer.exception()
        if error is not None:
            raise error.with_traceback(None)  # its traceback would grow with every call
        return listing.answer.result()

    def _make_listing(
        self,
        server: ServerRoute,
        listing: _Listing,
        before: _Listing | None,
        is_canceled: Callable[[], bool] | None,
    ) -> None:
        try:
            client = self._pool.client(server)
            changes = client.tool_changes
            tools = client.list_tools(is_canceled=is_canceled)
            with contextlib.suppress(MCPError):  # the definitions are known all the same
                client.watch_tools()
            by_name: dict[str, ToolDefinition] = {}
            for tool in tools:
                by_name.setdefault(tool.name, tool)
            listing.compare(before, by_name)
            listing.changes, listing.client = changes, client
            listing.answer.set_result(by_name)
        except BaseException as error:
            if isinstance(error, Canceled) or not isinstance(error, MCPError):
                with self._lock:
                    self._listings.pop(server, None)
            listing.failed_until = time.monotonic() + _FAILURE_HOLDS_SECONDS
            listing.answer.set_exception(error)


@lru_cache(maxsize=256)
def _server_of(route: ServerRoute) -> ServerRoute:
    return replace(route, tool=None, digest=None)


def pinned_tool(definition: ToolDefinition, route: ServerRoute, *, shown_name: str) -> MCPTool:
    """Makes a tool cell that pins a definition by its digest."""
    return definition.to_tool(replace(route, tool=None, digest=definition.digest), shown_name=shown_name)


def changed_parts(tool: MCPTool, definition: ToolDefinition) -> tuple[str, ...]:
    """The parts of a definition that differ from a tool cell, such as ``("description", "parameters")``.

    It is ``("definition",)`` if they are not known, as for a cell with only a digest.
    """
    parts = {
        "description": (tool.description, definition.description or ""),
        "title": (tool.title, definition.title),
        "parameters": (tool.parameter_schema, definition.input_schema),
        "output schema": (tool.output_schema, definition.output_schema),
        "annotations": (tool.annotations, definition.annotations),
    }
    known = tool.schema_json != ""
    changed = tuple(part for part, (before, now) in parts.items() if before != now)
    return changed if known and changed else ("definition",)


def described_tools(tools: Iterable[Tool | None]) -> list[dict[str, Any]]:
    """Name, server and digest of tools, for the beginning of a journal."""
    described: list[dict[str, Any]] = []
    for tool in filter(None, tools):
        is_mcp = isinstance(tool, MCPTool)
        digest = tool.digest if is_mcp else sha256(to_json_text(tool).encode()).hexdigest()
        server = {"server": tool.route.display} if is_mcp else {}
        described.append({"name": tool.name, "digest": digest, **server})
    return described
