"""Lists the tools of one or many servers: the work of the Provider, for node and command line.

Servers are asked concurrently, a bounded number at a time, and a failure of one does not affect the others:
every server has an outcome, with its tools or the error, and with every step of connecting. Unique names in
the table, and mentions of other servers' tools, are determined after all servers have answered.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

from ...runs.table_run import run_batch
from ...types.errors import (
    AuthError,
    Canceled,
    ConnectError,
    MCPError,
    ProtocolError,
    SettingInvalid,
    VersionError,
)
from ...types.routing import server_labels
from ...types.texts import counted, numbered, without_surrogates
from .findings import SecurityFinding, foreign_identifiers, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...client.mcp_client import MCPClient, ServerInfo, Step
    from ...client.protocol.tools import ToolDefinition
    from ...types.routing import ServerRoute
    from ...types.tool import MCPTool
    from ..node_settings.connection import Credential

    OpenClient = Callable[["ServerRequest", Callable[[Step], None]], MCPClient]
    # The outcome of a server, still without tools, and the definitions of its tools.
    _Listing = tuple["ServerOutcome", list[ToolDefinition]]

_CONCURRENCY: Final = 8
_SEPARATORS: Final = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    row: str  # RowID in the *Servers* table
    route: ServerRoute | None  # None if its settings cannot work
    prefix: str = ""  # in front of its tools' names
    credential: Credential | None = None
    error: MCPError | None = None  # in its settings

    @property
    def server(self) -> str:
        """The URL without secrets; empty if the URL is not valid."""
        return self.route.url if self.route else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedTool:
    definition: ToolDefinition  # as the server gives it
    tool: MCPTool  # for the tool cell, pinned to the definition
    findings: tuple[SecurityFinding, ...] = ()

    @property
    def shown_name(self) -> str:
        return self.tool.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOutcome:
    request: ServerRequest
    server: ServerInfo | None = None  # None if it was not reached
    tools: tuple[ProvidedTool, ...] = ()  # those that the filter keeps
    offered: int = 0  # number of all its tools
    dropped: tuple[tuple[str, str], ...] = ()  # name and reason of each tool whose definition cannot be used
    findings: tuple[SecurityFinding, ...] = ()  # in the server's instructions
    error: MCPError | None = None  # why there are no tools
    steps: tuple[Step, ...] = ()  # of connecting, in order
    seconds: float = 0.0  # for connecting and listing

    @property
    def phase(self) -> str | None:
        return None if self.error is None else _phase(self.error, self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    outcomes: tuple[ServerOutcome, ...]  # one per request, in the order of the requests
    names: ShownNames
    useless_patterns: tuple[str, ...] = ()  # of the filter; they match no tool

    @property
    def tools(self) -> list[ProvidedTool]:
        return [tool for outcome in self.outcomes for tool in outcome.tools]

    @property
    def failed(self) -> list[ServerOutcome]:
        return [outcome for outcome in self.outcomes if outcome.error is not None]


def provide(
    requests: Sequence[ServerRequest],
    open_client: OpenClient,
    *,
    name_filter: NameFilter | None = None,
    on_progress: Callable[[float, str], None] | None = None,
    is_canceled: Callable[[], bool] | None = None,
    concurrency: int = _CONCURRENCY,
) -> Provision:
    """Lists the tools of servers; those whose request has an error are not asked.

    ``open_client`` makes the client of a request, with a callback for every step of connecting; it is called
    in other threads, and must raise if a credential is missing. ``on_progress``, with the finished fraction
    and a text, and ``is_canceled`` are called in the caller's thread. Raises `Canceled`.
    """
    listings = _list_all(requests, open_client, on_progress, is_canceled, concurrency)
    return _combined(listings, name_filter or NameFilter())


def _list_all(
    requests: Sequence[ServerRequest],
    open_client: OpenClient,
    on_progress: Callable[[float, str], None] | None,
    is_canceled: Callable[[], bool] | None,
    concurrency: int,
) -> list[_Listing]:
    stop = Event()

    def tell(answered: int) -> None:
        if on_progress is not None:
            words = f"{answered} of {counted(len(requests), 'server')} answered"
            on_progress(answered / len(requests), words)

    listings = run_batch(
        requests,
        lambda request: _list_one(request, open_client, stop),
        failed=_raise,
        concurrency=max(1, min(concurrency, len(requests))),
        is_canceled=is_canceled,
        on_cancel=stop.set,
        on_finished=tell,
    )
    listed = list(listings)
    if len(listed) < len(requests):
        raise Canceled("Canceled while listing tools")
    return listed


def _raise(_: ServerRequest, error: Exception) -> NoReturn:
    raise error


def _list_one(request: ServerRequest, open_client: OpenClient, stop: Event) -> _Listing:
    server: ServerInfo | None = None
    definitions: list[ToolDefinition] = []
    dropped: tuple[tuple[str, str], ...] = ()
    steps: list[Step] = []
    error, started = request.error, monotonic()
    if error is None:
        try:
            # Not `with client`, which would connect without checking the cancel button.
            with closing(open_client(request, steps.append)) as client:
                server = client.connect(is_canceled=stop.is_set)
                definitions = client.list_tools(is_canceled=stop.is_set)
                dropped = client.dropped_tools
        except MCPError as caught:
            error = caught.at(server=request.server or None)
    outcome = ServerOutcome(
        request=request,
        server=server,
        offered=len(definitions),
        dropped=dropped,
        error=error,
        steps=tuple(steps),
        seconds=monotonic() - started,
    )
    return outcome, definitions


def _combined(listings: Sequence[_Listing], name_filter: NameFilter) -> Provision:
    kept = [[each for each in definitions if name_filter.keeps(each.name)] for _, definitions in listings]
    asked = [outcome.request for outcome, _ in listings]
    names = shown_names(
        [request.server or request.row for request in asked],
        [
            [request.prefix + each.name for each in definitions]
            for request, definitions in zip(asked, kept, strict=True)
        ],
    )
    offered: dict[str, set[str]] = {}
    for outcome, definitions in listings:
        # The same server may be in several rows, with a credential each.
        offered.setdefault(outcome.request.server, set()).update(each.name for each in definitions)
    foreign = foreign_identifiers(offered)
    outcomes = [
        replace(
            outcome,
            tools=tuple(
                _provided(outcome.request, definition, name, foreign[outcome.request.server])
                for definition, name in zip(definitions, shown, strict=True)
            ),
            findings=_instruction_findings(outcome.server, foreign[outcome.request.server]),
        )
        for (outcome, _), definitions, shown in zip(listings, kept, names.per_server, strict=True)
    ]
    known = set[str]().union(*offered.values())
    return Provision(
        outcomes=tuple(outcomes),
        names=names,
        # Where no server has answered, no pattern could match.
        useless_patterns=tuple(name_filter.useless(known)) if known else (),
    )


def _provided(
    request: ServerRequest, definition: ToolDefinition, shown_name: str, foreign: dict[str, str]
) -> ProvidedTool:
    assert request.route is not None, "a server without a route has no tools"
    # The digest is that of the definition that people see in the table: a call compares it.
    pinned = replace(request.route, tool=None, digest=definition.digest)
    return ProvidedTool(
        definition=definition,
        tool=definition.to_tool(pinned, shown_name=shown_name),
        findings=scan(definition.raw, foreign_names=foreign),
    )


def _instruction_findings(server: ServerInfo | None, foreign: dict[str, str]) -> tuple[SecurityFinding, ...]:
    if server is None or not server.instructions:
        return ()
    return scan({"instructions": server.instructions}, foreign_names=foreign)


def _phase(error: MCPError, steps: Sequence[Step]) -> str:
    if isinstance(error, ConnectError):
        return error.phase
    if isinstance(error, SettingInvalid):
        return "settings"
    if isinstance(error, AuthError):
        return "auth"
    unfinished = [step.phase for step in steps if not step.ok]
    # The last one, as a step before it may have been refused and made in another form.
    if unfinished:
        return unfinished[-1]
    return "protocol" if isinstance(error, (VersionError, ProtocolError)) else "tools"


# A tool has two names: the server's, and the shown name for people and models. The shown name is the RowID of
# the tool (KNIME fails on duplicate RowIDs) and the name that the Caller and the agents offer. It must be
# unique even if two servers have a tool of the same name, or one server lists a name twice. Servers have no
# influence on how names are made unique: otherwise one could take the name of another server's tool.


@dataclass(frozen=True, slots=True)
class ShownNames:
    """The shown names of all tools, with what had to be done to make them unique."""

    per_server: tuple[tuple[str, ...], ...]  # for each server, one per tool, in the order given
    ambiguous: tuple[str, ...]  # on several servers, and therefore shown with their server
    repeated: tuple[tuple[str, str], ...]  # server and name that it lists more than once


def shown_names(servers: Sequence[str], names: Sequence[Sequence[str]]) -> ShownNames:
    """Makes the shown names of all tools of a table, from the names of each server's.

    If several servers have the same name, each tool is shown as ``name @ host``, whatever the order of the
    servers. Names that are still equal (one server lists a name twice) are numbered in the server's order:
    ``name``, ``name (2)``.
    """
    wanted = [[without_surrogates(name) or "unnamed" for name in of_server] for of_server in names]
    counts = [Counter(of_server) for of_server in wanted]
    owners = Counter(name for count in counts for name in count)
    unique = iter(
        numbered(
            [
                f"{name} @ {label}" if owners[name] > 1 else name
                for label, of_server in zip(server_labels(servers), wanted, strict=True)
                for name in of_server
            ]
        )
    )
    return ShownNames(
        per_server=tuple(tuple(islice(unique, len(of_server))) for of_server in wanted),
        ambiguous=tuple(sorted(name for name, times in owners.items() if times > 1)),
        repeated=tuple(
            (server, name)
            for server, count in zip(servers, counts, strict=True)
            for name, times in count.items()
            if times > 1
        ),
    )


@dataclass(frozen=True, slots=True)
class NameFilter:
    """The choice of tools to keep, by the names that the server knows.

    Patterns are separated by commas, semicolons or line breaks; ``*`` stands for any text, ``?`` for one
    character; case does not matter. One after ``!`` drops what it matches. Without others all tools are kept.
    """

    patterns: str = ""

    def keeps(self, name: str) -> bool:
        dropping = [p[1:] for p in _split(self.patterns) if p.startswith("!")]
        keeping = [p for p in _split(self.patterns) if not p.startswith("!")]
        return (not keeping or _matches(keeping, name)) and not _matches(dropping, name)

    def useless(self, names: Iterable[str]) -> list[str]:
        """Finds patterns that match none of the server's names, usually because of typing errors."""
        known = list(names)
        return [
            p
            for p in _split(self.patterns)
            if not any(_matches([p.removeprefix("!")], name) for name in known)
        ]


def _split(text: str) -> list[str]:
    return [pattern.strip() for pattern in _SEPARATORS.split(text) if pattern.strip()]


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(_pattern(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    # "**" means the same as "*", but would make the search slow.
    text = re.escape(re.sub(r"\*+", "*", pattern)).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.IGNORECASE | re.DOTALL)
