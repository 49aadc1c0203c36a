"""The names under which tools are shown: unique in their table, stable, and telling where a tool comes from.

A tool has two names, the one its server knows and the one that people and models see. The second is the
RowID of the tool (KNIME fails on duplicate RowIDs) and what the Caller and the agents offer, so two servers
with a tool of the same name, or one server with the same name twice, must not collide. The server never
decides how a name is made unique: otherwise one server could take the name of another's tool.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...types.canonical import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SEPARATORS: Final = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server's part in the table.

    Attributes:
        server: The server's URL without secrets, or ``stdio:<name>``.
        prefix: What is put in front of each of its names, as it is.
        names: The names that the server knows, in its order.
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
    """Names all tools of a table.

    The shown name is the prefix and the server's name. Where several servers then have the same one, each of
    them is shown as ``name @ host``; the order of the servers does not matter. What is still the same (one
    server that lists a name twice) is numbered in the server's order: ``name``, ``name (2)``.

    Args:
        servers: The servers of the table.

    Returns:
        The names, and what had to be done to them.
    """
    wanted = [[_wanted(server.prefix, name) for name in server.names] for server in servers]
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
    """The shortest distinct names of servers: host and port, with the path where two share these."""
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
            ``?`` for one character; upper and lower case do not matter. Empty keeps all.
        exclude: Patterns in the same form; what they match is dropped even if it is included.
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
        """Finds patterns that match none of the names that servers know: usually typing errors."""
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
    # "**" means what "*" means, and would only make the search slow.
    return re.escape(re.sub(r"\*+", "*", pattern)).replace(r"\*", ".*").replace(r"\?", ".")


def _wanted(prefix: str, name: str) -> str:
    return without_surrogates(prefix + name) or "unnamed"


def _numbered(names: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    # First come the names that need no number, so that "a (2)" of a server keeps its name.
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
