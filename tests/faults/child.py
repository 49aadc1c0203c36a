"""A stdio server whose tool misbehaves as its argument says; the standard library alone, to start quickly."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

CHATTERBOX = "import time\nwhile True: print('still here', flush=True); time.sleep(0.05)"


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def answer(request, result):
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


def call(request):
    arguments = request["params"]["arguments"]
    good = answer(request, {"content": [{"type": "text", "text": f"row {arguments['row']}"}]})
    match arguments.get("fault"):
        case None:
            write(good + b"\n")
        case "no last line end":
            write(good)
            os._exit(0)
        case "ends, and what it started goes on writing":
            subprocess.Popen([sys.executable, "-c", CHATTERBOX])
            os._exit(4)
        case "reads no more":
            os.close(0)
            write(good + b"\n")
            time.sleep(60)
        case "closes its output in the middle of the next line":
            write(good + b"\n")
            os.read(0, 1000)
            os.close(1)
            time.sleep(1.9)  # sooner than it is killed
            if sys.stdin.buffer.readline().endswith(b"\n"):
                Path("the whole line").touch()
            os._exit(0)
        case "deep":
            deep = b"[" * 10_000 + b"]" * 10_000
            write(b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n' % (request["id"], deep))
        case "over many lines":
            write(json.dumps(json.loads(good), indent=2).encode() + b"\n")


def serve():
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                time.sleep(1.5 if "slow" in sys.argv else 0)
                info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                write(answer(request, info) + b"\n")
            case "tools/call":
                call(request)
            case _ if "id" in request and "method" in request:
                error = {"code": -32601, "message": "Method not found"}
                write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")


if __name__ == "__main__":
    serve()
