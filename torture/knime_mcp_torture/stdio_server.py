"""A stdio server with a bad habit, which its argument names; the standard library alone."""

import json
import os
import subprocess
import sys
import time

HABIT = sys.argv[1]


def write(data):
    os.write(1, data if isinstance(data, bytes) else data.encode())


def answer(request, result):
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def bad(request):
    good = answer(request, text("hi"))
    match HABIT:
        case "noise":
            write(f"listening on stdin\nDEBUG: {{not json\n\n{good}\n")
        case "blank lines":
            write(f"\n\n   \n{good}\n")
        case "carriage returns":
            write(f"{good}\r\n")
        case "two at once":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}})
            write(f"{note}\n{good}\n")
        case "byte by byte":
            for character in f"{good}\n":
                write(character)
                time.sleep(0.001)
        case "ends":
            os._exit(3)
        case "ends after the reply":
            write(f"{good}\n")
            os._exit(0)
        case "no last line end":
            write(good)
            os._exit(0)
        case "silent":
            time.sleep(60)
        case "closes its output":
            os.close(1)
            time.sleep(60)
        case "reads no more":
            write(f"{good}\n")
            time.sleep(60)
        case "endless line":
            for _ in range(200):
                write(b"x" * 1_000_000)
            write("\n")
        case "flood of noise":
            line = b"noise " * 20 + b"\n"
            until = time.monotonic() + 30
            while time.monotonic() < until:
                write(line * 100)
        case "flood of messages":
            line = b'{"jsonrpc": "2.0", "method": "notifications/x"}\n' * 100
            until = time.monotonic() + 30
            while time.monotonic() < until:
                write(line)
        case "standard error":
            os.write(2, b"\x1b[31merror\x1b[0m: all is well\n" * 20_000)
            write(f"{good}\n")
        case "wrong id":
            write(answer({"id": 987654}, text("not mine")) + "\n")
            write(f"{good}\n")
        case "id as text":
            write(answer({"id": str(request["id"])}, text("hi")) + "\n")
        case "asks back":
            write(json.dumps({"jsonrpc": "2.0", "id": "s1", "method": "ping"}) + "\n")
            for line in sys.stdin:
                if '"s1"' in line:
                    break
            write(f"{good}\n")
        case "deep":
            write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {"[" * 20_000}{"]" * 20_000}}}\n')
        case "bytes that are no text":
            write(good.replace("hi", "@").encode().replace(b"@", b"\xff") + b"\n")
        case "child that stays":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
            write(f"{good}\n")
        case "reply twice":
            write(f"{good}\n{good}\n")
        case _:
            write(f"{good}\n")


if HABIT == "silent from the start":
    time.sleep(60)
if HABIT == "greeting":
    write("Welcome!\nThis server is great.\n")
if HABIT == "ends at once":
    sys.stderr.write("no licence found\n")
    sys.exit(7)
for line in sys.stdin:
    request = json.loads(line)
    match request.get("method"):
        case "initialize":
            info = {"name": "stdio", "version": "1"}
            found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            write(answer(request, found) + "\n")
        case "tools/list":
            names = ["bad", "good"]
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            write(answer(request, {"tools": tools}) + "\n")
        case "tools/call" if request["params"]["name"] == "good":
            write(answer(request, text("good")) + "\n")
        case "tools/call":
            bad(request)
        case "ping":
            write(answer(request, {}) + "\n")
        case _ if "id" in request and "method" in request:
            error = {"code": -32601, "message": "Method not found"}
            write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + "\n")
