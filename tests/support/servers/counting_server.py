"""A server on the official SDK that counts its calls: what the Caller's tests talk to."""

import argparse
import asyncio
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from serving import serve_asgi
from workshop import PIXEL


class Weather(BaseModel):
    """What `weather` says."""

    city: str
    temperature: float
    days: int
    sunny: bool
    tags: list[str] = []


def counting(name: str) -> MCPServer:
    """A server with tools; ``name`` is part of what `who` says."""
    server = MCPServer(name, version="1.5")
    counts = {"add": 0, "wait": 0}

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 1) -> int:
        """Adds two whole numbers."""
        counts["add"] += 1
        return a + b

    @server.tool(structured_output=False)
    def called() -> str:
        """How often the other tools were called."""
        return " ".join(f"{name}={count}" for name, count in counts.items())

    @server.tool()
    def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> Weather:
        """Says how the weather is."""
        return Weather(city=city, temperature=20.5, days=days, sunny=True, tags=["a", city])

    @server.tool(structured_output=False)
    def echo(value: dict) -> str:
        """Says what it was given."""
        return repr(value)

    @server.tool(structured_output=False)
    def login(user: str, password: Annotated[str, Field(json_schema_extra={"format": "password"})]) -> str:
        """Repeats a secret, as careless servers do."""
        if user == "nobody":
            raise ToolError(f"{password} is wrong")
        return f"{user} logged in with {password}"

    @server.tool(structured_output=False)
    def fail(why: str = "because") -> str:
        """Always fails."""
        raise ToolError(why)

    @server.tool()
    def pixel():
        """Draws one pixel."""
        return Image(data=PIXEL, format="png")

    @server.tool(structured_output=False)
    async def wait(seconds: float) -> str:
        """Takes its time."""
        counts["wait"] += 1
        await asyncio.sleep(seconds)
        return f"waited {seconds} s"

    @server.tool(structured_output=False)
    def big(megabytes: int) -> str:
        """Says a lot."""
        return "x" * (megabytes * 1024 * 1024)

    @server.tool(structured_output=False)
    def who() -> str:
        """Says which server this is."""
        return name

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    serve_asgi(
        {
            "one": counting("one").streamable_http_app(streamable_http_path="/one"),
            "two": counting("two").streamable_http_app(streamable_http_path="/two", json_response=True),
            "old": (old := counting("old").sse_app(sse_path="/old")),
            "messages": old,
        },
        port=options.port,
    )
