"""Adapts the messages of a run to an endpoint that refused some; the history itself stays unchanged.

Images of tools, which endpoints accept from users only, are always moved to a message of the user. What only
some endpoints refuse is changed after the refusal: the oldest tool results or the model's thoughts are left
out, images become a note, ids of calls are replaced, roles are put in turn.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    merge_message_runs,
)

from ..model.call_pieces import GIVEN_BACK
from ..model.model_errors import ContextTooLong, ModelRequestRefused
from .content import blocks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.model_errors import ModelError

_LEFT_OUT: Final = "[This result was left out to save space. Call the tool again if you need it.]"
_WORTH_LEAVING_OUT: Final = 4 * len(_LEFT_OUT)
_IMAGES: Final = frozenset({"image", "image_url"})


class MessageFitting:
    """Adapts messages to what an endpoint refused so far in a run.

    Args:
        images: Whether the model gets the images that tools return.

    Attributes:
        notes: Remarks for the user: what the model was not told.
    """

    def __init__(self, *, images: bool = True) -> None:
        self._images = images
        self._left_out: set[str] = set()  # ids of calls whose results are no longer sent
        self._plain_ids = False
        self._in_turn = False  # True once roles are sent in turn
        self._system = True  # False once the system message is sent as the user's
        self._thoughts = True  # False once the model's thoughts are no longer sent back
        self.notes: dict[str, None] = {}

    def fit(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Returns the messages to send, as the endpoint accepts them."""
        if self._left_out:
            messages = [
                message.model_copy(update={"content": _LEFT_OUT})
                if isinstance(message, ToolMessage) and message.tool_call_id in self._left_out
                else message
                for message in messages
            ]
        sent = _with_images_moved(messages, images=self._images)
        if not self._thoughts:
            sent = [_without_thoughts(message) for message in sent]
        if self._in_turn:
            sent = _roles_in_turn(sent, system=self._system)
        return [_with_plain_ids(message) for message in sent] if self._plain_ids else sent

    def learn(self, problem: ModelError, messages: Sequence[BaseMessage]) -> str | None:
        """Learns from an error what to change in the next request.

        Args:
            problem: The error.
            messages: The history before `fit`.

        Returns:
            The change in words; None if no change may help.
        """
        if isinstance(problem, ContextTooLong):
            left_out = self._leave_out_oldest(messages)
            if left_out:
                self.notes[
                    "The conversation did not fit into the model's context, so its oldest tool results were"
                    " left out of what was sent"
                ] = None
                return f"sent again without {left_out} tool results"
        if problem.about_call_ids and not self._plain_ids:
            self._plain_ids = True
            return "sent again with other ids of the tool calls"
        if not isinstance(problem, ModelRequestRefused):
            return None
        if problem.about_images and self._images and _has_images(messages):
            self._images = False
            self.notes[
                "The model takes no images, so those that tools returned were left out of what was sent"
            ] = None
            return "sent again without images"
        if problem.about_thoughts and self._thoughts and any(map(_has_thoughts, messages)):
            self._thoughts = False
            return "sent again without the model's thoughts"
        if problem.about_system_message and self._system:
            self._system, self._in_turn = False, True
            return "sent again with the system message as the user's"
        if problem.about_roles and not self._in_turn:
            self._in_turn = True
            return "sent again with the roles in turn"
        return None

    def _leave_out_oldest(self, messages: Sequence[BaseMessage]) -> int:
        """Leaves out the older half of the long tool results; the newest stays, as the model needs it."""
        results = [
            message.tool_call_id
            for message in messages
            if isinstance(message, ToolMessage)
            and message.tool_call_id not in self._left_out
            and len(str(message.content)) > _WORTH_LEAVING_OUT
        ]
        chosen = results[:-1][: (len(results) + 1) // 2]
        self._left_out.update(chosen)
        return len(chosen)


def _with_images_moved(messages: Sequence[BaseMessage], *, images: bool) -> list[BaseMessage]:
    """Moves the images of tools to a message of the user, or leaves them out.

    OpenAI's chat completions accept images in messages of the user only.
    """
    sent: list[BaseMessage] = []
    image_content: list[Any] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            if image_content:
                sent.append(HumanMessage(content=image_content))
                image_content = []
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
                if not image_content:
                    image_content.append(
                        {"type": "text", "text": "Images that the tools returned, in order:"}
                    )
                image_content.append(block)
                texts.append("[an image, shown in the next message]")
            else:
                texts.append("[an image, left out because the model does not take images]")
        sent.append(message.model_copy(update={"content": "\n".join(texts)}))
    if image_content:
        sent.append(HumanMessage(content=image_content))
    return sent


def _roles_in_turn(messages: Sequence[BaseMessage], *, system: bool) -> list[BaseMessage]:
    """Joins the user's messages that follow one another, and puts a word of the model between tool and user.

    Templates of some models want the roles in turn. With `system` False, the system message becomes the
    user's.
    """
    turns: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, HumanMessage) and turns and isinstance(turns[-1], ToolMessage):
            turns.append(AIMessage("I have read the results."))
        is_moved = isinstance(message, SystemMessage) and not system
        turns.append(HumanMessage(cast("Any", message.content)) if is_moved else message)
    return merge_message_runs(turns, chunk_separator="\n\n")


def _has_images(messages: Sequence[BaseMessage]) -> bool:
    """Returns whether a history holds images of tools."""
    return any(
        block.get("type") in _IMAGES
        for message in messages
        if isinstance(message, ToolMessage)
        for block in blocks_of(message)
    )


def _has_thoughts(message: BaseMessage) -> bool:
    return "message" in message.additional_kwargs.get(GIVEN_BACK, {})


def _without_thoughts(message: BaseMessage) -> BaseMessage:
    """A message without the reasoning that goes back to the endpoint; fields of its calls stay."""
    if not _has_thoughts(message):
        return message
    kwargs = message.additional_kwargs
    call_fields = {name: value for name, value in kwargs[GIVEN_BACK].items() if name != "message"}
    return message.model_copy(update={"additional_kwargs": {**kwargs, GIVEN_BACK: call_fields}})


def _with_plain_ids(message: BaseMessage) -> BaseMessage:
    """Replaces ids of calls: Mistral's endpoint accepts nine letters and digits only, others no long ids."""

    def plain(id_: str | None) -> str:
        return hashlib.sha256(str(id_).encode(errors="replace")).hexdigest()[:9]

    match message:
        case AIMessage():
            calls = [{**call, "id": plain(call["id"])} for call in message.tool_calls]
            return message.model_copy(update={"tool_calls": calls})
        case ToolMessage():
            return message.model_copy(update={"tool_call_id": plain(message.tool_call_id)})
        case _:
            return message
