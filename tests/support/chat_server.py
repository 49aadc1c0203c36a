"""A server on loopback that speaks OpenAI's chat completions and plays a scripted conversation.

The script is a list of turns, one per request, readable as a conversation::

    with ChatServer([calls(call("search", {"query": "knime"})), says("KNIME is ...")]) as server:
        ...  # the model is at server.url
    assert server.requests[1].messages[-1] == {"role": "tool", ...}

A turn may be a function of the request that gives a turn. The server is as strict as OpenAI where agents go
wrong: names of functions, tool calls without an answer, answers without a call. It streams where it is asked
to. Also a command: ``python tests/support/chat_server.py SCRIPT.json`` prints its URL and serves until its
input ends; the script is a list of ``{"says": text}``, ``{"calls": [[name, arguments], ...]}``,
``{"fails": status}``.
"""

import json
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEADLINE = 20.0
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
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
        headers: Further response headers.
        delay: Seconds before the answer; ends early when the client goes away.
        chunk_delay: Seconds between the pieces of a stream.
        stop_stream_after: Closes the connection after so many pieces of a stream.
        drop: Closes the connection without an answer.
        hold: Waits for this event before answering.
    """

    text: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    refusal: str | None = None
    usage: Any = COUNTED
    status: int = 200
    error: Any = None
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    chunk_delay: float = 0.0
    stop_stream_after: int | None = None
    drop: bool = False
    hold: threading.Event | None = None

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


class ChatServer:
    """Plays a script.

    Args:
        turns: One per request to `/chat/completions`.
        repeat: Starts anew when the script is over; otherwise further requests fail with 500.
        models: What `/models` lists; None: 404, as some gateways do. Chat requests for others get 404.
        key: Answers 401 without this Bearer token.
        models_delay: Seconds before `/models` answers.
        models_turn: What `/models` does instead.
    """

    def __init__(
        self,
        turns: Script = (),
        *,
        repeat: bool = False,
        models: Sequence[str] | None = ("test-model", "other-model"),
        key: str | None = None,
        models_delay: float = 0.0,
        models_turn: Turn | None = None,
    ) -> None:
        self.turns = list(turns)
        self.repeat = repeat
        self.models = models
        self.key = key
        self.models_delay = models_delay
        self.models_turn = models_turn
        self.requests: list[Request] = []  # to /chat/completions
        self.other_requests: list[Request] = []
        self.disconnects = 0  # clients that went away while they waited
        self.complaints: list[str] = []  # what was wrong with requests
        self.arrived = threading.Event()
        self._played = 0
        self._ids = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def unplayed(self) -> int:
        """Turns that nobody asked for."""
        return max(0, len(self.turns) - self._played)

    def __enter__(self) -> "ChatServer":
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(DEADLINE)

    def _turn(self, request: Request) -> Turn:
        with self._lock:
            self.requests.append(request)
            self.arrived.set()
            complaint = self._complaint(request)
            if complaint is not None:
                self.complaints.append(complaint[1])
                return fails(complaint[0], complaint[1], complaint[2])
            if self._played >= len(self.turns) and not (self.repeat and self.turns):
                self.complaints.append("more requests than turns")
                return fails(500, "the script is over")
            turn = self.turns[self._played % len(self.turns)]
            self._played += 1
            turn = turn if isinstance(turn, Turn) else turn(request)
            return replace(turn, tool_calls=tuple(self._with_id(c) for c in turn.tool_calls))

    def _with_id(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted.get("id", "") is not None:
            return wanted
        self._ids += 1
        return {**wanted, "id": f"call_{self._ids}"}

    def _complaint(self, request: Request) -> tuple[int, str, str | None] | None:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return 401, "Incorrect API key provided.", "invalid_api_key"
        body = request.body
        if self.models is not None and body.get("model") not in self.models:
            return 404, f"The model `{body.get('model')}` does not exist.", "model_not_found"
        for tool in body.get("tools", []):
            if not NAME.fullmatch(tool["function"]["name"]):
                return 400, f"Invalid 'tools[].function.name': {tool['function']['name']}", "invalid_value"
        problem = orphans(body["messages"])
        return (400, problem, "invalid_request_error") if problem else None

    def _wait(self, turn: Turn, connection: socket.socket) -> bool:
        until = time.monotonic() + (DEADLINE if turn.hold else turn.delay)
        while time.monotonic() < until and not (turn.hold and turn.hold.is_set()):
            if self._closing.wait(0.01):
                return False
            if select.select([connection], [], [], 0)[0]:
                with self._lock:
                    self.disconnects += 1
                return False
        return True


def orphans(messages: Sequence[dict[str, Any]]) -> str | None:
    """What OpenAI's service says of a history with calls without answers or answers without calls."""
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_ids:
                return (
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                )
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            break
        for wanted in message.get("tool_calls") or ():
            if not NAME.fullmatch(str(wanted["function"]["name"])):
                return f"Invalid 'messages[].tool_calls[].function.name': {wanted['function']['name']!r}"
            open_ids.append(wanted["id"])
        if len(set(open_ids)) != len(open_ids):
            return "Duplicate tool call ids"
        if message["role"] == "assistant" and not message.get("content") and not open_ids:
            return "Expected 'content' or 'tool_calls' in an assistant message"
    if open_ids:
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. Missing: {', '.join(map(str, open_ids))}"
        )
    return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no news."""


def _handler(owner: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            request = self._request(b"")
            owner.other_requests.append(request)
            if owner.models_delay and not owner._wait(Turn(delay=owner.models_delay), self.connection):
                self.close_connection = True
                return
            if owner.models_turn is not None:
                self._answer(request, owner.models_turn)
            elif owner.key is not None and request.headers.get("authorization") != f"Bearer {owner.key}":
                self._answer(request, fails(401, "Incorrect API key provided.", "invalid_api_key"))
            elif owner.models is None or not self.path.split("?")[0].endswith("/models"):
                self._answer(request, fails(404, "Not found"))
            else:
                listed = [{"id": name, "object": "model", "created": 1} for name in owner.models]
                self._send(200, json.dumps({"object": "list", "data": listed}).encode())

        def do_POST(self) -> None:
            request = self._request(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.path.split("?")[0].endswith("/chat/completions"):
                owner.other_requests.append(request)
                self._answer(request, fails(404, "Unknown path"))
                return
            turn = owner._turn(request)
            if turn.drop or ((turn.delay or turn.hold) and not owner._wait(turn, self.connection)):
                self.close_connection = True
                return
            self._answer(request, turn)

        def _request(self, raw: bytes) -> Request:
            headers = {name.lower(): value for name, value in self.headers.items()}
            return Request(method=self.command, path=self.path, headers=headers, raw=raw)

        def _answer(self, request: Request, turn: Turn) -> None:
            if turn.body is not None:
                self._send(turn.status, turn.body, turn.headers)
            elif turn.status != 200:
                self._send(turn.status, json.dumps({"error": turn.error}).encode(), turn.headers)
            elif request.body.get("stream"):
                self._stream(request, turn)
            else:
                self._send(200, json.dumps(_completion(request, turn)).encode(), turn.headers)

        def _send(self, status: int, data: bytes, headers: Any = ()) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()
            except OSError:
                self.close_connection = True

        def _stream(self, request: Request, turn: Turn) -> None:
            self.close_connection = True
            try:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for number, chunk in enumerate(_chunks(request, turn)):
                    if number == turn.stop_stream_after:
                        return
                    if turn.chunk_delay:
                        owner._wait(Turn(delay=turn.chunk_delay), self.connection)
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                    self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                owner.disconnects += 1

    return Handler


def _finish(turn: Turn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.tool_calls else "stop")


def _usage(request: Request, turn: Turn) -> dict[str, int] | None:
    if turn.usage is None:
        return None
    spent = turn.usage
    if spent is COUNTED:
        spent = (len(request.raw) // 4, 1 + len(f"{turn.text}{turn.tool_calls}") // 4)
    return {"prompt_tokens": spent[0], "completion_tokens": spent[1], "total_tokens": sum(spent)}


def _completion(request: Request, turn: Turn) -> dict[str, Any]:
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


def _chunks(request: Request, turn: Turn) -> list[dict[str, Any]]:
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


def main() -> None:
    """Serves a script until standard input ends."""
    script = [turn_from_json(turn) for turn in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    with ChatServer(script, repeat="--repeat" in sys.argv) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
