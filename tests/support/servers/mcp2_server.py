"""Servers on the official SDK 2.x: `/stateful`, `/stateless`, `/json`, `/stateless-json`, `/sse`."""

import argparse

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from serving import serve_asgi
from workshop import add_tools

VARIANTS = {
    "stateful": {},
    "stateless": {"stateless_http": True},
    "json": {"json_response": True},
    "stateless-json": {"stateless_http": True, "json_response": True},
}


def workshop() -> MCPServer:
    """A server with the tools."""
    server = MCPServer("workshop", version="2.0", instructions="Tools for tests.")
    add_tools(server.tool(), Context, Image)
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    options = parser.parse_args()
    apps = {
        name: workshop().streamable_http_app(streamable_http_path=f"/{name}", **settings)
        for name, settings in VARIANTS.items()
    }
    apps["sse"] = apps["messages"] = workshop().sse_app()
    serve_asgi(apps, port=options.port, certificate=options.certificate)
