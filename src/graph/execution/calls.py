"""Calls of tools on other servers: their arguments, retries, and the output that a result becomes."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack, cast

from ...client.protocol.results import ABSENT
from ...types.canonical import canonical_json
from ...types.errors import ArgumentsInvalid, AuthError, Canceled, MCPError, ServerError, TimedOut
from ...yaml_text import kind_of
from ..expressions.values import UNDEFINED, json_value, plain_number
from ..nodes import Expression, InvalidExpression
from .failures import RunError, ToolFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client.mcp_client import Progress
    from ...client.protocol.results import CallToolResult
    from ..nodes import McpNode, Retry, Template
    from .history import NodeRecord
    from .run import Line

_INVALID: Final = (-32600, -32601, -32602)  # JSON-RPC: the same request fails again
_LONGEST_SHOWN: Final = 2000

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for a call of a node without ``timeout``, as in the reference."""


class CallOptions(TypedDict):
    """The way in which a call is made.

    Attributes:
        timeout: Seconds.
        on_progress: Called with the tool's progress, or None.
        is_canceled: Called repeatedly; True ends the call.
    """

    timeout: float
    on_progress: Callable[[Progress], None] | None
    is_canceled: Callable[[], bool]


class CallTool(Protocol):
    """Calls a tool on one of the document's servers."""

    def __call__(
        self, server: str, tool: str, arguments: dict[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Calls a tool. A result with ``isError`` is returned, too.

        Raises:
            MCPError: There is no result.
        """
        ...


def filled(template: Any, line: Line) -> Any:
    """Evaluates the expressions in arguments.

    Args:
        template: JSON with `Expression` values in it.
        line: The line whose context is used.

    Returns:
        JSON. Members that are undefined are left out; undefined entries of lists are null.
    """
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


def arguments_of(template: Template, line: Line) -> dict[str, Any]:
    """Evaluates the arguments of a node.

    Args:
        template: The arguments, or an expression for all of them; an undefined value means no arguments.
        line: The line whose context is used.

    Returns:
        The arguments, JSON.

    Raises:
        RunError: The value of the expression is not an object.
    """
    arguments = filled(template, line)
    if arguments is UNDEFINED:
        return {}
    if not isinstance(arguments, dict):
        raise RunError(f"'args' must give an object, not {kind_of(arguments)}", kind="arguments")
    return cast("dict[str, Any]", arguments)


def call_node(node: McpNode, arguments: dict[str, Any], line: Line, call: CallTool) -> Any:
    """Makes the call of a node, once.

    Args:
        node: The node.
        arguments: The arguments.
        line: The line that the node runs in.
        call: Makes calls.

    Returns:
        The node's output.

    Raises:
        RunError: The call failed.
    """
    run, tell = line.run, line.run.hooks.on_progress

    def report(progress: Progress) -> None:
        share = f" of {progress.total:g}" if progress.total is not None else ""
        if tell is not None:
            tell(node, progress.message or f"{progress.progress:g}{share}")

    timeout = max(min(node.timeout or DEFAULT_TIMEOUT, run.left), 0.001)
    try:
        result = call(
            node.server,
            node.tool,
            arguments,
            timeout=timeout,
            on_progress=None if tell is None else report,
            is_canceled=line.is_stopped,
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
    return output_of(result)


def output_of(result: CallToolResult) -> Any:
    """The output of a node, from the result of its call.

    The structured content, if there is any; otherwise only the first block: its text, parsed if it is JSON,
    or the whole block if it has no text; `UNDEFINED` if there is no block.

    Raises:
        RunError: The content is not a list of blocks.
    """
    structured = result.structured_content
    if structured is not ABSENT and structured is not None:
        return structured
    blocks = result.raw.get("content")
    if not blocks and (blocks is None or isinstance(blocks, list)):
        return UNDEFINED
    if not isinstance(blocks, list):
        raise RunError(f"The result's 'content' must be a list, not {kind_of(blocks)}", kind="call")
    block: Any = cast("list[Any]", blocks)[0]
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    text: Any = fields.get("text")
    if not isinstance(text, str) or not text or fields.get("type") != "text":
        return cast("Any", block)
    try:
        return json.loads(text, parse_constant=_no_json, parse_float=_number)
    except (ValueError, RecursionError):
        return text


def may_succeed_later(error: RunError, retry: Retry) -> bool:
    """Returns whether to retry. A tool's own error is an answer, unless the node retries ``tool_errors``."""
    if isinstance(error, ToolFailedError):
        return retry.tool_errors
    return error.kind == "call" and error.code not in _INVALID


def retried(retry: Retry | None, line: Line, record: NodeRecord, attempt: Callable[[], Any]) -> Any:
    """Makes a call with the node's retries.

    Args:
        retry: Number and timing of retries; None: no retries.
        line: The line that the node runs in.
        record: Counts the attempts.
        attempt: Makes the call.
    """
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
    """Caches outputs of read-only calls for a limited time. Safe to use from several threads.

    Args:
        most: Maximum number of outputs.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, node: McpNode, arguments: dict[str, Any]) -> Any:
        """The cached output of the same call; `ABSENT` if there is none or it is too old."""
        key = self._key(node, arguments)
        with self._lock:
            entry = self._kept.get(key)
            if entry is None or node.cache is None or time.monotonic() - entry[0] > node.cache.ttl:
                return ABSENT
            self._kept.move_to_end(key)
            return entry[1]

    def put(self, node: McpNode, arguments: dict[str, Any], output: Any) -> None:
        """Keeps an output."""
        with self._lock:
            self._kept[self._key(node, arguments)] = (time.monotonic(), output)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def _key(self, node: McpNode, arguments: dict[str, Any]) -> tuple[str, str, str]:
        return node.server, node.tool, canonical_json(arguments)


def _failed(node: McpNode, error: MCPError) -> RunError:
    code = error.code if isinstance(error, ServerError) else None
    kind = "arguments" if isinstance(error, ArgumentsInvalid | AuthError) else "call"
    what = f"The call of '{node.tool}' on the server '{node.server}' failed: {error.what}"
    return RunError(what, kind=kind, code=code, fix=error.fix)


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
