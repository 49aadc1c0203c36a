"""LangChain's model for OpenAI's chat completions, made to survive what compatible endpoints send."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self, cast

import httpx
import openai
from langchain_core.messages.tool import invalid_tool_call
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from ...types.canonical import without_surrogates
from ..run.messages import GIVEN_BACK, read_arguments
from .endpoint import CONNECT_SECONDS
from .model_errors import ModelAnswerInvalid
from .tool_fitting import ToolFitting

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatResult

    from .chat_model import ChatModelSettings
    from .endpoint import AsyncTransport, Endpoint


class EndpointModel(ChatOpenAI):
    """A chat model at an endpoint. Make one with `of`."""

    _endpoint: Any = PrivateAttr(default=None)
    _transport: Any = PrivateAttr(default=None)
    _fitting: ToolFitting = PrivateAttr(default_factory=ToolFitting)

    @classmethod
    def of(cls, settings: ChatModelSettings, endpoint: Endpoint) -> Self:
        """Makes the model of its settings.

        Args:
            settings: Which model, and where.
            endpoint: The endpoint, with everything that it is sent.

        Returns:
            The model, without retries of its own. Neither it nor its clients hold the secret.
        """
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
            stream_usage=True,
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
        """What must never be shown."""
        return cast("Endpoint", self._endpoint).secrets

    @property
    def fitting(self) -> ToolFitting:
        """What the endpoint takes of tools, for all runs with this model."""
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
        return _encodable(payload)

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        """LangChain gives up on a whole answer for arguments that are no object; they are set aside first."""
        document, message = _document(response)
        _modernize(message)
        calls, unreadable = _sorted_calls(message.get("tool_calls"))
        message["tool_calls"] = calls or None
        result = super()._create_chat_result(document, generation_info)  # pyright: ignore[reportUnknownMemberType] - LangChain says dict
        answer = cast("AIMessage", result.generations[0].message)
        answer.invalid_tool_calls = [
            *answer.invalid_tool_calls,
            *(
                invalid_tool_call(
                    name=_text(_function(call).get("name")),
                    args=_text(_function(call).get("arguments")),
                    id=_text(call.get("id")),
                    error="no JSON object",
                )
                for call in unreadable
            ),
        ]
        if message.get("refusal"):
            answer.additional_kwargs["refusal"] = message["refusal"]
        back = _wanted_back(message, [*calls, *unreadable])
        if back:
            answer.additional_kwargs[GIVEN_BACK] = back
        return result

    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Any], *args: Any, **options: Any) -> Any:
        """LangChain drops a refusal that is streamed, and what the endpoint wants back; they are kept."""
        for choice in cast("list[dict[str, Any]]", chunk.get("choices") or []):
            if isinstance(choice.get("delta"), dict):
                _modernize(choice["delta"], index=0)
            for call in _calls(choice.get("delta")):
                function = _function(call)
                if isinstance(function.get("arguments"), dict):
                    function["arguments"] = json.dumps(function["arguments"])
        made = super()._convert_chunk_to_generation_chunk(chunk, *args, **options)  # pyright: ignore[reportUnknownMemberType] - LangChain says dict
        for choice in cast("list[dict[str, Any]]", chunk.get("choices") or []):
            delta = cast("dict[str, Any]", choice.get("delta") or {})
            if made is None:
                continue
            if isinstance(delta.get("refusal"), str):
                made.message.additional_kwargs["refusal"] = delta["refusal"]
            back = _wanted_back(delta, _calls(delta))
            if back:
                made.message.additional_kwargs[GIVEN_BACK] = back
        return made


def _document(response: dict[str, Any] | openai.BaseModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer as a document with one choice, and that choice's message; both may be changed."""
    if isinstance(response, openai.BaseModel):
        document: Any = response.model_dump(warnings=False)
    else:
        document = json.loads(json.dumps(response)) if isinstance(cast("Any", response), dict) else None
    if not isinstance(document, dict):
        raise ModelAnswerInvalid(
            "The endpoint's answer is no JSON object",
            fix="Check that the base URL is that of an API in OpenAI's form; it often ends in /v1",
        )
    answer = cast("dict[str, Any]", document)
    if answer.get("error"):
        raise ModelAnswerInvalid(
            f"The endpoint answered with an error: {str(answer['error'])[:300]}",
            fix="Try again, or ask whoever runs the endpoint",
        )
    choices = answer.get("choices")
    first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    message: Any = cast("dict[str, Any]", first).get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ModelAnswerInvalid(
            "The endpoint's answer holds no message",
            fix="Check that the base URL is that of an API in OpenAI's form; it often ends in /v1",
        )
    answer["choices"] = [first]
    if not isinstance(answer.get("usage"), dict):
        answer.pop("usage", None)
    said = cast("dict[str, Any]", message)
    said["role"] = "assistant"  # some endpoints leave it out
    return answer, said


def _modernize(message: dict[str, Any], **more: Any) -> None:
    """Makes a tool call of a function call, the form before it, which some endpoints still send."""
    called = message.pop("function_call", None)
    if isinstance(called, dict) and not message.get("tool_calls"):
        message["tool_calls"] = [{"type": "function", "function": called, **more}]


def _calls(delta: object) -> list[dict[str, Any]]:
    """The tool calls in a piece of a stream."""
    found = cast("dict[str, Any]", delta).get("tool_calls") if isinstance(delta, dict) else None
    return [call for call in cast("list[Any]", found or []) if isinstance(call, dict)]


def _wanted_back(message: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What an endpoint wants back with the next request, or refuses that; OpenAI's own has none of it.

    DeepSeek's and Moonshot's reasoning (https://api-docs.deepseek.com/guides/thinking_mode), OpenRouter's
    (https://openrouter.ai/docs/use-cases/reasoning-tokens), and the signatures of Google's calls
    (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    whole = {name: message[name] for name in ("reasoning_content", "reasoning_details") if message.get(name)}
    signed = {
        _text(call.get("id")) or "": {"extra_content": call["extra_content"]}
        for call in calls
        if call.get("extra_content")
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


def _sorted_calls(raw: object) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The calls that LangChain can read, and the others."""
    readable: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for entry in cast("list[Any]", raw) if isinstance(raw, list) else []:
        call = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        function = _function(call)
        arguments, _ = read_arguments(function.get("arguments"))
        if arguments is None or not isinstance(function.get("name"), str):
            others.append(call)
        else:  # some endpoints send an object instead of its text
            text = json.dumps(arguments)
            readable.append(
                {**call, "id": _text(call.get("id")), "function": {**function, "arguments": text}}
            )
    return readable, others


def _function(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    return cast("dict[str, Any]", function) if isinstance(function, dict) else {}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
