"""No secret leaves the client: not in errors, representations, tracebacks or logs, whatever a server
echoes."""

import logging
import traceback
import warnings
from types import TracebackType

import pytest

from knime_mcp.tools import BasicAuth, BearerAuth, HeaderAuth, MCPClient, NetworkSettings, Timeouts
from knime_mcp.types.errors import MCPError, ServerError, SettingInvalid
from tests.support.scripted_server import Part, ScriptedServer, http, legacy, modern, rpc, rpc_error, text

pytestmark = pytest.mark.quick


CANARY = "c4n4ry-5ecret-v4lue"
AUTHS = [BearerAuth(CANARY), BasicAuth("user", CANARY), HeaderAuth("X-API-Key", CANARY)]


def echo_everything(request):
    """A hostile or careless server: whatever it got comes back in its error."""
    everything = f"{request.target} {request.headers} {request.body!r}"
    return rpc_error(-32603, everything, {"all": [everything]}, status=400)(request)


SCRIPTS = [
    {"*": echo_everything},
    legacy(session="s", tools__call=echo_everything),
    modern(tools__call=echo_everything),
    modern(tools__call=lambda r: http(500, str(r.headers), content_type="text/plain")),
    modern(tools__call=lambda r: http(401, "", headers={"WWW-Authenticate": f'Bearer error="{CANARY}"'})),
    modern(
        tools__call=lambda r: http(200, f"<title>{r.headers}{r.target}</title>", content_type="text/html")
    ),
    modern(tools__call=lambda r: http(307, headers={"Location": f"http://other.example/{r.target}"})),
    modern(tools__call=[[Part.CLOSE]]),
    modern(tools__call=[[Part.STALL]]),
    modern(tools__call=http(200, "{")),
    modern(tools__call=[[b"nonsense " + CANARY.encode() + b"\r\n\r\n", Part.CLOSE]]),
]


@pytest.mark.parametrize("auth", AUTHS, ids=lambda auth: type(auth).__name__)
@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_no_error_shows_a_secret(script, auth, caplog):
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(script) as server, warnings.catch_warnings():
        client = MCPClient(
            f"{server.url}?key={CANARY}&x=%2F{CANARY}",
            auth=auth,
            headers={"X-Custom": CANARY},
            timeouts=Timeouts(total=0.5),
        )
        with pytest.raises(MCPError) as caught:
            client.call_tool("echo", {"password": "arg-" + CANARY[:6]})
        client.close()
    error = caught.value
    shown = [str(error), repr(error), error.what, str(error.fix), str(error.args), repr(client), repr(auth)]
    shown += traceback.format_exception(error)
    shown.append(caplog.text)
    if isinstance(error, ServerError):
        shown.append(repr(error.data))
    for representation in shown:
        assert CANARY not in representation
    assert error.__cause__ is None
    assert error.server == server.url
    assert error.__suppress_context__


def test_no_traceback_leads_to_a_credential():
    def fail():
        with MCPClient("http://127.0.0.1:1/mcp", auth=BearerAuth(CANARY)) as client:
            client.call_tool("echo", {})

    with pytest.raises(MCPError) as caught:
        fail()
    tracebacks, found = [caught.value.__traceback__], []
    while tracebacks:
        for frame, _ in traceback.walk_tb(tracebacks.pop()):
            if frame.f_code.co_filename == __file__:
                continue
            found += [frame.f_code.co_qualname for value in frame.f_locals.values() if CANARY in repr(value)]
            tracebacks += [value for value in frame.f_locals.values() if isinstance(value, TracebackType)]
    assert found == []


def test_logs_of_a_good_call_hold_no_payload(caplog):
    caplog.set_level(logging.DEBUG)
    script = legacy(session=CANARY, tools__call=rpc(text(CANARY), headers={"Set-Cookie": f"a={CANARY}"}))
    with (
        ScriptedServer(script) as server,
        MCPClient(f"{server.url}?k={CANARY}", auth=BearerAuth(CANARY)) as client,
    ):
        assert client.call_tool("echo", {"x": CANARY}).text == CANARY
        assert CANARY not in repr(client.server)
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "   ",
        "nonsense",
        f"ftp://host/{CANARY}",
        f"http://user:{CANARY}@host/mcp",
        f"http://host:{CANARY}/mcp",
        f"http:///{CANARY}",
        f"http://host:0/{CANARY}",
        f"http://ho st/{CANARY}",
        f"http://[{CANARY}/mcp",
        f"http://0177.0.0.1/{CANARY}",
        f"http://1.2.3.256/{CANARY}",
        f"http://xn--a/{CANARY}",
        f"http://ex\u2028ample/{CANARY}",
        f"http://[v1.x]/{CANARY}",
        f"http://\ufb03.example/{CANARY}",
        f"http://host/\ud800{CANARY}",
        f"http://host/{CANARY}{'x' * 70_000}",
    ],
)
def test_urls_that_cannot_work(url):
    with pytest.raises(SettingInvalid) as caught:
        MCPClient(url)
    assert caught.value.setting == "server_url"
    assert caught.value.fix
    assert CANARY not in str(caught.value)
    assert ("far too long" in str(caught.value)) == (len(url) > 65_536)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BearerAuth(""),
        lambda: BearerAuth(CANARY + "\n"),
        lambda: BearerAuth("Bearer " + CANARY),
        lambda: BearerAuth(CANARY + "ü"),
        lambda: BasicAuth("a:b", CANARY),
        lambda: HeaderAuth("X Key", CANARY),
        lambda: HeaderAuth("X-Key", CANARY + "\r\nX: y"),
        lambda: MCPClient("http://h/", headers={"X-A": CANARY + "\0"}).connect(),
        lambda: MCPClient("http://h/", headers={"Host": CANARY}).connect(),
        lambda: MCPClient("http://h/", headers={"MCP-Session-Id": CANARY}).connect(),
        lambda: MCPClient("http://h/", protocol_version="1999-01-01"),
        lambda: MCPClient().connect(),
        lambda: MCPClient("https://h/", network=NetworkSettings(proxy="socks5://h:1")).connect(),
        lambda: MCPClient("https://h/", network=NetworkSettings(proxy=f"http://a:{CANARY}@xn--a")).connect(),
    ],
)
def test_settings_that_cannot_work(make):
    with pytest.raises(SettingInvalid) as caught:
        make()
    assert CANARY not in str(caught.value)


def test_credentials_and_custom_headers_are_on_every_request_and_nothing_else_is():
    with ScriptedServer(legacy(session="s")) as server:
        auth = BasicAuth("ü", "pä")
        with MCPClient(server.url, auth=auth, headers={"X-Custom": "1"}) as client:
            client.call_tool("echo")
    for request in server.requests:
        assert request.headers["authorization"] == "Basic w7w6cMOk"
        assert request.headers["x-custom"] == "1"
        assert "origin" not in request.headers
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert request.headers["user-agent"].startswith("knime-mcp/")


def test_a_name_of_the_client_that_the_caller_gives_replaces_ours():
    with (
        ScriptedServer(modern()) as server,
        MCPClient(server.url, headers={"user-agent": "mine/1"}) as client,
    ):
        client.call_tool("echo")
    assert {request.headers["user-agent"] for request in server.requests} == {"mine/1"}


def test_cookies_stay_with_their_server():
    script = modern()
    script["server/discover"] = lambda r: [
        modern()["server/discover"](r)[0].replace(b"\r\n\r\n", b"\r\nSet-Cookie: lb=7; Path=/\r\n\r\n", 1)
    ]
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        client.call_tool("echo")
    assert "cookie" not in server.requests[0].headers
    assert server.requests[1].headers["cookie"] == "lb=7"


def test_equal_credentials_share_an_identity_and_others_do_not():
    assert BearerAuth("a").identity == BearerAuth("a").identity
    assert len({BearerAuth("a").identity, BearerAuth("b").identity, BasicAuth("a", "a").identity}) == 3
    assert "a" * 12 not in BearerAuth("a" * 12).identity


def test_the_refusal_says_what_is_sent_and_what_is_wanted():
    challenge = {"WWW-Authenticate": 'Bearer scope="tools"'}
    with (
        ScriptedServer({"*": http(401, "", headers=challenge)}) as server,
        pytest.raises(MCPError, match="wants a Bearer token; you send a user name and password") as caught,
    ):
        MCPClient(server.url, auth=BasicAuth("u", "p")).connect()
    assert "send_credentials_as" in str(caught.value)
    with (
        ScriptedServer({"*": http(401, "", headers=challenge)}) as server,
        pytest.raises(MCPError, match="401: the server does not accept what you send: a Bearer token"),
    ):
        MCPClient(server.url, auth=BearerAuth("s3cret")).connect()
    with (
        ScriptedServer({"*": http(403, "", headers=challenge)}) as server,
        pytest.raises(MCPError, match="scope tools"),
    ):
        MCPClient(server.url, auth=BearerAuth("t")).connect()
