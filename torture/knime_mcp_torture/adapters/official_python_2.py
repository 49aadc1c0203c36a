"""The official Python SDK, version 2."""

from loop import calls_of, serve_async
from mcp import Client, StdioServerParameters


async def run(task, answer):
    if "url" in task:
        server = task["url"]
    else:
        server = StdioServerParameters(command=task["command"][0], args=task["command"][1:])
    async with Client(server, read_timeout_seconds=task["timeout"]) as client:
        await calls_of(client, task, answer)


serve_async(run)
