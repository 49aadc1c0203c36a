"""Servers on loopback whose tools and manners each test decides."""

from contextlib import ExitStack

import pytest

from tests.support.scripted_server import ScriptedServer, discover, http, modern, rpc


def listing_server(tools=(), *, name="shop", instructions=None, wants=None, status=None, listing=None):
    """A server that lists tools.

    `wants`: headers without which it answers 401. `status`: what it answers everything with. `listing`: its
    reply instead of a list of the tools.
    """
    if status is not None:
        return ScriptedServer({"*": http(status, '{"error": "no"}'), "GET": http(405)})
    about = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": name, "version": "1.5"}}}
    if instructions is not None:
        about["instructions"] = instructions
    listed = listing or rpc({"tools": list(tools), "resultType": "complete"})
    script = modern(server__discover=discover(**about), tools__list=listed)
    return ScriptedServer({method: _guarded(reply, wants or {}) for method, reply in script.items()})


def _guarded(reply, wants):
    def guarded(request):
        if all(request.headers.get(name.lower()) == value for name, value in wants.items()):
            return reply(request) if callable(reply) else reply
        return http(401, '{"error": "no"}', headers={"WWW-Authenticate": "Bearer"})

    return guarded


@pytest.fixture
def serve():
    """Starts servers that end with the test; takes what `listing_server` takes."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(listing_server(*args, **options))
