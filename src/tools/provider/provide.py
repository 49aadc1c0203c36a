"""Lists the tools of one or many servers: the work of the Provider, for node and command line.

Servers are asked concurrently, a bounded number at a time, and a failure of one does not affect the others:
every server has an outcome, with its tools or the error, and with every step of connecting. Unique names in
the table, and mentions of other servers' tools, are determined after all servers have answered.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final

from ...types.errors import (
    AuthError,
    Canceled,
    ConnectError,
    MCPError,
    ProtocolError,
    SettingInvalid,
    VersionError,
)
from ...types.texts import counted
from ..tool_names import NamedServer, NameFilter, ShownNames, shown_names
from .findings import Finding, foreign_identifiers, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from ...client.mcp_client import MCPClient, ServerInfo, Step
    from ...client.protocol.tools import ToolDefinition
    from ...types.routing import ServerRoute
    from ...types.tool import MCPTool
    from ..node_settings.connection import Credential

    OpenClient = Callable[["ServerRequest", Callable[[Step], None]], MCPClient]
    # The outcome of a server, still without tools, and the definitions of its tools.
    _Listing = tuple["ServerOutcome", list[ToolDefinition]]

_CONCURRENCY: Final = 8
_POLL: Final = 0.2  # seconds between looks at the cancel button


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """A server to list.

    Attributes:
        row: RowID in the *Servers* table.
        route: The route to the server, None if its settings cannot work.
        prefix: The text in front of its tools' names.
        credential: The credential to send, None to send none.
        error: The error in its settings, None without one.
    """

    row: str
    route: ServerRoute | None
    prefix: str = ""
    credential: Credential | None = None
    error: MCPError | None = None

    @property
    def server(self) -> str:
        """The URL without secrets; empty if the URL is not valid."""
        return self.route.display if self.route else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedTool:
    """A tool for the table.

    Attributes:
        definition: The tool as the server defines it.
        tool: The value for the tool cell, pinned to the definition.
        findings: The findings of the security scan.
    """

    definition: ToolDefinition
    tool: MCPTool
    findings: tuple[Finding, ...] = ()

    @property
    def shown_name(self) -> str:
        """The name for people and models, unique in the table."""
        return self.tool.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOutcome:
    """The outcome of one server.

    Attributes:
        request: The request.
        server: The server's description of itself, None if it was not reached.
        tools: The server's tools that the filter keeps.
        offered: The number of all its tools.
        dropped: Name and reason of each tool whose definition cannot be used.
        findings: The findings of the security scan in the server's instructions.
        error: The reason why there are no tools, None if the server answered.
        steps: Every step of connecting, in order.
        seconds: The time that connecting and listing took.
    """

    request: ServerRequest
    server: ServerInfo | None = None
    tools: tuple[ProvidedTool, ...] = ()
    offered: int = 0
    dropped: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    error: MCPError | None = None
    steps: tuple[Step, ...] = ()
    seconds: float = 0.0

    @property
    def phase(self) -> str | None:
        """The failed phase; None without an error."""
        return None if self.error is None else _phase(self.error, self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """The outcomes of all servers.

    Attributes:
        outcomes: One per request, in the order of the requests.
        names: The shown names, with notes on how they were made unique.
        useless_patterns: Patterns of the filter that match no tool.
    """

    outcomes: tuple[ServerOutcome, ...]
    names: ShownNames
    useless_patterns: tuple[str, ...] = ()

    @property
    def tools(self) -> list[ProvidedTool]:
        """All tools, server by server."""
        return [tool for outcome in self.outcomes for tool in outcome.tools]

    @property
    def failed(self) -> list[ServerOutcome]:
        """The servers that gave no tools because of an error."""
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
    """Lists the tools of servers.

    Args:
        requests: The servers; those with an error are not asked.
        open_client: Makes the client of a request, with a callback for every step of connecting. Called in
            other threads; must raise if a credential is missing.
        name_filter: Selects the tools to keep; None keeps all.
        on_progress: Called in the caller's thread with the finished fraction and a text.
        is_canceled: Called in the caller's thread, several times a second.
        concurrency: The number of servers to ask at once.

    Returns:
        The outcome of every server.

    Raises:
        Canceled: `is_canceled` returned True.
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
    with ThreadPoolExecutor(
        max(1, min(concurrency, len(requests))), thread_name_prefix="mcp-list"
    ) as workers:
        futures = [workers.submit(_list_one, request, open_client, stop) for request in requests]
        pending: set[Future[_Listing]] = set(futures)
        try:
            while pending:
                if is_canceled is not None and is_canceled():
                    raise Canceled("Canceled while listing tools")
                answered = len(requests) - len(pending)
                done, pending = wait(pending, timeout=_POLL, return_when=FIRST_COMPLETED)
                for number, future in enumerate(done, start=answered + 1):
                    if on_progress is not None:
                        message = f"Server {number} of {len(requests)}: {_in_words(*future.result())}"
                        on_progress(number / len(requests), message)
        finally:
            stop.set()
            for future in pending:
                future.cancel()
    return [future.result() for future in futures]


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


def _in_words(outcome: ServerOutcome, definitions: list[ToolDefinition]) -> str:
    what = "failed" if outcome.error else f"lists {counted(len(definitions), 'tool')}"
    return f"{outcome.request.server or outcome.request.row} {what}"


def _combined(listings: Sequence[_Listing], name_filter: NameFilter) -> Provision:
    kept = [[each for each in definitions if name_filter.keeps(each.name)] for _, definitions in listings]
    names = shown_names(
        [
            NamedServer(
                server=outcome.request.server or outcome.request.row,
                prefix=outcome.request.prefix,
                names=[definition.name for definition in definitions],
            )
            for (outcome, _), definitions in zip(listings, kept, strict=True)
        ]
    )
    offered: dict[str, set[str]] = {}
    for outcome, definitions in listings:
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
        useless_patterns=tuple(name_filter.useless(known)) if known else (),
    )


def _provided(
    request: ServerRequest, definition: ToolDefinition, shown_name: str, foreign: dict[str, str]
) -> ProvidedTool:
    assert request.route is not None, "a server without a route has no tools"
    pinned = replace(request.route, tool=None, digest=definition.digest)
    return ProvidedTool(
        definition=definition,
        tool=definition.to_tool(pinned, shown_name=shown_name),
        findings=scan(definition.raw, foreign_names=foreign),
    )


def _instruction_findings(server: ServerInfo | None, foreign: dict[str, str]) -> tuple[Finding, ...]:
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
    if unfinished:
        return unfinished[-1]
    return "protocol" if isinstance(error, (VersionError, ProtocolError)) else "tools"
