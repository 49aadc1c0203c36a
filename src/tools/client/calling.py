"""Listing and calling tools over a conversation: repeats, pages, caches, input rounds, checks.

What may be sent twice is decided here. A listing changes nothing, so it is repeated after an outage. A call
is repeated only where it provably did not run: its bytes never left, the server refused to look at it (lost
session, wrong headers, 429), or the server says that it wants the same call again (``input_required``).
"""

import difflib
import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from ...types.errors import (
    ConnectError,
    MCPError,
    ProtocolError,
    ResultInvalid,
    ResultTooLarge,
    ServerError,
    SessionLost,
    ToolNotFound,
)
from ..clock import Wait, backoff
from ..protocol import jsonrpc
from ..protocol.answers import Answer, Refusal, Response, rpc_error
from ..protocol.headers import InvalidAnnotationError, Mirrored, argument_headers, mirrored_arguments
from ..protocol.results import ABSENT, CallToolResult
from ..protocol.server_requests import answer_inputs
from ..protocol.tools import ToolDefinition, parse_page
from ..protocol.versions import Era
from ..transports.base import Step
from .connecting import ConnectSettings
from .conversation import CallInbox, Conversation, Progress
from .failures import error_from
from .task_calls import call_as_task, must_run_as_task

_logger = logging.getLogger(__name__)
_LONGEST_TTL: Final = 24 * 3600.0
_NOT_SENT: Final = frozenset({"dns", "tcp", "tls", "proxy"})
_NAMED: Final = 3
_INPUT_PAUSES: Final = (0.05, 0.1, 0.2, 0.25)


class _Conversations(Protocol):
    """What `ToolCalls` needs from the client."""

    def conversation(self, wait: Wait, instead_of: Conversation | None = None) -> Conversation: ...

    def forget_server(self) -> None: ...


class _Listing:
    """A list of tools and what follows from it."""

    def __init__(self, tools: list[ToolDefinition], fresh_until: float) -> None:
        self.tools = tools
        self.fresh_until = fresh_until
        self.by_name = {tool.name: tool for tool in reversed(tools)}  # the first of two with one name wins
        self.mirrored: dict[str, tuple[Mirrored, ...]] = {}


class ToolCalls:
    """Lists and calls the tools of one server.

    Args:
        client: Gives conversations, and new ones for those that no longer work.
        settings: Limits, who answers the server, trace.
        check_results: Compare structured results with output schemas.
        reopen_sessions: Send a call again after the server lost our session.
    """

    def __init__(
        self, client: _Conversations, settings: ConnectSettings, *, check_results: bool, reopen_sessions: bool
    ) -> None:
        self._client = client
        self._settings = settings
        self._limits = settings.limits
        self._check_results = check_results
        self._reopen_sessions = reopen_sessions
        self._listing: _Listing | None = None
        self._lock = threading.Lock()
        self.dropped: tuple[tuple[str, str], ...] = ()

    def forget_tools(self) -> None:
        """The cached listing no longer holds; definitions stay known for checks until the next one."""
        listing = self._listing
        if listing is not None:
            listing.fresh_until = 0.0

    def list_tools(self, wait: Wait) -> list[ToolDefinition]:
        """All tools, from the cache while the server's ``ttlMs`` allows it."""
        listing = self._listing
        if listing is not None and time.monotonic() < listing.fresh_until:
            return listing.tools
        started = time.monotonic()
        listing, pages = self._fetch(wait)
        self._listing = listing
        if self._settings.trace is not None:
            what = f"{len(listing.tools)} tools on {pages} page{'' if pages == 1 else 's'}"
            self._settings.trace(Step("tools", "tools/list", True, what, time.monotonic() - started))
        return listing.tools

    def _fetch(self, wait: Wait) -> tuple[_Listing, int]:
        raw: list[Mapping[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        ttl = _LONGEST_TTL
        for page in range(1, self._limits.pages + 1):
            result = self._page(cursor, wait)
            if result is None:
                return _Listing([], 0.0), page
            entries, cursor = parse_page(result)
            raw.extend(entries)
            ttl = min(ttl, _ttl_seconds(result))
            if len(raw) > self._limits.tools:
                raise ResultTooLarge(
                    f"The server lists more than {self._limits.tools} tools", limit=self._limits.tools
                )
            if cursor is None:
                return self._read(raw, ttl, wait), page
            if cursor in seen:
                raise ProtocolError(
                    f"The server's list of tools runs in circles after {page} pages",
                    fix="Ask whoever runs the server",
                )
            seen.add(cursor)
        raise ResultTooLarge(
            f"The server's list of tools has more than {self._limits.pages} pages", limit=self._limits.pages
        )

    def _page(self, cursor: str | None, wait: Wait) -> dict[str, Any] | None:
        """One page; None if the server has no tools at all."""
        params = {} if cursor is None else {"cursor": cursor}
        try:
            return self._send("tools/list", params, wait, repeatable=True)
        except ServerError as error:
            capabilities = self._client.conversation(wait).info.capabilities
            if error.code == jsonrpc.METHOD_NOT_FOUND and "tools" not in capabilities:
                return None
            raise

    def _read(self, raw: list[Mapping[str, Any]], ttl: float, wait: Wait) -> _Listing:
        conversation = self._client.conversation(wait)
        is_modern = conversation.era is Era.MODERN
        mirrors = is_modern and conversation.transport.kind == "http"
        tools: list[ToolDefinition] = []
        mirrored: dict[str, tuple[Mirrored, ...]] = {}
        dropped: list[tuple[str, str]] = []
        for entry in raw:
            try:
                tool = ToolDefinition.from_raw(entry)
                if mirrors and (found := mirrored_arguments(tool.input_schema)):
                    mirrored.setdefault(tool.name, found)
                tools.append(tool)
            except (ProtocolError, InvalidAnnotationError) as error:
                name = str(entry.get("name") or "(without a name)")
                dropped.append((name, error.what if isinstance(error, MCPError) else str(error)))
                _logger.warning("tool %s is left out: %s", name, dropped[-1][1])
        self.dropped = tuple(dropped)
        listing = _Listing(tools, time.monotonic() + ttl if is_modern else 0.0)
        listing.mirrored = mirrored
        return listing

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        wait: Wait,
        on_progress: Callable[[Progress], None] | None,
        on_attempt: Callable[[], None] | None = None,
    ) -> CallToolResult:
        """Call one tool, through all rounds that the server wants."""
        send = functools.partial(self._send, on_attempt=on_attempt)
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        definition = self._definition(name)
        try:
            if must_run_as_task(definition, self._client.conversation(wait).info):
                return CallToolResult.from_raw(call_as_task(send, params, wait, on_progress))
            raw = send("tools/call", params, wait, repeatable=False, on_progress=on_progress)
            for rounds in range(self._limits.input_rounds + 1):
                kind = raw.get("resultType", "complete")
                if kind == "complete":
                    break
                if kind != "input_required" or rounds == self._limits.input_rounds:
                    raise ProtocolError(_unusable(kind, rounds))
                extra = self._inputs(raw, rounds, wait)
                raw = send("tools/call", {**params, **extra}, wait, repeatable=False, on_progress=on_progress)
        except ServerError as error:
            raise self._explained(error, name) from None
        result = CallToolResult.from_raw(raw)
        if self._check_results and not result.is_error and result.structured_content is not ABSENT:
            self._check(definition, result)
        return result

    def _definition(self, name: str) -> ToolDefinition | None:
        return self._listing.by_name.get(name) if self._listing is not None else None

    def _inputs(self, raw: Mapping[str, Any], rounds: int, wait: Wait) -> dict[str, Any]:
        """What to add to the same call in the next round (2026-07-28, *Multi Round-Trip Requests*)."""
        wanted = raw.get("inputRequests")
        extra: dict[str, Any] = {}
        if isinstance(wanted, dict) and wanted:
            answers, unanswered = answer_inputs(self._settings.requests, cast("dict[str, Any]", wanted))
            if unanswered:
                raise ProtocolError(
                    f"The tool wants {' and '.join(unanswered[:_NAMED])}, which this client cannot give",
                    fix="Use another tool, or call it with all that it needs in its arguments",
                )
            extra["inputResponses"] = answers
        else:
            wait.sleep(_INPUT_PAUSES[min(rounds, len(_INPUT_PAUSES) - 1)])
        if "requestState" in raw:
            extra["requestState"] = raw["requestState"]  # opaque: echoed, never read
        return extra

    def _check(self, definition: ToolDefinition | None, result: CallToolResult) -> None:
        if definition is not None and definition.output_schema is not None:
            from ..validation.results import (
                check_structured_content,
            )  # only here: most tools declare no output schema

            try:
                check_structured_content(definition, result.structured_content, self._limits)
            except ResultInvalid as error:
                error.result = result
                raise

    def _explained(self, error: ServerError, name: str) -> MCPError:
        """Unknown tools are errors of their own; the specification has only a code for bad parameters."""
        text = error.what.lower()
        if error.code != jsonrpc.INVALID_PARAMS or not (
            "unknown tool" in text or "not found" in text or "no such tool" in text
        ):
            return error
        names = [] if self._listing is None else list(self._listing.by_name)
        close = tuple(difflib.get_close_matches(name, names, n=3, cutoff=0.5))
        hint = f"Did you mean {' or '.join(close)}?" if close else "List the server's tools again"
        return ToolNotFound(f"The server has no tool of that name: {error.what}", suggestions=close, fix=hint)

    def _send(
        self,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        *,
        repeatable: bool,
        on_progress: Callable[[Progress], None] | None = None,
        on_attempt: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """One request to its result, over as many attempts and conversations as are allowed."""
        attempt = 0
        renewed = False
        relisted = False
        conversation = self._client.conversation(wait)
        while True:
            attempt += 1
            inbox = CallInbox(
                self._settings.requests, wait=wait, on_progress=on_progress, on_list_changed=self.forget_tools
            )
            try:
                answer = self._attempt(conversation, method, params, wait, inbox, on_attempt)
            except SessionLost:
                if renewed:
                    raise
                renewed = True
                conversation = self._renew(conversation, wait, method)
                continue
            except ConnectError as error:
                if not (repeatable or wait.unsent) or attempt >= self._limits.attempts:
                    raise
                pause = backoff(attempt)
                if not wait.allows(pause):
                    raise
                _logger.debug("%s is repeated: %s", method, error.what)
                wait.sleep(pause)
                if conversation.transport.kind != "http":
                    conversation = self._client.conversation(wait, instead_of=conversation)
                continue
            if isinstance(answer, Response) and "result" in answer.message:
                return jsonrpc.result_of(answer.message)
            if not renewed and self._is_stale(answer, conversation):
                renewed = True
                conversation = self._renew(conversation, wait, method)
                continue
            if not relisted and method == "tools/call" and _is_header_mismatch(answer):
                relisted = True
                self.forget_tools()
                self.list_tools(wait)
                continue
            pause = _pause(answer, repeatable, attempt, self._limits.attempts)
            if pause is None or not wait.allows(pause):
                raise error_from(answer, self._settings.authorization)
            wait.sleep(pause)

    def _attempt(
        self,
        conversation: Conversation,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        inbox: CallInbox,
        on_attempt: Callable[[], None] | None,
    ) -> Answer:
        is_call = method == "tools/call"
        headers = self._mirror(method, params, conversation)
        wait.unsent = True  # whatever was sent so far was something else
        try:
            return conversation.send(method, params, wait, inbox, headers=headers, wants_progress=is_call)
        finally:
            if is_call and on_attempt is not None and not wait.unsent:
                on_attempt()

    def _mirror(
        self, method: str, params: dict[str, Any], conversation: Conversation
    ) -> dict[str, str] | None:
        listing = self._listing
        if method != "tools/call" or listing is None or conversation.era is not Era.MODERN:
            return None
        mirrored = listing.mirrored.get(params["name"])
        return argument_headers(mirrored, params["arguments"]) if mirrored else None

    def _is_stale(self, answer: Answer, conversation: Conversation) -> bool:
        """Whether the server refused because what was negotiated no longer holds; then nothing ran."""
        if not isinstance(answer, Refusal):
            error = rpc_error(answer)
            return error is not None and error.code == jsonrpc.UNSUPPORTED_VERSION
        if answer.sent_session:
            about_session = answer.error is not None and "session" in answer.error.message.lower()
            return answer.status == 404 or (answer.status == 400 and about_session)
        if conversation.era is Era.MODERN:
            known = answer.error is not None
            stale = answer.status in {400, 404, 405} and not known
            if stale or (answer.error is not None and answer.error.code == jsonrpc.UNSUPPORTED_VERSION):
                self._client.forget_server()
                return True
        return False

    def _renew(self, conversation: Conversation, wait: Wait, method: str) -> Conversation:
        if method == "tools/call" and not self._reopen_sessions:
            self._client.conversation(wait, instead_of=conversation)
            raise SessionLost(
                "The server no longer knows the session", fix="Call again: a new one is open now"
            )
        _logger.debug("the session was lost; a new one is opened")
        return self._client.conversation(wait, instead_of=conversation)


def _pause(answer: Answer, repeatable: bool, attempt: int, attempts: int) -> float | None:
    """Seconds before the same request may be sent again, None if it must not."""
    if not isinstance(answer, Refusal) or attempt >= attempts or not answer.is_transient:
        return None
    # 429 is said before the request is looked at (RFC 6585 §4); a gateway's 5xx may come after it ran.
    return backoff(attempt, answer.retry_after) if repeatable or answer.status == 429 else None


def _is_header_mismatch(answer: Answer) -> bool:
    error = rpc_error(answer)
    return error is not None and error.code == jsonrpc.HEADER_MISMATCH


def _ttl_seconds(result: Mapping[str, Any]) -> float:
    ttl = result.get("ttlMs")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return 0.0
    return min(max(0.0, ttl), _LONGEST_TTL * 1000) / 1000


def _unusable(kind: object, rounds: int) -> str:
    if kind == "input_required":
        return f"The tool asked for input {rounds + 1} times"
    return (
        f"The server answered with a result of the kind '{str(kind)[:80]}', which this client does not know"
    )
