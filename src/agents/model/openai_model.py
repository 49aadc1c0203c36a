"""LangChain's model for OpenAI's chat completions, made to survive what compatible endpoints send."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Self, cast

import httpx
import openai
from langchain_core.messages.tool import invalid_tool_call
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from ...types.canonical import without_surrogates
from .answer_form import AnswerForm, read_answer
from .call_pieces import GIVEN_BACK, read_arguments
from .endpoint import CONNECT_SECONDS
from .tool_fitting import ToolFitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatResult

    from .chat_model import ChatModelSettings
    from .endpoint import AsyncTransport, Endpoint


_WANTED_BACK: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


class EndpointModel(ChatOpenAI):
    """A chat model at an endpoint. Make one with `of`."""

    _endpoint: Any = PrivateAttr(default=None)
    _transport: Any = PrivateAttr(default=None)
    _fitting: ToolFitting = PrivateAttr(default_factory=ToolFitting)

    @classmethod
    def of(cls, settings: ChatModelSettings, endpoint: Endpoint) -> Self:
        """Makes the model, without retries of its own. Neither it nor its clients hold the secret."""
        timeout = httpx.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout))
        async_client = endpoint.async_client(timeout)
        fields = dict(settings.more or {})
        if settings.token_limit is not None:
            fields[settings.token_limit_field] = settings.token_limit
        # Everything that LangChain would otherwise take from environment variables is given.
        model = cls(
            model=settings.model,
            base_url=settings.base_url,
            api_key=SecretStr("unused"),  # what is sent joins the request later
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
        model._transport = async_client._transport  # pyright: ignore[reportPrivateUsage] - httpx has no way in
        return model

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets."""
        return cast("Endpoint", self._endpoint).secrets

    @property
    def fitting(self) -> ToolFitting:
        """What the endpoint accepts in tool definitions, for all runs with this model."""
        return self._fitting

    async def release_connections(self) -> None:
        """Closes the connections of the running event loop, which is about to end."""
        await cast("AsyncTransport", self._transport).release()

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> Any:
        """What is sent: with what the endpoint wants back, and without text that UTF-8 does not have."""
        made = super()._get_request_payload(input_, stop=stop, **kwargs)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - LangChain says dict
        payload = cast("dict[str, Any]", made)
        messages = self._convert_input(input_).to_messages()
        for message, sent in zip(messages, payload["messages"], strict=True):
            back = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
            if back and sent.get("tool_calls"):
                sent.update(back.get("message", {}))
                for call in sent["tool_calls"]:
                    call.update(back.get("calls", {}).get(call["id"], {}))
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
        """Asks; with ``on_text`` for a stream, whose text is told as it comes."""
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        if on_text is not None:
            payload |= {"stream": True, "stream_options": {"include_usage": True}}
        more = cast("dict[str, Any]", payload.get("extra_body") or {})
        body = {name: value for name, value in payload.items() if name != "extra_body"} | more
        # What is extra is sent as it is. OpenAI's library goes through all else with its types, which takes
        # ten times as long as the rest of a turn, and longer with each.
        asked: Any = self.async_client.with_streaming_response.create(
            model=self.model_name, messages=[], extra_body=body
        )
        async with asked as response:
            return self._create_chat_result(await read_answer(response.iter_bytes(), on_text))

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        """LangChain gives up on a whole answer for arguments that are no object; they are set aside first."""
        answer = AnswerForm()
        answer.take(
            response.model_dump(warnings=False) if isinstance(response, openai.BaseModel) else response
        )
        document = answer.document()
        message = document["choices"][0]["message"]
        calls, unreadable = _sorted_calls(message.get("tool_calls", []))
        message["tool_calls"] = calls
        result = super()._create_chat_result(document, generation_info)  # pyright: ignore[reportUnknownMemberType] - LangChain says dict
        said = cast("AIMessage", result.generations[0].message)
        said.invalid_tool_calls = [
            invalid_tool_call(
                name=call["function"]["name"],
                args=call["function"]["arguments"],
                id=call["id"],
                error="no JSON object",
            )
            for call in unreadable
        ]
        if message.get("refusal"):
            said.additional_kwargs["refusal"] = message["refusal"]
        back = _wanted_back(message, [*calls, *unreadable])
        if back:
            said.additional_kwargs[GIVEN_BACK] = back
        return result


def _wanted_back(message: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What an endpoint wants back with the next request, or refuses that; OpenAI's own has none of it.

    DeepSeek's and Moonshot's reasoning (https://api-docs.deepseek.com/guides/thinking_mode), vLLM's
    (https://docs.vllm.ai/en/latest/features/interleaved_thinking), OpenRouter's
    (https://openrouter.ai/docs/use-cases/reasoning-tokens), Anthropic's through LiteLLM
    (https://docs.litellm.ai/docs/reasoning_content), and the signatures of Google's calls
    (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    whole = {name: message[name] for name in _WANTED_BACK if message.get(name)}
    signed = {
        call["id"]: {"extra_content": call["extra_content"]} for call in calls if "extra_content" in call
    }
    found: dict[str, Any] = {}
    if whole:
        found["message"] = whole
    if signed:
        found["calls"] = signed
    return found


def _encodable(value: Any) -> Any:
    """The same without lone surrogates, which tools and models send and no request can hold."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_encodable(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_encodable(name): _encodable(inner) for name, inner in members.items()}
    return value


def _sorted_calls(
    calls: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The calls that LangChain can read, and the others."""
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
