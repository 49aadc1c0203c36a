"""A model behind OpenAI's chat completions, also at endpoints that only resemble OpenAI's.

Endpoints that call themselves compatible may stream without being asked, send a whole answer in place of a
stream, and vary the form of both. So the body decides how it is read, not the request: a whole answer is read
as a stream of one piece, and becomes one document in the usual form.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from ...types.errors import MCPError
from ...types.texts import compact_json
from ..message_content import GIVEN_BACK, CallPieces, mappings, read_calls
from .agent_model import AgentModel, events_of, read_object
from .model_errors import AnsweredError, Construct, ModelAnswerInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set

    from .agent_model import ModelRequest


_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_OTHER_FIELD: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_ONLY_CALLS: Final = "(calls)"
_READ_BY_MODELS: Final = frozenset({"text", "image_url", "refusal"})
_BOM: Final = b"\xef\xbb\xbf"
_HEAD_FIELDS: Final = ("id", "model", "system_fingerprint", "service_tier")
_COUNTS: Final = ("prompt_tokens", "completion_tokens")
_REASONING_TEXTS: Final = ("reasoning_content", "reasoning")


class EndpointModel(AgentModel):
    """A model at an endpoint in OpenAI's form."""

    changes = frozenset(Construct) - {Construct.ADAPTIVE}

    async def answer(self, request: ModelRequest) -> AIMessage:
        async with self._answered("/chat/completions", self.body(request)) as body:
            return _message(await read_answer(body, request.on_text))

    async def knows_tools(self) -> bool | None:
        # llama.cpp's: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
        with suppress(httpx.HTTPError, httpx.InvalidURL, OSError, MCPError, ValueError):
            response = await self._http.get(f"{self.server.removesuffix('/v1')}/props")
            if response.is_success:
                match response.json():
                    case {"chat_template_caps": {"supports_tools": bool(known)}}:
                        return known
                    case _:
                        pass
        return None

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The request's document: only what was set, so that the endpoint decides about the rest."""
        settings = self.settings
        sent = _sent_messages(request.messages, self.refused)
        body: dict[str, Any] = {"model": settings.model, "messages": sent}
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
            if request.tool_choice:
                body["tool_choice"] = request.tool_choice
        if request.response_format is not None:
            body["response_format"] = request.response_format
        if request.on_text is not None:
            # Without the option a stream ends without the tokens that it cost.
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if settings.token_limit is not None:
            body[self._limit_field()] = request.token_limit or settings.token_limit
        # Last, as a person's own fields count more than ours.
        return body | dict(settings.more or {})

    def _limit_field(self) -> str:
        chosen = self.settings.token_limit_field
        return _OTHER_FIELD[chosen] if Construct.LIMIT_FIELD in self.refused else chosen


def _sent_messages(messages: Sequence[BaseMessage], refused: Set[Construct]) -> list[dict[str, Any]]:
    """The messages in OpenAI's form, with the reasoning fields that the endpoint wants back."""
    sent = convert_to_openai_messages(list(messages))
    for message, document in zip(messages, sent, strict=True):
        match message:
            case ToolMessage():
                document.pop("name", None)  # not all endpoints know it there
            case AIMessage():
                _adjust(document, message, refused)
            case _:
                pass
    return sent


def _adjust(document: dict[str, Any], message: AIMessage, refused: Set[Construct]) -> None:
    document.pop("refusal", None)  # it is the content, too, which all endpoints know
    if isinstance(document["content"], list):  # another service's thoughts may be among the blocks
        blocks = cast("list[dict[str, Any]]", document["content"])
        document["content"] = [block for block in blocks if block.get("type") in _READ_BY_MODELS]
    calls = document.get("tool_calls")
    if not calls:
        return
    # As most endpoints themselves write a message that only calls.
    nothing = None
    if Construct.NULL_BESIDE_CALLS in refused:
        nothing = _ONLY_CALLS if Construct.EMPTY_BESIDE_CALLS in refused else ""
    has_text = document["content"] and Construct.TEXT_BESIDE_CALLS not in refused
    document["content"] = document["content"] if has_text else nothing
    returned = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
    fields = cast("dict[str, Any]", returned.get("message", {}))
    document.update({name: fields[name] for name in _REASONING_FIELDS if name in fields})
    for call, call_fields in zip(calls, returned.get("calls", ()), strict=False):
        call.update(call_fields)


def _message(document: dict[str, Any]) -> AIMessage:
    """The answer; calls with arguments that cannot be read are set aside in it."""
    [choice] = document["choices"]
    message = choice["message"]
    written = [(call["id"], call["function"]) for call in message.get("tool_calls", [])]
    fields = read_calls((id_, asked["name"], asked["arguments"]) for id_, asked in written)
    if message.get("refusal"):
        fields["additional_kwargs"]["refusal"] = message["refusal"]
    if returned_fields := _fields_to_return(message):
        fields["additional_kwargs"][GIVEN_BACK] = returned_fields
    usage = document.get("usage")
    return AIMessage(
        content=message["content"],
        response_metadata={"finish_reason": choice["finish_reason"], "model_name": document.get("model", "")},
        usage_metadata=usage
        and {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["total_tokens"],
        },
        id=document.get("id"),
        **fields,
    )


def _fields_to_return(message: dict[str, Any]) -> dict[str, Any]:
    """The fields that an endpoint wants back with the next request, or refuses it. OpenAI sends none of them.

    DeepSeek's and Moonshot's reasoning (https://api-docs.deepseek.com/guides/thinking_mode), vLLM's
    (https://docs.vllm.ai/en/latest/features/interleaved_thinking), OpenRouter's
    (https://openrouter.ai/docs/use-cases/reasoning-tokens), Anthropic's through LiteLLM
    (https://docs.litellm.ai/docs/reasoning_content), and the signatures of Google's calls
    (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    message_fields = {name: message[name] for name in _REASONING_FIELDS if message.get(name)}
    call_fields = [
        {"extra_content": call["extra_content"]} if "extra_content" in call else {}
        for call in message.get("tool_calls", [])
    ]
    returned: dict[str, Any] = {}
    if message_fields:
        returned["message"] = message_fields
    if any(call_fields):
        returned["calls"] = call_fields
    return returned


class AnswerForm:
    """An answer that is put together from pieces; `on_text` is called with each piece of the text."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self._on_text = on_text
        self._head: dict[str, str] = {}
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._reasoning: dict[str, list[str]] = {name: [] for name in _REASONING_TEXTS}
        self._details: list[dict[str, Any]] = []
        self._blocks: list[dict[str, Any]] = []
        self._calls = CallPieces()
        self._usage: dict[str, int] | None = None
        self._finish: str | None = None
        self._has_message = False

    @property
    def is_finished(self) -> bool:
        """True once the endpoint has sent a finish reason."""
        return self._finish is not None

    def take(self, document: object) -> None:
        """Adds a piece of a stream, or a whole answer, as the endpoint sent it.

        Raises `AnsweredError` if the document is an error in place of an answer.
        """
        if not isinstance(document, dict):
            return
        piece = cast("dict[str, Any]", document)
        if piece.get("error") or piece.get("object") == "error":
            raise AnsweredError(piece)
        for name in _HEAD_FIELDS:
            if isinstance(piece.get(name), str):
                self._head.setdefault(name, piece[name])
        # If several pieces have a usage, each usage includes the pieces before.
        self._usage = _usage(piece.get("usage")) or self._usage
        whole_is_new = not self._has_message  # some repeat the whole message at the end of a stream
        for choice in mappings(piece.get("choices")):
            # Only one choice was requested; some give text and calls as two without an index.
            if choice.get("index") in {None, 0}:
                self._take_choice(choice, whole_is_new=whole_is_new)
        if not self._has_message:
            self._take_reason(piece)

    def _take_choice(self, choice: dict[str, Any], *, whole_is_new: bool) -> None:
        if choice.get("error"):
            raise AnsweredError(choice)
        if isinstance(choice.get("finish_reason"), str):
            # OpenRouter says "stop" for what the service behind it could not read.
            is_usual = choice["finish_reason"] in {"", "stop"}
            native = choice.get("native_finish_reason") if is_usual else None
            self._finish = str(native or choice["finish_reason"]) or None
        whole = choice.get("message") if whole_is_new else None
        raw_message = choice.get("delta") or whole
        if not isinstance(raw_message, dict):
            return
        self._has_message = True
        message = cast("dict[str, Any]", raw_message)
        self._take_text(message.get("content"))
        if isinstance(message.get("refusal"), str):
            self._refusals.append(message["refusal"])
        for name, pieces in self._reasoning.items():
            if isinstance(message.get(name), str):
                pieces.append(message[name])
        for detail in mappings(message.get("reasoning_details")):
            _join(self._details, detail)
        for block in mappings(message.get("thinking_blocks")):
            _join_signed(self._blocks, block)
        calls = mappings(message.get("tool_calls"))
        if not calls and isinstance(message.get("function_call"), dict):  # the older form
            calls = [{"function": message["function_call"]}]
        for number, call in enumerate(calls):
            self._calls.take({**call, "index": number} if raw_message is whole else call)

    def _take_reason(self, piece: Mapping[str, Any]) -> None:
        """Why there is no message, which Google says in other places than the usual one."""
        inner = [cast("Mapping[str, Any]", value) for value in piece.values() if isinstance(value, dict)]
        for fields in (piece, *inner):
            said = next((value for name, value in fields.items() if "reason" in name and value), None)
            self._finish = str(said) if isinstance(said, str) else self._finish
        self._has_message = self._finish is not None

    def _take_text(self, content: object) -> None:
        parts = cast("list[object]", content) if isinstance(content, list) else [content]
        for part in parts:
            if isinstance(part, dict):
                fields = cast("dict[str, Any]", part)
                if isinstance(fields.get("refusal"), str):
                    self._refusals.append(fields["refusal"])
                text = fields.get("text") if isinstance(content, list) else compact_json(fields)
                if fields.get("type") in {"reasoning", "thinking", "thought"}:
                    text = None
            else:
                text = part if part is None or isinstance(part, str) else compact_json(part)
            if isinstance(text, str) and text:
                self._texts.append(text)
                if self._on_text is not None:
                    self._on_text(text)

    def document(self) -> dict[str, Any]:
        """The whole answer: one choice, whose message has text and calls in the usual form.

        Raises `ModelAnswerInvalid` if there was no message.
        """
        if not self._has_message:
            raise ModelAnswerInvalid.without_message()
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts)}
        more = {
            "tool_calls": self._calls.whole(),
            "refusal": "".join(self._refusals),
            **{name: "".join(pieces) for name, pieces in self._reasoning.items()},
            "reasoning_details": self._details,
            "thinking_blocks": self._blocks,
        }
        message |= {name: value for name, value in more.items() if value}
        document = {**self._head, "choices": [{"message": message, "finish_reason": self._finish}]}
        return document if self._usage is None else {**document, "usage": self._usage}


async def read_answer(
    body: AsyncIterator[bytes], on_text: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Reads the body of an answer, which comes in pieces of any size; see `AnswerForm.document`.

    Raises `AnsweredError` for an error in place of an answer, `ModelAnswerInvalid` if the body is no answer,
    ended early, or is too long, and httpx's errors of transport.
    """
    answer = AnswerForm(on_text)
    start = b""
    async for piece in body:
        start = (start + piece).removeprefix(_BOM).lstrip()
        if start:
            break
    if start[:1] in {b"{", b"["}:
        whole = start + b"".join([piece async for piece in body])
        answer.take(read_object(whole.decode(errors="replace")))
    elif not await _read_stream(answer, start, body):
        raise ModelAnswerInvalid.broken_off()
    return answer.document()


async def _read_stream(answer: AnswerForm, start: bytes, body: AsyncIterator[bytes]) -> bool:
    """Reads a stream of events. Returns False if the stream ended early."""

    async def whole() -> AsyncIterator[bytes]:
        yield start
        async for piece in body:
            yield piece

    any_event = False
    async with aclosing(events_of(whole())) as events:
        try:
            async for event in events:
                if event is None:
                    return True
                any_event = True
                answer.take(event)
        except httpx.TransportError:
            # Some servers break the connection off behind the whole answer.
            if not answer.is_finished:
                raise
    # Without a finish reason the stream was cut off; without any event it is no stream, which `document`
    # says better.
    return answer.is_finished or not any_event


def _usage(usage: object) -> dict[str, int] | None:
    """The token counts; None unless both are valid numbers."""
    if not isinstance(usage, dict):
        return None
    fields = cast("Mapping[str, object]", usage)
    counts = {name: fields.get(name) for name in _COUNTS}
    if not all(isinstance(count, int | float) and 0 <= count < 2**53 for count in counts.values()):
        return None
    numbers = {name: int(cast("float", count)) for name, count in counts.items()}
    # Some gateways to Bedrock count what was in a cache beside the rest, and not within it.
    match fields:
        case {"prompt_tokens_details": {"cached_tokens": int(cached)}} if cached > numbers["prompt_tokens"]:
            numbers["prompt_tokens"] += cached
        case _:
            pass
    return {**numbers, "total_tokens": sum(numbers.values())}


def _join(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Adds a piece of reasoning; texts with the same index are joined."""
    index = piece.get("index")
    same = (detail for detail in details if detail.get("index") == index)
    earlier = None if index is None else next(same, None)
    if earlier is None:
        details.append(dict(piece))
        return
    for name, value in piece.items():
        is_text = name in {"text", "summary", "data", "signature"}
        if is_text and isinstance(value, str) and isinstance(earlier.get(name), str):
            earlier[name] += value
        elif value is not None:
            earlier[name] = value


def _join_signed(blocks: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Adds a piece of reasoning; a signature ends the block."""
    last = blocks[-1] if blocks else {}
    if isinstance(last.get("thinking"), str) and not last.get("signature") and "thinking" in piece:
        last["thinking"] += str(piece["thinking"] or "")
        last["signature"] = piece.get("signature")
    else:
        blocks.append(dict(piece))
