"""Serves a stdio server over HTTP, one child process per session: how a server that is a command gets a URL.

``stdio_bridge.py --port 0 -- COMMAND...``; the path is /mcp. What a server asks or tells unasked is dropped.
"""

import argparse
import json
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from serving import end_with_parent, listening_socket

SESSION = "Mcp-Session-Id"


class Child:
    """A running server; one request at a time."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._lock = threading.Lock()

    def send(self, message: dict) -> bytes | None:
        with self._lock:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            if "id" not in message or "method" not in message:
                return None
            for line in self._process.stdout:
                answer = json.loads(line)
                if answer.get("id") == message["id"] and "method" not in answer:
                    return line
            raise ConnectionError("the server ended")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    command_line: list[str]
    children: ClassVar[dict[str, Child]] = {}

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get(SESSION)
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            self.children[session] = Child(self.command_line)
        if session not in self.children:
            return self._answer(400 if session is None else 404, b"{}")
        answer = self.children[session].send(message)
        return self._answer(202 if answer is None else 200, answer or b"", session)

    def do_DELETE(self) -> None:
        child = self.children.pop(self.headers.get(SESSION, ""), None)
        if child is not None:
            child.end()
        self._answer(200 if child else 404, b"")

    def do_GET(self) -> None:
        self._answer(405, b"")

    def _answer(self, status: int, body: bytes, session: str | None = None) -> None:
        self.send_response(status)
        if session is not None:
            self.send_header(SESSION, session)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Bridge(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening_socket(port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(sys.argv[1:])
    Handler.command_line = options.command
    end_with_parent()
    Bridge(options.port).serve_forever()
