"""What a person decides where a graph asks for it: the work of an *approve* node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..client.protocol.messages import RpcError
from ..types.texts import compact_json
from ..yaml_text import as_mapping
from .expressions.javascript import UNDEFINED, truthy
from .run_control import RunError
from .server_calls import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .graph_model import ApproveNode
    from .run_control import RunClient
    from .run_state import NodeRecord, NodeSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an *approve* node asks.

    Attributes:
        node: Id of the node.
        message: What the person reads.
        is_stopped: Whether nobody waits for the decision any more.
    """

    node: str
    message: str
    is_stopped: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the person said, who that was, and why; the output of the node."""

    approved: bool
    by: str
    comment: str = ""

    def to_json(self) -> dict[str, Any]:
        comment = {"comment": self.comment} if self.comment else {}
        return {"approved": self.approved, "by": self.by, **comment}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], by: str = "") -> Decision:
        return cls(
            approved=bool(said["approved"]),
            by=str(said.get("by", by)),
            comment=str(said.get("comment", "")),
        )


_FORM: Final = {
    "type": "object",
    "properties": {"comment": {"type": "string", "title": "Comment", "description": "Why, if you like"}},
}

Approver: TypeAlias = "Callable[[Question], Decision | None]"
"""Asks a person, and waits for the decision; None if there was none."""


def decided(node: ApproveNode, line: NodeSequence, record: NodeRecord) -> dict[str, Any]:
    """Asks, waits, and gives the node's output."""
    message = filled(node.message, line)
    record.input = "" if message is UNDEFINED else message
    text = record.input if isinstance(record.input, str) else compact_json(record.input)
    run = line.run
    ask = run.hooks.approve or _client_that(run.hooks.client)
    if ask is None:
        raise RunError(
            f"A person has to decide here, and nobody can be asked: {text}",
            kind="unanswered",
            fix="Call the tool with a client that can be asked (elicitation); or run it in a terminal, or"
            " decide before: graph run --approve NODE, or --deny NODE",
        )
    # A person's time is not the run's.
    with run.clock.stopped():
        decision = ask(Question(node=node.id, message=text, is_stopped=line.is_stopped))
    if decision is not None:
        return decision.to_json()
    # Whoever stopped the run wants to read that, not that nobody has decided.
    if line.is_stopped():
        raise run.stopped()
    raise RunError(
        f"Nobody has decided: {text}", kind="unanswered", fix="Run the tool again to be asked again"
    )


def _client_that(client: RunClient | None) -> Approver | None:
    """Asks the client that called, by elicitation; None if it cannot be asked."""
    modes = None if client is None else client.capabilities.get("elicitation")
    # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#capabilities: an empty
    # object stands for forms only.
    if client is None or modes is None or (modes and "form" not in modes):
        return None

    def ask(question: Question) -> Decision | None:
        params = {"message": question.message, "requestedSchema": _FORM}
        answer = client.ask("elicitation/create", params)
        if isinstance(answer, RpcError):
            return None
        match answer.get("action"):
            case "accept" | "decline" as action:
                comment = as_mapping(answer.get("content")).get("comment")
                said = comment if isinstance(comment, str) else ""
                return Decision(approved=action == "accept", by="a person at the client", comment=said)
            case _:
                return None

    return ask


def way_on(node: ApproveNode, output: Any) -> str:
    """The node that follows a decision."""
    said = as_mapping(output)
    if truthy(said.get("approved")):
        return node.next
    if node.denied is not None:
        return node.denied
    why = f": {said['comment']}" if said.get("comment") else ""
    raise RunError(f"Denied by {said.get('by', 'a person')}{why}", kind="denied")
