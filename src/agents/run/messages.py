"""Makes conversations that every endpoint accepts: each tool call has one answer, right after the call.

Endpoints refuse a whole conversation for one call without an answer, an id that is used twice, a name with
a space or arguments that are no JSON object. Models produce all of these. So a model's message is corrected
before it enters the history (`settle`), and another history is corrected before it is used (`repair`). The
changes that only some endpoints need are made when a history is sent, see `message_fitting`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...types.short_texts import shortened
from ..model.call_pieces import GIVEN_BACK, read_arguments
from ..toolbox.toolbox import ToolReply, ToolRequest
from .content import blocks_of, calls_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BAD_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64
_LONGEST_QUOTE: Final = 300
_NEVER_ANSWERED: Final = "Error: the conversation broke off before this call was answered."
_ORIGIN: Final = re.compile(r"\[from (\S+)\]")


def settle(
    message: AIMessage, *, taken: set[str], iteration: int = 0
) -> tuple[AIMessage, tuple[ToolRequest, ...]]:
    """Corrects a model's message so that endpoints accept it in a history.

    Args:
        message: The model's answer.
        taken: Ids of the calls in the conversation so far; the ids of this message are added.
        iteration: The agent's turn, 0 in a history.

    Returns:
        The message, in which every call is valid (unreadable arguments become an empty object), and the
        calls with the arguments as read, or with the error.
    """
    raw = calls_of(message)
    calls = tuple(
        _request(call, number=number, taken=taken, iteration=iteration) for number, call in enumerate(raw, 1)
    )
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k == "refusal" and v is not None}
    returned_fields = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
    if returned_fields:
        call_fields = returned_fields.get("calls", {})
        by_id = {
            call.id: call_fields[original["id"]]
            for original, call in zip(raw, calls, strict=True)
            if original["id"] in call_fields
        }
        kwargs[GIVEN_BACK] = {**returned_fields, "calls": by_id}
    settled = AIMessage(
        content=cast("Any", message.content),
        additional_kwargs=kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
        tool_calls=[
            {"type": "tool_call", "id": c.id, "name": call_name(c.name), "args": dict(c.arguments or {})}
            for c in calls
        ],
    )
    return settled, calls


def call_name(name: str) -> str:
    """The name of a call in the history, 1 to 64 characters, as endpoints check names there, too."""
    return _BAD_IN_NAME.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def repair(messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], tuple[str, ...]]:
    """Corrects a history so that endpoints accept it.

    Args:
        messages: Any conversation.

    Returns:
        The conversation, in which every call has one answer right after it, and the corrections in words.
    """
    repaired: list[BaseMessage] = []
    counts = {"unanswered": 0, "stray": 0, "malformed": 0, "empty": 0}
    taken: set[str] = set()
    answers: dict[str, list[ToolMessage]] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            answers.setdefault(message.tool_call_id, []).append(message)
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        if not isinstance(message, AIMessage):
            repaired.append(message)
            continue
        ids = [call["id"] for call in calls_of(message)]
        settled, calls = settle(message, taken=taken)
        if not calls and not text_of(message):
            counts["empty"] += 1
            continue
        counts["malformed"] += sum(
            call.error is not None or call.id != original for call, original in zip(calls, ids, strict=True)
        )
        repaired.append(settled if calls else message)
        for call, original in zip(calls, ids, strict=True):
            known_answers = answers.get(original, [])
            counts["unanswered"] += not known_answers
            if known_answers:
                repaired.append(known_answers.pop(0).model_copy(update={"tool_call_id": call.id}))
            else:
                repaired.append(answer(ToolReply(request=call, content=_NEVER_ANSWERED, failed=True)))
    counts["stray"] = sum(len(unused) for unused in answers.values())
    return repaired, _repair_notes(counts)


def answer(reply: ToolReply) -> ToolMessage:
    """Makes the message that answers a call; its first line names the server that wrote the result."""
    content = reply.content
    if reply.origin:
        line = f"[from {reply.origin}]"
        line_block = {"type": "text", "text": line}
        content = f"{line}\n{content}" if isinstance(content, str) else [line_block, *content]
    return ToolMessage(
        content=cast("Any", content),
        tool_call_id=reply.request.id,
        name=call_name(reply.request.name),
        status="error" if reply.failed else "success",
    )


def origin_of(message: ToolMessage) -> str:
    """Reads the server that wrote the result of a tool; empty if the message does not name one."""
    text = next((str(block.get("text", "")) for block in blocks_of(message)), "")
    match = _ORIGIN.fullmatch(text.partition("\n")[0])
    return match[1] if match else ""


def _request(call: Mapping[str, Any], *, number: int, taken: set[str], iteration: int) -> ToolRequest:
    unique_id = call["id"]
    while not unique_id or unique_id in taken:
        unique_id = f"{call['id'] or 'call'}_{number}"
        number += 1
    taken.add(unique_id)
    parsed, error = read_arguments(call["arguments"])
    return ToolRequest(
        id=unique_id,
        name=call["name"].strip(),
        arguments=parsed,
        iteration=iteration,
        error=error,
        written="" if error is None else shortened(str(call["arguments"]), _LONGEST_QUOTE),
    )


def _repair_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    words = {
        "unanswered": "tool calls of the history had no answer; they were answered with an error",
        "stray": "tool results of the history belonged to no call and were left out",
        "malformed": "tool calls of the history were malformed and were corrected",
        "empty": "empty answers of the history were left out",
    }
    return tuple(f"{counts[kind]} {text}" for kind, text in words.items() if counts[kind])
