"""Reads a model's answer: its text, finish reason, token usage, refusal, and whether it has content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..model.endpoint_errors import too_long
from ..model.model_errors import ModelAnswerInvalid, ModelBusy
from .content import text_of
from .events import TokenUsage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


_CONTEXT_FULL: Final = frozenset({"model_length", "model_context_window_exceeded"})  # Mistral's, Z.ai's
_CUT_OFF: Final = frozenset({"max_tokens", "max_output_tokens"}) | _CONTEXT_FULL
_GIVEN_UP: Final = frozenset({"error", "insufficient_system_resource"})  # Mistral's, DeepSeek's
_FILTERED: Final = frozenset({"safety", "recitation", "blocklist", "prohibited_content", "spii"})  # Google's
_THOUGHT_TEXT: Final = re.compile(
    r"\A\s*<(think|thinking|thought)>.*?</\1>|\A(?:(?!<think).)*?</(?:think|thinking)>", re.DOTALL
)
_CALL_IN_TEXT: Final = re.compile(
    r"<(?:minimax:)?tool_call>|<function(?:_call|=)|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_calls?|<｜tool"
    r"|<\|channel\|>commentary"
    r'|(?:```(?:json)?\s*)?\{\s*"name":\s*"[\w.-]+",\s*"(?:parameters|arguments)":\s*\{'
)


def usage_of(message: AIMessage) -> TokenUsage:
    """The tokens of one answer; counts the answer as unreported if the endpoint did not count them."""
    usage = message.usage_metadata
    if not usage or not (usage["input_tokens"] or usage["output_tokens"]):
        return TokenUsage(unreported=1)  # some endpoints send zeros instead of counts
    return TokenUsage(input=usage["input_tokens"], output=usage["output_tokens"], turns=1)


def finish_reason(message: AIMessage) -> str:
    """The finish reason: ``stop``, ``length``, ``content_filter`` or another value of the endpoint."""
    reason = _reported_reason(message)
    if reason in _CUT_OFF:
        return "length"
    return "content_filter" if reason in _FILTERED else reason


def _reported_reason(message: AIMessage) -> str:
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
    """Checks that an answer is complete and has content: text, tool calls or a refusal.

    Raises:
        ModelBusy: The endpoint gave up in the middle of the answer.
        ContextTooLong: The answer is empty, as the conversation fills the model's context.
        ModelAnswerInvalid: The answer is empty.
    """
    if finish_reason(message) in _GIVEN_UP:
        raise ModelBusy(
            f"The endpoint gave up in the middle of the answer ({finish_reason(message)})",
            fix="Try again later, or choose another model",
        )
    calls = message.tool_calls or message.invalid_tool_calls
    if calls or text_of(message) or refusal_of(message) is not None:
        return
    if _reported_reason(message) in _CONTEXT_FULL:
        raise too_long("nothing is left for an answer")
    if finish_reason(message) == "length":
        raise ModelAnswerInvalid(
            "The model used up its token limit before it said anything",
            fix="Raise the token limit in the node that connects the model; models that reason need much"
            " more",
            tries=1,  # the same would happen again
        )
    raise ModelAnswerInvalid(
        "The model's answer is empty",
        fix="Try again, rephrase the prompt, or choose another model",
    )


def answer_of(message: BaseMessage) -> str:
    """The text of a model's answer without the thoughts before it; the whole text if it is all thoughts.

    Servers that do not know a model leave its thoughts in the text, as ``<think>…</think>``, sometimes
    without the opening tag, which then belongs to the model's prompt.
    """
    text = text_of(message)
    return _THOUGHT_TEXT.sub("", text).strip() or text


def called_in_text(message: BaseMessage) -> bool:
    """Returns whether a model's answer begins with a tool call that its server should have parsed."""
    return _CALL_IN_TEXT.match(answer_of(message)) is not None
