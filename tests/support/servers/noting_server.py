"""A server that notes its calls: `begun x`, `done x` or `canceled x`, and `from PORT` for each request.

Its three tools do the same, as slowly as they are told, and are declared differently.
"""

import argparse
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from serving import serve_asgi


class Notes:
    """The file; a line per event."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def build(notes: Notes) -> MCPServer:
    server = MCPServer("noting", version="1.0")

    async def note(text: str, seconds: float = 0.0) -> str:
        """Notes a text."""
        notes.add(f"begun {text}")
        try:
            await anyio.sleep(seconds)
        except BaseException:
            notes.add(f"canceled {text}")
            raise
        notes.add(f"done {text}")
        return f"noted {text}"

    kinds = {
        "note": None,
        "look": ToolAnnotations(read_only_hint=True),
        "put": ToolAnnotations(idempotent_hint=True, destructive_hint=True),
    }
    for name, hints in kinds.items():
        server.tool(name=name, annotations=hints, structured_output=False)(note)

    @server.tool(structured_output=False)
    async def who(context: Context) -> str:
        """Repeats the credential that came, as careless servers do."""
        return str((context.headers or {}).get("authorization", "nobody"))

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    notes = Notes(options.notes)
    inner = build(notes).streamable_http_app(streamable_http_path="/mcp", stateless_http=True)

    async def app(scope, receive, send):
        if scope["type"] == "http":
            notes.add(f"from {scope['client'][1]}")
        await inner(scope, receive, send)

    app.router = inner.router
    serve_asgi({"mcp": app}, port=options.port)
