"""The turns of one prompt's run: kept as they come, and gone through again after the run was interrupted.

A run is gone on with by going through it again: the model's answers on file stand for those of the model,
and the calls on record for those of the tools, so that everything between them (data, long results, rules)
is as it was. Only what is on neither is asked or called. A call that was sent, and whose end is not on
record, is not made: the model is told that it may have been carried out.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...audit.record import CallStatus, plan_digest
from ...client.protocol.tools import ABSENT
from ...runs.call_values import CallOutcome, ToolAnswer
from ...types.errors import ArgumentsInvalid, MCPError, ProtocolError
from ...types.tool import MCPTool, WorkflowTool
from ..agent_events import TokenUsage
from ..message_content import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from langchain_core.messages import AIMessage

    from ...audit.record import CallRecord
    from ...runs.call_values import PlannedCall
    from ...runs.engine import Run
    from ..model_calls import Turn
    from ..toolbox.toolset import Toolset


class SecretsNotKept(MCPError):  # noqa: N818
    """A call of an interrupted run that was not made, and cannot be: its secrets are not in the journal."""

    CODE = "KMCP-RESUME"


@dataclass(slots=True)
class KeptTurns:
    """What is on file of a prompt's run, which may be interrupted again; see `agent_loop.Turns`.

    Attributes:
        write: Writes a turn, as a JSON object.
        turns: The turns on file by their number, from 1, without a gap.
        records: The calls on record, in the order in which they ended.
    """

    write: Callable[[dict[str, Any]], None]
    toolset: Toolset
    run: Run
    turns: Mapping[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    records: Iterable[CallRecord] = ()
    _left: dict[tuple[int | None, str], deque[CallRecord]] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = defaultdict(deque)
        for record in self.records:
            self._left[record.iteration, plan_digest(record)].append(record)

    def known(self, number: int) -> Turn | None:
        """The model's answer on file, None if the model has to be asked."""
        from langchain_core.messages import messages_from_dict

        from ..model_calls import Turn

        kept = self.turns.get(number)
        if kept is None:
            return None
        (message,) = messages_from_dict([kept["message"]])
        usage = TokenUsage(**kept["usage"])
        return Turn(message=message, usage=usage, attempts=kept["attempts"])  # pyright: ignore[reportArgumentType]

    def keep(self, number: int, turn: Turn) -> None:
        """Writes an answer of the model, before any of its calls is made; secret arguments are marked."""
        from langchain_core.messages import message_to_dict

        message, is_marked = _marked(turn.message, self.toolset, self.run)
        self.write(
            {
                "turn": number,
                "message": json.loads(json.dumps(message_to_dict(message), default=str)),
                "usage": asdict(turn.usage),
                "attempts": turn.attempts,
                "marked": is_marked,
            }
        )

    def find(self, plan: PlannedCall, run: Run) -> CallOutcome | None:
        """The outcome of a call of an earlier turn; None if it has to be made."""
        kept = self.turns.get(plan.iteration or 0)
        if kept is None:
            return None
        for digest in _digests(plan, run):
            with self._lock, suppress(IndexError):
                # Popped, as a turn may have the same call twice.
                record = self._left[plan.iteration, digest].popleft()
                if record.status is CallStatus.UNKNOWN and run.unknown.get(digest):
                    run.unknown[digest].pop()  # the model is told of it here, once
                return _outcome(record, plan)
        # Nothing secret was left out of it, so it can be made now.
        if not kept["marked"]:
            return None
        error = SecretsNotKept(
            "The run was interrupted before this call was sent, and its secret arguments are not kept",
            fix="Nothing was done: call it again",
        )
        return run.call(replace(plan, error=error))


def _digests(plan: PlannedCall, run: Run) -> Iterator[str]:
    """How the call may be on record: with the arguments as the model wrote them, or as they were sent."""
    yield run.digest_of(plan)
    if isinstance(plan.tool, MCPTool):
        from ...runs.checked_calls import ArgumentValidator

        with suppress(ArgumentsInvalid, ProtocolError):
            arguments, changes = ArgumentValidator.for_schema(plan.tool.schema_json).check(
                dict(plan.arguments or {})
            )
            if changes:
                yield run.digest_of(replace(plan, arguments=arguments))


def _outcome(record: CallRecord, plan: PlannedCall) -> CallOutcome:
    if record.result is None and record.structured_result is None:
        return CallOutcome(record=record, tool=plan.tool)
    structured = ABSENT if record.structured_result is None else json.loads(record.structured_result)
    ports = plan.tool.output_ports if isinstance(plan.tool, WorkflowTool) else ()
    answer = ToolAnswer(text=record.result or "", structured=structured, outputs=(None,) * len(ports))
    return CallOutcome(record=record, tool=plan.tool, answer=answer)


def _marked(message: AIMessage, toolset: Toolset, run: Run) -> tuple[AIMessage, bool]:
    """The message without secrets in the arguments of its calls, and whether there are any.

    A message with secrets keeps only its text and its calls, as other members may repeat the arguments.
    """
    from langchain_core.messages import AIMessage

    from ..model.written_calls import UNREADABLE_AT

    calls = [
        {**call, "args": toolset.marked(call["name"], call["args"], run.secrets)}
        for call in message.tool_calls
    ]
    hidden = [
        call
        for call in message.invalid_tool_calls
        if toolset.has_secrets(call["name"] or "", call["args"] or "", run.secrets)
    ]
    if not hidden and all(
        ours["args"] == its["args"] for ours, its in zip(calls, message.tool_calls, strict=True)
    ):
        return message, False
    unreadable = [{**call, "args": ""} if call in hidden else call for call in message.invalid_tool_calls]
    marked = AIMessage(
        content=text_of(message),
        id=message.id,
        tool_calls=calls,
        invalid_tool_calls=unreadable,
        additional_kwargs={UNREADABLE_AT: message.additional_kwargs.get(UNREADABLE_AT)},
    )
    return marked, True
