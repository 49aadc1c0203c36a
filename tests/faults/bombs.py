"""Servers whose replies are bombs: few bytes on the wire, and more in memory than a client should ever hold.

``python -m tests.faults.bombs`` meets each of them in many ways (`bomb_ways`), and prints what that cost.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.scripted_server import ScriptedServer, event, http, legacy, rpc, tool
from tests.support.sse_server import SseServer

READ_ONLY = rpc({"tools": [tool(annotations={"readOnlyHint": True})]})
EVENTS = "text/event-stream"
STDIO = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    match request.get("method"):
        case "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        case "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            head = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "structuredContent": {"v": ['
            os.write(1, head % request["id"])
            out = memoryview(b"0," * 30_000_000 + b"0]}}}\\n")
            while out:
                out = out[os.write(1, out[:1 << 20]):]
            continue
        case _:
            continue
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\\n")
"""


def packed(*parts, wbits=31):
    packer = zlib.compressobj(wbits=wbits)
    return b"".join(map(packer.compress, parts)) + packer.flush()


def bomb(beginning, end, *, kind="application/json", encoding="gzip", member="result", status=200):
    """A reply of 60 MB of small values, compressed to less than 100 kB."""
    wbits = {"gzip": 31, "deflate": 15}[encoding]
    rest = [*[b"0," * 500_000] * 60, end, b"\n\n"]
    after = packed(*rest)
    assert len(after) < 100_000

    def reply(request):
        head = b'{"jsonrpc": "2.0", "id": %d, "%s": %s' % (request.json["id"], member.encode(), beginning)
        head = b"data: " + head if kind == EVENTS else head
        # The members of a gzip file follow each other: only the first one is packed for each request.
        body = packed(head) + after if encoding == "gzip" else packed(head, *rest, wbits=wbits)
        return http(status, body, content_type=kind, headers={"Content-Encoding": encoding})

    return reply


def flood(pieces, times):
    """A compressed stream of pieces, so many times, without a reply."""
    body = packed(*[pieces] * times)
    return http(200, body, content_type=EVENTS, headers={"Content-Encoding": "gzip"})


RESULT = b'{"content": [], "structuredContent": {"v": [', b"0]}}}"
PROGRESS = event(
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
)
LARGE = (
    b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": ['
    + b"0," * 900_000
    + b"0]}}\n\n"
)
GREETING = b'{"protocolVersion": "2025-11-25", "capabilities": {"x": [', b"0]}}}"
PROTECTED = http(401, headers={"WWW-Authenticate": "Bearer"})


def old_server():
    """A server of the old transport, whose stream has a bomb for each call."""

    class Old(SseServer):
        def answer(self, request, result):
            if request.rpc != "tools/call":
                super().answer(request, result)
                return
            self.push(b'data: {"jsonrpc": "2.0", "id": %d, "result": %s' % (request.json["id"], RESULT[0]))
            for _ in range(60):
                self.push(b"0," * 500_000)
            self.push(RESULT[1] + b"\n\n")

    return Old()


def servers():
    """By name: a server whose calls are bombs unless its name says what else is."""

    def called(reply):
        return ScriptedServer(legacy(tools__list=READ_ONLY, tools__call=reply))

    return {
        "result": called(bomb(*RESULT)),
        "event": called(bomb(*RESULT, kind=EVENTS)),
        "deflate": called(bomb(*RESULT, encoding="deflate")),
        "status 500": called(bomb(*RESULT, status=500)),
        "error": called(bomb(b'{"code": 1, "message": "no", "data": [', b"0]}}", member="error")),
        "progress": called(flood(PROGRESS * 1000, 600)),
        "large notifications": called(flood(LARGE, 60)),
        "comments": called(flood(b": \n\n" * 1000, 30_000)),
        "old transport": old_server(),
        "list": ScriptedServer(legacy(tools__list=bomb(b'{"tools": [', b"0]}}"))),
        "initialize": ScriptedServer(legacy(initialize=bomb(*GREETING))),
        "initialize, event": ScriptedServer(legacy(initialize=bomb(*GREETING, kind=EVENTS))),
        "resource": ScriptedServer(legacy(resources__read=bomb(b'{"contents": [', b"0]}}"))),
        "prompt": ScriptedServer(legacy(prompts__get=bomb(b'{"messages": [', b"0]}}"))),
    }


@contextlib.contextmanager
def running():
    """The URLs of all these servers and of a model that asks for a call; ``stdio`` is a command."""
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(server).url for name, server in servers().items()}
        model = ChatServer([calls(call("echo", {})), says("done")], repeat=True)
        yield {**urls, "model": stack.enter_context(model).url, "stdio": [sys.executable, "-c", STDIO]}


def measured(folder):
    """What each way of `bomb_ways` said and cost, in a process of its own."""
    with running() as urls:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.bomb_ways", json.dumps(urls)],
            cwd=folder,
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for line in measured(folder):
            cost = f"{line['cpu']:6.2f} s CPU {line['more']:5} MiB more"
            print(f"{line['bomb']:20} {line['way']:12} {cost}  {' '.join(line['said'].split())[-150:]}")
