"""JSON-RPC 2.0 messages.

https://www.jsonrpc.org/specification, tolerating deviations of MCP servers: error bodies with other ids, ids
that are returned as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ...types.canonical import compact_json
from ...types.errors import ProtocolError

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042
# https://modelcontextprotocol.io/specification/2026-07-28/basic: only servers of that revision send these.
MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RpcError:
    """The ``error`` member of a response."""

    code: int
    message: str
    data: Any = None


def as_object(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def encode(message: Mapping[str, Any]) -> bytes:
    """Writes a message as UTF-8 JSON without line breaks.

    Raises:
        ValueError: The message has a value that JSON does not have, such as NaN.
        TypeError: The message has an object of another class.
    """
    return compact_json(message).encode()


def request(request_id: int, method: str, params: Mapping[str, Any]) -> Message:
    """A request. It always has ``params``, as some servers refuse requests without."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    """A notification; ``params`` is left out if None, never null."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def result_response(request_id: Any, result: Mapping[str, Any]) -> Message:
    """A response with a result to a server's request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(request_id: Any, code: int, message: str) -> Message:
    """A response with an error to a server's request."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def is_response(message: Message) -> bool:
    """Returns whether the message answers a request, even if a library wrote null for absent members."""
    return message.get("method") is None and ("result" in message or "error" in message)


def has_result(message: Message) -> bool:
    """Returns whether a response reports success."""
    return "result" in message and (isinstance(message["result"], dict) or message.get("error") is None)


def messages_of(value: Any) -> list[Message]:
    """The messages in a JSON value: an object is one message, a list is a batch of them."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def answers(message: Message, request_id: int) -> bool:
    """Returns whether the message answers that request; ids may come back as text."""
    if not is_response(message):
        return False
    response_id = message.get("id")
    return response_id == request_id or (isinstance(response_id, str) and response_id == str(request_id))


def answers_another(message: Message, request_id: int) -> bool:
    """Returns whether a response answers another request: its id is a number, and not this one.

    An error may have no id, or a text as id, if the server could not read the request.
    """
    response_id = message.get("id")
    is_number = isinstance(response_id, int | float) or (
        isinstance(response_id, str) and response_id.isdecimal()
    )
    return is_number and not answers(message, request_id)


def error_of(message: Any) -> RpcError | None:
    """The error in a message, or None. Accepts any code and any data.

    An error without a code gets code 0, but only in a JSON-RPC message, as many web servers send bodies with
    an ``error``.
    """
    if not isinstance(message, dict):
        return None
    envelope = cast("Message", message)
    error = envelope.get("error")
    if error is None:
        return None
    members = as_object(error)
    code = _code(members.get("code"))
    if code is None:
        if envelope.get("jsonrpc") != "2.0":
            return None
        code = 0
    text = error if isinstance(error, str) else members.get("message")
    return RpcError(code, text if isinstance(text, str) else "", members.get("data"))


def _code(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case _:
            return None


def result_of(message: Message) -> dict[str, Any]:
    """The result that a response carries.

    Raises:
        ProtocolError: The result is not an object.
    """
    result = message.get("result")
    if not isinstance(result, dict):
        raise ProtocolError(
            f"The server's reply has {type(result).__name__} where the protocol wants an object"
        )
    return cast("dict[str, Any]", result)
