"""Reads a model's answer: finish reason, token usage, refusal, and whether it has content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..model.model_errors import ModelAnswerInvalid, ModelBusy
from ..model.raised_errors import too_long
from .content import text_of
from .events import TokenUsage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage


_CONTEXT_FULL: Final = frozenset({"model_length", "model_context_window_exceeded"})  # Mistral's, Z.ai's
_CUT_OFF: Final = frozenset({"max_tokens", "max_output_tokens"}) | _CONTEXT_FULL
_GIVEN_UP: Final = frozenset({"error", "insufficient_system_resource"})  # Mistral's, DeepSeek's
_FILTERED: Final = frozenset({"safety", "recitation", "blocklist", "prohibited_content", "spii"})  # Google's


def usage_of(message: AIMessage) -> TokenUsage:
    """The tokens of one answer as the endpoint counted them, or that it did not."""
    counted = message.usage_metadata
    if not counted or not (counted["input_tokens"] or counted["output_tokens"]):
        return TokenUsage(unreported=1)  # some endpoints send zeros, which nobody counted
    return TokenUsage(input=counted["input_tokens"], output=counted["output_tokens"], turns=1)


def finish_reason(message: AIMessage) -> str:
    """The finish reason: ``stop``, ``length``, ``content_filter`` or another word of the endpoint."""
    reason = _given_reason(message)
    if reason in _CUT_OFF:
        return "length"
    return "content_filter" if reason in _FILTERED else reason


def _given_reason(message: AIMessage) -> str:
    return str(message.response_metadata.get("finish_reason") or "").lower().partition(":")[0]


def refusal_of(message: AIMessage) -> str | None:
    """The text of a refusal; None if the model did not refuse."""
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        return str(refusal)
    if finish_reason(message) == "content_filter":
        return text_of(message) or "The provider's content filter withheld the answer."
    return None


def require_content(message: AIMessage) -> None:
    """Checks that an answer is whole, and says something: text, tool calls, or that the model refuses.

    Raises:
        ModelBusy: The endpoint gave it up.
        ContextTooLong: It says nothing, for the conversation has taken all the room.
        ModelAnswerInvalid: It says nothing.
    """
    if finish_reason(message) in _GIVEN_UP:
        raise ModelBusy(
            f"The endpoint gave up in the middle of the answer ({finish_reason(message)})",
            fix="Try again later, or choose another model",
        )
    asks = message.tool_calls or message.invalid_tool_calls
    if asks or text_of(message) or refusal_of(message) is not None:
        return
    if _given_reason(message) in _CONTEXT_FULL:
        raise too_long("nothing is left for an answer")
    if finish_reason(message) == "length":
        error = ModelAnswerInvalid(
            "The model used up its token limit before it said anything",
            fix="Raise the token limit in the node that connects the model; models that reason need much"
            " more",
        )
        error.tries = 1  # it would only do the same again
        raise error
    raise ModelAnswerInvalid(
        "The model's answer is empty",
        fix="Try again, rephrase the prompt, or choose another model",
    )
