"""LangChain's model for OpenAI's chat completions, which tolerates deviations of compatible endpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Self, cast

import httpx
import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.messages.tool import invalid_tool_call
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from ...types.texts import without_surrogates
from .answer_form import AnswerForm, read_answer
from .endpoint import CONNECT_SECONDS
from .langchain_fit import require_fit
from .tool_fitting import ToolFitting
from .written_calls import GIVEN_BACK, read_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatResult

    from .chat_model import ChatModelSettings
    from .endpoint import AsyncTransport, Endpoint, Throttle


_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


require_fit(
    ChatOpenAI,
    "langchain-openai",
    {
        "_agenerate": ("messages", "stop", "run_manager"),
        "_get_request_payload": ("input_", "stop"),
        "_create_chat_result": ("response", "generation_info"),
    },
)
require_fit(BaseChatModel, "langchain-core", {"_convert_input": ("model_input",)})


class EndpointModel(ChatOpenAI):
    """A chat model at an endpoint, created with `of`."""

    _endpoint: Any = PrivateAttr(default=None)
    _transport: Any = PrivateAttr(default=None)
    _fitting: ToolFitting = PrivateAttr(default_factory=ToolFitting)
    _limit_field: str = PrivateAttr(default="")
    _fallback: Any = PrivateAttr(default=None)

    @classmethod
    def of(
        cls, settings: ChatModelSettings, endpoint: Endpoint, fallback: EndpointModel | None = None
    ) -> Self:
        """Makes the model, without LangChain's retries. The model and its clients do not hold the secret."""
        timeout = httpx.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout))
        async_client = endpoint.async_client(timeout)
        fields = dict(settings.more or {})
        if settings.token_limit is not None:
            fields[settings.token_limit_field] = settings.token_limit
        # All given, as LangChain takes missing values from environment variables.
        model = cls(
            model=settings.model,
            base_url=settings.base_url,
            api_key=SecretStr("unused"),  # `Endpoint` adds the real key
            organization="",
            openai_proxy=None,
            temperature=settings.temperature,
            timeout=cast("Any", timeout),
            max_retries=0,
            use_responses_api=False,
            cache=False,
            extra_body=fields or None,
            http_client=endpoint.client(timeout),
            http_async_client=async_client,
        )
        model._endpoint = endpoint
        model._limit_field = settings.token_limit_field
        model._fallback = fallback
        model._transport = async_client._transport  # pyright: ignore[reportPrivateUsage] - httpx has no public name
        return model

    @property
    def fallback(self) -> EndpointModel | None:
        """The model that is asked in this one's place once it has failed."""
        return cast("EndpointModel | None", self._fallback)

    @property
    def secrets(self) -> tuple[str, ...]:
        others = () if self.fallback is None else self.fallback.secrets
        return (*cast("Endpoint", self._endpoint).secrets, *others)

    @property
    def throttle(self) -> Throttle:
        return cast("Endpoint", self._endpoint).throttle

    @property
    def fitting(self) -> ToolFitting:
        """The adaptation of tool definitions to the endpoint, shared by all runs with this model."""
        return self._fitting

    def within(self, tokens: int | None, stop: Sequence[str] = ()) -> Self:
        """The same model, whose answers have no more tokens, and end before one of these texts."""
        fields = dict(self.extra_body or {})
        if tokens is not None:
            fields[self._limit_field] = min(tokens, fields.get(self._limit_field, tokens))
        if stop:
            fields["stop"] = list(stop)
        model = self.model_copy(update={"extra_body": fields or None})
        model._fallback = None if self.fallback is None else self.fallback.within(tokens, stop)
        return model

    async def release_connections(self) -> None:
        """Closes the connections of the running event loop, which is about to end."""
        await cast("AsyncTransport", self._transport).release()

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> Any:
        """The request: with the reasoning fields that the endpoint wants back, without lone surrogates."""
        raw_payload = super()._get_request_payload(input_, stop=stop, **kwargs)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - LangChain says dict
        payload = cast("dict[str, Any]", raw_payload)
        messages = self._convert_input(input_).to_messages()
        for message, sent in zip(messages, payload["messages"], strict=True):
            returned_fields = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
            if returned_fields and sent.get("tool_calls"):
                sent.update(returned_fields.get("message", {}))
                for call in sent["tool_calls"]:
                    call.update(returned_fields.get("calls", {}).get(call["id"], {}))
        try:
            json.dumps(payload, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return _encodable(payload)
        return payload

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        *,
        on_text: Callable[[str], None] | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        """Requests an answer; with ``on_text`` as a stream, whose pieces of text are passed to it."""
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        if on_text is not None:
            payload |= {"stream": True, "stream_options": {"include_usage": True}}
        extra_fields = cast("dict[str, Any]", payload.get("extra_body") or {})
        body = {name: value for name, value in payload.items() if name != "extra_body"} | extra_fields
        # `extra_body` is sent unchanged. OpenAI's library converts all other parameters by their types, which
        # takes ten times as long as the rest of a turn, and longer with each turn.
        request: Any = self.async_client.with_streaming_response.create(
            model=self.model_name, messages=[], extra_body=body
        )
        async with request as response:
            return self._create_chat_result(await read_answer(response.iter_bytes(), on_text))

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        """Reads an answer; sets aside calls with invalid arguments, for which LangChain refuses all of it."""
        answer = AnswerForm()
        answer.take(
            response.model_dump(warnings=False) if isinstance(response, openai.BaseModel) else response
        )
        document = answer.document()
        message = document["choices"][0]["message"]
        calls, unreadable = _split_calls(message.get("tool_calls", []))
        message["tool_calls"] = calls
        result = super()._create_chat_result(document, generation_info)  # pyright: ignore[reportUnknownMemberType] - LangChain says dict
        ai_message = cast("AIMessage", result.generations[0].message)
        ai_message.invalid_tool_calls = [
            invalid_tool_call(
                name=call["function"]["name"],
                args=call["function"]["arguments"],
                id=call["id"],
                error="no JSON object",
            )
            for call in unreadable
        ]
        if message.get("refusal"):
            ai_message.additional_kwargs["refusal"] = message["refusal"]
        returned_fields = _fields_to_return(message, [*calls, *unreadable])
        if returned_fields:
            ai_message.additional_kwargs[GIVEN_BACK] = returned_fields
        return result


def _fields_to_return(message: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields that an endpoint wants back with the next request, or refuses it. OpenAI sends none of them.

    DeepSeek's and Moonshot's reasoning (https://api-docs.deepseek.com/guides/thinking_mode), vLLM's
    (https://docs.vllm.ai/en/latest/features/interleaved_thinking), OpenRouter's
    (https://openrouter.ai/docs/use-cases/reasoning-tokens), Anthropic's through LiteLLM
    (https://docs.litellm.ai/docs/reasoning_content), and the signatures of Google's calls
    (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    message_fields = {name: message[name] for name in _REASONING_FIELDS if message.get(name)}
    call_fields = {
        call["id"]: {"extra_content": call["extra_content"]} for call in calls if "extra_content" in call
    }
    returned: dict[str, Any] = {}
    if message_fields:
        returned["message"] = message_fields
    if call_fields:
        returned["calls"] = call_fields
    return returned


def _encodable(value: Any) -> Any:
    """The value without lone surrogates, which tools and models may send but UTF-8 cannot encode."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_encodable(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_encodable(name): _encodable(inner) for name, inner in members.items()}
    return value


def _split_calls(
    calls: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Splits calls into those that LangChain can read and the others."""
    readable: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for call in calls:
        function = call["function"]
        arguments, _ = read_arguments(function["arguments"])
        if arguments is None or function["name"] is None:
            others.append(call)
        else:
            readable.append({**call, "function": {**function, "arguments": json.dumps(arguments)}})
    return readable, others
