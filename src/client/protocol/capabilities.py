"""What the two sides are: a server's description of itself, and what this client can answer.

A server's description is untrusted and for display only. This client answers ``ping``. It has no roots and no
model. It cannot ask a person to fill in a form, but may accept the form's defaults. It declares only its
capabilities, so a conforming server does not ask for others. The answers are the same in the handshake era
(requests from the server) and in the modern era (``input_required`` rounds).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ...types.errors import ProtocolError
from .jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
    RpcError,
    as_object,
    as_text,
    error_response,
    result_response,
)

TransportKind = Literal["http", "sse", "stdio"]
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
Elicitation = Literal["unsupported", "decline", "defaults"]
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A connected server.

    Attributes:
        name: The server's name; empty if missing.
        title: The server's name for people.
        version: The server's version; empty if missing.
        instructions: The server's instructions for its use.
        protocol_version: The negotiated revision.
        transport: The transport in use.
        capabilities: The declared capabilities.
        url: Origin and path, without query or secrets.
    """

    name: str
    title: str | None
    version: str
    instructions: str | None
    protocol_version: str
    transport: TransportKind
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    url: str = ""


def read_server_info(
    result: Mapping[str, Any], *, protocol_version: str, transport: TransportKind, url: str
) -> ServerInfo:
    """Reads the result of ``initialize`` or ``server/discover``.

    ``serverInfo`` is a member of the result in the handshake era and in drafts of 2026-07-28, and of its
    ``_meta`` since 2026-07-28. It may be absent or malformed.
    """
    meta = as_object(result.get("_meta"))
    info = as_object(meta.get(SERVER_INFO_KEY)) or as_object(result.get("serverInfo"))
    return ServerInfo(
        name=as_text(info.get("name")) or "",
        title=as_text(info.get("title")),
        version=as_text(info.get("version")) or "",
        instructions=as_text(result.get("instructions")),
        protocol_version=protocol_version,
        transport=transport,
        capabilities=as_object(result.get("capabilities")),
        url=url,
    )


class ServerRequests:
    """Answers a server's requests according to this client's capabilities.

    Args:
        elicitation: ``unsupported``: the capability is not declared. ``decline``: every form is declined.
            ``defaults``: a form is accepted with the defaults of its schema, unless it requires more.
    """

    def __init__(self, elicitation: Elicitation = "unsupported") -> None:
        self._elicitation = elicitation

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities to declare: those with a handler."""
        return {} if self._elicitation == "unsupported" else {"elicitation": {}}

    def respond(self, message: Message) -> Message | None:
        """The response to a server's JSON-RPC request; None for a message without an id."""
        if "id" not in message:
            return None
        answer = self.answer(message.get("method"), as_object(message.get("params")))
        if isinstance(answer, RpcError):
            return error_response(message["id"], answer.code, answer.message)
        return result_response(message["id"], answer)

    def answer(self, method: object, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        """The result for one request, or the error that refuses it."""
        match method:
            case "ping":
                return {}
            case "elicitation/create" if self._elicitation != "unsupported":
                return self._elicit(params)
            case _:
                return RpcError(METHOD_NOT_FOUND, f"This client does not support {method}")

    def _elicit(self, params: Mapping[str, Any]) -> dict[str, Any] | RpcError:
        if params.get("mode", "form") != "form":
            # https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation: undeclared mode.
            return RpcError(INVALID_PARAMS, "This client supports forms only")
        if self._elicitation == "decline":
            return {"action": "decline"}
        schema = as_object(params.get("requestedSchema"))
        fields = {name: as_object(field) for name, field in as_object(schema.get("properties")).items()}
        content = {name: field["default"] for name, field in fields.items() if "default" in field}
        required = schema.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        if not content.keys() >= {name for name in names if isinstance(name, str)}:
            return {"action": "decline"}  # a required field has no default, and there is nobody to ask
        return {"action": "accept", "content": content}


def answer_inputs(requests: ServerRequests, wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Answers to ``inputRequests`` (2026-07-28, *Multi Round-Trip Requests*), by their keys.

    Raises:
        ProtocolError: A request needs a capability that this client does not have.
    """
    answers: dict[str, dict[str, Any]] = {}
    unanswered: list[str] = []
    for key, entry in wanted.items():
        request = as_object(entry)
        params = as_object(request.get("params"))
        answer = requests.answer(request.get("method"), params)
        if isinstance(answer, RpcError):
            unanswered.append(_described(request.get("method"), params))
        else:
            answers[key] = answer
    if unanswered:
        raise ProtocolError(
            f"The tool wants {' and '.join(unanswered[:_NAMED])}, which this client cannot give",
            fix="Use another tool, or call it with all that it needs in its arguments",
        )
    return answers


def _described(method: object, params: Mapping[str, Any]) -> str:
    message = params.get("message")
    name = {
        "elicitation/create": "input from a person",
        "sampling/createMessage": "a language model",
        "roots/list": "folders of this machine",
    }.get(str(method), str(method)[:80])
    return f"{name} ({message[:200]})" if isinstance(message, str) and message else name
