"""JSON-RPC 2.0 messages as bytes and as values.

https://www.jsonrpc.org/specification, with the leniency that real MCP servers need: error bodies with foreign
ids, numbers that came back as text, ``NaN``. Text that leaves this module has no lone surrogates: one would
make a whole table unreadable.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, cast

from ...types.canonical import compact_json, without_surrogates
from ...types.collector import collector_paused
from ...types.errors import ProtocolError

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042
# https://modelcontextprotocol.io/specification/2026-07-28/basic: only a server of that revision says these.
MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})

DEEPEST: Final = 200
"""Levels of a JSON value at most. What is read here is written, copied and compared elsewhere, by code that
calls itself once or twice per level; Python ends that after a thousand."""

Message = dict[str, Any]
_CONTAINERS: Final = (dict, list)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_FEW: Final = 1000
_LARGE: Final = 10_000  # characters
_SURROGATE: Final = re.compile(r"\\u[dD]")  # in one search, which takes a fifth of what two by `in` take


@dataclass(frozen=True, slots=True)
class RpcError:
    """The ``error`` member of a response."""

    code: int
    message: str
    data: Any = None


def _no_constant(_name: str) -> None:
    # NaN and Infinity are not JSON, but Python servers send them. As null they reach tables and hashes.
    return None


def _finite(text: str) -> float | None:
    # A number beyond all floats (1e999) would be read as infinity.
    value = float(text)
    return value if math.isfinite(value) else None


_decoder: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def as_object(value: object) -> dict[str, Any]:
    """A JSON object as it is, and anything else as an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def encode(message: Mapping[str, Any]) -> bytes:
    """One message as UTF-8 JSON without line breaks.

    Raises:
        ValueError: A value that JSON does not have (NaN, an object of ours).
        TypeError: Likewise.
    """
    return compact_json(message).encode()


def decode(data: bytes | str) -> Any:
    """JSON text as a value, without lone surrogates.

    Raises:
        ProtocolError: The text is not JSON, or nested more than `DEEPEST` levels deep.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        with collector_paused() if len(text) > _LARGE else nullcontext():
            value = _decoder.decode(text.lstrip("\ufeff \t\r\n"))
    except ValueError as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise ProtocolError(f"The server sent something that is not valid JSON ({detail})") from None
    except RecursionError:
        raise _too_deep() from None
    if is_deeper(value, DEEPEST, data):
        raise _too_deep()
    # Only an escape can bring a lone surrogate in: UTF-8 itself has none.
    if "\\" in text and _SURROGATE.search(text) and not _is_encodable(value):
        return _clean(value)
    return value


def _too_deep() -> ProtocolError:
    return ProtocolError("The server sent JSON that is nested too deeply", fix="Ask whoever runs the server")


def is_surely_shallow(data: bytes | str, levels: int) -> bool:
    """Whether brackets are nested at most that deep, by a look at the text.

    A few searches in C, for a fraction of what a walk over many values costs. What is left after all strings
    are taken out are brackets; taking out pairs that hold nothing, over and over, leaves nothing. False means
    that it is not known: the text may be no JSON.
    """
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes with nothing in between: a string without a bracket, or the end of one and the next one's
    # beginning. Either way nothing changes for the others.
    brackets = text.translate(None, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(levels):
        if not brackets:
            return True
        inner = brackets.replace(b"{}", b"")
        if len(inner) == len(brackets):
            inner = brackets.replace(b"[]", b"")
            if len(inner) == len(brackets):
                return False
        brackets = inner
    return not brackets


def is_deeper(value: Any, levels: int, text: bytes | str | None = None) -> bool:
    """Whether lists and objects are nested in each other more than that many levels deep.

    Args:
        value: A JSON value.
        levels: How many levels are fine.
        text: The JSON text of the value, which is looked at where that is faster: when the values are many.
    """
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    seen = 0
    for _ in range(levels):
        children: list[Any] = []
        for parent in level:
            children += parent.values() if type(parent) is dict else parent
        seen += len(children)
        if seen > _FEW and text is not None:
            if is_surely_shallow(text, levels):
                return False
            text = None
        level = [child for child in children if type(child) in _CONTAINERS]
        if not level:
            return False
    return True


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _clean(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case list():
            return [_clean(item) for item in cast("list[Any]", value)]
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {without_surrogates(key): _clean(item) for key, item in pairs}
        case _:
            return value


def request(request_id: int, method: str, params: Mapping[str, Any]) -> Message:
    """A request. ``params`` is always there: some servers refuse a request without."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    """A notification; ``params`` left out where there are none, never null."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def result_response(request_id: Any, result: Mapping[str, Any]) -> Message:
    """Our answer to a server's request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(request_id: Any, code: int, message: str) -> Message:
    """Our refusal of a server's request."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def is_response(message: Message) -> bool:
    """Whether the message answers a request. Some libraries write null for every member that they lack."""
    return message.get("method") is None and ("result" in message or "error" in message)


def has_result(message: Message) -> bool:
    """Whether a response reports success."""
    return "result" in message and (isinstance(message["result"], dict) or message.get("error") is None)


def messages_of(value: Any) -> list[Message]:
    """The messages of one text: itself, or those of a batch; nothing else is one."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def answers(message: Message, request_id: int) -> bool:
    """Whether the message answers that request; ids may come back as text."""
    if not is_response(message):
        return False
    found = message.get("id")
    return found == request_id or (isinstance(found, str) and found == str(request_id))


def answers_another(message: Message, request_id: int) -> bool:
    """Whether a response names another request of ours: its id is a number, and not this one.

    An error may come without an id, or with a text for one, if the server could not read the request.
    """
    found = message.get("id")
    is_number = isinstance(found, int | float) or (isinstance(found, str) and found.isdecimal())
    return is_number and not answers(message, request_id)


def error_of(message: Any) -> RpcError | None:
    """The error that a message reports, or None. Accepts any code and any data.

    An error without a code has code 0; only in what says that it is JSON-RPC, because many web servers have
    an ``error`` in their bodies.
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
