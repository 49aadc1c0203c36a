"""fastmcp's client."""

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from loop import calls_of, serve_async


async def run(task, answer):
    if "url" in task:
        server = task["url"]
    else:
        server = StdioTransport(command=task["command"][0], args=task["command"][1:], keep_alive=False)
    clock = task["timeout"]
    async with Client(server, timeout=clock, init_timeout=clock) as client:
        await calls_of(client, task, answer)


serve_async(run)
