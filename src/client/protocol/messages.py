"""Bytes into messages, and messages into bytes: JSON text and JSON-RPC 2.0.

https://www.jsonrpc.org/specification, tolerating deviations of MCP servers: error bodies with other ids, ids
that are returned as text, and in JSON text ``NaN``, lone surrogates and line breaks. The values have no lone
surrogates, as a single one would make a whole table unreadable.
"""

import base64
import json
import locale
import math
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Final, cast

from ...types.errors import ProtocolError
from ...types.texts import collector_paused, without_surrogates
from ..limits import Limits, exceeded

_fast: Callable[[bytes], Any] | None
try:
    from orjson import loads as _fast
except ImportError:  # optional: orjson comes with LangChain, on platforms that have it
    _fast = None
UTF_8: Final = "utf-8"
DEEPEST: Final = 200
"""The maximum depth of a JSON value. Other code that writes, copies or compares values recurses once or twice
per level, and Python allows a thousand levels of recursion."""
_CONTAINERS: Final = (dict, list)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_LEVELS: Final = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b',[{"'))
_SEPARATORS: Final = (b",", b"[", b"{")
_PIECE: Final = 1 << 18  # bytes
_FEW: Final = 1000
_LARGE: Final = 10_000  # characters
_LONG_INTEGER: Final = 400  # digits; no float has so many
_SURROGATE: Final = re.compile(r"\\u[dD]")  # one search takes a fifth of the time of two with `in`
# orjson reads an integer of more than 64 bits as a float; such an integer has at least 19 digits.
_DIGITS: Final = bytes(ord("0") if chr(i).isdecimal() and i < 128 else ord(" ") for i in range(256))
_MANY_DIGITS: Final = b"0" * 19
_UNREAD: Final = object()
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042
# https://modelcontextprotocol.io/specification/2026-07-28/basic: only servers of that revision send these.
MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
_NAME_PARAMETER: Final = {  # by method, for the requests that this client sends
    "tools/call": "name",
    "resources/read": "uri",
    "prompts/get": "name",
    # The extension io.modelcontextprotocol/tasks, *Routing Headers*.
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
Message = dict[str, Any]


def _finite(text: str) -> float | None:
    # A number larger than any float (1e999) would be read as infinity.
    value = float(text)
    return value if math.isfinite(value) else None


def _integers(most: float = math.inf) -> Callable[[str], int | None]:
    """Reads integers; each digit of a long one is a value, as their work grows with the square of them."""
    seen = 0

    def read(text: str) -> int | None:
        nonlocal seen
        if len(text) > _LONG_INTEGER:
            seen += len(text)
            if seen > most:
                what = f"The server's reply has integers of more than {_LONG_INTEGER} digits"
                raise exceeded("values", int(most), f"{what} with {seen:,} digits")
        try:
            return int(text)
        except ValueError:  # Python refuses to read thousands of digits
            return None

    return read


def _null(_name: str) -> None:  # NaN and Infinity are not JSON, but Python servers send them
    return None


_encoder: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# Not strict: servers that write JSON by hand, such as shell scripts, do not escape tabs and line breaks.
_new_decoder: Final = partial(json.JSONDecoder, parse_constant=_null, parse_float=_finite, strict=False)
_decoder: Final = _new_decoder()
_slow_decoder: Final = _new_decoder(parse_int=_integers())


def decode(data: bytes | str, *, values: int = Limits().values) -> Any:
    """JSON text as a value, without lone surrogates.

    Raises `ProtocolError` if the text is not JSON, or nested more than `DEEPEST` levels deep, and
    `ResultTooLarge` if it has more than so many values.
    """
    # Before anything is made of the text: a few kilobytes of gzip can hold 60 MB of `0,0,0,…`, which are
    # gigabytes as Python's objects.
    if len(data) > values:
        ValueCounter(values).check(data.encode("utf-8", "replace") if isinstance(data, str) else data)
    text: str | None = None
    with collector_paused() if len(data) > _LARGE else nullcontext():
        value = _read_fast(data)
        if value is _UNREAD:
            text = data if isinstance(data, str) else data.decode(encoding_of(data), "replace")
            value = _read(
                text, _decoder if len(text) <= values else _new_decoder(parse_int=_integers(values))
            )
    if len(data) > DEEPEST and is_deeper(value, DEEPEST, data):
        raise _too_deep()
    # Only escapes can be lone surrogates, and orjson refuses them.
    if text is not None and _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return map_texts(value, without_surrogates)
    return value


def encoding_of(data: bytes) -> str:
    """The encoding in which a text is read that ought to be UTF-8, as RFC 8259 and stdio want it.

    Programs on Windows write that of the system, which is ours if they run here. UTF-8 in which a character
    is broken stays UTF-8.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        lost = data.decode("utf-8", "replace")
        if lost.count("\ufffd") * 2 < sum(character > "\x7f" for character in lost):
            return UTF_8
    else:
        return UTF_8
    for encoding in (locale.getencoding(), "windows-1252"):
        with suppress(UnicodeDecodeError, LookupError):
            data.decode(encoding)
            return encoding
    return "latin-1"


def _read_fast(data: bytes | str) -> Any:
    """The value that orjson reads; `_UNREAD` if it refuses the text, or may read long integers as floats."""
    if _fast is None:
        return _UNREAD
    octets = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if _MANY_DIGITS in octets.translate(_DIGITS):
        return _UNREAD
    try:
        return _fast(octets)
    except ValueError:
        return _UNREAD


def _read(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        # RFC 8259 §8.1: a byte order mark must not be sent, and may be ignored.
        return decoder.decode(text.lstrip("\ufeff \t\r\n"))
    except json.JSONDecodeError as error:
        raise ProtocolError(f"The server sent something that is not valid JSON ({error.msg})") from None
    except ValueError:  # an integer has too many digits
        return _read(text, _slow_decoder)
    except RecursionError:
        raise _too_deep() from None


class ValueCounter:
    """Counts the values of JSON text as it arrives: commas and opening brackets outside of strings.

    Up to `most` those in strings count as well, as that is faster.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._at = 0
        self._seen = 0
        self._is_exact = False
        self._inside = 0  # 1 within a string
        self._held = b""  # the backslashes at the end of a piece, so that an escape is not cut in two

    def count(self, text: bytes | bytearray | memoryview) -> int:
        """The values of a text that may have grown since the last time; stops beyond `most`."""
        with memoryview(text) as view:
            while self._at < len(view) and self._seen <= self._most:
                piece = bytes(view[self._at : self._at + _PIECE])
                self._at += len(piece)
                self._seen += self._exactly(piece) if self._is_exact else sum(map(piece.count, _SEPARATORS))
                # The cheap count is too high if texts hold commas: only now it is worth the time to leave
                # them out.
                if self._seen > self._most and not self._is_exact:
                    self._at, self._seen, self._is_exact = 0, 0, True
        return self._seen

    def check(self, text: bytes | bytearray | memoryview) -> None:
        """Raises `ResultTooLarge` if the text has too many values already."""
        if len(text) <= self._most:
            return  # each takes a byte at least
        if (seen := self.count(text)) > self._most:
            what = f"The server's reply has more than {self._most:,} values: {seen:,} in {self._at:,} bytes"
            raise exceeded("values", self._most, what)

    def _exactly(self, piece: bytes) -> int:
        piece = self._held + piece
        whole = piece.rstrip(b"\\")
        self._held = piece[len(whole) :]
        if b"\\" in whole:
            whole = whole.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = whole.translate(None, _NO_SEPARATORS).split(b'"')
        seen = sum(map(len, parts[self._inside :: 2]))
        self._inside = (self._inside + len(parts) - 1) % 2  # an odd number of quotes: it ends within a string
        return seen


def _too_deep() -> ProtocolError:
    return ProtocolError("The server sent JSON that is nested too deeply", fix="Ask whoever runs the server")


def _depth(data: bytes | str) -> int:
    """How deep brackets are nested in a JSON text: much faster than walking over many values."""
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes are a string without brackets, or the end of one string and the beginning of the
    # next. In both cases the other strings stay whole.
    brackets = text.translate(None, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)


def is_deeper(value: Any, levels: int, text: bytes | str | None = None) -> bool:
    """Whether lists and objects are nested in each other more than that many levels deep.

    For a value of many parts its JSON text is searched instead, as that is faster.
    """
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    seen = 0
    for _ in range(levels):
        children: list[Any] = []
        for parent in level:
            children += parent.values() if type(parent) is dict else parent
        seen += len(children)
        if seen > _FEW and text is not None:
            return _depth(text) > levels
        level = [child for child in children if type(child) in _CONTAINERS]
        if not level:
            return False
    return True


def is_longer(value: Any, longest: int) -> bool:
    """Whether the JSON text of a value surely has more characters than that. The text is not made."""
    waiting = [value]
    while waiting and longest >= 0:
        match part := waiting.pop():
            case str():
                longest -= len(part) + 2
            case list():
                longest -= len(cast("list[Any]", part))
                waiting += cast("list[Any]", part)
            case dict():
                waiting += cast("dict[str, Any]", part)
                waiting += cast("dict[str, Any]", part).values()
            case _:
                longest -= 1
    return longest < 0


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with all its texts changed, the names of members included."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(item, change) for item in cast("list[Any]", value)]
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {change(key): map_texts(item, change) for key, item in pairs}
        case _:
            return value


@dataclass(frozen=True, slots=True)
class RpcError:
    code: int
    message: str
    data: Any = None


def as_object(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def encode(message: Mapping[str, Any]) -> bytes:
    """A message as UTF-8 JSON without line breaks.

    Raises `ValueError` or `TypeError` for a value that JSON does not have, such as NaN.
    """
    text = _encoder.encode(message)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_surrogates(text).encode()


def request(request_id: int, method: str, params: Mapping[str, Any]) -> Message:
    """It always has ``params``, as some servers refuse requests without."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    """``params`` is left out if None, never null."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message


def encode_header_value(value: str) -> str:
    """A value as header text: unchanged if that is safe, else as ``=?base64?…?=``."""
    # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding:
    # visible ASCII without blanks at its ends stays; what looks encoded itself is encoded, too.
    plain = all(" " <= character <= "~" for character in value) and value == value.strip(" ")
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def request_headers(method: str, params: Mapping[str, Any], version: str) -> dict[str, str]:
    """The standard headers of a request in the modern era."""
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    parameter = _NAME_PARAMETER.get(method)
    if parameter is not None:
        headers["Mcp-Name"] = encode_header_value(str(params.get(parameter, "")))
    return headers


def result_response(request_id: Any, result: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_response(request_id: Any, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def is_response(message: Message) -> bool:
    """Whether the message answers a request, even if a library wrote null for absent members."""
    return message.get("method") is None and ("result" in message or "error" in message)


def has_result(message: Message) -> bool:
    return "result" in message and (isinstance(message["result"], dict) or message.get("error") is None)


def messages_of(value: Any) -> list[Message]:
    """The messages in a JSON value: an object is one message, a list is a batch of them."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def answers(message: Message, request_id: int) -> bool:
    """Whether the message answers that request; ids may come back as text."""
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
    code = members.get("code")
    if isinstance(code, bool) or not isinstance(code, int | float) or code != code // 1:
        if envelope.get("jsonrpc") != "2.0":
            return None
        code = 0
    text = error if isinstance(error, str) else members.get("message")
    return RpcError(int(code), text if isinstance(text, str) else "", members.get("data"))


def result_of(message: Message) -> dict[str, Any]:
    result = message.get("result")
    if not isinstance(result, dict):
        raise ProtocolError(
            f"The server's reply has {type(result).__name__} where the protocol wants an object"
        )
    return cast("dict[str, Any]", result)


@dataclass(frozen=True, slots=True)
class Response:
    """The JSON-RPC response to a request: a result or an error."""

    message: Message
    # of the HTTP response, case-insensitive; empty for transports without headers
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = field(default=b"", repr=False)  # the JSON text that the message was read from

    @property
    def flaw(self) -> str | None:
        """What is wrong with the encoding of the message, for people."""
        if self.body.isascii():
            return None
        encoding = encoding_of(self.body)
        if encoding != UTF_8:
            return f"text that is not UTF-8 and was read as {encoding} (have it write UTF-8 if that is wrong)"
        # It stands for a character that was lost, here or at the server.
        return (
            "text with lost characters (\ufffd)" if "\ufffd" in self.body.decode("utf-8", "replace") else None
        )

    def may_mention(self, word: str) -> bool:
        """Returns whether the message may contain a word without special characters.

        Searching the text is a hundred times cheaper than walking over the values. True for every text with
        Unicode escapes.
        """
        return word.encode() in self.body or b"\\u" in self.body


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without a successful HTTP status or without a JSON-RPC response."""

    status: int
    media_type: str = ""  # in lower case, without parameters
    excerpt: str = ""  # start of the body in one line, or the title of a web page; short
    error: RpcError | None = None  # its id is not checked, as servers put null or texts there
    challenge: str | None = None  # ``WWW-Authenticate``, all challenges joined by commas
    retry_after: float | None = None  # seconds
    sent_session: bool = False  # the request had a session id
    message: Message | None = None

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in {408, 429} or self.status >= 500


Answer = Response | Refusal


def rpc_error(answer: Answer) -> RpcError | None:
    """The JSON-RPC error of an answer, whatever its HTTP status."""
    return answer.error if isinstance(answer, Refusal) else error_of(answer.message)
