"""Reads a model's answers, and corrects messages and histories so that endpoints accept them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ..types.texts import compact_json, foreign, shortened
from .agent_events import TokenUsage
from .message_content import GIVEN_BACK, ORIGIN, calls_of, read_arguments, text_of
from .model.model_errors import ModelAnswerInvalid, ModelBusy, too_long
from .toolbox.replies import ToolReply, ToolRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

_CONTEXT_FULL: Final = frozenset({"model_length", "model_context_window_exceeded"})  # Mistral's, Z.ai's
_CUT_OFF: Final = frozenset({"max_tokens", "max_output_tokens"}) | _CONTEXT_FULL
_USUAL: Final = frozenset({"", "stop"})
_GIVEN_UP: Final = frozenset({"error", "insufficient_system_resource"})  # Mistral's, DeepSeek's
_FILTERED: Final = frozenset(  # Google's, Anthropic's
    {"safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal"}
)
_BROKEN_CALL: Final = re.compile(  # Google's
    r"malformed_function_call|unexpected_tool_call|function_call_filter", re.IGNORECASE
)
_CALL_IN_TEXT: Final = re.compile(
    r"<(?:minimax:)?tool_call>|<function(?:_call|=)|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_calls?|<｜tool"
    r"|<\|channel\|>commentary"
    r'|(?:```(?:json)?\s*)?\{\s*"name":\s*"[\w.-]+",\s*"(?:parameters|arguments)":\s*\{'
)

_WORD: Final = re.compile(r"\w+")
_BAD_IN_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME: Final = 64
_CHARACTERS_PER_TOKEN: Final = 4  # of English text; other languages have fewer
_LONGEST_QUOTE: Final = 300
_NEVER_ANSWERED: Final = "Error: the conversation broke off before this call was answered."


class _Form(NamedTuple):
    begin: re.Pattern[str]
    end: re.Pattern[str]


_WORDS: Final = "(?:think|thinking|thoughts?|reasoning|reflection)"
_TAG: Final = rf"(?:\w+[:_-])?{_WORDS}(?:[_-]\w+)?"
#: Forms that are marks alone: an end without a beginning belongs to thoughts that the model's prompt began.
_MARKS: Final = tuple(
    _Form(re.compile(begin, re.I), re.compile(rf"(?<!`){end}", re.I))
    for begin, end in (
        (rf"<{_TAG}(?:\s[^>]*)?>", rf"</{_TAG}\s*>"),
        (rf"<\|{_WORDS}\|>", rf"<\|/{_WORDS}\|>"),
        (r"\[THINK\]", r"\[/THINK\]"),  # Mistral's
        ("◁think▷", "◁/think▷"),  # Moonshot's
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere's
        (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus's
        (r'<details type="reasoning"[^>]*>', "</details>"),  # Open WebUI's
        ("<unused94>thought", "<unused95>"),  # Google's
        (r"<\|channel>thought", r"<channel\|>"),
    )
)
_FORMS: Final = (
    *_MARKS,
    _Form(  # https://developers.openai.com/cookbook/articles/openai-harmony
        re.compile(
            r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary(?! ?to=)).{0,80}?<\|message\|>"
        ),
        re.compile(r"<\|end\|>|(?=<\|start\|>)|(?=<\|channel\|>)"),
    ),
    # The same without its tokens, which some servers leave out.
    _Form(re.compile(r"analysis(?=\S(?s:.*?)assistantfinal)"), re.compile("assistantfinal")),
    _Form(  # Granite's
        re.compile(r"Here is my thought process:(?=(?s:.*?)Here is my response:)"),
        re.compile("Here is my response:"),
    ),
)
_FRAME: Final = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final.{0,80}?<\|message\|>"
    r"|<\|(?:begin_of_(?:solution|box)|START_RESPONSE)\|>)"
)
_TAGGED: Final = re.compile(r"\s*<(answer|response)>(.*?)(?:</\1>)?\s*", re.DOTALL)
_BLANKS: Final = re.compile(r"\s*")
_FRAME_END: Final = re.compile(r"<\|(?:end|return|end_of_(?:solution|box)|END_RESPONSE)\|>")


def without_thoughts(text: str) -> str:
    """The answer in a text; empty if all of it is thoughts.

    Thoughts stand before an answer. Only in a text that begins with some, marks further on are no quotation.
    """
    position = 0
    found: set[_Form] = set()
    while begun := _begun(text, position):
        form, start = begun
        end = form.end.search(text, start)
        if end is None:
            return ""  # cut off, or never closed
        found.add(form)
        position = end.end()
    text = text[position:]
    for form in _MARKS:
        if form in found:
            text = _without_blocks(text, form)
    for form in _MARKS:
        end = form.end.search(text)
        if end is not None and form.begin.search(text, 0, end.start()) is None:
            text = text[end.end() :]
    tagged = _TAGGED.fullmatch(text) if position else None
    if tagged is not None:
        return tagged[2].strip()
    frame = _FRAME.match(text)
    return (text if frame is None else _FRAME_END.split(text[frame.end() :], 1)[0]).strip()


def _begun(text: str, position: int) -> tuple[_Form, int] | None:
    blanks = _BLANKS.match(text, position)
    at = position if blanks is None else blanks.end()
    matches = ((form, form.begin.match(text, at)) for form in _FORMS)
    return next(((form, match.end()) for form, match in matches if match is not None), None)


def _without_blocks(text: str, form: _Form) -> str:
    kept: list[str] = []
    position = 0
    while begin := form.begin.search(text, position):
        kept.append(text[position : begin.start()])
        end = form.end.search(text, begin.end())
        if end is None:
            return "".join(kept)
        position = end.end()
    return "".join([*kept, text[position:]])


def usage_of(message: AIMessage) -> TokenUsage:
    """The tokens of one answer; counts the answer as unreported if the endpoint did not count them."""
    usage = message.usage_metadata
    if not usage or not (usage["input_tokens"] or usage["output_tokens"]):
        return TokenUsage(unreported=1)  # some endpoints send zeros instead of counts
    return TokenUsage(input=usage["input_tokens"], output=usage["output_tokens"], turns=1)


def estimated_usage(
    messages: Iterable[BaseMessage], functions: Sequence[Mapping[str, Any]], answer: AIMessage
) -> TokenUsage:
    """About how many tokens an answer took that the endpoint has not counted; as turns it counts none."""
    read = sum(len(text_of(message)) for message in messages) + len(compact_json(list(functions)))
    wrote = len(text_of(answer)) + len(compact_json(calls_of(answer)))
    return TokenUsage(input=read // _CHARACTERS_PER_TOKEN + 1, output=wrote // _CHARACTERS_PER_TOKEN + 1)


def count_words(text: str) -> int:
    """The words of a text, each of which is at least one token for any model."""
    return sum(1 for _ in _WORD.finditer(text))


def finish_reason(message: AIMessage) -> str:
    """``stop``, ``length``, ``content_filter`` or another value of the endpoint."""
    reason = _said_reason(message).lower().partition(":")[0]
    if reason in _CUT_OFF:
        return "length"
    return "content_filter" if reason in _FILTERED else reason


def _said_reason(message: AIMessage) -> str:
    """The reason in the words of the endpoint."""
    return str(message.response_metadata.get("finish_reason") or "")


def refusal_of(message: AIMessage) -> str | None:
    """The text of a refusal; None if the model did not refuse."""
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        return str(refusal)
    if finish_reason(message) == "content_filter":
        withheld = f"The provider's content filter withheld the answer ({_said_reason(message)})."
        return answer_of(message) or withheld
    return None


def require_content(message: AIMessage) -> None:
    """Checks that an answer is complete and has content: text, tool calls or a refusal.

    Raises `ModelBusy` if the endpoint gave up in the middle, `ContextTooLong` if the answer is empty because
    the conversation fills the model's context, `ModelAnswerInvalid` if it is empty for no such reason.
    """
    said = _said_reason(message)
    if finish_reason(message) in _GIVEN_UP:
        raise ModelBusy(
            f"The endpoint gave up in the middle of the answer ({said})",
            fix="Try again later, or choose another model",
        )
    if message.tool_calls or message.invalid_tool_calls or refusal_of(message) is not None:
        return
    if _BROKEN_CALL.search(said):  # what stands beside such a call is no answer
        raise ModelAnswerInvalid(
            f"The endpoint could not read the model's call ({said})",
            fix="Try again, rephrase the prompt, or choose another model",
            tries=3,
        )
    if answer_of(message):
        return
    if said.lower() in _CONTEXT_FULL:
        raise too_long("nothing is left for an answer")
    if finish_reason(message) == "length":
        raise ModelAnswerInvalid(
            "The model used up its token limit before it said anything",
            fix="Raise the token limit in the node that connects the model; models that reason need much"
            " more",
            tries=1,  # the same would happen again
        )
    raise _empty(message)


def _empty(message: AIMessage) -> ModelAnswerInvalid:
    said = _said_reason(message)
    what = "The model's answer is empty" + (f" (the endpoint says: {said})" if said not in _USUAL else "")
    beside = message.additional_kwargs.get(GIVEN_BACK, {}).get("message", {})
    field = next(iter(beside), "")
    thoughts = text_of(message) or str(beside.get(field) or "")
    if not thoughts:
        return ModelAnswerInvalid(what, fix="Try again, rephrase the prompt, or choose another model")
    where = f"in its thoughts ({field})" if field else "in marks of thoughts"
    return ModelAnswerInvalid(
        f"{what}: all that it wrote stands {where}: {foreign(thoughts, _LONGEST_QUOTE)}",
        fix="If that is an answer or a call, the server reads the model's output wrongly: have it use the"
        " parsers for this model (vLLM: --reasoning-parser and --tool-call-parser), or switch thinking off",
    )


def answer_of(message: BaseMessage) -> str:
    """The text of a model's answer without its thoughts; empty if it is all thoughts."""
    return without_thoughts(text_of(message))


def called_in_text(message: BaseMessage) -> bool:
    """Returns whether a model's answer begins with a tool call that its server should have parsed."""
    return _CALL_IN_TEXT.match(answer_of(message)) is not None


def settle(
    message: AIMessage, *, taken: set[str], iteration: int = 0
) -> tuple[AIMessage, tuple[ToolRequest, ...]]:
    """Corrects a model's message so that endpoints accept it in a history (iteration 0) or a conversation.

    In the message every call is valid: unreadable arguments become an empty object. The calls have the
    arguments as read, or the error. ``taken`` are the ids of the calls so far; those of this message are
    added.
    """
    raw = calls_of(message)
    calls = tuple(
        _request(call, number=number, taken=taken, iteration=iteration) for number, call in enumerate(raw, 1)
    )
    # LangChain keeps the calls there once more, unparsed: endpoints would get both.
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k == "refusal" and v is not None}
    if returned_fields := message.additional_kwargs.get(GIVEN_BACK):
        kwargs[GIVEN_BACK] = returned_fields
    # Endpoints of Anthropic's models refuse blanks beside calls, which the models write.
    content = cast("Any", message.content if text_of(message) or not calls else "")
    settled = AIMessage(
        content=content,
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
    """Corrects a history so that endpoints accept it: every call has one answer right after it.

    Returns the conversation, and the corrections in words.
    """
    repaired: list[BaseMessage] = []
    counts = {"unanswered": 0, "stray": 0, "malformed": 0, "empty": 0}
    taken: set[str] = set()
    answers: dict[str, list[ToolMessage]] = {}
    for message in messages:
        # Gathered first, as a table may have an answer before its call, or turns later.
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
        # Endpoints refuse an assistant's message without content.
        if not calls and not text_of(message):
            counts["empty"] += 1
            continue
        counts["malformed"] += sum(
            call.error is not None or call.id != original for call, original in zip(calls, ids, strict=True)
        )
        repaired.append(settled if calls else message)
        for call, original in zip(calls, ids, strict=True):
            # Some models use an id again: each call takes the next of its answers.
            known_answers = answers.get(original, [])
            counts["unanswered"] += not known_answers
            if known_answers:
                repaired.append(known_answers.pop(0).model_copy(update={"tool_call_id": call.id}))
            else:
                repaired.append(answer(ToolReply(request=call, content=_NEVER_ANSWERED, failed=True)))
    counts["stray"] = sum(len(unused) for unused in answers.values())
    return repaired, _repair_notes(counts)


def answer(reply: ToolReply) -> ToolMessage:
    """Makes the message that answers a call; with several servers its first line names the one that wrote it.

    That line is for the model. What counts is the origin beside the content, which no text can forge.
    """
    content = reply.content
    if reply.label:
        line = f"[from {reply.label}]"
        line_block = {"type": "text", "text": line}
        content = f"{line}\n{content}" if isinstance(content, str) else [line_block, *content]
    return ToolMessage(
        content=cast("Any", content),
        tool_call_id=reply.request.id,
        name=call_name(reply.request.name),
        additional_kwargs={ORIGIN: reply.origin},
        status="error" if reply.failed else "success",
    )


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
