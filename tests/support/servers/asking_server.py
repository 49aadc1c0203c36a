"""A server on the official SDK that asks back, for a form and for the model; it also links to resources."""

import argparse
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp.types import CreateMessageResult, ResourceLink, SamplingMessage, TextContent
from pydantic import BaseModel, Field
from serving import serve_asgi

NOTES = "The desk is 80 cm high."


class Order(BaseModel):
    """What `order` wants to know."""

    name: Annotated[str, Field(description="<script>window.pwned=1</script>")]
    pieces: Annotated[int, Field(ge=1, le=9)] = 1
    size: Literal["small", "large"] = "small"
    gift: bool | None = None


def who_orders() -> Elicit[Order]:
    return Elicit("Who orders?", Order)


def short(text: str) -> Sample:
    said = SamplingMessage(role="user", content=TextContent(type="text", text=f"Summarize: {text}"))
    return Sample([said], max_tokens=7, system_prompt="Be short.")


def asking() -> MCPServer:
    server = MCPServer("asking server", version="1.0")

    @server.tool(structured_output=False)
    def order(answer: Annotated[ElicitationResult[Order], Resolve(who_orders)]) -> str:
        """Orders a desk for somebody."""
        return f"{answer.action} {getattr(answer, 'data', None)!r}"

    @server.tool(structured_output=False)
    def summarize(text: str, answer: Annotated[CreateMessageResult, Resolve(short)]) -> str:
        """Has a text summarized by the client's model."""
        return f"{answer.model}: {answer.content.text}"

    @server.tool(structured_output=False)
    def notes() -> list[ResourceLink]:
        """Says where the notes are."""
        return [ResourceLink(type="resource_link", name="notes", uri="notes:///today.md")]

    @server.resource("notes:///today.md", mime_type="text/markdown")
    def today() -> str:
        """Today's notes."""
        return NOTES

    @server.resource("notes:///long.txt", mime_type="text/plain")
    def long() -> str:
        """Notes that are too long to be shown at once."""
        return "0123456789" * 10_000

    @server.prompt()
    def letter(to: str, tone: str = "friendly") -> str:
        """Begins a letter."""
        return f"Write a {tone} letter to {to}."

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    serve_asgi({"mcp": asking().streamable_http_app(streamable_http_path="/mcp")}, port=options.port)
