"""An MCP server that answers at once, so that a benchmark measures the client and not the server.

Raw asyncio, protocol 2026-07-28 and the handshake of earlier ones, JSON or SSE replies, everything prepared
before the first request. Run as a script it prints its URL and serves until its standard input closes.
"""

import argparse
import asyncio
import json
import sys

REVISION = "2026-07-28"
LIST_PAGE = 500
NO_STREAM = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"  # for GET and DELETE


def tool(index: int) -> dict[str, object]:
    """A definition as large as real ones are."""
    return {
        "name": f"tool_{index:05}",
        "title": f"Tool {index}",
        "description": f"Searches collection {index} for documents that match a query, best first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True},
    }


def result(**members: object) -> dict[str, object]:
    """A result of the 2026-07-28 revision."""
    return {"resultType": "complete", **members}


def handshake(params: dict[str, object]) -> dict[str, object]:
    """The answer to clients that open a session; whichever revision they want."""
    return {
        "protocolVersion": params.get("protocolVersion"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "fast", "version": "1"},
    }


class Server:
    """Answers discover, list and call.

    Args:
        tools: How many tools are listed, in pages of `LIST_PAGE`.
        latency: Seconds that a call takes.
        text: What every call returns.
        sse: Whether replies are streams of one event.
    """

    def __init__(
        self,
        *,
        tools: int = 50,
        latency: float = 0.0,
        text: str = "found 3 documents",
        sse: bool = False,
    ) -> None:
        self.latency = latency
        self.sse = sse
        definitions = [tool(i) for i in range(tools)]
        self.pages = [
            result(
                tools=definitions[start : start + LIST_PAGE],
                ttlMs=0,
                cacheScope="private",
                **({"nextCursor": str(start + LIST_PAGE)} if start + LIST_PAGE < tools else {}),
            )
            for start in range(0, max(tools, 1), LIST_PAGE)
        ]
        self.discovered = result(
            supportedVersions=[REVISION], capabilities={"tools": {}}, ttlMs=60_000, cacheScope="public"
        )
        self.called = result(content=[{"type": "text", "text": text}])
        self.cached: dict[str, bytes] = {}

    async def serve(self) -> tuple[asyncio.Server, str]:
        """Starts listening on a free loopback port; returns the server and its MCP URL."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        return server, f"http://127.0.0.1:{port}/mcp"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_content_length(head))
                writer.write(await self._reply(json.loads(body)) if body else NO_STREAM)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, message: dict[str, object]) -> bytes:
        params = message.get("params") or {}
        match message["method"]:
            case "server/discover":
                key, value = "discover", self.discovered
            case "tools/list":
                page = int(params.get("cursor") or 0) // LIST_PAGE
                key, value = f"list {page}", self.pages[page]
            case "tools/call":
                if self.latency:
                    await asyncio.sleep(self.latency)
                key, value = "call", self.called
            case "initialize":
                key, value = "initialize", handshake(params)
            case _:
                return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        if key not in self.cached:
            self.cached[key] = json.dumps(value).encode()
        payload = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], self.cached[key])
        if self.sse:
            event = b"event: message\ndata: %b\n\n" % payload
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
            )
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(payload)
            + payload
        )


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def main() -> None:
    """Serves until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", type=int)
    parser.add_argument("latency", type=float, help="seconds")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("--size", type=int, default=0, help="characters of a result")
    parser.add_argument("--text", default="found 3 documents", help="what every call returns")
    options = parser.parse_args()
    text = options.text
    text = (text + ", " + "lorem ipsum " * (options.size // 12))[: max(options.size, len(text))]
    server, url = await Server(
        tools=options.tools, latency=options.latency, text=text, sse=options.sse
    ).serve()
    print(url, flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
