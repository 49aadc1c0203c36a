"""A loopback server that says exactly what a script tells it to, byte by byte.

Whole dialogues are data: for each JSON-RPC method (or ``GET``, ``DELETE``, ``*``) a reply, or a list of
replies of which the last one repeats. A reply is a list of parts that are sent in order: bytes, pauses, the
server's event queue, a close. So it can do what real servers must not do: stall, cut a reply in two, close in
the middle, lie about lengths. Everything that arrived is kept for assertions.
"""

from __future__ import annotations

import contextlib
import json
import queue
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Part(Enum):
    """What can be done beside sending bytes."""

    STALL = "say nothing until the client goes away"
    CLOSE = "close the connection"
    RESET = "close it rudely"
    HALF_CLOSE = "end what is sent, and go on reading until the client goes away"
    EVENTS = "send what `ScriptedServer.push` puts into the queue, until the client goes away"


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    at: float = field(default_factory=time.monotonic)
    raw: bytes = b""  # as it came from the socket

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def rpc(self) -> str | None:
        """Method of the JSON-RPC message, or ``response`` for an answer of the client."""
        message = self.json
        if not isinstance(message, dict):
            return None
        return message.get("method", "response")

    @property
    def key(self) -> str:
        return self.rpc or self.method

    @property
    def params(self) -> dict[str, Any]:
        return self.json.get("params", {})


Parts = list["bytes | float | Part | Callable[[Request], bytes]"]
Reply = Parts | Callable[[Request], Parts]

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def http(
    status: int = 200,
    body: bytes | str = b"",
    *,
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Parts:
    """A complete reply with a length."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ["\r\n".join(lines).encode() + b"\r\n\r\n" + data]


def rpc(result: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON reply with a result for whatever id was asked with."""
    return _message("result", result, status, headers)


def rpc_error(
    code: int, message: str = "no", data: Any = None, *, status: int = 200, headers: Any = None
) -> Reply:
    """A JSON reply with an error."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return _message("error", error, status, headers)


def _message(member: str, value: Any, status: int, headers: Mapping[str, str] | None) -> Reply:
    def reply(request: Request) -> Parts:
        message = {"jsonrpc": "2.0", "id": (request.json or {}).get("id"), member: value}
        return http(status, json.dumps(message), headers=headers)

    return reply


def event(data: Any, *, name: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:  # noqa: A002
    """One server-sent event; what is not text is JSON."""
    lines = [f"event: {name}"] if name else []
    lines += [f"id: {id}"] if id is not None else []
    lines += [f"retry: {retry}"] if retry is not None else []
    text = data if isinstance(data, str) else json.dumps(data)
    return ("\n".join([*lines, *(f"data: {line}" for line in text.split("\n"))]) + "\n\n").encode()


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def reply_event(result: Any, *, id: str | None = None) -> Callable[[Request], bytes]:  # noqa: A002
    """The event that answers the request."""
    return lambda request: event({"jsonrpc": "2.0", "id": request.json["id"], "result": result}, id=id)


def stream(
    *parts: Any, status: int = 200, end: bool = True, headers: Mapping[str, str] | None = None
) -> Reply:
    """An event stream, chunked; each part of bytes is a chunk."""

    def build(request: Request) -> Parts:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        out: Parts = [head.encode() + b"\r\n"]
        for part in parts:
            data = part(request) if callable(part) else part
            out.append(b"%x\r\n%s\r\n" % (len(data), data) if isinstance(data, bytes) else data)
        if end:
            out.append(b"0\r\n\r\n")
        return out

    return build


ACCEPTED: Parts = http(202, content_type=None)


def initialize(version: str = LEGACY, *, session: str | None = None, **result: Any) -> Reply:
    """A good answer to ``initialize``."""
    body = {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
        **result,
    }
    return rpc(body, headers={"Mcp-Session-Id": session} if session else None)


def discover(*versions: str, **result: Any) -> Reply:
    """A good answer to ``server/discover``."""
    return rpc(
        {
            "supportedVersions": list(versions or (MODERN,)),
            "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "2"}},
            "resultType": "complete",
            **result,
        }
    )


def text(value: str, **more: Any) -> dict[str, Any]:
    """A tool's result with one text."""
    return {"content": [{"type": "text", "text": value}], **more}


def tool(name: str = "echo", **more: Any) -> dict[str, Any]:
    """A tool's definition."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def legacy(session: str | None = None, version: str = LEGACY, **replies: Any) -> dict[str, Any]:
    """A server of the handshake era; keyword names have ``__`` for ``/``."""
    return {
        "server/discover": rpc_error(-32601, status=400),
        "initialize": initialize(version, session=session),
        "notifications/initialized": ACCEPTED,
        "notifications/cancelled": ACCEPTED,
        "response": ACCEPTED,
        "tools/list": rpc({"tools": [tool()]}),
        "tools/call": rpc(text("hi")),
        "DELETE": http(200, content_type=None),
        **{name.replace("__", "/"): reply for name, reply in replies.items()},
    }


def modern(**replies: Any) -> dict[str, Any]:
    """A server of the modern era."""
    return {
        "server/discover": discover(),
        "tools/list": rpc({"tools": [tool()], "resultType": "complete"}),
        "tools/call": rpc(text("hi", resultType="complete")),
        **{name.replace("__", "/"): reply for name, reply in replies.items()},
    }


class ScriptedServer:
    """The server. A context manager; everything it started is gone afterwards.

    Args:
        script: Reply or replies by JSON-RPC method, HTTP method, or ``*`` for everything else.
        tls: Speak TLS with this context.
        path: Path of the URL.
    """

    def __init__(
        self,
        script: Mapping[str, Any] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        path: str = "/mcp",
    ) -> None:
        self.script: dict[str, Any] = dict(script or {})
        self.requests: list[Request] = []
        self.connections = 0
        self.disconnected = threading.Event()
        self.failures: list[BaseException] = []
        self._events: queue.Queue[bytes] = queue.Queue()
        self._counts: dict[str, int] = {}
        self._tls = tls
        self._path = path
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socks: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}{self._path}"

    def push(self, data: bytes) -> None:
        """Send on the stream that a `Part.EVENTS` keeps open."""
        self._events.put(data)

    def named(self, rpc_or_http: str) -> list[Request]:
        """The requests of one method."""
        return [r for r in self.requests if rpc_or_http in (r.key, r.method)]

    @property
    def methods(self) -> list[str]:
        """What was asked, in order."""
        return [request.key for request in self.requests]

    def __enter__(self) -> ScriptedServer:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        _shut(self._listener)  # wakes who waits for a connection
        self._listener.close()
        for sock in self._socks:
            _shut(sock)
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        if self.failures:
            raise self.failures[0]

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                if not select.select([self._listener], [], [], 0.02)[0]:
                    continue
                sock, _ = self._listener.accept()
            except (OSError, ValueError):
                return
            self.connections += 1
            self._socks.append(sock)
            self._start(self._serve, sock, self.connections)

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            if self._tls is not None:
                sock.settimeout(30)
                sock = self._tls.wrap_socket(sock, server_side=True)
                sock.settimeout(None)
            while (request := _read(sock, number)) is not None:
                with self._lock:
                    self.requests.append(request)
                    reply = self._next(request)
                    parts = reply(request) if callable(reply) else reply
                    if Part.EVENTS in parts:
                        self._events = queue.Queue()  # of this stream alone
                if not self._send(sock, parts, request):
                    break
        except OSError:
            pass
        except BaseException as error:  # a bug of the test itself
            self.failures.append(error)
        finally:
            _shut(sock)
            sock.close()

    def _next(self, request: Request) -> Reply:
        key = request.key
        if key not in self.script:
            key = request.method if request.method in self.script else "*"
        found = self.script.get(key, http(404, "Not Found", content_type="text/plain"))
        if isinstance(found, list) and found and (callable(found[0]) or isinstance(found[0], list)):
            turn = self._counts.get(key, 0)
            self._counts[key] = turn + 1
            return found[min(turn, len(found) - 1)]
        return found

    def _send(self, sock: socket.socket, parts: Iterable[Any], request: Request) -> bool:
        for part in parts:
            match part:
                case bytes():
                    sock.sendall(part)
                case float() | int():
                    self._stopped.wait(part)
                case Part.CLOSE:
                    return False
                case Part.RESET:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
                case Part.STALL | Part.HALF_CLOSE:
                    if part is Part.HALF_CLOSE:
                        sock.shutdown(socket.SHUT_WR)
                    self._wait_for_end(sock)
                    return False
                case Part.EVENTS:
                    self._send_events(sock)
                    return False
                case _:
                    sock.sendall(part(request))
        return True

    def _send_events(self, sock: socket.socket) -> None:
        events = self._events
        while not self._stopped.is_set() and not _has_ended(sock):
            try:
                data = events.get(timeout=0.01)
            except queue.Empty:
                continue
            sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))
        self.disconnected.set()

    def _wait_for_end(self, sock: socket.socket) -> None:
        while not self._stopped.is_set():
            if _has_ended(sock, 0.02):
                self.disconnected.set()
                return


def _has_ended(sock: socket.socket, timeout: float = 0.0) -> bool:
    if not select.select([sock], [], [], timeout)[0]:
        return False
    try:
        return not sock.recv(1, socket.MSG_PEEK) if not isinstance(sock, ssl.SSLSocket) else not sock.recv(1)
    except OSError:
        return True


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _read(sock: socket.socket, number: int) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := sock.recv(65536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        key, found = name.lower(), value.strip()
        headers[key] = f"{headers[key]}, {found}" if key in headers else found
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        if not (more := sock.recv(65536)):
            return None
        body += more
    return Request(method, target, headers, body, number, raw=head + b"\r\n\r\n" + body)
