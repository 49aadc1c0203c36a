"""What servers ask while an agent uses them: rules and limits hold, a person decides, the views are told."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..client.clock import StoppableClock
from ..client.protocol.messages import INVALID_PARAMS, RpcError
from ..runs.server_questions import REVIEW, answered_question, planned_question
from ..types.errors import ArgumentsInvalid
from .agent_events import ToolFinished, ToolStarted
from .person_clock import of_call
from .toolbox.replies import ToolReply, ToolRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..runs.call_values import Ask, CallOutcome, PlannedCall, ToolAnswer, Verdict
    from ..runs.engine import CallInProgress
    from ..runs.server_questions import Reply
    from ..types.routing import ServerRoute
    from .agent_events import AgentEvent
    from .toolbox.tool_executor import ToolExecutor

_PREFIX: Final = "asked"
"""Begins the ids of questions among those of the model's calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Answers the questions of servers, one at a time or several, in the threads in which they come.

    ``sample`` asks the model; ``tell`` takes the events, in any thread.
    """

    executor: ToolExecutor
    sample: Callable[[CallInProgress], ToolAnswer]
    tell: Callable[[AgentEvent], None]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def answer(self, route: ServerRoute, method: str, params: Mapping[str, Any]) -> Reply:
        """What the server is told."""
        try:
            plan, question = planned_question(route, method, params, self.executor.turn)
        except ArgumentsInvalid as error:
            return RpcError(INVALID_PARAMS, error.sentence)
        at, clock = datetime.now(UTC), StoppableClock()
        began = clock()
        objection = self.executor.objection
        hooks = (*self.executor.question_hooks, _PersonDecides(question, objection))
        review = _PersonDecides(REVIEW, objection)
        with of_call(clock):
            reply, outcome = answered_question(
                self.executor.run_of_calls, plan, question, hooks, self.sample, review
            )
        self._show(plan, outcome, at, clock() - began)
        return reply

    def _show(self, plan: PlannedCall, outcome: CallOutcome, at: datetime, seconds: float) -> None:
        record, tool = outcome.record, plan.tool
        assert tool is not None
        request = ToolRequest(
            id=f"{_PREFIX}{next(self._numbers)}",
            name=tool.name,
            arguments=json.loads(record.arguments or "{}"),
            iteration=plan.iteration or 0,
        )
        text = record.result or record.error or ""
        reply = ToolReply(request=request, content=text, record=record, tool=tool, failed=not record.ok)
        self.tell(ToolStarted(request=request, shown_name=tool.name, at=at))
        self.tell(ToolFinished(reply=reply, shown_name=tool.name, duration=seconds))


class _PersonDecides:
    """A hook: without a rule that denies it, a person decides about every question."""

    def __init__(self, question: Ask, objection: Callable[[PlannedCall], Verdict | None]) -> None:
        self._question = question
        self._objection = objection

    def before(self, plan: PlannedCall) -> Verdict:
        # A rule that denies comes first, so that nobody is asked what may not be.
        return self._objection(plan) or self._question

    def after(self, plan: PlannedCall, outcome: CallOutcome) -> None:  # noqa: ARG002
        return None
