"""Conversations that every endpoint accepts: each tool call is answered once, right after it was asked for.

Endpoints refuse a whole conversation for one call without an answer, an id that is used twice, a name with
a space or arguments that are no JSON object. Models produce all of these. So what a model said is put in
order before it enters the history (`settle`), a history from elsewhere is put in order before it is used
(`repair`), and images of tools, which endpoints take from users only, are moved for sending (`sendable`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..model.call_pieces import GIVEN_BACK, read_arguments
from ..toolbox.toolbox import ToolReply, ToolRequest
from .content import blocks_of, calls_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BAD_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64
_LONGEST_QUOTE: Final = 300
_NEVER_ANSWERED: Final = "Error: the conversation broke off before this call was answered."
_IMAGES: Final = frozenset({"image", "image_url"})
_THOUGHTS: Final = re.compile(
    r"\A\s*<(think|thinking|thought)>.*?</\1>|\A(?:(?!<think).)*?</(?:think|thinking)>", re.DOTALL
)
_CALL_IN_TEXT: Final = re.compile(
    r"<(?:minimax:)?tool_call>|<function(?:_call|=)|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_calls?|<｜tool"
    r"|<\|channel\|>commentary"
    r'|(?:```(?:json)?\s*)?\{\s*"name":\s*"[\w.-]+",\s*"(?:parameters|arguments)":\s*\{'
)
_ORIGIN: Final = re.compile(r"\[from (\S+)\]")


def settle(
    message: AIMessage, *, taken: set[str], iteration: int = 0
) -> tuple[AIMessage, tuple[ToolRequest, ...]]:
    """Turns a model's message into one that may stand in a history.

    Args:
        message: The model's answer.
        taken: Ids of calls that the conversation has already; those of this message are added.
        iteration: The agent's turn, 0 in a history.

    Returns:
        The message with every call as a valid one (unreadable arguments become none), and the calls as the
        model meant them.
    """
    raw = calls_of(message)
    calls = tuple(
        _request(call, number=number, taken=taken, iteration=iteration) for number, call in enumerate(raw, 1)
    )
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k == "refusal" and v is not None}
    back = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
    if back:
        signed = back.get("calls", {})
        by_id = {
            call.id: signed[own["id"]] for own, call in zip(raw, calls, strict=True) if own["id"] in signed
        }
        kwargs[GIVEN_BACK] = {**back, "calls": by_id}
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
    """The name that a call has in the history, 1 to 64 characters: endpoints check names there, too."""
    return _BAD_IN_NAME.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def repair(messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], tuple[str, ...]]:
    """Puts a history from elsewhere in order.

    Args:
        messages: Any conversation.

    Returns:
        The conversation in which every call has one answer, right after it; and what was changed, in words.
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
            call.error is not None or call.id != own for call, own in zip(calls, ids, strict=True)
        )
        repaired.append(settled if calls else message)
        for call, own in zip(calls, ids, strict=True):
            known = answers.get(own, [])
            counts["unanswered"] += not known
            if known:
                repaired.append(known.pop(0).model_copy(update={"tool_call_id": call.id}))
            else:
                repaired.append(answer(ToolReply(request=call, content=_NEVER_ANSWERED, failed=True)))
    counts["stray"] = sum(len(left) for left in answers.values())
    return repaired, _said(counts)


def answer(reply: ToolReply) -> ToolMessage:
    """Makes the message that answers a call; it tells the model the server that wrote it."""
    content = reply.content
    if reply.origin:
        line = f"[from {reply.origin}]"
        content = f"{line}\n{content}" if isinstance(content, str) else [_text_block(line), *content]
    return ToolMessage(
        content=cast("Any", content),
        tool_call_id=reply.request.id,
        name=call_name(reply.request.name),
        status="error" if reply.failed else "success",
    )


def origin_of(message: ToolMessage) -> str:
    """Reads the server that wrote the result of a tool; empty where the message does not say it."""
    text = next((str(block.get("text", "")) for block in blocks_of(message)), "")
    found = _ORIGIN.fullmatch(text.partition("\n")[0])
    return found[1] if found else ""


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def sendable(messages: Sequence[BaseMessage], *, images: bool = True) -> list[BaseMessage]:
    """Makes what is sent from a history: results as text, and their images as a message of the user.

    OpenAI's chat completions take images in messages of the user only.

    Args:
        messages: A history in order.
        images: False for a model that takes none: the text says that they were left out.

    Returns:
        The messages to send.
    """
    sent: list[BaseMessage] = []
    shown: list[Any] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            if shown:
                sent.append(HumanMessage(content=shown))
                shown = []
            sent.append(message)
            continue
        if isinstance(message.content, str):
            sent.append(message)
            continue
        texts: list[str] = []
        for block in blocks_of(message):
            if block.get("type") not in _IMAGES:
                texts.append(str(block.get("text", "")))
            elif images:
                if not shown:
                    shown.append(_text_block("Images that the tools returned, in order:"))
                shown.append(block)
                texts.append("[an image, shown in the next message]")
            else:
                texts.append("[an image, left out because the model does not take images]")
        sent.append(message.model_copy(update={"content": "\n".join(texts)}))
    if shown:
        sent.append(HumanMessage(content=shown))
    return sent


def has_images(messages: Sequence[BaseMessage]) -> bool:
    """Returns whether a history holds images of tools."""
    return any(
        block.get("type") in _IMAGES
        for message in messages
        if isinstance(message, ToolMessage)
        for block in blocks_of(message)
    )


def answer_of(message: BaseMessage) -> str:
    """The text of a model's answer without the thoughts before it; all of it if nothing is left otherwise.

    Servers that do not know a model leave its thoughts in the text, as ``<think>…</think>``, sometimes
    without the opening mark, which is part of the model's prompt then.
    """
    text = text_of(message)
    return _THOUGHTS.sub("", text).strip() or text


def called_in_text(message: BaseMessage) -> bool:
    """Returns whether a model's answer begins with a tool call in a form that its server should have read."""
    return _CALL_IN_TEXT.match(answer_of(message)) is not None


def _request(call: Mapping[str, Any], *, number: int, taken: set[str], iteration: int) -> ToolRequest:
    chosen = call["id"]
    while not chosen or chosen in taken:
        chosen = f"{call['id'] or 'call'}_{number}"
        number += 1
    taken.add(chosen)
    read, error = read_arguments(call["arguments"])
    return ToolRequest(
        id=chosen,
        name=call["name"].strip(),
        arguments=read,
        iteration=iteration,
        error=error,
        written="" if error is None else _quoted(str(call["arguments"])),
    )


def _said(counts: Mapping[str, int]) -> tuple[str, ...]:
    words = {
        "unanswered": "tool calls of the history had no answer; they were answered with an error",
        "stray": "tool results of the history belonged to no call and were left out",
        "malformed": "tool calls of the history were malformed and were corrected",
        "empty": "empty answers of the history were left out",
    }
    return tuple(f"{counts[kind]} {text}" for kind, text in words.items() if counts[kind])


def _quoted(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
