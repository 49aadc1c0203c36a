"""Bytes into messages, and messages into bytes: JSON text, JSON-RPC 2.0, and server-sent events.

https://www.jsonrpc.org/specification, tolerating deviations of MCP servers: error bodies with other ids, ids
that are returned as text, and in JSON text ``NaN``, lone surrogates and line breaks. The values have no lone
surrogates, as a single one would make a whole table unreadable.

httpx-sse parses the events (https://html.spec.whatwg.org/multipage/server-sent-events.html). This module adds
what it does not do: removing a byte order mark, always decoding as UTF-8, and a limit on an event that never
ends.
"""

import base64
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ...types.errors import ProtocolError, ResultTooLarge
from ...types.texts import collector_paused, without_surrogates
from ..limits import Limits, exceeded

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

_fast: Callable[[bytes], Any] | None
try:
    from orjson import loads as _fast
except ImportError:  # optional: orjson comes with LangChain, on platforms that have it
    _fast = None
DEEPEST: Final = 200
"""The maximum depth of a JSON value. Other code that writes, copies or compares values recurses once or twice
per level, and Python allows a thousand levels of recursion."""
_CONTAINERS: Final = (dict, list)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b',[{"'))
_PIECE: Final = 1 << 20  # bytes
_FEW: Final = 1000
_LARGE: Final = 10_000  # characters
_SURROGATE: Final = re.compile(r"\\u[dD]")  # one search takes a fifth of the time of two with `in`
# orjson reads an integer of more than 64 bits as a float; such an integer has at least 19 digits.
_DIGITS: Final = bytes(ord("0") if chr(i).isdecimal() and i < 128 else ord(" ") for i in range(256))
_MANY_DIGITS: Final = b"0" * 19
_UNREAD: Final = object()
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
TOO_LARGE: Final = "too large"
"""The name of an event that replaces one beyond the limit; its data lacks the middle part."""
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b"\n\n"
_LARGE_EVENT: Final = 16 * 1024
_KEPT: Final = 8192  # bytes kept at the beginning and at the end of an event that is too large
_LIKE_MESSAGES: Final = ("{", "[{", "[[")
_EVENTS: Final = {"content-type": "text/event-stream; charset=utf-8"}
_SHORTEST_RETRY, _LONGEST_RETRY = 0.02, 24 * 3600.0  # seconds; with 0 the client would not pause at all
_logger = logging.getLogger(__name__)


def _finite(text: str) -> float | None:
    # A number larger than any float (1e999) would be read as infinity.
    value = float(text)
    return value if math.isfinite(value) else None


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:  # Python refuses to read thousands of digits
        return None


def _null(_name: str) -> None:  # NaN and Infinity are not JSON, but Python servers send them
    return None


_encoder: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# Not strict: servers that write JSON by hand, such as shell scripts, do not escape tabs and line breaks.
_decoder: Final = json.JSONDecoder(parse_constant=_null, parse_float=_finite, strict=False)
_slow_decoder: Final = json.JSONDecoder(
    parse_constant=_null, parse_float=_finite, parse_int=_integer, strict=False
)


def decode(data: bytes | str, *, values: int = Limits().values) -> Any:
    """JSON text as a value, without lone surrogates.

    Raises `ProtocolError` if the text is not JSON, or nested more than `DEEPEST` levels deep, and
    `ResultTooLarge` if it has more than so many values.
    """
    # Before anything is made of the text: a few kilobytes of gzip can hold 60 MB of `0,0,0,…`, which are
    # gigabytes as Python's objects.
    if len(data) > values and (sent := count_values(data, values)) > values:
        what = f"The server's reply has more than {values:,} values: {sent:,} in {len(data):,} bytes"
        raise exceeded("values", values, what)
    text: str | None = None
    with collector_paused() if len(data) > _LARGE else nullcontext():
        value = _read_fast(data)
        if value is _UNREAD:
            text = data if isinstance(data, str) else data.decode("utf-8", "replace")
            value = _read(text)
    if len(data) > DEEPEST and is_deeper(value, DEEPEST, data):
        raise _too_deep()
    # Only escapes can be lone surrogates, and orjson refuses them.
    if text is not None and _SURROGATE.search(text) and not _is_encodable(value):
        return map_texts(value, without_surrogates)
    return value


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


def _read(text: str, decoder: json.JSONDecoder = _decoder) -> Any:
    try:
        return decoder.decode(text.lstrip("\ufeff \t\r\n"))
    except json.JSONDecodeError as error:
        raise ProtocolError(f"The server sent something that is not valid JSON ({error.msg})") from None
    except ValueError:  # an integer has too many digits
        return _read(text, _slow_decoder)
    except RecursionError:
        raise _too_deep() from None


def count_values(data: bytes | str, enough: int) -> int:
    """The number of values in JSON text: commas and opening brackets outside of strings.

    Up to `enough` those in strings count as well, as that is faster.
    """
    # In C: 60 MB take 30 ms. Text is not encoded as a whole, as a refused reply should cost no copies.
    counts = map(data.count, (b",", b"[", b"{")) if isinstance(data, bytes) else map(data.count, ",[{")
    if (most := sum(counts)) <= enough:
        return most
    backslash = b"\\" if isinstance(data, bytes) else "\\"
    seen, inside, start = 0, 0, 0
    while start < len(data):
        end = start + _PIECE
        while data[end - 1 : end] == backslash:  # an escape is not cut in two
            end += 1
        part = data[start:end]
        piece = part if isinstance(part, bytes) else part.encode("utf-8", "replace")
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.translate(None, _NO_SEPARATORS).split(b'"')
        seen += sum(map(len, parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2  # an odd number of quotes: the piece ends within a string
        start = end
    return seen


def _too_deep() -> ProtocolError:
    return ProtocolError("The server sent JSON that is nested too deeply", fix="Ask whoever runs the server")


def is_surely_shallow(data: bytes | str, levels: int) -> bool:
    """Returns whether brackets are nested at most that deep, by searching the text.

    A few searches in C are much faster than walking over many values. Strings and all other characters except
    brackets are removed, and then, level by level, empty pairs of brackets; if nothing is left, the text is
    shallow. False means that the depth is unknown, as the text may not be JSON.
    """
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes are a string without brackets, or the end of one string and the beginning of the
    # next. In both cases the other strings stay whole.
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
    body: bytes | str = field(default=b"", repr=False)  # the JSON text that the message was read from

    def may_mention(self, word: str) -> bool:
        """Returns whether the message may contain a word without special characters.

        Searching the text is a hundred times cheaper than walking over the values. True for every text with
        Unicode escapes.
        """
        if isinstance(self.body, str):
            return word in self.body or "\\u" in self.body
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


@dataclass(slots=True)
class Cursor:
    """The position in a stream, for resuming it."""

    last_id: str = ""  # of the last event with a usable id
    retry: float = 1.0  # the server's pause before the stream is resumed, in seconds
    seen: int = 0  # messages so far
    values: int = Limits().values  # of one message, at most

    def take(self, event: "ServerSentEvent") -> list[Message]:
        """Notes the position and returns the event's messages.

        Priming events, pings and events of other names have none; a batch, which revision 2025-03-26 allows,
        has several.
        """
        if event.id:
            self.last_id = event.id if event.id.isprintable() else ""
        if event.retry is not None:
            self.retry = max(_SHORTEST_RETRY, min(event.retry, 1000 * _LONGEST_RETRY) / 1000)
        if not event.data or event.event not in {"message", ""}:
            return []
        self.seen += 1
        return read_event(event.data, self.values)


def read_event(data: str, values: int) -> list[Message]:
    """The messages in an event's data; none for other data, such as ``ping`` or ``[DONE]`` as plain text.

    Raises `ProtocolError` if the data looks like a message, but is not JSON.
    """
    try:
        return messages_of(decode(data, values=values))
    except ProtocolError:
        if data.lstrip().startswith(_LIKE_MESSAGES):
            raise
        _logger.debug("skipped an event of %d characters that is no message", len(data))
        return []


def iter_events(
    chunks: Iterable[bytes],
    *,
    limit: int,
    on_growth: Callable[[int], None] | None = None,
    goes_on: bool = False,
) -> "Iterator[ServerSentEvent]":
    """The events of a stream as they arrive; raises `ResultTooLarge` for one of more bytes than `limit`.

    Against the standard, a complete last event counts without its blank line, which some servers forget.
    `on_growth` is called with the size when a chunk made a large event larger. With `goes_on`, an event
    beyond the limit is replaced by one named `TOO_LARGE`, and the stream goes on.
    """
    import httpx  # here, as HTTP takes most of the time of importing the client
    from httpx_sse import EventSource

    bounded = _Bounded(chunks, limit, on_growth, goes_on=goes_on)
    response = httpx.Response(200, headers=_EVENTS, content=bounded)
    for event in EventSource(response).iter_sse():
        if bounded.is_cut and not _is_whole(event.data):
            return
        yield event


def too_large(limit: int) -> ResultTooLarge:
    return exceeded("event_bytes", limit, f"The server sent an event of more than {limit} bytes")


def _is_whole(data: str) -> bool:
    try:
        decode(data)
    except ProtocolError:
        return False
    return True


class _Bounded:
    """Passes bytes on, and counts the bytes of each event."""

    def __init__(
        self, chunks: Iterable[bytes], limit: int, on_growth: Callable[[int], None] | None, *, goes_on: bool
    ) -> None:
        self._chunks = chunks
        self._limit = limit
        self._on_growth = on_growth
        self._goes_on = goes_on
        self._size = 0  # bytes of the arriving event
        self._last = b""  # the last byte of the arriving event
        self.is_cut = False

    def __iter__(self) -> Iterator[bytes]:
        chunks = _with_line_feeds(self._chunks)
        for chunk in chunks:
            data = chunk
            while not self._fits(data):
                if not self._goes_on:
                    raise too_large(self._limit)
                shortened, data = _skip(self._last + data, chunks)
                # If an event has several event fields, the last one counts.
                yield shortened[len(self._last) :] + f"\nevent:{TOO_LARGE}\n\n".encode()
                self._size, self._last = 0, b""
            yield data
        self.is_cut = bool(self._last)  # no blank line at the end
        yield b"\n\n"

    def _fits(self, data: bytes) -> bool:
        """Counts the bytes. If they make the arriving event too large, returns False and counts nothing."""
        text = self._last + data  # a blank line may be split between two chunks
        # Searching one byte is ten times as fast as two, and JSON on one line has no line end.
        first = text.find(_BLANK) if b"\n" in data else -1
        last = text.rfind(_BLANK) + len(_BLANK) if first >= 0 else 0
        if self._size + (len(data) if first < 0 else first + len(_BLANK) - len(self._last)) > self._limit:
            return False
        self._size = self._size + len(data) if first < 0 else len(text) - last
        self._last = text[-1:] if first < 0 else text[max(last, len(text) - 1) :]
        if self._size > _LARGE_EVENT and self._on_growth is not None:
            self._on_growth(self._size)
        return True


def _skip(text: bytes, more: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The rest of an event without its middle part, and the bytes after the event."""
    start = text.partition(_BLANK)[0][:_KEPT]
    while (end := text.find(_BLANK)) < 0:
        following = next(more, None)
        if following is None:
            text += _BLANK
        else:
            text = text[-_KEPT:] + following
    return start + b"\ndata:" + text[:end][-_KEPT:], text[end + len(_BLANK) :]


def _with_line_feeds(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Removes a byte order mark, and writes every line end as a line feed.

    A carriage return becomes a line feed at once; a line feed that follows in a later chunk is dropped.
    """
    start: bytes | None = b""
    after_return = False
    for chunk in chunks:
        data = chunk
        if start is not None:
            start += data
            if len(start) < len(_BOM) and _BOM.startswith(start):
                continue
            data, start = start.removeprefix(_BOM), None
        if after_return and data:
            data, after_return = data.removeprefix(b"\n"), False
        if b"\r" in data:
            after_return = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if data:
            yield data
    if start:
        yield start
