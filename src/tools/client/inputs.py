"""What a server wants to know before or while a call runs (2026-07-28, *Multi Round-Trip Requests*)."""

from collections.abc import Mapping
from typing import Any, Final

from ...types.errors import ProtocolError
from ..clock import Wait
from ..protocol.jsonrpc import as_object
from ..protocol.server_requests import ServerRequests, answer_inputs

_NAMED: Final = 3
_PAUSES: Final = (0.05, 0.1, 0.2, 0.25)


def inputs(requests: ServerRequests, wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Answers to ``inputRequests``, by their keys.

    Raises:
        ProtocolError: One of them asks for something that nobody here can give.
    """
    answers, unanswered = answer_inputs(requests, wanted)
    if unanswered:
        raise ProtocolError(
            f"The tool wants {' and '.join(unanswered[:_NAMED])}, which this client cannot give",
            fix="Use another tool, or call it with all that it needs in its arguments",
        )
    return answers


def next_round(requests: ServerRequests, raw: Mapping[str, Any], rounds: int, wait: Wait) -> dict[str, Any]:
    """What to add to the same call after an ``input_required`` result.

    Args:
        requests: Who answers.
        raw: The result.
        rounds: Rounds so far.
        wait: Clocks and cancel.
    """
    extra: dict[str, Any] = {}
    wanted = as_object(raw.get("inputRequests"))
    if wanted:
        extra["inputResponses"] = inputs(requests, wanted)
    else:
        wait.sleep(_PAUSES[min(rounds, len(_PAUSES) - 1)])
    if "requestState" in raw:
        extra["requestState"] = raw["requestState"]  # opaque: echoed, never read
    return extra
