"""Calls that a server of the modern era answers with a task: the extension ``io.modelcontextprotocol/tasks``.

https://github.com/modelcontextprotocol/ext-tasks. The server decides, call by call, and only because we have
declared the extension. The task is polled; its result, its error and its questions come with the poll.
"""

from typing import Any

from ...types.errors import ProtocolError
from ..clock import Wait
from ..protocol.jsonrpc import as_object, error_of
from ..protocol.server_requests import ServerRequests, answer_inputs
from .conversation import OnProgress
from .failures import server_error
from .task_calls import Send, cancel_task, poll_pause, tell


def finish_task(
    send: Send,
    created: dict[str, Any],
    requests: ServerRequests,
    wait: Wait,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    """Follow a task to its end.

    Args:
        send: Sends requests of the conversation.
        created: The result that stands for the task.
        requests: Answers what the task wants to know.
        wait: Clocks and cancel; the task is canceled with them.
        on_progress: Told the status of the task, with the number of the poll as progress.

    Returns:
        The result of the call.

    Raises:
        ServerError: The task failed.
        ProtocolError: The server canceled the task, or says nothing that makes sense about it.
        MCPError: As for any request.
    """
    task_id = created.get("taskId")
    if not isinstance(task_id, str):
        raise ProtocolError("The server answered with a task and did not say which")
    task, polls = created, 0
    answered: set[str] = set()
    try:
        while (result := _result(task)) is None:
            # A task that is over when it is made still has to be asked for its result.
            if polls or task.get("status") not in ("completed", "failed"):
                wait.sleep(poll_pause(task.get("pollIntervalMs"), wait))
            task = send("tasks/get", {"taskId": task_id}, wait, repeatable=True)
            polls += 1
            tell(on_progress, task, polls)
            if task.get("status") == "input_required":
                _answer(send, task_id, task, requests, wait, answered)
    except BaseException:
        if task.get("status") not in ("completed", "failed", "cancelled"):
            cancel_task(send, task_id, wait.farewell())
        raise
    return result


def _result(task: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a task that is over; None while it is not."""
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
            return None  # only the seed of a task
        case "cancelled":
            message = task.get("statusMessage")
            said = f": {message[:200]}" if isinstance(message, str) else ""
            raise ProtocolError(
                f"The server canceled the task{said}", fix="Look into the server's log, or call again"
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
    """Answer what was not answered yet: a question stays in the task until the server has looked."""
    wanted = {
        key: value for key, value in as_object(task.get("inputRequests")).items() if key not in answered
    }
    if not wanted:
        return
    responses = answer_inputs(requests, wanted)
    # Not repeatable: an answer is given once.
    send("tasks/update", {"taskId": task_id, "inputResponses": responses}, wait, repeatable=False)
    answered.update(responses)
