"""The official Python SDK, version 1."""

import datetime

from loop import calls_of, serve_async
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def run(task, answer):
    clock = datetime.timedelta(seconds=task["timeout"])
    if "url" in task:
        streams = streamablehttp_client(task["url"], timeout=clock, sse_read_timeout=clock)
    else:
        program, *arguments = task["command"]
        streams = stdio_client(StdioServerParameters(command=program, args=arguments))
    async with (
        streams as (read, write, *_),
        ClientSession(read, write, read_timeout_seconds=clock) as session,
    ):
        await session.initialize()
        await calls_of(session, task, answer)


serve_async(run)
