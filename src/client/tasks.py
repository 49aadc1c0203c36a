"""Calls that run as tasks, which the client polls for their result. There are two kinds.

Revision 2025-11-25, experimental there, https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks:
such a tool refuses a plain call. Asked for a task, the server answers with one at once; the client polls it
and fetches its result at the end.

Modern era, the extension ``io.modelcontextprotocol/tasks``, https://github.com/modelcontextprotocol/ext-tasks:
since the client declares the extension, a server may answer any call with a task. Its result, its error and
its questions come with the poll.
"""

import itertools
import logging
import math
from typing import Any, Final, Protocol

from ..types.errors import MCPError, OutcomeUnknown, ProtocolError, ServerError
from .clock import Wait
from .conversation import OnProgress, Progress, report
from .protocol.messages import as_object, error_of
from .protocol.negotiation import Era, ServerInfo, ServerRequests, answer_inputs, era_of
from .protocol.tools import ToolDefinition
from .refusals import server_error

_logger = logging.getLogger(__name__)
_FIRST_POLL: Final = 1.0
_SHORTEST_POLL: Final = 0.05
_LONGEST_POLL: Final = 24 * 3600.0
_BEFORE_THE_END: Final = 0.5


class Send(Protocol):
    def __call__(
        self,
        method: str,
        params: dict[str, Any],
        wait: Wait,
        *,
        repeatable: bool,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """The request's result."""
        ...


def must_run_as_task(definition: ToolDefinition, server: ServerInfo) -> bool:
    """Returns whether a plain call of the tool would be refused."""
    if not offers_tasks(server):
        return False
    return as_object(definition.raw.get("execution")).get("taskSupport") == "required"


def offers_tasks(server: ServerInfo) -> bool:
    """Returns whether the server runs tools as tasks on request, as in revision 2025-11-25."""
    if era_of(server.protocol_version) is Era.MODERN:
        return False
    requests = as_object(as_object(server.capabilities.get("tasks")).get("requests"))
    return "call" in as_object(requests.get("tools"))


def call_as_task(
    send: Send, params: dict[str, Any], wait: Wait, on_progress: OnProgress | None
) -> dict[str, Any]:
    """Calls a tool as a task and waits for its result; if the wait ends before, the task is canceled.

    Progress is the number of polls, with the status of the task.
    """
    # No longer than somebody waits for the result: a server may keep it for hours otherwise.
    lifetime = {"ttl": int(wait.total * 1000)} if math.isfinite(wait.total) else {}
    created = send("tools/call", {**params, "task": lifetime}, wait, repeatable=False)
    task = as_object(created.get("task"))
    task_id = task.get("taskId")
    if not isinstance(task_id, str):
        raise ProtocolError("The server was asked to run the tool as a task and answered without one")
    try:
        # For `input_required` the server asks while the client waits for the result, so polling ends.
        for polls in itertools.count(1):
            if task.get("status") not in ("working", "submitted"):
                break
            wait.sleep(poll_pause(task.get("pollInterval"), wait))
            task = _polled(send, task_id, wait, on_progress, polls)
        return send("tasks/result", {"taskId": task_id}, wait, repeatable=True)
    except BaseException as error:
        # A disconnect does not end a task, so it would go on working for nobody.
        cancel_task(send, task_id, wait.farewell())
        raise _of_begun(error, task) from None


def _polled(
    send: Send, task_id: str, wait: Wait, on_progress: OnProgress | None, polls: int
) -> dict[str, Any]:
    """The task as it is now; the server's message about it is progress."""
    task = send("tasks/get", {"taskId": task_id}, wait, repeatable=True)
    message = task.get("statusMessage")
    if on_progress is not None and isinstance(message, str):
        report(on_progress, Progress(float(polls), None, message))
    return task


def poll_pause(milliseconds: object, wait: Wait) -> float:
    """Seconds before the next poll: the server's wish, but shorter than the time that is left."""
    match milliseconds:
        case int() | float() if not isinstance(milliseconds, bool):
            pause = min(max(0, milliseconds), _LONGEST_POLL * 1000) / 1000
        case _:
            pause = _FIRST_POLL
    # A last poll shortly before the total clock ends may still bring the result.
    return max(_SHORTEST_POLL, min(pause, wait.left - _BEFORE_THE_END))


def cancel_task(send: Send, task_id: str, wait: Wait) -> None:
    try:
        send("tasks/cancel", {"taskId": task_id}, wait, repeatable=False)
    except MCPError as error:
        _logger.debug("the task could not be canceled: %s", error.what)


def finish_task(
    send: Send, created: dict[str, Any], requests: ServerRequests, wait: Wait, on_progress: OnProgress | None
) -> dict[str, Any]:
    """Follows the task that `created` stands for to its end, answering its questions; the call's result."""
    task_id = created.get("taskId")
    if not isinstance(task_id, str):
        raise ProtocolError("The server answered with a task and did not say which")
    task, polls = created, 0
    answered: set[str] = set()
    try:
        while (result := _result(task)) is None:
            # A task that has ended at once still has to be polled for its result.
            if polls or task.get("status") not in ("completed", "failed"):
                wait.sleep(poll_pause(task.get("pollIntervalMs"), wait))
            polls += 1
            task = _polled(send, task_id, wait, on_progress, polls)
            if task.get("status") == "input_required":
                _answer(send, task_id, task, requests, wait, answered)
    except BaseException as error:
        if task.get("status") not in ("completed", "failed", "cancelled"):
            cancel_task(send, task_id, wait.farewell())
        raise _of_begun(error, task) from None
    return result


def _of_begun(error: BaseException, task: dict[str, Any]) -> BaseException:
    """The error of a call whose tool has begun, as its task exists: only a failed task has a known end."""
    if isinstance(error, ServerError) and task.get("status") != "failed":
        # The server refuses to tell of the task, which says nothing about the call.
        return OutcomeUnknown(f"What became of the task is not known: {error.what}", fix=error.fix)
    if isinstance(error, MCPError) and not isinstance(error, ServerError):
        error.may_have_run = True
    return error


def _result(task: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a task that has ended; None before."""
    status = task.get("status")
    match status:
        case "working" | "input_required":
            return None
        case "completed" if isinstance(task.get("result"), dict):
            return as_object(task["result"])
        case "failed" if isinstance(task.get("error"), dict):
            error = error_of({"jsonrpc": "2.0", "error": task["error"]})
            assert error is not None
            raise server_error(error)
        case "completed" | "failed" if task.get("resultType") == "task":
            return None  # the task had ended when it was created; its result comes with a poll
        case "cancelled":
            message = task.get("statusMessage")
            detail = f": {message[:200]}" if isinstance(message, str) else ""
            raise ProtocolError(f"The server canceled the task{detail}", fix="Look into the server's log")
        case _:
            raise ProtocolError(f"The server's task has the status '{str(status)[:80]}' and no result")


def _answer(
    send: Send, task_id: str, task: dict[str, Any], requests: ServerRequests, wait: Wait, answered: set[str]
) -> None:
    """Answers the new questions; answered ones stay in the task until the server has read the answer."""
    wanted = {
        key: value for key, value in as_object(task.get("inputRequests")).items() if key not in answered
    }
    if not wanted:
        return
    responses = answer_inputs(requests, wanted)
    # Not repeatable, as an answer must not be given twice.
    send("tasks/update", {"taskId": task_id, "inputResponses": responses}, wait, repeatable=False)
    answered.update(responses)
