"""Calling tools over a conversation: input rounds, tasks, checks of results."""

import difflib
import functools
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..types.errors import MCPError, ProtocolError, ResultInvalid, ServerError, ToolNotFound
from .clock import Wait
from .connecting import ConnectSettings
from .conversation import Conversation, OnProgress
from .listing import Listings
from .protocol import jsonrpc
from .protocol.headers import argument_headers
from .protocol.results import ABSENT, CallToolResult
from .protocol.server_requests import answer_inputs
from .protocol.tools import ToolDefinition
from .protocol.versions import Era, era_of
from .retrying import Conversations, Requests
from .task_calls import Send, call_as_task, must_run_as_task, offers_tasks
from .task_extension import finish_task
from .watching import ToolsWatch

_PAUSES: Final = (0.05, 0.1, 0.2, 0.25)  # before input rounds in which the server asks nothing


class ToolCalls:
    """Lists and calls the tools of one server.

    Args:
        client: Gives the current conversation, or a new one if that is lost.
        settings: Limits, answers to the server's requests, trace.
        check_results: Compare structured results with output schemas.
        reopen_sessions: Send a call again after the server lost the session.
    """

    def __init__(
        self, client: Conversations, settings: ConnectSettings, *, check_results: bool, reopen_sessions: bool
    ) -> None:
        self._client = client
        self._settings = settings
        self._limits = settings.limits
        self._check_results = check_results
        self._requests = Requests(client, settings, reopen_sessions=reopen_sessions)
        self.listings = Listings(client, self._requests, settings)
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
        offered = jsonrpc.as_object(conversation.info.capabilities.get("tools"))
        if not _is_declared(offered.get("listChanged")):
            return
        if conversation.era is Era.LEGACY:
            conversation.transport.listen()
            return
        with self._lock:
            watch = self._watch
            if watch is not None and watch.serves(conversation):
                return
            self._watch = ToolsWatch(conversation, self._settings.requests, self.listings.changed)
            self._watch.start()
        if watch is not None:
            watch.close()

    def stop_watching(self) -> None:
        """Stops listening for changes."""
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        wait: Wait,
        on_progress: OnProgress | None,
        on_attempt: Callable[[], None] | None = None,
    ) -> CallToolResult:
        """Calls a tool, with all input rounds that the server wants."""
        send = functools.partial(self._send, on_attempt=on_attempt)
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        try:
            raw = self._result(send, params, wait, on_progress)
        except ServerError as error:
            raise self._explained(error, name) from None
        result = CallToolResult.from_raw(raw, null_is_absent=self._is_legacy())
        if self._check_results and not result.is_error and result.structured_content is not ABSENT:
            self._check(self._definition(name), result)
        return result

    def _result(
        self,
        send: Send,
        params: dict[str, Any],
        wait: Wait,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        name: str = params["name"]
        if self._must_run_as_task(name):
            return call_as_task(send, params, wait, on_progress)
        try:
            raw = send("tools/call", params, wait, repeatable=False, on_progress=on_progress)
        except ServerError as error:
            if error.code == jsonrpc.METHOD_NOT_FOUND and self._turns_out_a_task(name, wait):
                return call_as_task(send, params, wait, on_progress)
            raise
        # The official SDKs report it as an error result, not as a JSON-RPC error.
        refused = raw.get("isError") is True and "task" in CallToolResult.from_raw(raw).text
        if refused and self._turns_out_a_task(name, wait):
            return call_as_task(send, params, wait, on_progress)
        return self._last_round(raw, send, params, wait, on_progress)

    def _turns_out_a_task(self, name: str, wait: Wait) -> bool:
        """Returns whether a tool that was not listed before turns out to run as a task only."""
        if self._definition(name) is not None or not offers_tasks(self._client.server):
            return False
        self.list_tools(wait)
        return self._must_run_as_task(name)

    def _last_round(
        self,
        raw: dict[str, Any],
        send: Send,
        params: dict[str, Any],
        wait: Wait,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Follows input rounds and tasks until the result is complete. Only modern servers have them."""
        if self._is_legacy():
            return raw
        for rounds in range(self._limits.input_rounds + 1):
            match raw.get("resultType"):
                case None | "complete":
                    return raw
                case "task":
                    return finish_task(send, raw, self._settings.requests, wait, on_progress)
                case "input_required" if rounds < self._limits.input_rounds:
                    more = {**params, **self._input(raw, rounds, wait)}
                    raw = send("tools/call", more, wait, repeatable=False, on_progress=on_progress)
                case "input_required":
                    raise ProtocolError(f"The tool asked for input {rounds + 1} times")
                case kind:
                    raise ProtocolError(
                        f"The server answered with a result of the kind '{str(kind)[:80]}', "
                        "which this client does not know"
                    )
        raise AssertionError("unreachable")

    def _input(self, raw: dict[str, Any], rounds: int, wait: Wait) -> dict[str, Any]:
        """The parts to add when a call is repeated after an ``input_required`` result."""
        extra: dict[str, Any] = {}
        if wanted := jsonrpc.as_object(raw.get("inputRequests")):
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
    ) -> dict[str, Any]:
        is_call = method == "tools/call"
        response = self._requests.send(
            method,
            params,
            wait,
            repeatable=repeatable,
            idempotent=is_call and self._may_run_twice(params["name"]),
            on_progress=on_progress,
            on_attempt=on_attempt,
            headers_for=functools.partial(self._mirror, params) if is_call else None,
            relist=self._relist if is_call else None,
        )
        return jsonrpc.result_of(response.message)

    def _is_legacy(self) -> bool:
        # Asks the client: the conversation may be closed already, and its result must not be lost.
        return era_of(self._client.server.protocol_version) is Era.LEGACY

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
            from .validation.results import (
                check_structured_content,  # imported here, as most tools declare no output schema
            )

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
        names = set(listing.by_name) - {name} if listing is not None else set[str]()
        close = tuple(difflib.get_close_matches(name, names, n=3, cutoff=0.5))
        hint = f"Did you mean {' or '.join(close)}?" if close else "List the server's tools again"
        return ToolNotFound(f"The server has no tool of that name: {error.what}", suggestions=close, fix=hint)


def _is_unknown_tool(error: ServerError, name: str, *, is_listed: bool) -> bool:
    """Returns whether the error means an unknown tool, and not something else that a tool did not find."""
    if error.code == jsonrpc.METHOD_NOT_FOUND and not is_listed:
        return True
    name = re.escape(name.lower())
    if error.code not in {jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND}:
        words = rf"(unknown|no such) tool\W+{name}(?!\w)|(tool|method)\W+{name}\W+not found"
    elif is_listed:
        words = rf"(unknown|no such) tool|(tool|\b{name})\W+(is |was )?not found"
    else:
        words = "unknown tool|no such tool|not found"
    return re.search(words, error.what.lower()) is not None


def _is_declared(value: object) -> bool:
    """Returns whether a capability is declared; some servers write an object where a boolean is due."""
    return value is True or isinstance(value, dict)
