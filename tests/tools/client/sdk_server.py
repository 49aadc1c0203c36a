"""A server on the official SDK, as a child process: ``sdk_server.py MODE``."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer

MODES = {
    "stateful": {},
    "stateless": {"stateless_http": True},
    "json": {"json_response": True, "stateless_http": True},
}

server = MCPServer("sdk", version="1.0", instructions="For tests.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("on purpose")


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Count, slowly."""
    for step in range(steps):
        await ctx.report_progress(step, steps, f"step {step}")
        await asyncio.sleep(0.02)
    return "counted"


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "sse":
        server.run("sse", host="127.0.0.1", port=0)
    else:
        server.run("streamable-http", host="127.0.0.1", port=0, **MODES[mode])
