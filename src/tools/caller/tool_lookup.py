"""Finds a tool by what a person calls it: shown name, ``name @ server``, RowID, or remote name."""

from __future__ import annotations

import difflib
from itertools import islice
from typing import TYPE_CHECKING, assert_never

from ...types.errors import ToolNotFound
from ...types.short_texts import counted
from ...types.tool import MCPTool, WorkflowTool
from ..provider.tool_names import server_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...types.tool import Tool

_SUGGESTIONS = 3
_SHOWN = 10


class ToolLookup:
    """The tools of a table, by all their names.

    Args:
        tools: The tool of each row; None for a row without a tool.
        row_ids: The RowID of each row.
    """

    def __init__(self, tools: Sequence[Tool | None], row_ids: Sequence[str]) -> None:
        present = [(tool, row_id) for tool, row_id in zip(tools, row_ids, strict=True) if tool is not None]
        self.tools = [tool for tool, _ in present]
        self._row_ids = {id(tool): row_id for tool, row_id in reversed(present)}
        self._qualified = dict(zip(map(id, self.tools), _qualified_names(self.tools), strict=True))
        self._by_name = _index((tool.name, tool) for tool in self.tools)
        self._by_qualified = _index((name, tool) for tool in self.tools for name in self._qualified[id(tool)])
        self._by_row = _index((row_id, tool) for tool, row_id in present)
        self._by_remote = _index((tool.tool_name, tool) for tool in self.tools if isinstance(tool, MCPTool))

    def find(self, name: str) -> Tool:
        """Finds a tool by name.

        The first kind of name that fits counts: shown name, ``name @ server`` (host and port, or the whole
        URL), RowID, name on the server.

        Raises:
            ToolNotFound: No tool or several tools have that name; the error says what to write instead.
        """
        for wanted in dict.fromkeys((name, name.strip())):  # a server may put spaces around a name
            tools = self._find(wanted)
            if len(tools) == 1:
                return tools[0]
            if tools:
                raise self._ambiguous(wanted, tools)
        raise self._unknown(name.strip())

    def _find(self, wanted: str) -> list[Tool]:
        for index in (self._by_name, self._by_qualified, self._by_row, self._by_remote):
            if wanted in index:
                return index[wanted]
        return []

    def _ambiguous(self, wanted: str, tools: list[Tool]) -> ToolNotFound:
        spellings = [self._spelling(tool) for tool in tools]
        return ToolNotFound(
            f"{len(tools)} of the tools are named {wanted!r}",
            suggestions=tuple(spellings),
            fix=f"Write {_listed(spellings)}",
        )

    def _spelling(self, tool: Tool) -> str:
        """The shortest name that only this tool has."""
        if len(self._by_name[tool.name]) == 1:
            return tool.name
        for name in self._qualified[id(tool)]:
            if len(self._by_qualified[name]) == 1:
                return name
        return self._row_ids[id(tool)]

    def _unknown(self, wanted: str) -> ToolNotFound:
        if not self.tools:
            return ToolNotFound(
                f"There is no tool {wanted!r}: the Tools input has no tools",
                fix="Look at the table of the node before this one",
            )
        spellings: dict[str, list[str]] = {}
        for index in (self._by_name, self._by_remote):
            for name, tools in index.items():
                spellings.setdefault(name.casefold(), []).extend(map(self._spelling, tools))
        similar = difflib.get_close_matches(wanted.casefold(), spellings, n=_SUGGESTIONS, cutoff=0.5)
        close = dict.fromkeys(spelling for name in similar for spelling in spellings[name])
        suggestions = tuple(islice(close, _SUGGESTIONS))
        return ToolNotFound(
            f"There is no tool {wanted!r} in the Tools input, which has {counted(len(self.tools), 'tool')}",
            suggestions=suggestions,
            fix=f"Did you mean {_listed(suggestions)}?"
            if suggestions
            else f"Choose {_listed(islice(self._by_name, _SHOWN))}",
        )


def _qualified_names(tools: Sequence[Tool]) -> list[list[str]]:  # @ToolTypeDispatch
    """The names of each tool with its server, as ``name @ server``; those of the shown name come first."""
    servers = [tool.route.display if isinstance(tool, MCPTool) else "" for tool in tools]
    labels = dict(zip(servers, server_labels(servers), strict=True))
    qualified: list[list[str]] = []
    for tool, server in zip(tools, servers, strict=True):
        match tool:
            case MCPTool():
                names = dict.fromkeys((tool.name, tool.tool_name))
                qualified.append(
                    [f"{name} @ {place}" for name in names for place in (labels[server], server)]
                )
            case WorkflowTool():
                qualified.append([f"{tool.name} @ workflow"])
            case _:
                assert_never(tool)
    return qualified


def _index(named: Iterable[tuple[str, Tool]]) -> dict[str, list[Tool]]:
    index: dict[str, list[Tool]] = {}
    for name, tool in named:
        tools = index.setdefault(name, [])
        if tool not in tools:  # the same tool in two rows is one tool
            tools.append(tool)
    return index


def _listed(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names)
