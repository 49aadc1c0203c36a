"""What the agent's loop needs of a chat model: one turn, of a service whose protocol a subclass speaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import httpx

from .endpoint import CONNECT_SECONDS, AsyncTransport
from .model_errors import Construct
from .tool_fitting import ToolFitting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage

    from .chat_model import ChatModelSettings
    from .endpoint import Endpoint, Throttle


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

    changes: frozenset[Construct] = frozenset(Construct)

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
