"""What a scripted model says: turns as data, and their form in OpenAI's chat-completions protocol."""

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

COUNTED = object()


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the server does with one request.

    Attributes:
        text: The answer's text.
        tool_calls: As in the protocol; an id of None is filled in with ``call_1``, ``call_2``, ...
        finish_reason: None for the one that fits.
        refusal: Text of a refusal.
        usage: (prompt, completion) tokens; None says nothing; by default counted roughly.
        status: Other than 200: an error, with `error` as the error object.
        body: Sent instead of everything else, as it is.
        missing: Bytes of `body` that are promised and not sent, because the connection breaks.
        headers: Further response headers.
        delay: Seconds before the answer; ends early when the client goes away.
        chunk_delay: Seconds between the pieces of a stream.
        stop_stream_after: Closes the connection after so many pieces of a stream.
        drop: Closes the connection without an answer.
        hold: Waits for this event before answering.
        thoughts: What the model thought before, in Anthropic's protocol.
        breaks_with: An error in the middle of a stream, in Anthropic's protocol.
    """

    text: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    refusal: str | None = None
    usage: Any = COUNTED
    status: int = 200
    error: Any = None
    body: bytes | None = None
    missing: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    chunk_delay: float = 0.0
    stop_stream_after: int | None = None
    drop: bool = False
    hold: threading.Event | None = None
    thoughts: str | None = None
    breaks_with: dict[str, str] | None = None

    def after(self, seconds: float) -> "Turn":
        """The same turn, late."""
        return replace(self, delay=seconds)


def says(text: str | None, **more: Any) -> Turn:
    """The model answers."""
    return Turn(text=text, **more)


def call(name: Any, arguments: Any = None, id: Any = None) -> dict[str, Any]:  # noqa: A002
    """A tool call; arguments that are a text are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def calls(*wanted: dict[str, Any], text: str | None = None, **more: Any) -> Turn:
    """The model asks for tools."""
    return Turn(text=text, tool_calls=wanted, **more)


def refuses(text: str) -> Turn:
    """The model refuses."""
    return Turn(refusal=text)


def filtered(text: str | None = None) -> Turn:
    """The provider's content filter cut the answer."""
    return Turn(text=text, finish_reason="content_filter")


def cut_off(text: str | None, *wanted: dict[str, Any]) -> Turn:
    """The answer ran into the token limit."""
    return Turn(text=text, tool_calls=wanted, finish_reason="length")


def fails(status: int, message: str = "no", code: str | None = None, **more: Any) -> Turn:
    """The endpoint answers with an error."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Turn(status=status, error=error, **more)


def rate_limited(retry_after: float | str | None = None, code: str = "rate_limit_exceeded") -> Turn:
    """Too many requests; with code ``insufficient_quota`` waiting does not help."""
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return fails(429, "Rate limit reached", code, headers=headers)


def context_too_long(message: str | None = None) -> Turn:
    """The conversation does not fit into the model's context."""
    said = message or "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."
    return fails(400, said, "context_length_exceeded")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON document."""
        return json.loads(self.raw)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return self.body["messages"]

    @property
    def last(self) -> Any:
        """The content of the last message."""
        return self.messages[-1]["content"]


Script = Sequence[Turn | Callable[[Request], Turn]]


def turn_from_json(document: dict[str, Any]) -> Turn:
    """A turn of a script that is a file."""
    match document:
        case {"says": str(text)}:
            return says(text, delay=document.get("after", 0.0))
        case {"calls": list(wanted)}:
            made = [call(name, arguments) for name, arguments in wanted]
            return calls(*made, text=document.get("text"), delay=document.get("after", 0.0))
        case {"fails": int(status)}:
            return fails(status, document.get("message", "no"), document.get("code"))
        case _:
            raise ValueError(f"no turn: {document}")


def _finish(turn: Turn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop")


def _usage(request: Request, turn: Turn) -> dict[str, int] | None:
    if turn.usage is None:
        return None
    spent = turn.usage
    if spent is COUNTED:
        spent = (len(request.raw) // 4, 1 + len(f"{turn.text}{turn.tool_calls}") // 4)
    return {"prompt_tokens": spent[0], "completion_tokens": spent[1], "total_tokens": sum(spent)}


def completion(request: Request, turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text, "refusal": turn.refusal}
    if turn.tool_calls:
        message["tool_calls"] = list(turn.tool_calls)
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(turn)}],
    }
    usage = _usage(request, turn)
    return document if usage is None else {**document, "usage": usage}


def chunks(request: Request, turn: Turn) -> list[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": request.body.get("model"),
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    pieces = [chunk({"role": "assistant", "content": ""})]
    pieces += [chunk({"content": word}) for word in re.findall(r"\S+\s*|\s+", turn.text or "")]
    if turn.refusal:
        pieces.append(chunk({"refusal": turn.refusal}))
    for index, wanted in enumerate(turn.tool_calls):
        text = wanted["function"]["arguments"]
        opening = {"name": wanted["function"]["name"], "arguments": ""}
        first = {"index": index, "id": wanted.get("id"), "type": "function", "function": opening}
        pieces.append(chunk({"tool_calls": [first]}))
        for start in range(0, len(text), 8):
            piece = {"index": index, "function": {"arguments": text[start : start + 8]}}
            pieces.append(chunk({"tool_calls": [piece]}))
    pieces.append(chunk({}, _finish(turn)))
    usage = _usage(request, turn)
    if usage is not None and (request.body.get("stream_options") or {}).get("include_usage"):
        pieces.append({**chunk({}), "choices": [], "usage": usage})
    return pieces
