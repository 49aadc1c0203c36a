"""A server whose tools, manners and memory each test decides: the stateless era, JSON replies, loopback."""

import json
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

META = "io.modelcontextprotocol/"
DEADLINE = 20.0


def tool(name, description="", schema=None, **more):
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **more}


class ListingServer:
    """Lists tools.

    `headers_wanted`: headers without which it answers 401. `status`: answers everything with it. `hold`: an
    event to wait for before listing. `raw_tools`: JSON text of the list, where Python could not write it.
    `seen`: the headers and path of every request.
    """

    def __init__(
        self,
        tools=(),
        *,
        instructions=None,
        headers_wanted=None,
        status=None,
        hold=None,
        meta=None,
        raw_tools=None,
    ):
        self.tools = list(tools)
        self.instructions = instructions
        self.headers_wanted = headers_wanted or {}
        self.status = status
        self.hold = hold
        self.seen = []
        self.listing = threading.Event()
        self.raw_tools = raw_tools
        self.meta = meta or {"name": "test server", "version": "1.5"}

    @property
    def url(self):
        return f"http://127.0.0.1:{self._http.server_port}/mcp"

    @contextmanager
    def running(self):
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.seen.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
                status, reply = owner.reply(body, self.headers)
                data = (reply if isinstance(reply, str) else json.dumps(reply)).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    if status == 401:
                        self.send_header("WWW-Authenticate", "Bearer")
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def do_GET(self):
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            if self.hold is not None:
                self.hold.set()
            self._http.shutdown()
            self._http.server_close()
            thread.join(DEADLINE)

    def reply(self, message, headers):
        if self.status is not None:
            return self.status, {"error": "no"}
        if any(headers.get(name) != value for name, value in self.headers_wanted.items()):
            return 401, {"error": "no"}
        match message["method"]:
            case "server/discover":
                result = {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "_meta": {f"{META}serverInfo": self.meta},
                }
                if self.instructions:
                    result["instructions"] = self.instructions
            case "tools/list":
                self.listing.set()
                if self.hold is not None:
                    self.hold.wait(DEADLINE)
                result = {"tools": self.tools}
            case method:
                error = {"code": -32601, "message": f"Method not found: {method}"}
                return 404, {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        if self.raw_tools and message["method"] == "tools/list":
            result = {"tools": "RAW"}
        full = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": full}
        return 200, json.dumps(reply).replace('"RAW"', self.raw_tools or "")


@pytest.fixture
def serve():
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(ListingServer(*args, **options).running())
