"""The shown names of tools: unique in their table, stable, with the server where needed; the tool of a name.

A tool has two names: the server's, and the shown name for people and models. The shown name is the RowID of
the tool (KNIME fails on duplicate RowIDs) and the name that the Caller and the agents offer. It must be
unique even if two servers have a tool of the same name, or one server lists a name twice. Servers have no
influence on how names are made unique: otherwise one could take the name of another server's tool.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import urlsplit

from ..types.errors import ToolNotFound
from ..types.texts import counted, without_surrogates
from ..types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..types.tool import Tool


_SUGGESTIONS: Final = 3
_SHOWN: Final = 10
_SEPARATORS: Final = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server and the names of its tools.

    Attributes:
        server: The server's URL without secrets, or ``stdio:<name>``.
        prefix: The text in front of each name.
        names: The server's names of its tools, in its order.
    """

    server: str
    prefix: str = ""
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownNames:
    """The result of `shown_names`.

    Attributes:
        per_server: For each server, one shown name per tool, in the order given.
        ambiguous: Names that exist on several servers and are therefore shown with their server.
        repeated: Pairs of server and name that one server lists more than once.
    """

    per_server: tuple[tuple[str, ...], ...]
    ambiguous: tuple[str, ...]
    repeated: tuple[tuple[str, str], ...]


def shown_names(servers: Sequence[NamedServer]) -> ShownNames:
    """Makes the shown names of all tools of a table.

    The shown name is the prefix and the server's name. If several servers then have the same name, each tool
    is shown as ``name @ host``, whatever the order of the servers. Names that are still equal (one server
    lists a name twice) are numbered in the server's order: ``name``, ``name (2)``.

    Args:
        servers: The servers of the table.

    Returns:
        The names, and the names that had to be changed.
    """
    wanted = [[_with_prefix(server.prefix, name) for name in server.names] for server in servers]
    owners = Counter(name for names in wanted for name in set(names))
    labels = server_labels([server.server for server in servers])
    qualified = [
        [f"{name} @ {label}" if owners[name] > 1 else name for name in names]
        for names, label in zip(wanted, labels, strict=True)
    ]
    repeated = [
        (server.server, name)
        for server, names in zip(servers, wanted, strict=True)
        for name, times in Counter(names).items()
        if times > 1
    ]
    return ShownNames(
        per_server=_numbered(qualified),
        ambiguous=tuple(sorted(name for name, servers_with_it in owners.items() if servers_with_it > 1)),
        repeated=tuple(repeated),
    )


def server_labels(servers: Sequence[str]) -> list[str]:
    """The shortest distinct names of servers: host and port, with the path if two servers share both."""
    parts = [urlsplit(server) for server in servers]
    hosts = [part.netloc.rpartition("@")[2] or server for part, server in zip(parts, servers, strict=True)]
    paths_of_host: dict[str, set[str]] = {}
    for part, host in zip(parts, hosts, strict=True):
        paths_of_host.setdefault(host, set()).add(part.path)
    return [
        f"{host}{part.path}" if part.netloc and len(paths_of_host[host]) > 1 else host
        for part, host in zip(parts, hosts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class NameFilter:
    """The choice of tools to keep, by the names that the server knows.

    Attributes:
        include: Patterns separated by commas, semicolons or line breaks; ``*`` stands for any text,
            ``?`` for one character; case does not matter. Empty keeps all tools.
        exclude: Patterns in the same form; tools that match are dropped even if they are included.
    """

    include: str = ""
    exclude: str = ""

    def keeps(self, name: str) -> bool:
        """Returns whether a tool of that name is included and not excluded."""
        included, excluded = _pattern(self.include), _pattern(self.exclude)
        return (included is None or included.fullmatch(name) is not None) and (
            excluded is None or excluded.fullmatch(name) is None
        )

    def useless(self, names: Iterable[str]) -> list[str]:
        """Finds patterns that match none of the server's names, usually because of typing errors."""
        known = list(names)
        patterns = [*_split(self.include), *_split(self.exclude)]
        return [
            p for p in patterns if (regex := _pattern(p)) and not any(regex.fullmatch(name) for name in known)
        ]


def _split(text: str) -> list[str]:
    return [pattern.strip() for pattern in _SEPARATORS.split(text) if pattern.strip()]


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | None:
    patterns = _split(text)
    if not patterns:
        return None
    either = "|".join(_translated(pattern) for pattern in patterns)
    return re.compile(either, re.IGNORECASE | re.DOTALL)


def _translated(pattern: str) -> str:
    # "**" means the same as "*", but would make the search slow.
    return re.escape(re.sub(r"\*+", "*", pattern)).replace(r"\*", ".*").replace(r"\?", ".")


def _with_prefix(prefix: str, name: str) -> str:
    return without_surrogates(prefix + name) or "unnamed"


def _numbered(names: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    # Names that need no number come first, so that a tool that its server calls "a (2)" keeps its name.
    taken = {name for of_server in names for name in of_server}
    numbers: dict[str, Iterator[int]] = {}

    def unique(name: str) -> str:
        if name not in numbers:
            numbers[name] = count(2)
            return name
        numbered = next(text for n in numbers[name] if (text := f"{name} ({n})") not in taken)
        taken.add(numbered)
        return numbered

    return tuple(tuple(unique(name) for name in of_server) for of_server in names)


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
