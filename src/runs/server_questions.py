"""What servers ask of a run while it uses them: to fill in a form, to open a page, to ask the model.

A question is a call in the other direction: what goes to the server are its arguments. So it is planned as a
call, and takes the one way of all calls (`Run.call`): it is decided about, made and recorded there.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ..client.protocol.messages import RpcError, as_object, as_text
from ..types.errors import ArgumentsInvalid, Canceled, MCPError
from ..types.tool import MCPTool
from .call_values import Ask, PlannedCall, ToolAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from ..client.protocol.negotiation import Answerer
    from ..types.routing import ServerRoute
    from .call_values import CallHook, CallOutcome
    from .engine import CallInProgress, Run

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
READING: Final = "resources/read"
REQUESTS: Final = frozenset({ELICITATION, SAMPLING, READING})
"""Requests of the protocol that stand in records in the place of a tool's name."""
REJECTED: Final = -1
"""https://modelcontextprotocol.io/specification/2025-11-25/client/sampling, *Error Handling*"""
_OF_SAMPLING: Final = (
    *("messages", "systemPrompt", "maxTokens", "stopSequences", "temperature", "modelPreferences"),
)
# To ask again does no harm, so an interrupted run leaves nothing in doubt.
_HINTS: Final = {"idempotentHint": True}

_ACCEPTED: Final = ToolAnswer(text="accepted")
_REVIEWED: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
REVIEW: Final = Ask("the server gets this answer of your model", "answer")

Reply: TypeAlias = "dict[str, Any] | RpcError"


class Answerers(TypedDict, total=False):
    """Arguments of `MCPClient`: what it calls when its server asks."""

    elicitation: Answerer
    sampling: Answerer


class ServerQuestions:
    """Hands on what servers ask, to whoever answers at the moment. Safe to use from several threads.

    A client without it declares that it cannot be asked. Between two questions of a chat nobody answers.
    """

    def __init__(self) -> None:
        self._answer: Callable[[ServerRoute, str, Mapping[str, Any]], Reply] | None = None

    @contextmanager
    def answered_by(self, answer: Callable[[ServerRoute, str, Mapping[str, Any]], Reply]) -> Generator[None]:
        self._answer = answer
        try:
            yield
        finally:
            self._answer = None

    def answerers(self, route: ServerRoute) -> Answerers:
        """For the client of a server."""
        ask = partial(self._asked, replace(route, tool=None, digest=None))
        return {"elicitation": partial(ask, ELICITATION), "sampling": partial(ask, SAMPLING)}

    def _asked(self, route: ServerRoute, method: str, params: Mapping[str, Any]) -> Reply:
        if self._answer is not None:
            return self._answer(route, method, params)
        # Its own answer for "nobody decided"; a question to a model has none but an error.
        if method == ELICITATION:
            return {"action": "cancel"}
        return RpcError(REJECTED, "Nobody uses the model at the moment")


def planned_question(
    route: ServerRoute, method: str, params: Mapping[str, Any], iteration: int | None
) -> tuple[PlannedCall, Ask]:
    """The call in the place of a question, and what a person is asked.

    Raises `ArgumentsInvalid` for a question that cannot be answered.
    """
    message, schema = as_text(params.get("message")) or "", dict[str, Any]()
    arguments: dict[str, Any]
    match method, params.get("mode"):
        case "elicitation/create", "url":
            arguments = {"url": as_text(params.get("url"))}
            if not arguments["url"]:
                raise ArgumentsInvalid("The server names no page")
            question = Ask(f"the server wants you to open a page: {message}", "page")
        case "elicitation/create", _:
            schema = as_object(params.get("requestedSchema"))
            fields = {name: as_object(part) for name, part in as_object(schema.get("properties")).items()}
            arguments = {name: part["default"] for name, part in fields.items() if "default" in part}
            question = Ask(f"the server wants to know: {message}", "form")
        case _:
            # https://modelcontextprotocol.io/specification/2025-11-25/client/sampling: only for clients
            # that declare `sampling.tools`, which this one does not.
            if params.get("tools"):
                raise ArgumentsInvalid("This client's model cannot call tools for a server")
            arguments = {name: params[name] for name in _OF_SAMPLING if name in params}
            question = Ask("the server wants to ask your model", "model")
    tool = MCPTool(method, message, schema, route.uri, method, annotations=_HINTS)
    return PlannedCall(tool=tool, arguments=arguments, iteration=iteration), question


def answered_question(
    run: Run,
    plan: PlannedCall,
    question: Ask,
    hooks: tuple[CallHook, ...],
    sample: Callable[[CallInProgress], ToolAnswer],
    review: CallHook,
) -> tuple[Reply, CallOutcome]:
    """What the server is told, and what came of its question.

    ``sample`` asks the model, and ``review`` decides about its answer before the server gets it.
    """
    from .checked_calls import make_here  # here, as every client imports this module

    made: list[dict[str, Any]] = []

    def answer(call: CallInProgress) -> ToolAnswer:
        call.sent()
        if question.about == "model":
            sampled = _reviewed(call, sample(call), review)
            made.append(sampled.structured)
            return sampled
        content = {} if question.about == "page" else {"content": call.arguments}
        # From the call and not from the plan: a person may have filled in the form.
        made.append({"action": "accept", **content})
        return _ACCEPTED

    outcome = replace(run, hooks=hooks, make=partial(make_here, send=answer)).call(plan)
    if outcome.record.ok:
        return made[-1], outcome
    if question.about == "model":
        error = outcome.error
        why = error.sentence if isinstance(error, MCPError) else "The model could not be asked"
        return RpcError(REJECTED, run.secrets.text(why)), outcome
    return {"action": "cancel" if isinstance(outcome.error, Canceled) else "decline"}, outcome


def _reviewed(call: CallInProgress, sampled: ToolAnswer, review: CallHook) -> ToolAnswer:
    """The model's answer as the server may have it; raises what there is against it.

    https://modelcontextprotocol.io/specification/2025-11-25/client/sampling: people can review and change it.
    """
    assert isinstance(call.tool, MCPTool)
    tool = MCPTool(SAMPLING, "", _REVIEWED, call.tool.route.uri, SAMPLING, annotations=_HINTS)
    shown = replace(call.plan, tool=tool, arguments={"text": sampled.text}, decision=None)
    decided = replace(call.run, hooks=(review,)).decided(shown)
    said = f"{call.plan.decision}; answer {decided.decision}"
    waits = [seconds for seconds in (call.plan.asked, decided.asked) if seconds is not None]
    call.plan = replace(call.plan, decision=said, denied=decided.denied, asked=sum(waits) if waits else None)
    if decided.error is not None:
        raise decided.error
    text = (decided.arguments or {})["text"]
    return replace(
        sampled, text=text, structured={**sampled.structured, "content": {"type": "text", "text": text}}
    )
