"""A server for the tests of the command line, on the official SDK: open, guarded and odd paths on one port.

Run as a child process with the secret that the guarded paths want; ends when its standard input closes.
Writes a line per event (`canceled`, `called …`) to the file that it is given.
"""

import asyncio
import contextlib
import socket
import sys
import threading
from pathlib import Path

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

SECRET, EVENTS = sys.argv[1], Path(sys.argv[2])
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301"
    "0100c9fe92ef0000000049454e44ae426082"
)


def event(text: str) -> None:
    with EVENTS.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def build(name: str) -> MCPServer:
    server = MCPServer(name, version="1.2.3", log_level="ERROR", instructions="Only for tests.")

    @server.tool()
    def echo(text: str, times: int = 1) -> str:
        """Say it again."""
        event(f"called echo {text}")
        return " ".join([text] * times)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def show(code: str, tags: list[str] | None = None, strict: bool = False) -> dict[str, object]:
        """Return the arguments as they came."""
        return {"code": code, "tags": tags, "strict": strict}

    @server.tool()
    def fail(why: str = "no reason") -> str:
        """Fail."""
        raise ToolError(f"It went wrong: {why}")

    @server.tool(structured_output=False)
    def picture() -> list[object]:
        """Return a text and a picture."""
        return ["one pixel", Image(data=PIXEL, format="png")]

    @server.tool()
    async def slow(seconds: float, context: Context, label: str = "") -> str:
        """Take some time and tell how far it is."""
        event(f"started {label}")
        try:
            for step in range(10):
                await context.report_progress(step, 10, f"step {step} of 10")
                await anyio.sleep(seconds / 10)
        except BaseException:
            event("canceled")
            raise
        return f"done {label}"

    @server.tool()
    def nasty() -> str:
        """Return control characters."""
        return "red \x1b[31m and \x07 bell"

    return server


class Guard:
    """Lets only requests with the secret pass: as Bearer token, Basic or X-API-Key."""

    def __init__(self, app) -> None:
        self.app = app

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        import base64

        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        basic = "Basic " + base64.b64encode(f"anna:{SECRET}".encode()).decode()
        if headers.get("authorization") in (f"Bearer {SECRET}", basic) or headers.get("x-api-key") == SECRET:
            return await self.app(scope, receive, send)
        refusal = Response("who are you?", 401, headers={"WWW-Authenticate": 'Bearer realm="tests"'})
        return await refusal(scope, receive, send)


async def main() -> None:
    open_app = build("tests").streamable_http_app(stateless_http=True)
    stateful = build("tests-stateful").streamable_http_app()
    guarded = build("tests-guarded").streamable_http_app(stateless_http=True)
    old = build("tests-old").sse_app()

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with contextlib.AsyncExitStack() as stack:
            for inner in (open_app, stateful, guarded):
                await stack.enter_async_context(inner.router.lifespan_context(inner))
            yield

    app = Starlette(
        routes=[
            Route(
                "/page",
                lambda _: HTMLResponse("<html><body>Please log in</body></html>"),
                methods=["GET", "POST"],
            ),
            Route("/forbidden", lambda _: PlainTextResponse("no", 403), methods=["GET", "POST"]),
            Mount("/stateful", stateful),
            Mount("/guarded", Guard(guarded)),
            Mount("/old", old),
            Mount("/", open_app),
        ],
        lifespan=lifespan,
    )
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))

    def end_with_stdin() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        server.should_exit = True

    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listening])


asyncio.run(main())
