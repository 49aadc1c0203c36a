"""The MCP client: connects to a server, lists its tools and calls them.

Synchronous, as KNIME nodes are, and safe for use by many threads at once. All failures are raised as errors
of `knime_mcp.types.errors`, which name the server by origin and path and contain no secrets.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from ..types.errors import Canceled, ConnectError, MCPError, SettingInvalid, kind_and_place
from ..types.routing import ServerRoute
from ..types.texts import ours
from .authorization import (
    IDENTITY_VARIABLE,
    Authorization,
    OwnHeader,
    definitions_without,
    error_without,
    secrets_in,
    server_without,
    step_without,
    values_in,
)
from .calling import ToolCalls
from .clock import IsCanceled, StoppableClock, Wait
from .conversation import (
    ConnectSettings,
    Conversation,
    OnNotification,
    OnProgress,
    Progress,
    connect,
    memory,
    request_ids,
)
from .limits import VARIABLE, Limits, Timeouts
from .network import NetworkSettings, checked_url
from .protocol.messages import INTERNAL_ERROR, RpcError
from .protocol.negotiation import ALL_VERSIONS, Answerer, Elicitation, ServerInfo, ServerRequests
from .protocol.tools import CallToolResult, ToolDefinition
from .transports.base import Step, Trace, client_closed
from .transports.mock import MockTransport
from .transports.stdio_server import StdioServer

if TYPE_CHECKING:
    from .protocol.offers import PromptDefinition, ResourceDefinition
    from .transports.http_channel import HttpChannel

__all__ = ["MCPClient", "Progress", "ServerInfo", "StdioServer", "Step"]
_logger = logging.getLogger(__name__)
ServerKey = tuple[object, ...]
_MOST_QUESTIONS: Final = 8


class MCPClient:
    """A client of one server.

    Example:
        with MCPClient("https://host/mcp", auth=BearerAuth(token)) as client:
            tools = client.list_tools()
            result = client.call_tool("search", {"query": "knime"}, timeout=30)

    Its methods block, and may be used by many threads. In a coroutine:

        async with MCPClient("https://host/mcp") as client:
            result = await asyncio.to_thread(client.call_tool, "search", {"query": "knime"})

    Args:
        server_uri: The server's URL with a complete query; a fragment is ignored. May be given to `connect`
            instead.
        auth: The caller's authorization; by default that of the environment (``KNIME_MCP_IDENTITY``), if any.
        headers: Further headers; like the credentials they go to the server's own origin only.
        transport: ``http`` allows streamable HTTP only, ``sse`` HTTP+SSE only. A `MockTransport` takes the
            server's place in tests.
        protocol_version: The only revision to accept, instead of the newest that both sides speak.
        timeouts: The three clocks.
        limits: What a server can make the client read, hold, follow or repeat; by default `Limits.usual()`.
        network: Trust store and proxy.
        trace: Called with every step of connecting, in the connecting thread; must not raise.
        elicitation: The answer when a server wants a form filled in, or a function that gives it. By default
            the client declares that it cannot do so.
        sampling: Answers when a server wants something of a model. While it or `elicitation` is at work, in
            another thread or in that of the call, the clocks of this client's calls stand still.
        check_results: Compare structured results with the tool's output schema, once the tool was listed.
        reopen_sessions: Send a call again in a new session after the server lost the session. The call cannot
            have run, but the state of the old session is lost. False raises `SessionLost` for calls instead.
        stdio: A command to start and to speak to over its standard input and output, instead of a URL.
        secrets: What is secret in `headers` and the URL, beside what looks like it.
        on_notification: Called with method and parameters of each notification, in a reader's thread.

    Raises:
        SettingInvalid: A URL, header or version is not valid.
    """

    def __init__(
        self,
        server_uri: str | None = None,
        *,
        auth: Authorization | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Literal["auto", "http", "sse"] | MockTransport = "auto",
        protocol_version: str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        limits: Limits | None = None,
        network: NetworkSettings = NetworkSettings(),  # noqa: B008 - frozen
        trace: Trace | None = None,
        elicitation: Elicitation = "unsupported",
        sampling: Answerer | None = None,
        check_results: bool = True,
        reopen_sessions: bool = True,
        stdio: StdioServer | None = None,
        secrets: Iterable[str] = (),
        on_notification: OnNotification | None = None,
    ) -> None:
        if protocol_version is not None and protocol_version not in ALL_VERSIONS:
            raise SettingInvalid(
                f"'{protocol_version}' is not a revision of the protocol that this client knows",
                setting="protocol_version",
                fix=f"Use one of {', '.join(ALL_VERSIONS)}",
            )
        self._stdio = stdio
        self._mock = transport if isinstance(transport, MockTransport) else None
        if (server_uri, stdio, self._mock).count(None) < 2:
            raise SettingInvalid(
                "A server is either a URL or a command, or a mock",
                setting="server_url",
                fix="Leave the others out",
            )
        url = None if server_uri is None else checked_url(server_uri)
        self._url = stdio.url if stdio is not None else self._mock.url if self._mock is not None else url
        self._headers = dict(headers or {})
        if auth is None and url is not None:
            # What somebody wrote for this server comes before the machine's identity. A refusal says what
            # was sent.
            own = next((name for name in self._headers if name.lower() == "authorization"), None)
            if own is not None:
                auth = OwnHeader(own, self._headers.pop(own))
            elif os.environ.get(IDENTITY_VARIABLE):
                from .oauth.identity import company_login

                auth = company_login(url, network)
        self._auth = auth
        self._given_secrets = tuple(secrets)
        self._timeouts = timeouts
        self._limits = limits or (Limits.usual() if VARIABLE in os.environ else Limits())
        self._network = network
        self._trace = None if trace is None else partial(self._trace_step, trace)
        self._lock = threading.Lock()
        self._channel: HttpChannel | None = None
        self._conversation: Conversation | None = None
        self._info: ServerInfo | None = None
        self._opening = 0
        self._ids = request_ids()
        self._clock = StoppableClock()
        self._questions = threading.BoundedSemaphore(_MOST_QUESTIONS)
        self._settings = ConnectSettings(
            authorization=auth,
            transport="auto" if isinstance(transport, MockTransport) else transport,
            protocol_version=protocol_version,
            limits=self._limits,
            requests=ServerRequests(
                partial(self._asked, elicitation) if callable(elicitation) else elicitation,
                None if sampling is None else partial(self._asked, sampling),
            ),
            trace=self._trace,
            on_list_changed=lambda: self._calls.listings.changed(),
            on_notification=on_notification,
        )
        self._calls = ToolCalls(
            self, self._settings, check_results=check_results, reopen_sessions=reopen_sessions
        )

    def connect(self, server_uri: str | None = None, *, is_canceled: IsCanceled | None = None) -> ServerInfo:
        """Connects and negotiates; does nothing if the client is connected.

        Args:
            server_uri: The server, if not given to the constructor.
            is_canceled: Called at least every 0.5 s.

        Raises:
            ConnectError: A phase failed; the error names the phase, the reason and what to do next.
            AuthError: The server refuses the credentials.
            VersionError: Client and server have no revision in common.
            MCPError: A clock ran out, the person canceled, or a limit was exceeded.
        """
        if server_uri is not None:
            url = checked_url(server_uri)
            if self._url is not None and url != self._url:
                self.close()
                self._calls.listings.current = None  # the listing of another server
            self._url, self._stdio = url, None
        with self._completed_errors():
            self.conversation(self._wait(is_canceled))
            return self.server

    @property
    def server(self) -> ServerInfo:
        """The server's description from the last connection; connects if there was none."""
        return self._info or self.connect()

    def list_tools(self, *, is_canceled: IsCanceled | None = None) -> list[ToolDefinition]:
        """All tools of all pages, in the server's order.

        Tools that the specification forbids to use over HTTP (malformed ``x-mcp-header``) and entries without
        a name are left out; `dropped_tools` says which and why. Repeated secrets that stand out are hidden.

        Raises:
            MCPError: A page could not be read.
        """
        with self._completed_errors():
            tools, secrets = self._calls.list_tools(self._wait(is_canceled)), self.secrets()
            if not secrets:
                return tools
            return definitions_without(secrets, tools, lambda raw, was: was.from_raw(raw))

    @property
    def dropped_tools(self) -> tuple[tuple[str, str], ...]:
        """Name and reason of each tool that the last listing left out."""
        return self._calls.listings.dropped

    def watch_tools(self) -> None:
        """Listens for changes of the server's tools, in the background, until the client is closed.

        Takes a connection if the server announces changes. Connects if necessary. Must be called again in a
        new session, and after the server has ended the subscription.

        Raises:
            MCPError: The client could not connect.
        """
        with self._completed_errors():
            self._calls.watch(self._wait())

    @property
    def tool_changes(self) -> int:
        """The number of times that the server's tools have changed, or may have changed.

        Callers that keep definitions list the tools again when the number has grown.
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
        on_sent: Callable[[], None] | None = None,
        is_canceled: IsCanceled | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Calls a tool and waits for its result.

        Args:
            tool_name: The server's name of the tool.
            arguments: The arguments, sent unchanged.
            timeout: Seconds in total, instead of `Timeouts.total`.
            on_progress: Called with progress reports, in this thread or in a reader thread.
            on_attempt: Called after each attempt that was sent; again after a lost session, 429, input.
            on_sent: Called in this thread as soon as the server is busy with the call, in each attempt.
            is_canceled: Called at least every 0.5 s; True ends the call and tells the server.
            meta: Members of the request's ``_meta``, beside those of the protocol.

        Returns:
            The result. A failure that the tool itself reports is a result with ``is_error``.

        Raises:
            ToolNotFound: The server says, as an error of the protocol, that it has no such tool.
            ServerError: The server answered with a protocol error.
            ResultInvalid: The structured result violates the tool's own output schema; holds the result.
            ResultTooLarge: The result exceeds the limit.
            TimedOut: A clock ran out. The tool may have run.
            Canceled: `is_canceled` returned True. The tool may have run.
            MCPError: There is no connection, the login was refused, or the session was lost.
        """
        started = time.perf_counter()
        with self._completed_errors(tool_name):
            wait = self._wait(is_canceled, total=timeout)
            result = self._calls.call_tool(
                tool_name,
                arguments or {},
                wait,
                on_progress=on_progress,
                on_attempt=on_attempt,
                on_sent=on_sent,
                meta=meta,
            )
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug(
                "%s: %d blocks in %.3f s", tool_name, len(result.content), time.perf_counter() - started
            )
        return result

    def list_resources(self, *, is_canceled: IsCanceled | None = None) -> list["ResourceDefinition"]:
        """All resources, and behind them all templates of resources; none if the server offers none."""
        with self._completed_errors():
            listed = self._calls.listings.resources(self._wait(is_canceled))
            return definitions_without(
                self.secrets(), listed, lambda raw, was: was.from_raw(raw, is_template=was.is_template)
            )

    def read_resource(self, uri: str, *, is_canceled: IsCanceled | None = None) -> dict[str, Any]:
        """The result of ``resources/read``, whose contents `protocol.offers.contents_of` gives."""
        with self._completed_errors():
            return self._calls.ask("resources/read", {"uri": uri}, self._wait(is_canceled))

    def list_prompts(self, *, is_canceled: IsCanceled | None = None) -> list["PromptDefinition"]:
        """All prompts; none if the server offers none."""
        with self._completed_errors():
            listed = self._calls.listings.prompts(self._wait(is_canceled))
            return definitions_without(self.secrets(), listed, lambda raw, was: was.from_raw(raw))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        is_canceled: IsCanceled | None = None,
    ) -> dict[str, Any]:
        """The result of ``prompts/get``, whose messages `protocol.offers.messages_of_prompt` gives."""
        # Always an object: the TypeScript SDK refuses a prompt with optional arguments without one.
        params = {"name": name, "arguments": dict(arguments or {})}
        with self._completed_errors():
            return self._calls.ask("prompts/get", params, self._wait(is_canceled))

    def close(self) -> None:
        """Ends the session and closes all connections; calls under way fail.

        The client may be connected again.
        """
        self._opening += 1  # first: a thread that connects holds the lock, and this cancels it
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

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio  # here, as nothing else of the client needs it

        try:
            await asyncio.to_thread(self.connect)
        except asyncio.CancelledError:
            self.close()  # ends the connecting
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def conversation(self, wait: Wait, instead_of: Conversation | None = None) -> Conversation:
        """The current conversation; a new one if there is none, or if it is `instead_of`.

        For the client's own parts.

        Args:
            wait: Clocks and cancel.
            instead_of: The lost conversation. If many threads noticed the loss, only the first reconnects.
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
        server = self._mock or self._stdio or self._open_channel()
        try:
            self._conversation = connect(server, self._settings, wait, self._ids)
        except BaseException:
            # A channel from before stays open, as calls of other threads may be using its connections.
            if before is None and self._channel is not None:
                self._channel.close()
                self._channel = None
            raise
        secrets, info = self.secrets(), self._conversation.info
        self._info = server_without(secrets, info) if secrets else info
        if self._channel is not None:
            # Steps are for finding out why connecting fails; later connections would only repeat them.
            self._channel.stop_tracing()
        return self._conversation

    def forget_server(self) -> None:
        """Forgets the remembered outcome of the negotiation. For the client's own parts."""
        if self._channel is not None:
            memory.pop(self._settings.memory_key(self._channel), None)

    def _open_channel(self) -> "HttpChannel":
        if self._url is None:
            raise SettingInvalid(
                "There is no server to connect to", setting="server_url", fix="Enter the server's URL"
            )
        if self._channel is None:
            # Imported here, as HTTP would take most of the time of importing the client.
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

        clock = self._clock
        return Wait(self._timeouts, total=total, is_canceled=is_over, opening=opening, clock=clock)

    def _asked(self, answerer: Answerer, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        """Has a question of the server answered; nobody is asked more than some questions at once."""
        if not self._questions.acquire(blocking=False):
            return RpcError(INTERNAL_ERROR, "Too many questions are waiting for an answer")
        try:
            with self._clock.stopped():
                return answerer(params)
        except Exception as error:  # the server waits for an answer
            _logger.error("a question of the server could not be answered: %s", kind_and_place(error))
            return RpcError(INTERNAL_ERROR, "This client could not answer")
        finally:
            self._questions.release()

    def _completed_errors(self, tool: str | None = None) -> "_CompletedErrors":
        opening = self._opening

        def completed(error: MCPError) -> MCPError:
            # `close` cancels through the same flag, but no person has canceled.
            if isinstance(error, Canceled) and self._opening != opening:
                error = client_closed()
            # First in the error itself, which stays the context of its copy.
            return error_without(self._all_secrets(), error).at(server=self._url, tool=tool)

        return _CompletedErrors(completed)

    def _trace_step(self, trace: Trace, step: Step) -> None:
        secrets = tuple(self._all_secrets())
        trace(step_without(secrets, step) if secrets else replace(step, detail=ours(step.detail)))

    @property
    def _may_hold_secrets(self) -> bool:
        return bool(self._headers) or "?" in (self._url or "")

    def secrets(self) -> tuple[str, ...]:
        """The credentials in use, which the server could repeat. They change when a token is renewed."""
        sent = () if self._auth is None else self._auth.secrets()
        given = self._given_secrets if self._stdio is None else self._stdio.secrets()
        shown = secrets_in(self._headers, self._url or "") if self._may_hold_secrets else ()
        return (*sent, *shown, *given)

    def _all_secrets(self) -> Iterator[str]:
        """All secrets, and further values that a server could repeat in a refusal."""
        yield from self.secrets()
        if self._may_hold_secrets:
            yield from values_in(self._headers, self._url or "")


class _CompletedErrors:
    """Completes the errors that leave the client: adds server and tool, and removes secrets and traceback.

    The frames of a traceback hold arguments, credentials and large replies, which would stay in memory and
    accessible as long as the error does. A frame of `contextlib` would hold the traceback itself.
    """

    __slots__ = ("_complete",)

    def __init__(self, complete: Callable[[MCPError], MCPError]) -> None:
        self._complete = complete

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, MCPError):
            del traceback
            error.__traceback__ = error.__context__ = None
            raise self._complete(error) from None


class SessionPool:
    """Clients by route. Safe for use by many threads at once.

    A session's state on the server lives as long as the pool: for a whole run of an agent or a batch.

    Args:
        connect: Makes the client of a route, with its credential. Called once per server and caller, and
            again after an exception.
    """

    def __init__(self, connect: Callable[[ServerRoute], MCPClient]) -> None:
        self._connect = connect
        self._clients: dict[ServerKey, MCPClient] = {}
        self._making: dict[ServerKey, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    def client(self, route: ServerRoute) -> MCPClient:
        """The client of a route; the route's tool and pin do not matter.

        Raises:
            MCPError: `connect` failed, or the pool is closed (`ConnectError`).
        """
        key = server_key(route)
        client = self._clients.get(key)
        if client is not None:
            return client
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:  # a lock per server, so that servers do not wait for each other
            client = self._clients.get(key)
            if client is None:
                client = self._connect(route)
                with self._lock:
                    if not self._closed:
                        self._clients[key] = client
                        return client
                client.close()
                raise ConnectError("The session pool is closed", phase="protocol", server=route.url)
        return client

    def close(self) -> None:
        """Closes all clients; calls under way fail."""
        with self._lock:
            self._closed = True
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


server_key: Final[Callable[[ServerRoute], ServerKey]] = attrgetter(
    *(field.name for field in fields(ServerRoute) if field.name not in ("tool", "digest"))
)
"""What tells the servers and callers of a run apart: all of a route but its tool and pin."""
