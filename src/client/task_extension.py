"""Calls that a server of the modern era answers with a task: the extension ``io.modelcontextprotocol/tasks``.

https://github.com/modelcontextprotocol/ext-tasks. Since the client declares the extension, a server may
answer any call so. The task is polled; its result, its error and its questions come with the poll.
"""

from typing import Any

from ..types.errors import ProtocolError
from .clock import Wait
from .conversation import OnProgress
from .failures import server_error
from .protocol.jsonrpc import as_object, error_of
from .protocol.server_requests import ServerRequests, answer_inputs
from .task_calls import Send, cancel_task, poll_pause, report_status


def finish_task(
    send: Send,
    created: dict[str, Any],
    requests: ServerRequests,
    wait: Wait,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    """Follows a task to its end.

    Args:
        send: Sends requests of the conversation.
        created: The result that stands for the task.
        requests: Answers the task's questions.
        wait: Clocks and cancel; if the wait ends, the task is canceled.
        on_progress: Called with the status of the task; the number of polls is the progress.

    Returns:
        The result of the call.

    Raises:
        ServerError: The task failed.
        ProtocolError: The server canceled the task, or its status cannot be read.
        MCPError: As for any request.
    """
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
            task = send("tasks/get", {"taskId": task_id}, wait, repeatable=True)
            polls += 1
            report_status(on_progress, task, polls)
            if task.get("status") == "input_required":
                _answer(send, task_id, task, requests, wait, answered)
    except BaseException:
        if task.get("status") not in ("completed", "failed", "cancelled"):
            cancel_task(send, task_id, wait.farewell())
        raise
    return result


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
            raise ProtocolError(
                f"The server canceled the task{detail}", fix="Look into the server's log, or call again"
            )
        case _:
            raise ProtocolError(f"The server's task has the status '{str(status)[:80]}' and no result")


def _answer(
    send: Send,
    task_id: str,
    task: dict[str, Any],
    requests: ServerRequests,
    wait: Wait,
    answered: set[str],
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
