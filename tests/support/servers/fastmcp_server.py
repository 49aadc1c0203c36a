"""A server on fastmcp, 3.x or 4.x: `/stateful`, `/stateless` and `/sse`, at one port."""

import argparse

from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image
from serving import serve_asgi
from workshop import add_tools


def workshop() -> FastMCP:
    """A server with the tools."""
    server = FastMCP("workshop", version="4.0", instructions="Tools for tests.")
    add_tools(server.tool, Context, Image)
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    apps = {
        "stateful": workshop().http_app(path="/stateful"),
        "stateless": workshop().http_app(path="/stateless", stateless_http=True),
        "sse": workshop().http_app(path="/sse", transport="sse"),
    }
    apps["messages"] = apps["sse"]
    serve_asgi(apps, port=options.port)
