"""Serves the odd but legal `shapes`, on the standard library alone, so that every byte of a reply is ours.

One process serves all of them: `/<era>/<reply>/<shape>`, era `legacy` (2025-11-25, handshake) or `modern`
(2026-07-28), reply `json` or `sse`; and `/old/<shape>` over HTTP+SSE (2024-11-05).
"""

import argparse
import base64
import itertools
import json
import queue
import re
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import shapes
from serving import end_with_parent, listening_socket
from shapes import LEGACY, META, OLD, SHAPES, RpcError, complete, encode


class Handler(BaseHTTPRequestHandler):
    """All shapes behind one port."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per reply
    sessions: dict[str, str] = {}  # noqa: RUF012 - one process, one table
    streams: dict[str, "queue.Queue[bytes]"] = {}  # noqa: RUF012
    answers: dict[str, "queue.Queue[dict[str, Any]]"] = {}  # noqa: RUF012
    numbers = itertools.count(1)

    def log_message(self, pattern: str, *args: object) -> None:
        print(pattern % args, flush=True)

    def do_POST(self) -> None:
        message = shapes.mark(json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0))))
        match urlsplit(self.path).path.strip("/").split("/"):
            case ["legacy", reply, shape] if shape in SHAPES:
                self._legacy(reply, shape, message)
            case ["modern", reply, shape] if shape in SHAPES:
                self._modern(reply, shape, message)
            case ["old", shape, "messages"] if shape in SHAPES:
                self._old(shape, message)
            case ["old", _]:
                self._reply(405, b"Method Not Allowed", "text/plain")
            case _:
                self._reply(404, b"Not Found", "text/plain")

    def do_GET(self) -> None:
        match urlsplit(self.path).path.strip("/").split("/"):
            case ["old", shape] if shape in SHAPES:
                self._old_stream(shape)
            case _:
                self._reply(405, b"Method Not Allowed", "text/plain")

    def do_DELETE(self) -> None:
        known = self.sessions.pop(self.headers.get("Mcp-Session-Id") or "", None)
        self._reply(200 if known else 404, b"", "text/plain")

    def _legacy(self, reply: str, shape: str, message: dict[str, Any]) -> None:
        session = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            new = f"session-{next(self.numbers)}"
            self.sessions[new] = shape
            self._answer(reply, message, lambda: shapes.initialized(shape, LEGACY), {"Mcp-Session-Id": new})
        elif session is None:
            self._fail(message, RpcError(-32600, "Bad Request: Missing session ID", 400))
        elif self.sessions.get(session) != shape:
            self._fail(message, RpcError(-32001, "Session not found", 404))
        elif self.headers.get("MCP-Protocol-Version") != LEGACY:
            self._fail(message, RpcError(-32600, "Bad Request: wrong MCP-Protocol-Version", 400))
        elif "id" not in message or "method" not in message:
            if "method" not in message:
                self.answers[session].put(message)
            self._reply(202, b"", "application/json")
        elif shape == "asks" and message["method"] == "tools/call" and message["params"]["name"] == "ask":
            self._ask(session, message)
        else:
            self._answer(reply, message, lambda: shapes.result(shape, message))

    def _modern(self, reply: str, shape: str, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        meta = params.get("_meta", {})
        expected = {
            "MCP-Protocol-Version": meta.get(f"{META}protocolVersion"),
            "Mcp-Method": message.get("method"),
        }
        if message.get("method") == "tools/call":
            expected["Mcp-Name"] = params.get("name")
        wrong = [name for name, value in expected.items() if _decoded(self.headers.get(name)) != value]
        if message.get("method") == "initialize":
            self._fail(message, RpcError(-32602, "Missing _meta", 400))
        elif wrong:
            self._fail(message, RpcError(-32020, f"Header mismatch: {', '.join(wrong)}", 400))
        elif f"{META}clientCapabilities" not in meta or "Mcp-Session-Id" in self.headers:
            self._fail(message, RpcError(-32602, "Missing _meta or a session", 400))
        elif message["method"] == "server/discover":
            self._answer(reply, message, lambda: shapes.discovered(shape))
        elif shape == "asks" and message["method"] == "tools/call":
            self._answer(reply, message, lambda: complete(shapes.ask_modern(params)))
        else:
            self._answer(reply, message, lambda: complete(shapes.result(shape, message)))

    def _old(self, shape: str, message: dict[str, Any]) -> None:
        session = parse_qs(urlsplit(self.path).query).get("session", [""])[0]
        stream = self.streams.get(session)
        if stream is None:
            self._reply(404, b"Could not find session", "text/plain")
            return
        self._reply(202, b"Accepted", "text/plain")
        if "id" not in message:
            return
        try:
            result = (
                shapes.initialized(shape, OLD)
                if message["method"] == "initialize"
                else shapes.result(shape, message)
            )
            stream.put(encode({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        except RpcError as error:
            stream.put(encode(shapes.error_message(message, error)))

    def _old_stream(self, shape: str) -> None:
        session = f"stream-{next(self.numbers)}"
        stream = self.streams[session] = queue.Queue()
        self._head(200, "text/event-stream")
        self._event(f"/old/{shape}/messages?session={session}".encode(), b"endpoint")
        try:
            while True:
                try:
                    self._event(stream.get(timeout=0.5))
                except queue.Empty:
                    self.wfile.write(b": ping\r\n\r\n")
                    self.wfile.flush()
        except OSError:
            del self.streams[session]
            self.close_connection = True

    def _ask(self, session: str, message: dict[str, Any]) -> None:
        """Asks the client for everything that a server may ask, and reports its answers as the result."""
        answers = self.answers[session] = queue.Queue()
        self._head(200, "text/event-stream")
        said = {}
        for method in ("ping", "roots/list", "sampling/createMessage", "elicitation/create", "made/up"):
            self._event(encode({"jsonrpc": "2.0", "id": f"ask-{method}", "method": method, "params": {}}))
            try:
                answer = answers.get(timeout=30)
                said[method] = answer.get("error", {}).get("code", answer.get("result"))
            except queue.Empty:
                said[method] = "no answer"
        self._event(encode({"jsonrpc": "2.0", "method": "notifications/made_up", "params": {}}))
        self._event(
            encode(
                {
                    "jsonrpc": "2.0",
                    "id": message["id"],
                    "result": shapes.text("asked", structuredContent=said),
                }
            )
        )
        self.close_connection = True

    def _answer(
        self, reply: str, message: dict[str, Any], result: Any, headers: dict[str, str] | None = None
    ) -> None:
        if "id" not in message:
            self._reply(202, b"", "application/json")
            return
        try:
            body = encode({"jsonrpc": "2.0", "id": message["id"], "result": result()})
        except RpcError as error:
            self._fail(message, error)
            return
        if reply == "json":
            self._reply(200, body, "application/json; charset=utf-8", headers)
        else:
            self._head(200, "Text/Event-Stream", headers)
            self.wfile.write(b": hello\r\n\r\n")
            self._event(body)
            self.close_connection = True

    def _fail(self, message: dict[str, Any], error: RpcError) -> None:
        self._reply(error.status, encode(shapes.error_message(message, error)), "application/json")

    def _head(self, status: int, media_type: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        for name, value in {"Connection": "close", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, data: bytes, kind: bytes = b"message") -> None:
        self.wfile.write(b"event: %s\r\ndata: %s\r\n\r\n" % (kind, data))
        self.wfile.flush()

    def _reply(
        self, status: int, body: bytes, media_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _decoded(header: str | None) -> str | None:
    """The value of an `Mcp-*` header, which is Base64 where it is not plain visible ASCII."""
    if header and (found := re.fullmatch(r"=\?base64\?(.*)\?=", header)):
        return shapes.mark(base64.b64decode(found[1]).decode("utf-8", "surrogatepass"))
    return header


class Server(ThreadingHTTPServer):
    """A thread per connection; TLS where a certificate is given, its handshake in that thread."""

    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True) if self.tls else request
        except OSError as error:
            print(f"TLS failed: {error}", flush=True)
            self.shutdown_request(request)
            return
        super().process_request_thread(wrapped, client_address)


def main() -> None:
    """Serves until the parent ends."""

    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    options = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening_socket(options.port)
    if options.certificate:
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(options.certificate)
    end_with_parent()
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
