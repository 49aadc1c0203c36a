"""The MCP client: connect to a server, list its tools, call one.

Synchronous, because KNIME nodes are, and safe for use by many threads at once. Whatever goes wrong leaves as
one of the errors of `knime_mcp.types.errors`, with the server named by origin and path and no secret in it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..types.errors import Canceled, MCPError, SettingInvalid
from .auth import Authorization
from .client.calling import ToolCalls
from .client.connecting import ConnectSettings, connect, memory
from .client.conversation import Conversation, OnProgress, Progress, request_ids
from .client.echoes import error_without, secrets_in, server_without, tools_without, values_in
from .clock import IsCanceled, Wait
from .limits import Limits, Timeouts
from .network import NetworkSettings
from .protocol.results import CallToolResult
from .protocol.server_info import ServerInfo
from .protocol.server_requests import Elicitation, ServerRequests
from .protocol.tools import ToolDefinition
from .protocol.versions import ALL_VERSIONS
from .server_url import checked_url
from .transports.base import Step, Trace, client_closed
from .transports.stdio_server import StdioServer

if TYPE_CHECKING:
    from .transports.http_channel import HttpChannel

__all__ = ["MCPClient", "Progress", "ServerInfo", "StdioServer", "Step"]

_logger = logging.getLogger(__name__)


class MCPClient:
    """A client of one server.

    Example:
        with MCPClient("https://host/mcp", auth=BearerAuth(token)) as client:
            tools = client.list_tools()
            result = client.call_tool("search", {"query": "knime"}, timeout=30)

    Args:
        server_uri: The server's URL, with whatever its query needs filled in; a fragment is ignored. May be
            given to `connect` instead.
        auth: Who calls.
        headers: Further headers; like the credentials they go to the server's own origin only.
        transport: ``http`` (streamable HTTP) or ``sse`` (HTTP+SSE) rule the other one out.
        protocol_version: The only revision to accept, instead of the newest that both sides speak.
        timeouts: The three clocks.
        limits: What a server may make us read, hold, follow or repeat.
        network: Trust store and proxy.
        trace: Told about every step of connecting. Called in the connecting thread; must not raise.
        elicitation: What to do when a server wants a form filled in: by default it is told that nobody can.
        check_results: Compare structured results with the tool's output schema, once the tool was listed.
        reopen_sessions: Send a call again in a new session after the server lost ours: it cannot have run,
            but what the server kept for us is gone. False raises `SessionLost` for calls instead.
        stdio: Start this command and speak to it over its standard input and output, instead of a URL.

    Raises:
        SettingInvalid: A URL, header or version that cannot work.
    """

    def __init__(
        self,
        server_uri: str | None = None,
        *,
        auth: Authorization | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Literal["auto", "http", "sse"] = "auto",
        protocol_version: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        limits: Limits = Limits(),  # noqa: B008 - frozen
        network: NetworkSettings = NetworkSettings(),  # noqa: B008 - frozen
        trace: Trace | None = None,
        elicitation: Elicitation = "unsupported",
        check_results: bool = True,
        reopen_sessions: bool = True,
        stdio: StdioServer | None = None,
    ) -> None:
        if protocol_version is not None and protocol_version not in ALL_VERSIONS:
            raise SettingInvalid(
                f"'{protocol_version}' is not a revision of the protocol that this client knows",
                setting="protocol_version",
                fix=f"Use one of {', '.join(ALL_VERSIONS)}",
            )
        if stdio is not None and server_uri is not None:
            raise SettingInvalid(
                "A server is either a URL or a command", setting="server_url", fix="Leave one of them out"
            )
        self._stdio = stdio
        url = None if server_uri is None else checked_url(server_uri)
        self._url = url if stdio is None else stdio.url
        self._auth = auth
        self._headers = dict(headers or {})
        self._timeouts = timeouts
        self._limits = limits
        self._network = network
        self._trace = trace
        self._lock = threading.Lock()
        self._channel: HttpChannel | None = None
        self._conversation: Conversation | None = None
        self._info: ServerInfo | None = None
        self._opening = 0
        self._ids = request_ids()
        self._settings = ConnectSettings(
            authorization=auth,
            transport=transport,
            protocol_version=protocol_version,
            limits=limits,
            requests=ServerRequests(elicitation),
            trace=trace,
            on_list_changed=lambda: self._calls.listings.changed(),
        )
        self._calls = ToolCalls(
            self, self._settings, check_results=check_results, reopen_sessions=reopen_sessions
        )

    def connect(self, server_uri: str | None = None, *, is_canceled: IsCanceled | None = None) -> ServerInfo:
        """Connect and negotiate; does nothing if the connection stands.

        Args:
            server_uri: The server, if the constructor was not told.
            is_canceled: Asked at least every 0.5 s.

        Raises:
            ConnectError: The phase that failed, why, and what to do next.
            AuthError: The server refuses the credentials.
            VersionError: No revision in common.
            MCPError: A clock, cancel, a limit.
        """
        if server_uri is not None:
            url = checked_url(server_uri)
            if self._url is not None and url != self._url:
                self.close()
                self._calls.listings.current = None  # those of another server
            self._url, self._stdio = url, None
        with self._edge():
            self.conversation(self._wait(is_canceled))
            return self.server

    @property
    def server(self) -> ServerInfo:
        """The server, as it was when it was last connected to; connects if it never was."""
        return self._info or self.connect()

    def list_tools(self, *, is_canceled: IsCanceled | None = None) -> list[ToolDefinition]:
        """All tools of all pages, in the server's order.

        Tools that the specification forbids to use over HTTP (malformed ``x-mcp-header``) and entries without
        a name are left out; `dropped_tools` says which and why. Repeated secrets are blacked out.

        Raises:
            MCPError: The first page that could not be had, and why.
        """
        with self._edge():
            return tools_without(self._sent(), self._calls.list_tools(self._wait(is_canceled)))

    @property
    def dropped_tools(self) -> tuple[tuple[str, str], ...]:
        """Name and reason of each tool that the last listing left out."""
        return self._calls.listings.dropped

    def watch_tools(self) -> None:
        """Hear of changes of the server's tools from now on, in the background, until the client is closed.

        Costs a connection where the server offers to tell, and nothing where it does not. Connects if there
        is no connection yet. Not lasting: a new session, or a server that ends it, needs it again.

        Raises:
            MCPError: There is no connection.
        """
        with self._edge():
            self._calls.watch(self._wait())

    @property
    def tool_changes(self) -> int:
        """How often the server's tools have changed, or may have, since the client was made.

        Whoever keeps definitions lists the tools again when the number has grown.
        """
        return self._calls.listings.changes

    def call_tool(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        on_attempt: Callable[[], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        is_canceled: IsCanceled | None = None,
    ) -> CallToolResult:
        """Call a tool and wait for its result.

        Args:
            tool_name: The server's name of the tool.
            arguments: As the tool's schema wants them; sent as they are.
            timeout: Seconds in total, instead of `Timeouts.total`.
            on_progress: Told how far the call is; in this thread or in a reader thread.
            on_attempt: Told each time that the call was sent: again after a lost session, 429, input.
            meanwhile: Done once, in this thread, while the server is busy with the call.
            is_canceled: Asked at least every 0.5 s; True ends the call and tells the server.

        Returns:
            The result. A failure that the tool itself reports is a result with ``is_error``.

        Raises:
            ToolNotFound: The server has no such tool.
            ServerError: The server answered with a protocol error.
            ResultInvalid: The structured result violates the tool's own output schema; holds the result.
            ResultTooLarge: The result exceeds the limit.
            TimedOut: A clock ran out. The tool may have run.
            Canceled: `is_canceled` said so. The tool may have run.
            MCPError: No connection, a refused login, a lost session.
        """
        started = time.perf_counter()
        with self._edge(tool_name):
            wait = self._wait(is_canceled, total=timeout)
            wait.meanwhile = meanwhile
            result = self._calls.call_tool(tool_name, arguments or {}, wait, on_progress, on_attempt)
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug(
                "%s: %d blocks in %.3f s", tool_name, len(result.content), time.perf_counter() - started
            )
        return result

    def close(self) -> None:
        """End the session and close all connections; calls under way fail.

        The client may be connected again.
        """
        self._opening += 1  # first: whoever connects holds the lock, and learns from this that it is over
        with self._lock:
            conversation, self._conversation = self._conversation, None
            channel, self._channel = self._channel, None
        self._calls.stop_watching()
        self._calls.listings.forget()
        if conversation is not None:
            conversation.close()
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def conversation(self, wait: Wait, instead_of: Conversation | None = None) -> Conversation:
        """The current conversation; a new one if there is none, or if it is the one that no longer works.

        For the client's own parts.

        Args:
            wait: Clocks and cancel.
            instead_of: The conversation that failed. Of many threads that found so, one reconnects.
        """
        current = self._conversation
        if current is not None and current is not instead_of and wait.opening == self._opening:
            return current
        wait.for_lock(self._lock)
        try:
            if wait.opening != self._opening:
                raise client_closed()
            current = self._conversation
            if current is not None and current is not instead_of:
                return current
            if current is not None:
                self._conversation = None
                current.transport.retire()
            return self._open(wait)
        finally:
            self._lock.release()

    def _open(self, wait: Wait) -> Conversation:
        before = self._channel
        server = self._open_channel() if self._stdio is None else self._stdio
        try:
            self._conversation = connect(server, self._settings, wait, self._ids)
        except BaseException:
            # Connections that were there before stay: calls of other threads may be under way on them.
            if before is None and self._channel is not None:
                self._channel.close()
                self._channel = None
            raise
        self._info = server_without(self._sent(), self._conversation.info)
        if self._channel is not None:
            self._channel.stop_tracing()
        return self._conversation

    def forget_server(self) -> None:
        """What was remembered of the server no longer holds. For the client's own parts."""
        if self._channel is not None:
            memory.pop(self._settings.memory_key(self._channel), None)

    def _open_channel(self) -> "HttpChannel":
        if self._url is None:
            raise SettingInvalid(
                "There is no server to connect to", setting="server_url", fix="Enter the server's URL"
            )
        if self._channel is None:
            # Only here: HTTP costs most of the time that importing the client would take.
            from .transports.http_channel import HttpChannel

            self._channel = HttpChannel(
                self._url,
                authorization=self._auth,
                headers=self._headers,
                network=self._network,
                limits=self._limits,
                trace=self._trace,
            )
        return self._channel

    def _wait(self, is_canceled: IsCanceled | None = None, *, total: float | None = None) -> Wait:
        opening = self._opening

        def is_over() -> bool:
            return self._opening != opening or (is_canceled is not None and is_canceled())

        wait = Wait(self._timeouts, total=total, is_canceled=is_over)
        wait.opening = opening
        return wait

    def _edge(self, tool: str | None = None) -> "_Edge":
        opening = self._opening

        def placed(error: MCPError) -> MCPError:
            if isinstance(error, Canceled) and self._opening != opening:
                error = client_closed()
            return error_without(self._secrets(), error.at(server=self._url, tool=tool))

        return _Edge(placed)

    def secrets(self) -> tuple[str, ...]:
        """What proves to the server who is calling, as it could repeat it. A renewed token is another one."""
        return () if self._auth is None else self._auth.secrets()

    def _sent(self) -> tuple[str, ...]:
        """What is sent as a secret with every request."""
        return (*self.secrets(), *secrets_in(self._headers, self._url or ""))

    def _secrets(self) -> Iterator[str]:
        """Everything that must not be seen, in the forms in which a server could echo it."""
        yield from self.secrets()
        yield from values_in(self._headers, self._url or "")
        if self._stdio is not None:
            yield from self._stdio.secrets()


class _Edge:
    """Nothing leaves the client without its place, or with a secret, or with what could hold one.

    Frames do: their variables are arguments, credentials, and replies of many megabytes, which an error would
    keep for as long as it is kept itself.
    """

    __slots__ = ("_placed",)

    def __init__(self, placed: Callable[[MCPError], MCPError]) -> None:
        self._placed = placed

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, MCPError):
            del traceback
            error.__traceback__ = error.__context__ = None
            raise self._placed(error) from None
