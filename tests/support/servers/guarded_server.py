"""A server on fastmcp, 3.x or 4.x, at `/mcp`, and the authorization server that comes with it.

Clients register themselves; whoever opens the login page is logged in. POST `/end` ends all access tokens.
"""

import argparse

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from serving import end_with_parent, listening_socket
from starlette.requests import Request
from starlette.responses import Response


def guarded(origin: str) -> FastMCP:
    """A server with one tool, for those who may ``read``."""
    provider = InMemoryOAuthProvider(
        base_url=origin,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["read"],
    )
    server = FastMCP("guarded", auth=provider)

    @server.tool
    def double(value: int) -> int:
        """Doubles a number."""
        return value * 2

    @server.custom_route("/end", methods=["POST"])
    async def end(request: Request) -> Response:
        provider.access_tokens.clear()
        return Response()

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    listener = listening_socket(parser.parse_args().port)
    app = guarded(f"http://127.0.0.1:{listener.getsockname()[1]}").http_app(path="/mcp")
    end_with_parent()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
