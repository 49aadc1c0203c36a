"""A server on loopback that speaks Anthropic's Messages API and plays a scripted conversation.

As strict as Anthropic's where agents go wrong: headers, fields that it does not know, calls without a result
right after them, thoughts that do not come back as they were. https://platform.claude.com/docs/en/api/messages
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.chat_script import COUNTED, Request, Turn
from tests.support.chat_server import ChatServer

_FIELDS = frozenset(
    ("model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream")
) | {"tools", "tool_choice", "thinking", "output_config", "metadata", "cache_control"}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REASONS = {"length": "max_tokens", "content_filter": "refusal"}


class MessagesServer(ChatServer):
    """Plays a script in Anthropic's protocol; see `ChatServer`."""

    path = "/messages"

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        is_known = headers.get("anthropic-version") == "2023-06-01"
        return is_known and "authorization" not in headers and headers.get("x-api-key") == self.key

    def _complaint(self, request: Request) -> tuple[int, str, str | None] | None:
        body = request.body
        if not self.is_allowed(request.headers):
            return 401, "invalid x-api-key", "authentication_error"
        if self.models is not None and body["model"] not in self.models:
            return 404, f"model: {body['model']}", "not_found_error"
        problem = _problem(body)
        return None if problem is None else (400, problem, "invalid_request_error")

    def events(self, request: Request, turn: Turn) -> Iterator[bytes]:
        """The events of a stream, with a ping, as Anthropic sends them."""
        tokens = (len(request.raw) // 4, 9) if turn.usage is COUNTED else turn.usage
        counts = {"input_tokens": tokens[0], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        counts |= tokens[2] if len(tokens) > 2 else {}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": None}
        head |= {"model": request.body["model"], "usage": {**counts, "output_tokens": 1}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": head}, {"type": "ping"}]
        for index, (block, deltas) in enumerate(_blocks(turn)):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        reason = turn.finish_reason or ("tool_use" if turn.tool_calls else "end_turn")
        delta = {"stop_reason": _REASONS.get(reason, reason), "stop_sequence": None}
        events.append(
            {"type": "message_delta", "delta": delta, "usage": {**counts, "output_tokens": tokens[1]}}
        )
        events.append({"type": "message_stop"})
        if turn.breaks_with is not None:
            events[4:] = [{"type": "error", "error": turn.breaks_with}]
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if turn.thoughts is not None:
        signed = {"type": "signature_delta", "signature": _signature(turn.thoughts)}
        deltas = [{"type": "thinking_delta", "thinking": word} for word in _pieces(turn.thoughts)]
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if turn.text is not None:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": word} for word in _pieces(turn.text)],
        )
    for number, call in enumerate(turn.tool_calls, 1):
        name, written = call["function"]["name"], call["function"]["arguments"]
        yield (
            {"type": "tool_use", "id": call["id"] or f"toolu_{number}", "name": name, "input": {}},
            [
                {"type": "input_json_delta", "partial_json": written[start : start + 8]}
                for start in range(0, len(written), 8)
            ],
        )


def _pieces(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _signature(thoughts: str) -> str:
    return f"signed:{len(thoughts)}"


def _problem(body: dict[str, Any]) -> str | None:
    odd = sorted(body.keys() - _FIELDS)
    if odd:
        return f"{odd[0]}: Extra inputs are not permitted"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    for number, tool in enumerate(body.get("tools", ())):
        if tool["input_schema"].get("type") != "object" or tool.keys() - {
            "name",
            "description",
            "input_schema",
        }:
            return f"tools.{number}.custom.input_schema: Input should be an object"
    wanted: list[str] = []
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(wanted):
            return f"messages.{number}: `tool_use` ids were found without `tool_result` blocks right after"
        wanted = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if wanted and not body.get("tools"):
            return "Requests which include `tool_use` or `tool_result` blocks must define tools"
        for place, block in enumerate(blocks):
            problem = _problem_of_block(block)
            if problem is not None:
                return f"messages.{number}.content.{place}: {problem}"
    return None


def _problem_of_block(block: dict[str, Any]) -> str | None:
    match block["type"]:
        case "text" if not block["text"].strip():
            return "text content blocks must be non-empty"
        case "thinking" if block["signature"] != _signature(block["thinking"]):
            return "Invalid `signature` in `thinking` block"
        case "tool_use" if not _ID.fullmatch(block["id"]):
            return "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        case "text" | "thinking" | "tool_use" | "tool_result" | "image":
            return None
        case kind:
            return f"Input tag '{kind}' is not expected"
