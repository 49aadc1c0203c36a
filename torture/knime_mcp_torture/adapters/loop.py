"""What the adapters in Python share: a task per line in, an answer per line out.

A task is ``{"url": …}`` or ``{"command": […]}``, with ``timeout`` (seconds, the clock that the client is to use)
and ``calls`` (names of tools). The answer has ``connect``, ``tools`` and ``calls`` as far as the client came.
"""

import asyncio
import json
import os
import sys


def failed(error):
    return {"error": f"{type(error).__name__}: {error}"[:500]}


def serve(run):
    """Runs each task; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = {"connect": {}, "tools": None, "calls": []}
        try:
            run(json.loads(line), answer)
        except Exception as error:
            answer["end"] = failed(error)["error"]
        print(json.dumps(answer), file=answers, flush=True)


def serve_async(run):
    serve(lambda task, answer: asyncio.run(run(task, answer)))


async def calls_of(client, task, answer):
    """Lists and calls with a connected client that has the names of the official SDK."""
    answer["connect"] = {"ok": True}
    try:
        found = await client.list_tools()
        answer["tools"] = [tool.name for tool in getattr(found, "tools", found)]
    except Exception as error:
        answer["tools_error"] = failed(error)["error"]
    for name in task["calls"]:
        try:
            result = await client.call_tool(name, {"text": "hi"})
            texts = [block.text for block in result.content if getattr(block, "type", "") == "text"]
            is_error = getattr(result, "isError", getattr(result, "is_error", False))
            answer["calls"].append({"text": "".join(texts), "is_error": bool(is_error)})
        except Exception as error:
            answer["calls"].append(failed(error))
