"""Calls of tools that run as tasks (revision 2025-11-25 only, and experimental there).

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks. Such a tool refuses a plain
call: the server answers with a task at once, the client polls it, and fetches the result when it is over.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...types.errors import MCPError, ProtocolError
from ..clock import Wait
from ..limits import Timeouts
from ..protocol.jsonrpc import as_object
from ..protocol.server_info import ServerInfo
from ..protocol.tools import ToolDefinition
from ..protocol.versions import Era, era_of
from .conversation import Progress

_logger = logging.getLogger(__name__)
_FIRST_POLL: Final = 1.0
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 10.0
_FAREWELL: Final = Timeouts(connect=1.0, idle=1.0, total=1.0)


class _Send(Protocol):
    def __call__(
        self, method: str, params: dict[str, Any], wait: Wait, *, repeatable: bool
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        ...


def must_run_as_task(definition: ToolDefinition | None, server: ServerInfo) -> bool:
    """Whether a plain call of the tool would be refused."""
    if definition is None or era_of(server.protocol_version) is Era.MODERN:
        return False
    wanted = as_object(definition.raw.get("execution")).get("taskSupport") == "required"
    offered = as_object(as_object(as_object(server.capabilities.get("tasks")).get("requests")).get("tools"))
    return wanted and "call" in offered


def call_as_task(
    send: _Send, params: dict[str, Any], wait: Wait, on_progress: Callable[[Progress], None] | None
) -> dict[str, Any]:
    """Call a tool as a task and wait for its result.

    Args:
        send: Sends requests of the conversation.
        params: Parameters of the plain call.
        wait: Clocks and cancel; the task is canceled with them.
        on_progress: Told the status of the task, with the number of the poll as progress.

    Returns:
        The result of ``tools/call``.

    Raises:
        ProtocolError: The server did not make a task.
        MCPError: As for any request.
    """
    created = send("tools/call", {**params, "task": {"ttl": int(wait.total * 1000)}}, wait, repeatable=False)
    task = as_object(created.get("task"))
    task_id = task.get("taskId")
    if not isinstance(task_id, str):
        raise ProtocolError("The server was asked to run the tool as a task and answered without one")
    try:
        polls = 0
        # What needs input is asked for while the result is waited for.
        while task.get("status") in ("working", "submitted"):
            wait.sleep(_pause(task))
            task = send("tasks/get", {"taskId": task_id}, wait, repeatable=True)
            polls += 1
            message = task.get("statusMessage")
            if on_progress is not None and isinstance(message, str):
                on_progress(Progress(float(polls), None, message))
        return send("tasks/result", {"taskId": task_id}, wait, repeatable=True)
    except BaseException:
        _cancel(send, task_id)
        raise


def _pause(task: dict[str, Any]) -> float:
    interval = task.get("pollInterval")
    if not isinstance(interval, int | float):
        return _FIRST_POLL
    return min(max(interval, _SHORTEST_POLL * 1000), _LONGEST_POLL * 1000) / 1000


def _cancel(send: _Send, task_id: str) -> None:
    try:
        send("tasks/cancel", {"taskId": task_id}, Wait(_FAREWELL), repeatable=False)
    except MCPError as error:
        _logger.debug("the task could not be canceled: %s", error.what)
