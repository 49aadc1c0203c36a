"""Calls of tools on other servers: their arguments, retries, and the output that a result becomes."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.protocol.tools import ABSENT, CallToolResult
from knime_mcp.runs.server_configs import client_for, marker_of_servers
from knime_mcp.types.errors import (
    ArgumentsInvalid,
    AuthError,
    Canceled,
    ConnectError,
    MCPError,
    OutcomeUnknown,
    ServerError,
    SettingInvalid,
    TimedOut,
)
from knime_mcp.types.texts import canonical_json
from knime_mcp.yaml_text import as_list, as_mapping, kind_of

from .expressions.javascript import UNDEFINED, json_value, plain_number
from .graph_model import Expression, InvalidExpression
from .run_control import RunError, ToolFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from knime_mcp.client.mcp_client import MCPClient, Progress
    from knime_mcp.runs.engine import Run
    from knime_mcp.runs.server_configs import ServerConfig

    from .audited_calls import AuditedCalls
    from .graph_model import Retry, Template
    from .nodes import McpNode
    from .run_state import NodeRecord, NodeSequence, RunState


_INVALID: Final = (-32600, -32601, -32602)  # JSON-RPC: the same request fails again
_LONGEST_SHOWN: Final = 2000
_MOST_RESULTS: Final = 512

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for a call of a node without ``timeout``, as in the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """A call of a server's tool for a run; the timeout is in seconds."""

    server: str
    tool: str
    arguments: dict[str, Any]
    run: RunState
    timeout: float
    on_progress: Callable[[Progress], None] | None
    is_canceled: Callable[[], bool]


CallTool = Callable[[ServerCall], CallToolResult]
"""Makes a call. A result with ``isError`` is returned; `MCPError` says that there is none."""


def filled(template: Any, line: NodeSequence) -> Any:
    """Evaluates expressions in arguments. Undefined members are left out, undefined entries are null."""
    match template:
        case Expression():
            return line.evaluate(template.text)
        case InvalidExpression():
            raise RunError(template.message, kind="expression")
        case dict():
            members = cast("dict[str, Any]", template)
            values = {key: filled(member, line) for key, member in members.items()}
            return {key: value for key, value in values.items() if value is not UNDEFINED}
        case list():
            entries = [filled(entry, line) for entry in cast("list[Any]", template)]
            return [None if entry is UNDEFINED else entry for entry in entries]
        case _:
            return json_value(template)


def arguments_of(template: Template, line: NodeSequence) -> dict[str, Any]:
    arguments = filled(template, line)
    if arguments is UNDEFINED:
        return {}
    if not isinstance(arguments, dict):
        raise RunError(f"'args' must give an object, not {kind_of(arguments)}", kind="arguments")
    return cast("dict[str, Any]", arguments)


def call_node(node: McpNode, record: NodeRecord, line: NodeSequence, call: CallTool) -> Any:
    """Makes the call of a node, once; returns its output. The record has the input, and gets the blocks."""
    run, tell = line.run, line.run.hooks.on_progress

    def report(progress: Progress) -> None:
        share = f" of {progress.total:g}" if progress.total is not None else ""
        if tell is not None:
            tell(node, progress.message or f"{progress.progress:g}{share}")

    timeout = max(min(node.timeout or DEFAULT_TIMEOUT, run.left), 0.001)
    try:
        result = call(
            ServerCall(
                server=node.server,
                tool=node.tool,
                arguments=record.input,
                run=run,
                timeout=timeout,
                on_progress=None if tell is None else report,
                is_canceled=line.is_stopped,
            )
        )
    except Canceled:
        raise run.stopped() from None
    except TimedOut as error:
        if run.left <= 0:
            raise run.out_of_time() from None
        raise _failed(node, error) from None
    except MCPError as error:
        raise _failed(node, error) from None
    if result.is_error:
        raise _refused(node, result)
    return _taken(result, record)


def _taken(result: CallToolResult, record: NodeRecord) -> Any:
    """The output of a node; the record gets the blocks of the result."""
    output = output_of(result)
    record.content = as_list(result.raw.get("content"))
    is_structured = result.structured_content not in (ABSENT, None)
    # Texts beside structured content are the same for clients that know only text.
    record.lost = (
        [block for block in record.content if as_mapping(block).get("type") != "text"]
        if is_structured
        else record.content[1:]
    )
    return output


def output_of(result: CallToolResult) -> Any:
    """The output of a node, from the result of its call; `RunError` if it has no list of blocks.

    As in the reference, the structured content, if there is any; otherwise only the first block: its text,
    parsed if it is JSON, or the whole block if it has no text; `UNDEFINED` if there is no block.
    """
    structured = result.structured_content
    if structured is not ABSENT and structured is not None:
        return structured
    blocks = result.raw.get("content")
    if blocks in (None, []):
        return UNDEFINED
    if not isinstance(blocks, list):
        raise RunError(f"The result's 'content' must be a list, not {kind_of(blocks)}", kind="call")
    block: Any = cast("list[Any]", blocks)[0]
    fields = as_mapping(block)
    text: Any = fields.get("text")
    if not isinstance(text, str) or not text or fields.get("type") != "text":
        return block
    try:
        # The reference parses with JavaScript, which knows neither NaN nor a difference between 1.0 and 1.
        return json.loads(text, parse_constant=_no_json, parse_float=_number)
    except (ValueError, RecursionError):
        return text


def may_succeed_later(error: RunError, retry: Retry) -> bool:
    """Returns whether to retry: what may have run is not made again, as it may do harm twice.

    A tool's own error is an answer, unless the node retries ``tool_errors``.
    """
    if isinstance(error, ToolFailedError):
        return retry.tool_errors
    return error.kind == "call" and not error.may_have_run and error.code not in _INVALID


def retried(retry: Retry | None, line: NodeSequence, record: NodeRecord, attempt: Callable[[], Any]) -> Any:
    """Makes a call with the node's retries; the record counts the attempts."""
    delay = retry.delay if retry is not None else 0.0
    left = retry.attempts if retry is not None else 1
    while True:
        left -= 1
        record.attempts += 1
        try:
            return attempt()
        except RunError as error:
            if left <= 0 or retry is None or not may_succeed_later(error, retry):
                raise
        line.sleep(min(delay, retry.max_delay))
        delay = min(delay * retry.backoff, retry.max_delay)


class ResultCache:
    """Caches results of read-only calls for a limited time. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, Any, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, node: McpNode, record: NodeRecord) -> Any:
        """The cached output of the same call; `ABSENT` if there is none or it is too old."""
        key = self._key(node, record.input)
        with self._lock:
            entry = self._kept.get(key)
            if entry is None or node.cache is None or time.monotonic() - entry[0] > node.cache.ttl:
                return ABSENT
            self._kept.move_to_end(key)
            record.content, record.lost = entry[2]
            return entry[1]

    def put(self, node: McpNode, record: NodeRecord, output: Any) -> None:
        with self._lock:
            kept = (time.monotonic(), output, (record.content, record.lost))
            self._kept[self._key(node, record.input)] = kept
            while len(self._kept) > _MOST_RESULTS:
                self._kept.popitem(last=False)

    def _key(self, node: McpNode, arguments: dict[str, Any]) -> tuple[str, str, str]:
        return node.server, node.tool, canonical_json(arguments)


def _failed(node: McpNode, error: MCPError) -> RunError:
    code = error.code if isinstance(error, ServerError) else None
    # A refused login is no more mended by a second attempt than wrong arguments are.
    kind = "arguments" if isinstance(error, ArgumentsInvalid | AuthError) else "call"
    kind = "unknown" if isinstance(error, OutcomeUnknown) else kind
    what = f"The call of '{node.tool}' on the server '{node.server}' failed: {error.what}"
    failure = RunError(what, kind=kind, code=code, fix=error.fix)
    failure.may_have_run = error.may_have_run
    return failure


def _refused(node: McpNode, result: CallToolResult) -> RunError:
    text = result.text or "it gave no reason"
    what = f"The tool '{node.tool}' on the server '{node.server}' failed: {text}"
    structured = result.structured_content
    shown = None
    if structured is not ABSENT and structured is not None:
        shown = json.dumps(structured, ensure_ascii=False, indent=2)
        what = f"{what}\n\nTool call result:\n{shown[:_LONGEST_SHOWN]}"
    return ToolFailedError(what, kind="call", details=None if shown is None else structured)


def _no_json(name: str) -> Any:
    raise ValueError(name)


def _number(text: str) -> float | int:
    return plain_number(float(text))


# Each call has its own timeout. Connecting may take long, as some programs are downloaded before they start.
_CLOCKS: Final = Timeouts(connect=60, idle=86_400, total=86_400)
_client: Final = partial(client_for, check_results=False, timeouts=_CLOCKS)


class GraphSessions:
    """The clients, by the names of the document's servers. Safe to use from several threads.

    A server that has died is started or connected again by the next call.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        *,
        run: Run | None = None,
        named: Iterable[str] = (),
    ) -> None:
        self._servers = dict(servers)
        self._clients: dict[str, MCPClient] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._audited: AuditedCalls | None = None
        if run is not None:
            from .audited_calls import AuditedCalls

            self._audited = AuditedCalls(run, self.client, self._servers, marker_of_servers(servers, named))

    def client(self, server: str) -> MCPClient:
        """The client of a server, which connects when it is first used; `SettingInvalid` if there is none."""
        with self._lock:
            client = self._clients.get(server)
            if client is not None:
                return client
            if self._closed:
                raise ConnectError("The graph is closed", phase="process")
            config = self._servers.get(server)
            if config is None:
                raise SettingInvalid(f"There is no server '{server}' in the document", setting="mcpServers")
            made = self._clients[server] = _client(config)
            return made

    def call(self, call: ServerCall) -> CallToolResult:
        client = self.client(call.server)

        def send(
            meta: Mapping[str, Any] | None = None, on_attempt: Callable[[], None] | None = None
        ) -> CallToolResult:
            return client.call_tool(
                call.tool,
                call.arguments,
                timeout=call.timeout,
                on_progress=call.on_progress,
                on_attempt=on_attempt,
                is_canceled=call.is_canceled,
                meta=meta,
            )

        return send() if self._audited is None else self._audited(call, send)

    def close(self) -> None:
        """Closes all connections and ends all processes; running calls fail."""
        with self._lock:
            self._closed = True
            clients, self._clients = list(self._clients.values()), {}
        threads = [threading.Thread(target=client.close, daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            # All at once and with an end: a server that does not react must not hold up the others.
            thread.join(timeout=10)
