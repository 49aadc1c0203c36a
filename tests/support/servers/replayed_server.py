"""A server whose tools change: what replay is tried with. Every path has the tools of one variant.

`base` is what gets recorded. The others differ from it in one thing, as the next version of a server may.
"""

import argparse
import itertools
import sys
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).parent))
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from serving import serve_asgi

READ_ONLY = ToolAnnotations(read_only_hint=True)
VARIANTS = ("base", "described", "schema", "annotated", "renamed", "destructive")
COUNTER = itertools.count(1)


class Item(BaseModel):
    """An item with an id that is never the same."""

    id: int
    name: str


class Items(BaseModel):
    """Items."""

    at: int
    items: list[Item]


def build(variant: str, notes: Path) -> MCPServer:
    """The server of a variant; ``notes`` is what its writing tool changes."""
    server = MCPServer(f"replayed-{variant}", version="2.0")
    described = "Adds two whole numbers, and more." if variant == "described" else "Adds two whole numbers."
    hints = READ_ONLY
    if variant == "annotated":
        hints = ToolAnnotations(read_only_hint=False)
    elif variant == "destructive":
        hints = ToolAnnotations(read_only_hint=True, destructive_hint=True)

    def add(a: int, b: int = 1) -> int:
        return a + b

    def add_named(a: int, b: int, round_to: int) -> int:
        return round(a + b, round_to)

    add_named.__name__ = "add"  # the SDK puts it into the schemas

    server.tool(name="sum" if variant == "renamed" else "add", description=described, annotations=hints)(
        add_named if variant == "schema" else add
    )

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def count() -> str:
        """Says how often it was called: never the same."""
        return f"call {next(COUNTER)}"

    @server.tool(annotations=READ_ONLY)
    def items(names: list[str]) -> Items:
        """Items with ids that are never the same."""
        return Items(at=next(COUNTER), items=[Item(id=next(COUNTER), name=name) for name in names])

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def big(megabytes: int, letter: str = "x") -> str:
        """Says a lot."""
        return letter * (megabytes * 1024 * 1024)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def fail(why: str = "because") -> str:
        """Always fails."""
        raise ToolError(why)

    @server.tool(structured_output=False)
    def note(text: str) -> str:
        """Writes a note."""
        with notes.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        return f"noted {text}"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def login(user: str, password: Annotated[str, Field(json_schema_extra={"format": "password"})]) -> str:
        """Repeats a secret, as careless servers do."""
        return f"{user} logged in with {password}"

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--default", default="base", help="the variant at /mcp")
    options = parser.parse_args()
    paths = {name: name for name in VARIANTS} | {"mcp": options.default}
    serve_asgi(
        {
            path: build(variant, options.notes).streamable_http_app(
                streamable_http_path=f"/{path}", json_response=True, stateless_http=True
            )
            for path, variant in paths.items()
        },
        port=options.port,
    )
