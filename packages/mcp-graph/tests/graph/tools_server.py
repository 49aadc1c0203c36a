"""A server over standard input and output whose tools behave as tests want. Standard library only."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

LOCK = threading.Lock()
STATE = {"failures": {}, "calls": 0}
CANCELED = set()
READING = {"echo", "text", "large", "blocks", "sleep", "empty"}
STUBBORN = "--stubborn" in sys.argv
if STUBBORN:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def structured(value):
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


def text(value, *, error=False):
    return {"content": [{"type": "text", "text": value}], **({"isError": True} if error else {})}


def run(name, arguments, request, token):
    STATE["calls"] += 1
    match name:
        case "echo":
            return structured({"received": arguments})
        case "text":
            return text(arguments["text"])
        case "count":
            return structured({"calls": STATE["calls"], "pid": os.getpid()})
        case "empty":
            return {"content": []}
        case "blocks":
            return arguments
        case "fail":
            return text(arguments.get("message", "it failed"), error=True)
        case "fail_times":
            key = arguments["key"]
            seen = STATE["failures"][key] = STATE["failures"].get(key, 0) + 1
            return text("not yet", error=True) if seen <= arguments["times"] else structured({"tries": seen})
        case "sleep":
            until = time.monotonic() + arguments["seconds"]
            mark = Path(arguments["mark"]) if "mark" in arguments else None
            if mark:
                mark.touch()
            while time.monotonic() < until and request not in CANCELED:
                time.sleep(0.01)
            if mark:
                mark.write_text("canceled" if request in CANCELED else "slept")
            return structured({"slept": arguments["seconds"]})
        case "hold":
            until = time.monotonic() + 60
            Path(arguments["begun"]).touch()
            while not Path(arguments["until"]).exists():
                if time.monotonic() > until:
                    return text("nobody let go", error=True)
                time.sleep(0.01)
            return structured({"pid": os.getpid()})
        case "progress":
            for step in (1, 2):
                params = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                time.sleep(0.02)
            return structured({"done": True})
        case "large":
            return structured({"rows": [{"id": n, "text": "x" * 80} for n in range(arguments["rows"])]})
        case "measure":
            return structured({"size": {"width": 3, "height": 4}})
        case "die":
            os._exit(3)
        case "die_once":
            if not Path(arguments["mark"]).exists():
                Path(arguments["mark"]).touch()
                os._exit(3)
            return structured({"alive": True})
    return text(f"unknown tool {name}", error=True)


NAMES = (
    "echo",
    "text",
    "count",
    "empty",
    "blocks",
    "fail",
    "fail_times",
    "sleep",
    "hold",
    "progress",
    "large",
    "die",
    "die_once",
    "measure",
)
NUMBER = {"type": "number"}
SIZE = {"type": "object", "properties": {"width": NUMBER, "height": NUMBER}}
OUTPUTS = {"measure": {"type": "object", "properties": {"size": SIZE}}}


def answer(message):
    params = message.get("params") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    result = run(params["name"], params.get("arguments") or {}, message["id"], token)
    if message["id"] not in CANCELED:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fixture", "version": "1"},
            }
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        case "tools/list":
            tools = [
                {
                    "name": name,
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": name in READING},
                    **({"outputSchema": OUTPUTS[name]} if name in OUTPUTS else {}),
                }
                for name in NAMES
            ]
            send({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}})
        case "tools/call":
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        case "notifications/cancelled":
            CANCELED.add(message["params"]["requestId"])
        case _ if "id" in message:
            error = {"code": -32601, "message": "no such method"}
            send({"jsonrpc": "2.0", "id": message["id"], "error": error})

if STUBBORN:
    time.sleep(120)  # only being killed ends it sooner
