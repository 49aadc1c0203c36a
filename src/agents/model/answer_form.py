"""Turns an endpoint's answer of any form into one document in the form of OpenAI's chat completions.

Endpoints that call themselves compatible may stream without being asked, send a whole answer in place of a
stream, and vary the form of both. So the body decides how it is read, not the request, and a whole answer is
read as a stream of one piece.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from httpx_sse import EventSource

from ...types.texts import compact_json
from .model_errors import AnsweredError, ModelAnswerInvalid
from .written_calls import CallPieces, mappings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping


_MOST_BYTES: Final = 64 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8"}
_HEAD_FIELDS: Final = ("id", "model", "system_fingerprint", "service_tier")
_COUNTS: Final = ("prompt_tokens", "completion_tokens")
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")  # texts


class AnswerForm:
    """An answer that is put together from pieces; `on_text` is called with each piece of the text."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self._on_text = on_text
        self._head: dict[str, str] = {}
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._reasoning: dict[str, list[str]] = {name: [] for name in _REASONING_FIELDS}
        self._details: list[dict[str, Any]] = []
        self._blocks: list[dict[str, Any]] = []
        self._calls = CallPieces()
        self._usage: dict[str, int] | None = None
        self._finish: str | None = None
        self._has_message = False

    @property
    def is_finished(self) -> bool:
        """True once the endpoint has sent a finish reason."""
        return self._finish is not None

    def take(self, document: object) -> None:
        """Adds a piece of a stream, or a whole answer, as the endpoint sent it.

        Raises `AnsweredError` if the document is an error in place of an answer.
        """
        if not isinstance(document, dict):
            return
        piece = cast("dict[str, Any]", document)
        if piece.get("error") or piece.get("object") == "error":
            raise AnsweredError(piece)
        for name in _HEAD_FIELDS:
            if isinstance(piece.get(name), str):
                self._head.setdefault(name, piece[name])
        # If several pieces have a usage, each usage includes the pieces before.
        self._usage = _usage(piece.get("usage")) or self._usage
        whole_is_new = not self._has_message  # some repeat the whole message at the end of a stream
        for choice in mappings(piece.get("choices")):
            # Only one choice was requested; some give text and calls as two without an index.
            if choice.get("index") in {None, 0}:
                self._take_choice(choice, whole_is_new=whole_is_new)
        if not self._has_message:
            self._take_reason(piece)

    def _take_choice(self, choice: dict[str, Any], *, whole_is_new: bool) -> None:
        if choice.get("error"):
            raise AnsweredError(choice)
        if isinstance(choice.get("finish_reason"), str):
            # OpenRouter says "stop" for what the service behind it could not read.
            is_usual = choice["finish_reason"] in {"", "stop"}
            native = choice.get("native_finish_reason") if is_usual else None
            self._finish = str(native or choice["finish_reason"]) or None
        whole = choice.get("message") if whole_is_new else None
        raw_message = choice.get("delta") or whole
        if not isinstance(raw_message, dict):
            return
        self._has_message = True
        message = cast("dict[str, Any]", raw_message)
        self._take_text(message.get("content"))
        if isinstance(message.get("refusal"), str):
            self._refusals.append(message["refusal"])
        for name, pieces in self._reasoning.items():
            if isinstance(message.get(name), str):
                pieces.append(message[name])
        for detail in mappings(message.get("reasoning_details")):
            _join(self._details, detail)
        for block in mappings(message.get("thinking_blocks")):
            _join_signed(self._blocks, block)
        calls = mappings(message.get("tool_calls"))
        if not calls and isinstance(message.get("function_call"), dict):  # the older form
            calls = [{"function": message["function_call"]}]
        for number, call in enumerate(calls):
            self._calls.take({**call, "index": number} if raw_message is whole else call)

    def _take_reason(self, piece: Mapping[str, Any]) -> None:
        """Why there is no message, which Google says in other places than the usual one."""
        for fields in (piece, *(inner for inner in piece.values() if isinstance(inner, dict))):
            said = next((value for name, value in fields.items() if "reason" in name and value), None)
            self._finish = str(said) if isinstance(said, str) else self._finish
        self._has_message = self._finish is not None

    def _take_text(self, content: object) -> None:
        parts = cast("list[object]", content) if isinstance(content, list) else [content]
        for part in parts:
            if isinstance(part, dict):
                fields = cast("dict[str, Any]", part)
                if isinstance(fields.get("refusal"), str):
                    self._refusals.append(fields["refusal"])
                text = fields.get("text") if isinstance(content, list) else compact_json(fields)
                if fields.get("type") in {"reasoning", "thinking", "thought"}:
                    text = None
            else:
                text = part if part is None or isinstance(part, str) else compact_json(part)
            if isinstance(text, str) and text:
                self._texts.append(text)
                if self._on_text is not None:
                    self._on_text(text)

    def document(self) -> dict[str, Any]:
        """The whole answer: one choice, whose message has text and calls in the usual form.

        Raises `ModelAnswerInvalid` if there was no message.
        """
        if not self._has_message:
            raise ModelAnswerInvalid.without_message()
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts)}
        more = {
            "tool_calls": self._calls.whole(),
            "refusal": "".join(self._refusals),
            **{name: "".join(pieces) for name, pieces in self._reasoning.items()},
            "reasoning_details": self._details,
            "thinking_blocks": self._blocks,
        }
        message |= {name: value for name, value in more.items() if value}
        document = {**self._head, "choices": [{"message": message, "finish_reason": self._finish}]}
        return document if self._usage is None else {**document, "usage": self._usage}


async def read_answer(
    pieces: AsyncIterator[bytes], on_text: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Reads the body of an answer, which comes in pieces of any size; see `AnswerForm.document`.

    Raises `AnsweredError` for an error in place of an answer, `ModelAnswerInvalid` if the body is no answer,
    ended early, or is too long, and httpx's errors of transport.
    """
    answer = AnswerForm(on_text)
    body = bounded(pieces)
    start = b""
    async for piece in body:
        start = (start + piece).removeprefix(_BOM).lstrip()
        if start:
            break
    if start[:1] in {b"{", b"["}:
        whole = bytearray(start)
        async for piece in body:
            whole += piece
        answer.take(_read(whole.decode(errors="replace")))
    elif not await _read_stream(answer, start, body):
        raise ModelAnswerInvalid.broken_off()
    return answer.document()


async def read_refusal(pieces: AsyncIterator[bytes]) -> object:
    """Reads the body of an answer that is an error: a JSON value, or the text that it is."""
    body = bytearray()
    async for piece in bounded(pieces):
        body += piece
    text = body.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def _read_stream(answer: AnswerForm, start: bytes, body: AsyncIterator[bytes]) -> bool:
    """Reads a stream of events. Returns False if the stream ended early."""

    async def whole() -> AsyncIterator[bytes]:
        yield start
        async for piece in body:
            yield piece
        yield b"\n\n"  # ends the last event even if its blank line is missing

    events = EventSource(httpx.Response(200, headers=_HEADERS, content=whole())).aiter_sse()
    any_event = False
    async with aclosing(events):
        try:
            async for event in events:
                data = event.data.strip()
                if data == "[DONE]":
                    return True
                if data.startswith("{"):  # other data, such as pings, is not part of the answer
                    any_event = True
                    answer.take(_read(data))
        except httpx.TransportError:
            # Some servers break the connection off behind the whole answer.
            if not answer.is_finished:
                raise
    # Without a finish reason the stream was cut off; without any event it is no stream, which `document`
    # says better.
    return answer.is_finished or not any_event


async def bounded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelAnswerInvalid.broken_off() from None


def _usage(usage: object) -> dict[str, int] | None:
    """The token counts; None unless both are valid numbers."""
    if not isinstance(usage, dict):
        return None
    fields = cast("Mapping[str, object]", usage)
    counts = {name: fields.get(name) for name in _COUNTS}
    if not all(isinstance(count, int | float) and 0 <= count < 2**53 for count in counts.values()):
        return None
    numbers = {name: int(cast("float", count)) for name, count in counts.items()}
    # Some gateways to Bedrock count what was in a cache beside the rest, and not within it.
    match fields:
        case {"prompt_tokens_details": {"cached_tokens": int(cached)}} if cached > numbers["prompt_tokens"]:
            numbers["prompt_tokens"] += cached
        case _:
            pass
    return {**numbers, "total_tokens": sum(numbers.values())}


def _join(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Adds a piece of reasoning; texts with the same index are joined."""
    index = piece.get("index")
    same = (detail for detail in details if detail.get("index") == index)
    earlier = None if index is None else next(same, None)
    if earlier is None:
        details.append(dict(piece))
        return
    for name, value in piece.items():
        is_text = name in {"text", "summary", "data", "signature"}
        if is_text and isinstance(value, str) and isinstance(earlier.get(name), str):
            earlier[name] += value
        elif value is not None:
            earlier[name] = value


def _join_signed(blocks: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Adds a piece of reasoning; a signature ends the block."""
    last = blocks[-1] if blocks else {}
    if isinstance(last.get("thinking"), str) and not last.get("signature") and "thinking" in piece:
        last["thinking"] += str(piece["thinking"] or "")
        last["signature"] = piece.get("signature")
    else:
        blocks.append(dict(piece))
