"""A small stdio server that can misbehave, as a child process: ``stdio_child.py HABIT...``.

Only the standard library, so that it starts in a few milliseconds. Habits change how it starts, negotiates
and ends; what goes wrong in the middle of a call are tools.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HABITS = set(sys.argv[1:])
MODERN = "2026-07-28"
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
TOOLS = [
    *("echo", "env", "pid", "die", "hang", "big", "flood", "close_stdout", "grandchild", "deaf", "ask"),
    *("count", "batch", "noise", "babble", "endless", "events", "sleep"),
]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}

events = []
answers = {}
locked_modern = False
held_probe = None


def send(message):
    data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def result(request, value):
    send({"jsonrpc": "2.0", "id": request["id"], "result": value})


def text(request, value):
    result(request, {"content": [{"type": "text", "text": value}], "resultType": "complete"})


def error(request, code, message, **data):
    send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message, "data": data}})


def discover(request):
    global locked_modern, held_probe
    if "dies on probe" in HABITS:
        print("what is server/discover?", file=sys.stderr)
        sys.exit(3)
    if "silent on probe" in HABITS:
        return
    if "breaks on probe" in HABITS:  # the official Python SDK 1.0 to 1.6: silent, the next line ends it
        initialize.is_broken = True
        return
    if "late probe" in HABITS and held_probe is None:
        held_probe = request
        locked_modern = True
    elif "modern" in HABITS or locked_modern:
        result(request, {"supportedVersions": [MODERN], "capabilities": {"tools": {}}})
    elif "draft" in HABITS:
        error(request, -32022, "unsupported", supported=["2099-01-01"], requested=MODERN)
    else:
        error(request, -32601, "Method not found")
        if "dies after the probe" in HABITS:
            sys.exit(4)


def initialize(request):
    if "silent" in HABITS:
        print("waiting for the database", file=sys.stderr, flush=True)
        return
    if getattr(initialize, "is_broken", False):
        sys.exit(1)
    if locked_modern:
        discover(held_probe)
        error(request, -32022, "modern only", supported=[MODERN], requested="2025-11-25")
        return
    if "dies on initialize" in HABITS:
        print("\x1b[31mno license\x1b[0m for", os.environ.get("API_KEY"), *sys.argv, file=sys.stderr)
        sys.exit(7)
    info = {"name": "child", "version": str(os.getpid())}
    result(request, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})


def call(request):
    arguments = request["params"]["arguments"]
    match request["params"]["name"]:
        case "echo":
            text(request, arguments["text"])
        case "env":
            text(request, json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd())}))
        case "pid":
            text(request, str(os.getpid()))
        case "die":
            print("out of luck", file=sys.stderr)
            sys.stderr.flush()
            os._exit(9) if arguments.get("code") else os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            events.append(f"hanging {request['id']}")
        case "big":
            big(request, arguments)
        case "flood":
            for _ in range(arguments["lines"]):
                sys.stderr.write("x" * 200 + "\n")
            text(request, "flooded")
        case "close_stdout":
            os.close(1)
            time.sleep(600)
        case "grandchild":
            kept = subprocess.Popen(SLEEP, start_new_session=bool(arguments.get("escapes")))
            text(request, str(kept.pid))
        case "sleep":
            time.sleep(arguments["seconds"])
            text(request, "awake")
        case "deaf":
            text(request, "from now on")
            time.sleep(600)
        case "ask":
            ask(request)
        case "count":
            token = request["params"]["_meta"]["progressToken"]
            for step in range(1, 4):
                params = {"progressToken": token, "progress": step, "total": 3}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            text(request, "counted")
        case "batch":
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
            reply = {"jsonrpc": "2.0", "id": str(request["id"]), "result": {"content": []}}
            send([note, reply])
        case "noise":
            for line in (b"loading \xff...", b"", b"[1, 2]", b'"text"', b"{broken", b"\xef\xbb\xbf\r"):
                send(line)
            send({"jsonrpc": "2.0", "id": 99999, "result": {}})
            text(request, "quiet\u2028again")
        case "babble":
            for number in range(arguments["lines"]):
                send(b"" if arguments.get("blank") else b"loading %d" % number)
        case "endless":
            while True:
                sys.stdout.buffer.write(b"y" * 65536)
        case "events":
            text(request, json.dumps(events))
        case name:
            error(request, -32602, f"Unknown tool: {name}")


def big(request, arguments):
    content = {"content": [{"type": "text", "text": "y" * arguments["bytes"]}]}
    if arguments.get("values"):
        content["structuredContent"] = {"values": [0] * arguments["values"]}
    if arguments.get("id last"):
        send({"result": content, "jsonrpc": "2.0", "id": request["id"]})
    elif arguments.get("no id"):
        send({"result": content, "jsonrpc": "2.0"})
    else:
        result(request, content)


def ask(request):
    methods = ("ping", "roots/list", "sampling/createMessage", "elicitation/create")
    for method in methods:
        send({"jsonrpc": "2.0", "id": f"s-{method}", "method": method, "params": {}})
    got = {}
    while len(got) < len(methods):
        message = json.loads(sys.stdin.buffer.readline())
        got[message["id"]] = message.get("result", message.get("error", {}).get("code"))
    text(request, json.dumps(got))


def serve():
    if "grandchild at start" in HABITS:
        subprocess.Popen(SLEEP)
    if "stubborn" in HABITS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "greets" in HABITS:
        print("Welcome to the child!\n{not json}", flush=True)
    if "asks first" in HABITS:
        send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    if "slow" in HABITS:
        time.sleep(1.0)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        match message.get("method"):
            case "server/discover":
                discover(message)
            case "initialize":
                initialize(message)
            case "tools/list":
                if "dies once" in HABITS and not Path("died").exists():
                    Path("died").touch()
                    sys.exit(5)
                result(message, {"tools": [{"name": n, "inputSchema": SCHEMA} for n in TOOLS]})
            case "tools/call":
                call(message)
            case "notifications/cancelled":
                events.append(f"cancelled {message['params']['requestId']}")
            case "ping":
                result(message, {})
            case None:
                events.append(f"answer {message['id']}")
    if "talks at the end" in HABITS:
        # More than a pipe holds: it can only end if somebody still reads.
        for _ in range(100):
            send(b"bye " * 1000)
        Path("said goodbye").touch()
    if "stubborn" in HABITS:
        time.sleep(600)


if __name__ == "__main__":
    serve()
