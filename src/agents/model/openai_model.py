"""A model behind OpenAI's chat completions, also at endpoints that only resemble OpenAI's."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from ...types.errors import MCPError
from ...types.texts import compact_json
from .agent_model import AgentModel
from .answer_form import read_answer, read_refusal
from .model_errors import AnsweredError, Construct, not_sent
from .written_calls import GIVEN_BACK, read_calls

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from .agent_model import ModelRequest


_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_OTHER_FIELD: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_ONLY_CALLS: Final = "(calls)"
_READ_BY_MODELS: Final = frozenset({"text", "image_url", "refusal"})


class EndpointModel(AgentModel):
    """A model at an endpoint in OpenAI's form."""

    async def answer(self, request: ModelRequest) -> AIMessage:
        sent = self._http.build_request(
            "POST",
            f"{self.server}/chat/completions",
            content=compact_json(self.body(request)).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        )
        try:
            response = await self._http.send(sent, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, MCPError) as error:
            raise not_sent(error, self.server, self.secrets) from None
        try:
            if not response.is_success:
                raise AnsweredError(
                    await read_refusal(response.aiter_bytes()),
                    status=response.status_code,
                    headers=response.headers,
                )
            return _message(await read_answer(response.aiter_bytes(), request.on_text))
        finally:
            await response.aclose()

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
