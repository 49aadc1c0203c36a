"""A server on loopback that speaks OpenAI's chat completions and plays a scripted conversation.

The script is a list of turns, one per request, readable as a conversation::

    with ChatServer([calls(call("search", {"query": "knime"})), says("KNIME is ...")]) as server:
        ...  # the model is at server.url
    assert server.requests[1].messages[-1] == {"role": "tool", ...}

A turn may be a function of the request that gives a turn. The server is as strict as OpenAI where agents go
wrong: names of functions, tool calls without an answer, answers without a call. It streams where it is asked
to. Also a command: ``python -m tests.support.chat_server SCRIPT.json`` prints its URL and serves until its
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.chat_script import (
    Request,
    Script,
    Turn,
    call,
    calls,
    chunks,
    completion,
    context_too_long,
    cut_off,
    fails,
    filtered,
    rate_limited,
    refuses,
    says,
    turn_from_json,
)

DEADLINE = 30.0
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

__all__ = [
    "ChatServer",
    "Request",
    "Turn",
    "call",
    "calls",
    "context_too_long",
    "cut_off",
    "fails",
    "filtered",
    "orphans",
    "rate_limited",
    "refuses",
    "says",
]


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

    path = "/chat/completions"

    def is_allowed(self, headers: Mapping[str, str]) -> bool:
        return self.key is None or headers.get("authorization") == f"Bearer {self.key}"

    def events(self, request: Request, turn: Turn) -> Iterator[bytes]:
        """The pieces of a stream."""
        for chunk in chunks(request, turn):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"

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
        if not self.is_allowed(request.headers):
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
            elif not owner.is_allowed(request.headers):
                self._answer(request, fails(401, "Incorrect API key provided.", "invalid_api_key"))
            elif owner.models is None or not self.path.split("?")[0].endswith("/models"):
                self._answer(request, fails(404, "Not found"))
            else:
                listed = [{"id": name, "object": "model", "created": 1} for name in owner.models]
                self._send(200, json.dumps({"object": "list", "data": listed}).encode())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = self._request(self.rfile.read(length))
            if len(request.raw) < length:  # who asked has died in the middle
                self.close_connection = True
                return
            if not self.path.split("?")[0].endswith(owner.path):
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
                self._send(turn.status, turn.body, turn.headers, turn.missing)
            elif turn.status != 200:
                self._send(turn.status, json.dumps({"error": turn.error}).encode(), turn.headers)
            elif request.body.get("stream"):
                self._stream(request, turn)
            else:
                self._send(200, json.dumps(completion(request, turn)).encode(), turn.headers)

        def _send(self, status: int, data: bytes, headers: Any = (), missing: int = 0) -> None:
            self.close_connection = self.close_connection or missing > 0
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data) + missing))
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
                for number, event in enumerate(owner.events(request, turn)):
                    if number == turn.stop_stream_after:
                        return
                    if turn.chunk_delay:
                        owner._wait(Turn(delay=turn.chunk_delay), self.connection)
                    self.wfile.write(event)
                    self.wfile.flush()
            except OSError:
                owner.disconnects += 1

    return Handler


def main() -> None:
    """Serves a script until standard input ends."""
    script = [turn_from_json(turn) for turn in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    with ChatServer(script, repeat="--repeat" in sys.argv) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
