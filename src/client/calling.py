"""Calls tools, in as many attempts and conversations as allowed: input rounds, tasks, checks of results.

`Requests` sends a request again if the table of `protocol.outcomes` says so, or if it changes nothing, as a
listing does. While a server restarts, its port refuses connections and nothing is sent, so the client waits.
A server that limits its rate (429) is asked again as long as it answers other calls of the same tool.
"""

import difflib
import functools
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..types.errors import (
    ConnectError,
    MCPError,
    ProtocolError,
    ResultInvalid,
    ServerError,
    SessionLost,
    ToolNotFound,
)
from .clock import Wait, backoff
from .conversation import CallInbox, ConnectSettings, Conversation, OnProgress
from .limits import exceeded
from .listing import Listings, ToolsWatch
from .protocol import messages
from .protocol.messages import Answer, Refusal, Response
from .protocol.negotiation import HANDSHAKE_VERSIONS, Era, answer_inputs
from .protocol.outcomes import Again, Moment, Ran, RequestOutcome, outcome_of, unanswered
from .protocol.tools import ABSENT, CallToolResult, ToolDefinition, argument_headers
from .refusals import describe_answer, error_from
from .tasks import Send, call_as_task, finish_task, must_run_as_task, offers_tasks
from .transports.base import Delivery

if TYPE_CHECKING:
    from .mcp_client import MCPClient

_PAUSES: Final = (0.05, 0.1, 0.2, 0.25)  # before input rounds in which the server asks nothing
_logger = logging.getLogger(__name__)
_RESTART_SECONDS: Final = 5.0  # at most, and no longer than the connect clock


@contextmanager
def _after_an_answer() -> Generator[None]:
    """What fails when the server has answered a first time: the tool may have done its work."""
    try:
        yield
    except ServerError:
        raise
    except MCPError as error:
        error.may_have_run = True
        raise


class ToolCalls:
    def __init__(
        self, client: "MCPClient", settings: ConnectSettings, *, check_results: bool, reopen_sessions: bool
    ) -> None:
        self._client = client
        self._settings = settings
        self._limits = settings.limits
        self._check_results = check_results
        self._requests = Requests(client, settings, reopen_sessions=reopen_sessions)
        self.listings = Listings(
            lambda: client.server, functools.partial(self._requests.send, repeatable=True), settings
        )
        self._watch: ToolsWatch | None = None
        self._lock = threading.Lock()

    def list_tools(self, wait: Wait) -> list[ToolDefinition]:
        """Lists all tools, from the cache while the server's ``ttlMs`` allows it.

        While a list is cached, the client listens for changes if the server announces them.
        """
        listing = self.listings.get(wait)
        if self.listings.is_kept:
            self.watch(wait)
        return listing.tools

    def watch(self, wait: Wait) -> None:
        """Listens for changes of the tools from now on, if the server announces them."""
        conversation = self._client.conversation(wait)
        offered = messages.as_object(conversation.info.capabilities.get("tools"))
        announces = offered.get("listChanged")
        if announces is not True and not isinstance(announces, dict):  # some servers write an object for true
            return
        # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server:
        # the session's own stream brings changes there; only modern servers need a subscription.
        if conversation.era is Era.LEGACY:
            conversation.transport.listen()
            return
        with self._lock:
            watch = self._watch
            if watch is not None and watch.serves(conversation):
                return
            settings = self._settings
            self._watch = ToolsWatch(conversation, settings.requests, self.listings.changed)
            self._watch.start()
        if watch is not None:
            watch.close()

    def stop_watching(self) -> None:
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        wait: Wait,
        *,
        on_progress: OnProgress | None = None,
        on_attempt: Callable[[], None] | None = None,
        on_sent: Callable[[], None] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Calls a tool, with all input rounds that the server wants. See `MCPClient.call_tool`."""
        # Input rounds and polls of a task go through the same sender, so that each of them counts as an
        # attempt of this call.
        flaws: dict[str, None] = {}
        send = functools.partial(self._send, on_attempt=on_attempt, on_sent=on_sent, flaws=flaws)
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = dict(meta)
        rounds = 0
        while True:
            try:
                raw = self._result(send, params, wait, on_progress)
                break
            except ServerError as error:
                rounds += 1  # it was not carried out, and may be now
                if rounds > self._limits.input_rounds or not self._pages_opened(error):
                    raise self._explained(error, name) from None
        with _after_an_answer():
            result = CallToolResult.from_raw(raw, null_is_absent=self._is_legacy())
            result = replace(result, irregular=(*result.irregular, *flaws)) if flaws else result
        # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#output-schema: clients
        # SHOULD validate. An error's content describes the error, whatever the schema says.
        if self._check_results and not result.is_error and result.structured_content is not ABSENT:
            self._check(self._definition(name), result)
        return result

    def ask(self, method: str, params: dict[str, Any], wait: Wait) -> dict[str, Any]:
        """Sends a request that changes nothing, with all input rounds that the server wants."""
        raw = self._send(method, params, wait, repeatable=True)
        return self._last_round(raw, self._send, method, params, wait, None)

    def _result(
        self, send: Send, params: dict[str, Any], wait: Wait, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        name: str = params["name"]
        if self._must_run_as_task(name):
            return call_as_task(send, params, wait, on_progress)
        try:
            raw = send("tools/call", params, wait, repeatable=False, on_progress=on_progress)
        except ServerError as error:
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks: a server MUST
            # refuse a plain call of a tool that only runs as a task with this code, which others use for an
            # unknown tool.
            if error.code == messages.METHOD_NOT_FOUND and self._turns_out_a_task(name, wait):
                return call_as_task(send, params, wait, on_progress)
            raise
        # The official SDKs report it as an error result, not as a JSON-RPC error.
        refused = raw.get("isError") is True and "task" in CallToolResult.from_raw(raw).text
        if refused and self._turns_out_a_task(name, wait):
            return call_as_task(send, params, wait, on_progress)
        return self._last_round(raw, send, "tools/call", params, wait, on_progress)

    def _pages_opened(self, error: ServerError) -> bool:
        """Whether a person has opened all pages without which the server makes no call.

        https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation: URL Elicitation Required.
        """
        wanted = messages.as_list(messages.as_object(error.data).get("elicitations"))
        if error.code != messages.URL_ELICITATION_REQUIRED or not wanted:
            return False
        pages = [{**messages.as_object(page), "mode": "url"} for page in wanted]
        answers = (self._settings.requests.answer("elicitation/create", page) for page in pages)
        return all(isinstance(answer, dict) and answer.get("action") == "accept" for answer in answers)

    def _turns_out_a_task(self, name: str, wait: Wait) -> bool:
        """Whether a tool that was not listed before turns out to run as a task only."""
        if self._definition(name) is not None or not offers_tasks(self._client.server):
            return False
        self.list_tools(wait)
        return self._must_run_as_task(name)

    @_after_an_answer()
    def _last_round(
        self,
        raw: dict[str, Any],
        send: Send,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Follows input rounds and tasks until the result is complete. Only modern servers have them."""
        if self._is_legacy():
            return raw
        # One more than allowed, so that the last answer is still looked at: it may be complete.
        for rounds in range(self._limits.input_rounds + 1):
            match raw.get("resultType"):
                # https://modelcontextprotocol.io/specification/2026-07-28/basic: a result without the
                # member MUST be taken as complete, as older servers write none.
                case None | "complete":
                    return raw
                case "task":
                    return finish_task(send, raw, self._settings.requests, wait, on_progress)
                case "input_required" if rounds < self._limits.input_rounds:
                    # https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr: the
                    # request is repeated unchanged, under a new id, with nothing of another round.
                    more = {**params, **self._input(raw, rounds, wait)}
                    is_call = method == "tools/call"
                    raw = send(method, more, wait, repeatable=not is_call, on_progress=on_progress)
                case "input_required":
                    raise ProtocolError(f"The server asked for input {rounds + 1} times")
                case kind:
                    raise ProtocolError(
                        f"The server answered with a result of the kind '{str(kind)[:80]}', "
                        "which this client does not know"
                    )
        raise AssertionError("unreachable")

    def _input(self, raw: dict[str, Any], rounds: int, wait: Wait) -> dict[str, Any]:
        """The parts to add when a call is repeated after an ``input_required`` result."""
        extra: dict[str, Any] = {}
        if wanted := messages.as_object(raw.get("inputRequests")):
            extra["inputResponses"] = answer_inputs(self._settings.requests, wanted)
        else:
            wait.sleep(_PAUSES[min(rounds, len(_PAUSES) - 1)])
        if "requestState" in raw:
            extra["requestState"] = raw["requestState"]  # opaque: echoed, never read
        return extra

    def _send(
        self,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        *,
        repeatable: bool,
        on_progress: OnProgress | None = None,
        on_attempt: Callable[[], None] | None = None,
        on_sent: Callable[[], None] | None = None,
        flaws: dict[str, None] | None = None,
    ) -> dict[str, Any]:
        is_call = method == "tools/call"
        response = self._requests.send(
            method,
            params,
            wait,
            repeatable=repeatable,
            idempotent=is_call and self._may_run_twice(params["name"]),
            on_progress=on_progress,
            on_attempt=on_attempt if is_call else None,
            on_sent=on_sent if is_call else None,
            headers_for=functools.partial(self._mirror, params) if is_call else None,
            relist=self._relist if is_call else None,
        )
        with _after_an_answer():
            given = response.message.get("result")
            if is_call and not isinstance(given, dict | None) and "jsonrpc" in response.message:
                # The result of a function, which a server forgot to wrap.
                response.message["result"] = {"content": given}
            result = messages.result_of(response.message)
            if flaws is not None and (flaw := response.flaw):
                flaws[flaw] = None
            most = self._limits.blocks
            if (sent := len(messages.as_list(result.get("content")))) > most:
                raise exceeded("blocks", most, f"The result has {sent:,} content blocks, more than {most:,}")
            if len(response.body) > self._limits.large_bytes:
                wait.slice()  # decoding took its time: clocks and cancel hold here, too
            return result

    def _is_legacy(self) -> bool:
        # Asks the client: the conversation may be closed already, and its result must not be lost.
        return self._client.server.protocol_version in HANDSHAKE_VERSIONS

    def _must_run_as_task(self, name: str) -> bool:
        definition = self._definition(name)
        return definition is not None and must_run_as_task(definition, self._client.server)

    def _may_run_twice(self, name: str) -> bool:
        definition = self._definition(name)
        hints = {} if definition is None else definition.annotations or {}
        return True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))

    def _definition(self, name: str) -> ToolDefinition | None:
        listing = self.listings.current
        return listing.by_name.get(name) if listing is not None else None

    def _relist(self, wait: Wait) -> None:
        self.listings.forget()
        self.listings.get(wait)

    def _mirror(self, params: dict[str, Any], conversation: Conversation) -> dict[str, str] | None:
        listing = self.listings.current
        if listing is None or conversation.era is not Era.MODERN:
            return None
        mirrored = listing.mirrored.get(params["name"])
        return argument_headers(mirrored, params["arguments"]) if mirrored else None

    def _check(self, definition: ToolDefinition | None, result: CallToolResult) -> None:
        if definition is not None and definition.output_schema is not None:
            from .validation.schemas import check_structured_content

            try:
                check_structured_content(definition, result.structured_content, self._limits)
            except ResultInvalid as error:
                error.result = result
                raise

    def _explained(self, error: ServerError, name: str) -> MCPError:
        """The error as `ToolNotFound` if the tool is unknown, for which servers have many codes and texts."""
        listing = self.listings.current
        if not _is_unknown_tool(error, name, is_listed=listing is None or name in listing.by_name):
            return error
        # The name itself may be listed, if the server refuses what it lists: it is no suggestion.
        names = set(listing.by_name) - {name} if listing is not None else set[str]()
        close = tuple(difflib.get_close_matches(name, names, n=3, cutoff=0.5))
        hint = f"Did you mean {' or '.join(close)}?" if close else "List the server's tools again"
        return ToolNotFound(f"The server has no tool of that name: {error.what}", suggestions=close, fix=hint)


@contextmanager
def _attempt(delivery: Delivery, on_attempt: Callable[[], None] | None) -> Generator[None]:
    """Says of an error whether the request may have run, and counts the attempt if it was sent."""
    try:
        yield
    except SessionLost:  # so the server did not take the request
        raise
    except MCPError as error:
        # Calls that wait together may share the error.
        error.may_have_run |= unanswered(delivery.moment).ran is Ran.MAYBE
        raise
    finally:
        if on_attempt is not None and delivery.moment is not Moment.UNSENT:
            on_attempt()


def _is_unknown_tool(error: ServerError, name: str, *, is_listed: bool) -> bool:
    """Whether the error means an unknown tool, and not something else that a tool did not find."""
    if error.code == messages.METHOD_NOT_FOUND and not is_listed:
        return True
    name = re.escape(name.lower())
    # Other codes are errors of tools as well, which say "not found" of files and rows; only words that name
    # this tool count.
    if error.code not in {messages.INVALID_PARAMS, messages.METHOD_NOT_FOUND}:
        words = rf"(unknown|no such) tool\W+{name}(?!\w)|(tool|method)\W+{name}\W+not found"
    elif is_listed:
        words = rf"(unknown|no such) tool|(tool|\b{name})\W+(is |was )?not found"
    else:
        words = "unknown tool|no such tool|not found"
    return re.search(words, error.what.lower()) is not None


@dataclass(slots=True)
class _Tally:
    """What came of one request so far."""

    what: str  # the tool or method
    method: str
    repeatable: bool
    relist: Callable[[Wait], object] | None  # None as soon as it was done
    # attempts that brought nothing; since the last 429, if the server answers others meanwhile
    failures: int = 0
    losses: int = 0  # sessions that were lost
    refusals: int = 0  # answers after which the request is sent again
    refused_at: float = math.inf
    lost: Conversation | None = None  # the last lost conversation


class Requests:
    """Sends requests to one server, in the client's current conversation, or a new one if that is lost."""

    def __init__(self, client: "MCPClient", settings: ConnectSettings, *, reopen_sessions: bool) -> None:
        self._client = client
        self._settings = settings
        self._attempts = settings.limits.attempts
        self._reopen_sessions = reopen_sessions
        self._was_reached = False
        self._away_since: float | None = None
        self._results_at: dict[str, float] = {}  # the time of the last result, by tool or method

    def send(
        self,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        *,
        repeatable: bool,
        idempotent: bool = False,
        on_progress: OnProgress | None = None,
        on_attempt: Callable[[], None] | None = None,
        on_sent: Callable[[], None] | None = None,
        headers_for: Callable[[Conversation], Mapping[str, str] | None] | None = None,
        relist: Callable[[Wait], object] | None = None,
    ) -> Response:
        """Sends a request until there is a result. `wait` holds for all attempts together.

        `on_sent` is called as soon as the server is busy with the request, `on_attempt` after each attempt in
        which it was sent. A request that is `repeatable`, as it changes nothing, is repeated after any
        outage; one that is `idempotent`, as the server declares, if the server probably closed a kept
        connection before it arrived. `headers_for` makes the headers that repeat arguments, and `relist`
        lists the tools again after the server refused these.
        """
        # By tool: that one is at its rate limit says nothing about the server's others.
        tally = _Tally(str(params.get("name", method)), method, repeatable, relist)
        while True:
            conversation: Conversation | None = None
            delivery = Delivery(on_sent)
            inbox = CallInbox(self._settings.requests, wait=wait, on_progress=on_progress)
            try:
                with _attempt(delivery, on_attempt):
                    # Inside of the attempt: connecting may fail, too, and the same rules say whether that
                    # is tried again.
                    conversation = self._client.conversation(wait, instead_of=tally.lost)
                    self._was_reached = True
                    headers = None if headers_for is None else headers_for(conversation)
                    listens = method == "tools/call"
                    answer = conversation.send(
                        method, params, wait, inbox, headers=headers, listens=listens, delivery=delivery
                    )
                    self._away_since = None
            except SessionLost:
                if not self._may_reopen(tally, conversation, wait):
                    raise
                continue
            except ConnectError as error:
                again = unanswered(delivery.moment).again
                may_repeat = repeatable or again is Again.PAUSED or (again is Again.HARMLESS and idempotent)
                # If there is no conversation to send it in, only a refused connection is tried again: a
                # name, a certificate or a proxy does not mend itself in a second.
                if conversation is None:
                    may_repeat = error.phase == "tcp"
                tally.failures += not self._may_be_restarting(error, wait)
                is_enough = not may_repeat or tally.failures >= self._attempts
                pause = None if is_enough else backoff(tally.failures or 2)
                if pause is None or not wait.allows(pause):
                    raise
                _logger.debug("%s is repeated: %s", method, error.what)
                wait.sleep(pause)
                if conversation is not None and conversation.transport.is_broken:
                    tally.lost = conversation
                continue
            if isinstance(answer, Response) and messages.has_result(answer.message):
                self._results_at[tally.what] = time.monotonic()
                return answer
            outcome = self._outcome(answer, conversation, wait, repeatable=repeatable)
            pause = self._pause_after_refusal(outcome, answer, tally, conversation, wait)
            if pause is None or not wait.allows(pause):
                error = error_from(answer, self._settings.authorization)
                error.may_have_run = outcome.ran is Ran.MAYBE
                raise error
            wait.sleep(pause)

    def _outcome(
        self, answer: Answer, conversation: Conversation, wait: Wait, *, repeatable: bool
    ) -> RequestOutcome:
        is_modern = conversation.era is Era.MODERN
        in_session = not is_modern and conversation.transport.kind == "http"
        if isinstance(answer, Refusal):
            in_session = answer.sent_session
        outcome = outcome_of(answer, is_modern=is_modern, in_session=in_session)
        # A tool's own error may speak of a session, too, such as that of a shop.
        if outcome.again is Again.LOST_SESSION and not repeatable and not self._is_lost(conversation, wait):
            return outcome_of(answer, is_modern=is_modern, in_session=False)
        return outcome

    def _is_lost(self, conversation: Conversation, wait: Wait) -> bool:
        """Whether the server refuses a listing, which no tool answers, because of the session, too."""
        try:
            answer = conversation.send("tools/list", {}, wait, CallInbox(self._settings.requests, wait=wait))
        except MCPError:
            return False
        if isinstance(answer, Response) and messages.has_result(answer.message):
            return False
        outcome = self._outcome(answer, conversation, wait, repeatable=True)
        return outcome.again in {Again.NEW_SESSION, Again.LOST_SESSION}

    def _may_be_restarting(self, error: ConnectError, wait: Wait) -> bool:
        """Whether a server that was reached before has refused connections for a short time only."""
        # Nothing was sent, so waiting is safe; a server that was never reached is rather a wrong port,
        # which should be told at once.
        if error.phase != "tcp" or not self._was_reached or self._attempts == 1:
            return False
        now = time.monotonic()
        self._away_since = self._away_since or now
        return now - self._away_since < min(_RESTART_SECONDS, wait.timeouts.connect)

    def _pause_after_refusal(
        self, outcome: RequestOutcome, answer: Answer, tally: _Tally, conversation: Conversation, wait: Wait
    ) -> float | None:
        """Seconds before a refused request may be sent again, None if it must not."""
        match outcome.again:
            case Again.NEW_SESSION | Again.LOST_SESSION:
                if self._may_reopen(tally, conversation, wait):
                    return 0.0
                raise SessionLost(
                    f"The server lost the session {tally.losses} times during one call; it says: "
                    f"{describe_answer(answer)}",
                    fix="Try again later: it may be restarting. If several servers share the address, each "
                    "session has to stay with the one that opened it",
                )
            case Again.NEGOTIATED | Again.OTHER_REVISION:
                self._client.forget_server()
                if not self._may_reopen(tally, conversation, wait):
                    return None
                before, now = conversation.info, self._client.conversation(wait, instead_of=conversation).info
                is_other = (now.protocol_version, now.url) != (before.protocol_version, before.url)
                return 0.0 if is_other or outcome.again is Again.NEGOTIATED else None
            case Again.LISTED if tally.relist is not None:
                # Once only: a server that always refuses its headers would otherwise be asked for ever.
                relist, tally.relist = tally.relist, None
                relist(wait)
                return 0.0
            case _:
                pass
        # Others of the same tool get through meanwhile, so this one's turn will come:
        # its attempts begin anew.
        is_rate_limit = outcome.again is Again.PAUSED
        takes_turns = is_rate_limit and self._results_at.get(tally.what, 0.0) > tally.refused_at
        tally.failures = 1 if takes_turns else tally.failures + 1
        tally.refusals += 1
        tally.refused_at = time.monotonic()
        if tally.failures >= self._attempts or not isinstance(answer, Refusal) or not answer.is_transient:
            return None
        return backoff(tally.refusals, answer.retry_after) if tally.repeatable or is_rate_limit else None

    def _may_reopen(self, tally: _Tally, conversation: Conversation | None, wait: Wait) -> bool:
        """Counts a lost session. Returns False if too many were lost."""
        tally.losses += conversation is None or conversation.mark_lost()
        tally.lost = conversation or tally.lost
        if tally.losses >= self._attempts:
            return False
        if tally.method == "tools/call" and not self._reopen_sessions:
            # Opened before the error is raised, so that the advice to call again holds.
            self._client.conversation(wait, instead_of=tally.lost)
            raise SessionLost(
                "The server no longer knows the session", fix="Call again: a new one is open now"
            )
        _logger.debug("the session was lost; a new one is opened")
        return True
