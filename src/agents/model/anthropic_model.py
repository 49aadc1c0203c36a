"""A model behind Anthropic's Messages API, through LangChain's client for it.

Always as a stream: Anthropic refuses long answers otherwise. https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import anthropic
import httpx
import httpx2
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from pydantic import PrivateAttr, SecretStr

from ...types.errors import MCPError
from ...types.texts import compact_json
from .agent_model import AgentModel
from .answer_form import bounded
from .langchain_fit import require_fit
from .model_errors import AnsweredError, Construct, ModelAnswerInvalid, ModelRequestRefused, not_sent
from .written_calls import GIVEN_BACK, mappings, read_calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from .agent_model import ModelRequest
    from .chat_model import ChatModelSettings
    from .endpoint import Endpoint

_BLOCKS: Final = "blocks"  # in `GIVEN_BACK`: text and thoughts as they came; signatures hold for their order
_ASKED_BY_CALLS: Final = frozenset({"tool_use", "input_json_delta"})
_GROUP: Final = 64
_OF_THE_WIRE: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
require_fit(
    ChatAnthropic,
    "langchain-anthropic",
    {"_get_request_payload": ("input_", "stop"), "_astream": ("messages", "stop")},
)


class AnthropicModel(AgentModel):
    """A model at Anthropic's service, or at another that speaks its protocol."""

    # The others would be the same request once more.
    changes = frozenset(
        {
            *(Construct.IMAGES, Construct.ONE_IMAGE, Construct.LARGE_LIMIT, Construct.CALL_IDS),
            *(Construct.THOUGHTS, Construct.ROLES, Construct.SYSTEM),
        }
    )

    def __init__(self, settings: ChatModelSettings, endpoint: Endpoint) -> None:
        super().__init__(settings, endpoint)
        self._more = dict(settings.more or {})
        self._stop: list[str] | None = self._more.pop("stop", None)
        # All given, as LangChain takes missing values from environment variables.
        fields: dict[str, Any] = {
            "model_name": settings.listed_name,
            "base_url": settings.base_url.removesuffix("/v1"),
            "api_key": SecretStr("unused"),  # `Endpoint` adds the real key
            "temperature": settings.temperature,
            "max_tokens": settings.token_limit,
            "timeout": settings.timeout,
            # Retries are those of `ModelCalls`, under the run's clock and its cancel.
            "max_retries": 0,
            "cache": False,
        }
        self._chat = _Claude(**fields)
        self._chat.use(self._http)

    async def answer(self, request: ModelRequest) -> AIMessage:
        pieces: list[AIMessageChunk] = []
        options = {**self._more, **_options(request)}
        stream = self._chat.pieces(list(map(_sent, request.messages)), self._stop, options)
        try:
            async for piece in stream:
                pieces.append(piece)
                if request.on_text is not None and piece.text:
                    request.on_text(str(piece.text))
        except anthropic.APIStatusError as error:
            raise _answered(error) from None
        except anthropic.APIConnectionError as error:
            raise not_sent(_cause(error), self.server, self.secrets) from None
        except (UnicodeDecodeError, json.JSONDecodeError):
            raise ModelAnswerInvalid.broken_off() from None
        if not pieces:
            raise ModelAnswerInvalid.without_message()
        return _message(_joined(pieces))


class _Claude(ChatAnthropic):
    """LangChain's model, which sends with the client of an endpoint."""

    _http: Any = PrivateAttr(default=None)

    def use(self, client: httpx.AsyncClient) -> None:
        self._http = client

    async def pieces(
        self, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]
    ) -> AsyncIterator[AIMessageChunk]:
        """The answer as it arrives. LangChain's `astream` would then join all pieces, see `_joined`."""
        async for generation in self._astream(messages, stop=stop, **options):
            yield cast("AIMessageChunk", generation.message)

    @cached_property
    def _async_client(self) -> anthropic.AsyncClient:
        return anthropic.AsyncClient(
            api_key="unused",
            base_url=self.anthropic_api_url,
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=_Transport(self._http)),
        )

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> Any:
        try:
            payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        except (ValueError, TypeError) as error:
            raise ModelRequestRefused(
                f"The request cannot be written in Anthropic's form: {error}",
                fix="Look at temperature, reasoning effort and further request fields of the model",
            ) from None
        return json.loads(compact_json(payload))  # without lone surrogates, which tools may send


def _sent(message: BaseMessage) -> BaseMessage:
    """The message with the thoughts before its calls, which Anthropic wants back."""
    returned = cast("dict[str, Any]", message.additional_kwargs.get(GIVEN_BACK) or {})
    blocks = returned.get("message", {}).get(_BLOCKS)
    if isinstance(message, AIMessage) and message.tool_calls and blocks:
        return message.model_copy(update={"content": blocks})
    return message


def _options(request: ModelRequest) -> dict[str, Any]:
    """What a request has beside its messages; LangChain knows a response format in OpenAI's form."""
    options: dict[str, Any] = {}
    if request.token_limit is not None:
        options["max_tokens"] = request.token_limit
    if request.tools:
        # Without this each turn pays for the tools and for all turns before it in full.
        options["cache_control"] = {"type": "ephemeral"}
        options["tools"] = [_tool(tool["function"]) for tool in request.tools]
        match request.tool_choice:
            case None | "auto":
                pass
            case "none":
                options["tool_choice"] = {"type": "none"}
            case choice:
                options["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
    if request.response_format is not None:
        options["response_format"] = dict(request.response_format)
    return options


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    # The API demands the type at the top, which a server's schema may leave out.
    schema = {"type": "object", **function.get("parameters", {})}
    return {"name": function["name"], "description": function["description"], "input_schema": schema}


def _joined(pieces: list[AIMessageChunk]) -> AIMessageChunk:
    """Joins groups, then groups of those: LangChain copies what it has with every piece that it adds."""
    while len(pieces) > 1:
        starts = range(0, len(pieces), _GROUP)
        pieces = [pieces[start] + pieces[start + 1 : start + _GROUP] for start in starts]
    return pieces[0]


def _message(whole: AIMessageChunk) -> AIMessage:
    """The answer; calls with arguments that cannot be read are set aside in it."""
    reason = whole.response_metadata.get("stop_reason")
    # A stream that ends without one was cut off on its way.
    if reason is None:
        raise ModelAnswerInvalid.broken_off()
    fields = read_calls((call["id"], call["name"], call["args"] or "") for call in whole.tool_call_chunks)
    # The API refuses blank texts, which its models write beside calls.
    blocks = [
        {name: value for name, value in block.items() if name != "index"}
        for block in mappings(_listed(whole))
        if block["type"] not in _ASKED_BY_CALLS
        and (block["type"] != "text" or str(block["text"] or "").strip())
    ]
    details = cast("dict[str, Any]", whole.response_metadata.get("stop_details") or {})
    if reason == "refusal" and details.get("explanation"):
        fields["additional_kwargs"]["refusal"] = details["explanation"]
    if any(block["type"] != "text" for block in blocks):
        fields["additional_kwargs"][GIVEN_BACK] = {"message": {_BLOCKS: blocks}}
    usage = whole.usage_metadata
    return AIMessage(
        content="".join(block["text"] for block in blocks if block["type"] == "text"),
        response_metadata={
            "finish_reason": reason,
            "model_name": whole.response_metadata.get("model_name", ""),
        },
        # Some gateways leave out at the end of a stream what was read: a count that cannot be true.
        usage_metadata=usage if usage and usage["input_tokens"] else None,
        id=whole.id,
        **fields,
    )


def _listed(whole: AIMessageChunk) -> object:
    content: Any = whole.content  # LangChain makes a text of it where no tools were offered
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answered(error: anthropic.APIStatusError) -> AnsweredError:
    # Errors in the middle of a stream have no HTTP status.
    status = None if error.response.is_success else error.status_code
    body: Any = error.body
    return AnsweredError(body or error.message, status=status, headers=error.response.headers)


def _cause(error: BaseException) -> Exception:
    """The exception below those of the two libraries."""
    while error.__cause__ is not None and not isinstance(error, httpx.HTTPError | MCPError | OSError):
        error = error.__cause__
    return cast("Exception", error)


class _Transport(httpx2.AsyncBaseTransport):
    """Sends with a client of httpx, as Anthropic's package brings another library for HTTP along."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = request.headers.multi_items()
        content = await request.aread()
        sent = self._client.build_request(request.method, str(request.url), headers=headers, content=content)
        response = await self._client.send(sent, stream=True)
        kept = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WIRE]
        return httpx2.Response(response.status_code, headers=kept, stream=_Body(response))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in bounded(self._response.aiter_bytes()):
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()
