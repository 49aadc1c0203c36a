"""What a server lists: all pages of its tools, resources, templates and prompts.

The list of tools is kept while the server allows it, and its changes are listened for. Legacy servers
announce them on the session's stream, modern ones to a subscription
(https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions): the server answers
``subscriptions/listen`` only to end it; until then notifications arrive on the reply's stream. There is one
thread per client, started when a list of tools is cached and ended with the client.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, ServerError, TimedOut
from ..types.texts import collector_paused, counted, shortened
from .clock import ServerListener, Wait
from .conversation import CallInbox, ConnectSettings, Conversation
from .limits import exceeded
from .protocol.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Response,
    ValueCounter,
    as_object,
    is_longer,
    result_of,
)
from .protocol.negotiation import Era, ServerInfo, ServerRequests, era_of
from .protocol.tools import (
    ANNOTATION,
    InvalidAnnotationError,
    Mirrored,
    ToolDefinition,
    check_texts,
    format_size,
    mirrored_arguments,
    parse_page,
)
from .transports.base import Delivery, Step

if TYPE_CHECKING:
    from .protocol.offers import PromptDefinition, ResourceDefinition

_logger = logging.getLogger(__name__)
_LONGEST_TTL: Final = 24 * 3600.0
_LONGEST_NAME: Final = 100  # that is told of a tool which is left out
_FURTHER: Final = ("(further tools)", "every page is the first one; a gateway may pass no cursors on")


class _Kind(NamedTuple):
    """Something that a server can list."""

    method: str
    key: str  # of the entries in a page
    words: str


_TOOLS: Final = _Kind("tools/list", "tools", "tools")
_RESOURCES: Final = _Kind("resources/list", "resources", "resources")
_TEMPLATES: Final = _Kind("resources/templates/list", "resourceTemplates", "templates of resources")
_PROMPTS: Final = _Kind("prompts/list", "prompts", "prompts")


@dataclass(slots=True)
class Listing:
    tools: list[ToolDefinition]
    by_name: dict[str, ToolDefinition]  # of equal names the first one counts
    mirrored: dict[str, tuple[Mirrored, ...]]
    fresh_until: float  # by the monotonic clock


@dataclass(slots=True)
class _Pages:
    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ttl: float = _LONGEST_TTL
    count: int = 0
    bytes: int = 0
    values: int = 0
    may_mirror: bool = False
    is_whole: bool = True


class Listings:
    """Lists what one server has, and keeps the list of tools while the server allows it.

    `send` sends a request that changes nothing, again and again if need be, and returns its result.
    """

    def __init__(
        self,
        server: Callable[[], ServerInfo],
        send: Callable[[str, dict[str, Any], Wait], Response],
        settings: ConnectSettings,
    ) -> None:
        self._server = server
        self._send = send
        self._limits = settings.limits
        self._trace = settings.trace
        # The last listing, valid or not: results are checked with its definitions until the next listing.
        self.current: Listing | None = None
        self._lock = threading.Lock()
        self.changes = 0
        self.dropped: tuple[tuple[str, str], ...] = ()

    @property
    def is_kept(self) -> bool:
        return self.current is not None and time.monotonic() < self.current.fresh_until

    def changed(self) -> None:
        with self._lock:
            self.changes += 1
        self.forget()

    def forget(self) -> None:
        """Makes the next `get` fetch the tools again."""
        listing = self.current
        if listing is not None:
            listing.fresh_until = 0.0

    def get(self, wait: Wait) -> Listing:
        """Lists all tools, from the cache while the server's ``ttlMs`` allows it."""
        listing = self.current
        if listing is not None and self.is_kept:
            return listing
        started = time.monotonic()
        changes = self.changes
        pages = self._fetch(_TOOLS, wait)
        listing = self._read(pages)
        # The list may mix old and new pages: it serves this call, and is not kept.
        if changes != self.changes:
            listing.fresh_until = 0.0
        self.current = listing
        if self._trace is not None:
            what = f"{counted(len(listing.tools), 'tool')} on {counted(pages.count, 'page')}"
            self._trace(Step("tools", "tools/list", True, what, time.monotonic() - started))
        return listing

    def resources(self, wait: Wait) -> list["ResourceDefinition"]:
        """All resources, and behind them all templates. Entries without a URI are left out."""
        from .protocol.offers import ResourceDefinition  # here, as most clients call tools only

        return [
            definition
            for kind in (_RESOURCES, _TEMPLATES)
            for raw in self._usable(kind, wait)
            if (definition := ResourceDefinition.from_raw(raw, is_template=kind is _TEMPLATES)).uri
        ]

    def prompts(self, wait: Wait) -> list["PromptDefinition"]:
        """All prompts that have a name."""
        from .protocol.offers import PromptDefinition

        listed = map(PromptDefinition.from_raw, self._usable(_PROMPTS, wait))
        return [prompt for prompt in listed if prompt.name]

    def _usable(self, kind: _Kind, wait: Wait) -> list[dict[str, Any]]:
        """The entries of all pages, without those that nobody could look at."""
        usable: list[dict[str, Any]] = []
        for entry in self._fetch(kind, wait).entries:
            try:
                self._check_length(entry)
                usable.append(entry)
            except ProtocolError as error:
                _logger.warning("one of the %s is left out: %s", kind.words, error.what)
        return usable

    def _check_length(self, entry: dict[str, Any]) -> None:
        check_texts(entry)
        # No model could read more, and each step takes copies of it.
        if is_longer(entry, longest := self._limits.schema_bytes):
            raise ProtocolError(f"its definition is longer than {longest:,} characters")

    def _fetch(self, kind: _Kind, wait: Wait, *, is_second: bool = False) -> _Pages:
        pages = _Pages()
        limits = self._limits
        seen: set[str] = set()
        cursor: str | None = None
        entries: list[dict[str, Any]] = []
        while pages.count < limits.pages:
            try:
                response = self._page(kind, cursor, wait)
            except ServerError as error:
                if cursor is None or error.code != INVALID_PARAMS or is_second:
                    raise
                # The list may have changed meanwhile, which makes the server forget its cursors: start over.
                return self._fetch(kind, wait, is_second=True)
            pages.count += 1
            if response is None:
                return pages
            result = result_of(response.message)
            last_cursor, before = cursor, entries
            entries, cursor = parse_page(result, kind.key)
            is_again = last_cursor is not None and last_cursor == cursor and entries == before
            if is_again and (kind is _TOOLS or not cursor):  # for the others it is a circle, see below
                pages.is_whole = not cursor  # against the protocol, some servers end with an empty cursor
                return pages
            pages.entries.extend(entries)
            pages.bytes += len(response.body)
            pages.values += ValueCounter(limits.values).count(response.body)
            pages.ttl = min(pages.ttl, ttl_seconds(result))
            pages.may_mirror = pages.may_mirror or response.may_mention(ANNOTATION)
            if len(pages.entries) > limits.tools:
                what = f"The server lists more than {limits.tools} {kind.words}"
                raise exceeded("tools", limits.tools, what)
            if pages.bytes > limits.listing_bytes:
                what = f"The server's list of {kind.words} is larger than {format_size(limits.listing_bytes)}"
                raise exceeded("listing_bytes", limits.listing_bytes, what)
            if pages.values > limits.values:
                what = f"The server's list of {kind.words} has more than {limits.values:,} values"
                raise exceeded("values", limits.values, f"{what}: {pages.values:,} on {pages.count} pages")
            if cursor is None:
                return pages
            # https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination: cursors
            # are opaque, so the same one again is the only sign of a circle.
            if cursor in seen:
                raise ProtocolError(
                    f"The server's list of {kind.words} runs in circles after {pages.count} pages",
                    fix="Ask whoever runs the server",
                )
            seen.add(cursor)
        what = f"The server's list of {kind.words} has more than {limits.pages} pages"
        raise exceeded("pages", limits.pages, what)

    def _page(self, kind: _Kind, cursor: str | None, wait: Wait) -> Response | None:
        """Reads one page; None if the server has nothing of the kind."""
        params = {} if cursor is None else {"cursor": cursor}
        try:
            response = self._send(kind.method, params, wait)
        except ServerError as error:
            # What declares tools has them. What declares resources may still know no templates.
            is_declared = kind is _TOOLS and "tools" in self._server().capabilities
            if error.code == METHOD_NOT_FOUND and cursor is None and not is_declared:
                return None
            raise
        if flaw := response.flaw:
            _logger.warning("the list of %s has %s", kind.words, flaw)
        return response

    def _read(self, pages: _Pages) -> Listing:
        server = self._server()
        is_modern = era_of(server.protocol_version) is Era.MODERN
        mirrors = is_modern and server.transport == "http" and pages.may_mirror
        tools: list[ToolDefinition] = []
        mirrored: dict[str, tuple[Mirrored, ...]] = {}
        dropped: list[tuple[str, str]] = [] if pages.is_whole else [_FURTHER]
        is_large = pages.bytes > self._limits.schema_bytes  # else no tool is
        with collector_paused():
            for entry in pages.entries:
                try:
                    if is_large:
                        self._check_length(entry)
                    tool = ToolDefinition.from_raw(entry)
                    # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http:
                    # a tool with a malformed `x-mcp-header` MUST be left out; over stdio it means nothing.
                    if mirrors and (arguments := mirrored_arguments(tool.input_schema)):
                        mirrored.setdefault(tool.name, arguments)
                    tools.append(tool)
                except (ProtocolError, InvalidAnnotationError) as error:
                    name = shortened(str(entry.get("name") or "(without a name)"), _LONGEST_NAME)
                    dropped.append((name, error.what if isinstance(error, MCPError) else str(error)))
        for name, why in dropped:
            _logger.warning("tool %s is left out: %s", name, why)
        self.dropped = tuple(dropped)
        # Only modern servers send `ttlMs`. In the handshake era a list
        # is out of date as soon as it is there.
        fresh_until = time.monotonic() + pages.ttl if is_modern else 0.0
        return Listing(tools, {tool.name: tool for tool in reversed(tools)}, mirrored, fresh_until)


def ttl_seconds(result: Mapping[str, Any]) -> float:
    """The seconds for which a result may be cached (2026-07-28, *Caching*), a day at most."""
    ttl = result.get("ttlMs")
    # `True` is an int for Python, and would be a millisecond.
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return 0.0
    return min(max(0.0, ttl), _LONGEST_TTL * 1000) / 1000


class ToolsWatch(ServerListener):
    """Listens to one conversation until `stop` is called or the server ends the subscription.

    `on_changed` is called in the listening thread when changes may have been missed; announced changes go to
    the transport's inbox.
    """

    def __init__(
        self,
        conversation: Conversation,
        requests: ServerRequests,
        on_changed: Callable[[], None],
    ) -> None:
        super().__init__("knime-mcp-watch")
        self._conversation = conversation
        self._requests = requests
        self._on_changed = on_changed
        self._has_begun = self._has_stood = False

    def serves(self, conversation: Conversation) -> bool:
        """Or was refused there."""
        return self._conversation is conversation and (self._thread.is_alive() or not self._has_stood)

    def _run(self) -> None:
        try:
            super()._run()
        finally:
            if self._has_stood:  # from now on a cached list may be out of date
                self._on_changed()

    def _listen(self) -> bool | None:
        if self._has_begun:
            self._on_changed()  # changes may have been announced since the last attempt
        self._has_begun = True
        params = {"notifications": {"toolsListChanged": True}}
        inbox = _WatchInbox(self._requests, on_refused=self.stop)
        try:
            delivery = Delivery()
            with self._attempt(delivery) as wait:
                self._conversation.send("subscriptions/listen", params, wait, inbox, delivery=delivery)
        except (ConnectError, ResultTooLarge, TimedOut):  # too large may be what kept it alive for days
            return inbox.heard > 1  # more than the acknowledgement
        except MCPError as error:
            _logger.debug("changes of the tools are not heard of: %s", error.what)
        finally:
            self._has_stood = self._has_stood or (inbox.heard > 0 and not inbox.is_refused)
        # With a result the server ends the subscription, with anything else it refuses it.
        return None


@dataclass(slots=True, eq=False, kw_only=True)
class _WatchInbox(CallInbox):
    """Reads from the server's acknowledgement whether it will announce changes of the tools."""

    on_refused: Callable[[], None]
    heard: int = 0
    is_refused: bool = False

    def notification(self, method: str, params: Mapping[str, Any]) -> None:
        self.heard += 1
        if method == "notifications/subscriptions/acknowledged" and "notifications" in params:
            granted = as_object(params["notifications"])
            if not granted.get("toolsListChanged"):
                self.is_refused = True
                self.on_refused()
