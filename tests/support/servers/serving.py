"""What the server scripts share: a loopback socket, a line that names it, an end when the parent ends."""

import logging
import os
import socket
import sys
import threading


def end_with_parent() -> None:
    """Ends this process when standard input closes, so that a killed test run leaves no server behind."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def listening_socket(port: int) -> socket.socket:
    """A listening loopback socket; port 0 takes a free one. Prints the line the parent waits for."""
    # With the protocol spelled out asyncio switches Nagle's algorithm off; otherwise each reply takes 40 ms.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(128)
    print(f"listening on 127.0.0.1:{server.getsockname()[1]}", flush=True)
    return server


def serve_asgi(apps: dict, *, port: int, certificate: str | None = None) -> None:
    """Serves several Starlette applications in one process, told apart by the first part of the path.

    Args:
        apps: First path part (`sse`) to application; an application sees the whole path.
        port: Loopback port, 0 for a free one.
        certificate: PEM file with key and chain; makes it an HTTPS server.
    """
    import uvicorn
    from starlette.responses import PlainTextResponse

    async def dispatch(scope, receive, send):
        if scope["type"] == "lifespan":
            await _lifespan(list(dict.fromkeys(apps.values())), receive, send)
            return
        app = apps.get(scope["path"].split("/")[1], PlainTextResponse("no such server", 404))
        await app(scope, receive, send)

    # Plain warnings: the SDKs' boxed and coloured tracebacks take a server up to a second each.
    logging.basicConfig(level=logging.WARNING, force=True)
    logging.getLogger("fastmcp").handlers.clear()
    logging.getLogger("fastmcp").propagate = True
    config = uvicorn.Config(dispatch, log_level="warning", log_config=None, ssl_certfile=certificate)
    server = uvicorn.Server(config)
    end_with_parent()
    server.run(sockets=[listening_socket(port)])


async def _lifespan(apps: list, receive, send) -> None:
    from contextlib import AsyncExitStack

    await receive()
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.router.lifespan_context(app))
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})
