"""What happens when a server refuses a login that can be renewed: 401 and 403 on one request."""

import threading
import time

import pytest

from knime_mcp.client.limits import Timeouts
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.errors import AuthError, Canceled
from tests.client.logins import NO_TOKEN, Renewing
from tests.support.scripted_server import Part, ScriptedServer, http, modern, rpc, text
from tests.support.waiting import until

pytestmark = pytest.mark.quick


NO_SCOPE = http(403, "more", headers={"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="b"'})


def test_a_login_and_a_step_up_on_one_request(era):
    auth = Renewing()
    script = era(tools__call=[NO_TOKEN, NO_SCOPE, rpc(text("in"))])
    with ScriptedServer(script) as server, MCPClient(server.url, auth=auth) as client:
        assert client.call_tool("echo").text == "in"
    assert auth.seen == [401, 403]
    sent = [request.headers["authorization"] for request in server.named("tools/call")]
    assert sent == ["Bearer token-0", "Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_server_that_is_never_content_is_given_so_many_logins(attempts):
    auth = Renewing()
    with (
        ScriptedServer(modern(tools__call=NO_TOKEN)) as server,
        MCPClient(server.url, auth=auth, limits=Limits(attempts=attempts)) as client,
        pytest.raises(AuthError, match="401"),
    ):
        client.call_tool("echo")
    assert auth.seen == [401] * attempts
    assert len(server.named("tools/call")) == attempts + 1


def test_a_refusal_keeps_its_words_when_there_is_nothing_to_renew():
    auth = Renewing(lambda _: False)
    with (
        ScriptedServer(modern(tools__call=http(403, "no entry for you"))) as server,
        MCPClient(server.url, auth=auth) as client,
    ):
        with pytest.raises(AuthError, match="no entry for you"):
            client.call_tool("echo")
        client.list_tools()
    assert server.connections == 1, "the connection of a refusal serves on"


@pytest.mark.parametrize("ending", [Part.STALL, Part.CLOSE])
def test_a_refusal_that_does_not_end_is_given_up_before_the_login(ending):
    """A login can take minutes, and must not hold a connection for all that time."""
    head = b"HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer\r\nContent-Length: 99\r\n\r\nhalf"
    gone = []
    auth = Renewing(lambda _: gone.append(server.disconnected.wait(30)) or True)
    with (
        ScriptedServer(modern(tools__call=[[head, ending], rpc(text("in"))])) as server,
        MCPClient(server.url, auth=auth) as client,
    ):
        if ending is Part.CLOSE:
            server.disconnected.set()
        assert client.call_tool("echo").text == "in"
    assert gone == [True]


def test_a_slow_login_is_not_silence_of_the_server():
    auth = Renewing(lambda _: time.sleep(1.2) or True)
    with (
        ScriptedServer(modern()) as server,
        MCPClient(server.url, auth=auth, timeouts=Timeouts(idle=1.0)) as client,
    ):
        server.script["tools/call"] = [NO_TOKEN, lambda request: [0.1, *rpc(text("in"))(request)]]
        assert client.call_tool("echo").text == "in"


def test_a_login_that_fails_is_a_step_of_the_trace():
    def fail(_):
        raise AuthError("The person said no", status=401)

    steps = []
    with (
        ScriptedServer({"*": NO_TOKEN}) as server,
        pytest.raises(AuthError, match="The person said no"),
        MCPClient(server.url, auth=Renewing(fail), trace=steps.append),
    ):
        pass
    step = steps[-1]
    assert (step.phase, step.ok, step.detail) == ("auth", False, "The person said no")


def test_cancel_ends_a_login():
    canceled = threading.Event()

    def wait_for_a_person(_):
        canceled.set()
        until(auth.is_canceled)
        raise Canceled("Canceled")

    auth = Renewing(wait_for_a_person)
    with (
        ScriptedServer(modern(tools__call=NO_TOKEN)) as server,
        MCPClient(server.url, auth=auth) as client,
        pytest.raises(Canceled),
    ):
        client.call_tool("echo", is_canceled=canceled.is_set)
