"""What the agent's loop needs of a chat model: one turn, of a service whose protocol a subclass speaks."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import httpx
from httpx_sse import EventSource

from ...types.errors import MCPError
from ...types.texts import compact_json
from .endpoint import CONNECT_SECONDS, AsyncTransport
from .model_errors import AnsweredError, Construct, ModelAnswerInvalid, not_sent
from .tool_fitting import ToolFitting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage

    from .chat_model import ChatModelSettings
    from .endpoint import Endpoint, Throttle

_MOST_BYTES: Final = 64 * 1024 * 1024
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_OF_A_STREAM: Final = {"content-type": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked, in the words of OpenAI's chat completions.

    Attributes:
        tools: Functions that the model may call.
        tool_choice: ``none`` if it must not call them, ``auto`` if it may, or the function that it must call.
        response_format: The JSON schema that the answer must fit.
        token_limit: The most tokens of the answer, where that is fewer than the settings allow.
        on_text: Called with each piece of the answer's text; None asks for the answer as a whole.
    """

    messages: Sequence[BaseMessage]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Literal["none", "auto"] | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    token_limit: int | None = None
    on_text: Callable[[str], None] | None = None


class AgentModel(ABC):
    """A chat model at an endpoint, which adds the secrets to requests: the model itself holds none.

    Attributes:
        fitting: The adaptation of tool definitions to the endpoint, shared by all runs with this model.
        refused: What the endpoint has refused of requests, shared in the same way.
        changes: What can be sent otherwise in the service's protocol.
    """

    changes: ClassVar[frozenset[Construct]]

    def __init__(self, settings: ChatModelSettings, endpoint: Endpoint) -> None:
        self.settings = settings
        self.fitting = ToolFitting()
        self.refused: set[Construct] = set()
        self._endpoint = endpoint
        self._transport = AsyncTransport(endpoint)
        timeout = httpx.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout))
        # For any event loop. It follows no redirects.
        self._http = httpx.AsyncClient(transport=self._transport, timeout=timeout, trust_env=False)

    @property
    def name(self) -> str:
        return self.settings.model

    @property
    def server(self) -> str:
        return self.settings.base_url

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._endpoint.secrets

    @property
    def throttle(self) -> Throttle:
        return self._endpoint.throttle

    def within(self, tokens: int | None, stop: Sequence[str] = ()) -> Self:
        """The same model, whose answers have no more tokens, and end before one of these texts."""
        settings = self.settings
        if tokens is not None:
            settings = replace(settings, token_limit=min(tokens, settings.token_limit or tokens))
        if stop:
            settings = replace(settings, more={**(settings.more or {}), "stop": list(stop)})
        model = type(self)(settings, self._endpoint)
        model.fitting, model.refused = self.fitting, self.refused
        return model

    async def release_connections(self) -> None:
        """Closes the connections of the running event loop, which is about to end."""
        await self._transport.release()

    @asynccontextmanager
    async def _answered(self, path: str, document: Mapping[str, Any]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Sends a request; gives the pieces of the answer's body, of any size."""
        content = compact_json(document).encode()
        sent = self._http.build_request("POST", f"{self.server}{path}", content=content, headers=_HEADERS)
        try:
            response = await self._http.send(sent, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, MCPError) as error:
            raise not_sent(error, self.server, self.secrets) from None
        try:
            body = _bounded(response.aiter_bytes())
            if not response.is_success:
                said = read_json(b"".join([piece async for piece in body]))
                raise AnsweredError(said, status=response.status_code, headers=response.headers)
            yield body
        finally:
            await response.aclose()

    async def knows_tools(self) -> bool | None:
        """Whether the endpoint says that its model is told of tools; None if it says nothing about it."""
        return None

    @abstractmethod
    async def answer(self, request: ModelRequest) -> AIMessage:
        """Requests one answer, once.

        The answer's text is its content; fields that the service wants back are in ``additional_kwargs``
        under `GIVEN_BACK`, and why it ended is ``finish_reason`` in ``response_metadata``.

        Raises:
            ModelError: There is no answer, or none that can be read.
            AnsweredError: The service answered with an error.
            httpx.TransportError: The connection broke off in the middle of the answer.
        """


async def events_of(body: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any] | None]:
    """The events of a stream that are objects; None is its mark of the end."""

    async def whole() -> AsyncIterator[bytes]:
        async for piece in body:
            yield piece
        yield b"\n\n"  # ends the last event even if its blank line is missing

    events = EventSource(httpx.Response(200, headers=_OF_A_STREAM, content=whole())).aiter_sse()
    async with aclosing(events):
        async for event in events:
            data = event.data.strip()
            if data == "[DONE]":
                yield None
            if data.startswith("{"):  # other data, such as pings, is not part of the answer
                yield read_object(data)


def read_object(text: str) -> Any:
    """A JSON value of an answer; one that cannot be read was cut off."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelAnswerInvalid.broken_off() from None


def read_json(body: bytes) -> object:
    """The body of an answer that is an error: a JSON value, or the text that it is."""
    text = body.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def _bounded(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > _MOST_BYTES:
            raise ModelAnswerInvalid(
                f"The endpoint's answer is longer than {_MOST_BYTES // 1024**2} MB",
                fix="Lower the token limit in the node that connects the model, or choose another endpoint",
                tries=1,  # another one would be no shorter
            )
        yield piece
