"""Faults before the first call: no server, no TLS, no HTTP, no end of the tool list, other servers."""

import contextlib
import json
import socket
import ssl
import threading

import pytest
import trustme

from knime_mcp.tools import BearerAuth, Limits, MCPClient, NetworkSettings
from knime_mcp.types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, TimedOut
from tests.faults.rows import HURRIED, PATIENT, run_rows, script_for
from tests.support.scripted_server import Part, ScriptedServer, http, legacy, modern, rpc, stream

SECRET = "s3cret-s3cret"


class RawServer:
    """Accepts connections and does one thing with each, before anything is read.

    Args:
        act: What to do with a connection; it is closed afterwards.
    """

    def __init__(self, act):
        self._act = act
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.02)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join(30)
        self._listener.close()

    def wait(self, sock):
        """Says nothing until the client goes away."""
        while not self._stopped.is_set():
            with contextlib.suppress(TimeoutError):
                sock.settimeout(0.02)
                if not sock.recv(4096):
                    return

    def _serve(self):
        while not self._stopped.is_set():
            with contextlib.suppress(OSError), self._listener.accept()[0] as sock:
                self._act(self, sock)


def send(*parts, stay=False):
    def act(server, sock):
        for part in parts:
            sock.sendall(part)
        if stay:
            server.wait(sock)

    return act


ALERT = b"\x15\x03\x03\x00\x02\x02\x28"  # fatal, handshake failure
RAW = {
    "closes at once": ("http", send(), ConnectError, "before it replied", None),
    "accepts and stalls": ("http", lambda server, sock: server.wait(sock), TimedOut, "sent nothing", "idle"),
    "talks first": ("http", send(b"220 mail.example\r\n", stay=True), TimedOut, "sent nothing", "idle"),
    "TLS alert": ("https", send(ALERT), ConnectError, "HANDSHAKE_FAILURE", None),
    "TLS that is HTTP": ("https", send(b"HTTP/1.1 400 Bad\r\n\r\n"), ConnectError, "try http://", None),
    "TLS that closes": ("https", send(), ConnectError, "", None),
    "TLS that stalls": (
        "https",
        lambda server, sock: server.wait(sock),
        TimedOut,
        "No connection",
        "connect",
    ),
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_server_is_an_error_that_says_what_to_do(name):
    scheme, act, kind, words, clock = RAW[name]
    with RawServer(act) as server:
        client = MCPClient(
            f"{scheme}://127.0.0.1:{server.port}/mcp", timeouts=HURRIED[clock] if clock else PATIENT
        )
        with pytest.raises(kind) as caught:
            client.connect()
    assert words in str(caught.value)
    assert caught.value.fix
    if scheme == "https" and kind is ConnectError:
        assert caught.value.phase == "tls"


def test_a_server_that_breaks_off_tls_in_the_middle_of_a_reply(tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    half = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    with (
        ScriptedServer(script_for("modern-json", [half, Part.RESET]), tls=context) as server,
        MCPClient(
            server.url, timeouts=PATIENT, network=NetworkSettings(ca_file=str(tmp_path / "ca.pem"))
        ) as client,
    ):
        rows = run_rows(client)
    assert [row.number for row in rows if not row.good] == [2, 5]
    assert "in the middle of its reply" in str(rows[2].outcome)


def test_nothing_of_a_call_reaches_another_server(subtests):
    for status in [301, 302, 303, 307, 308]:
        for way in ["modern-json", "legacy-json"]:
            with subtests.test(status=status, way=way):
                with ScriptedServer({"*": rpc({})}) as other:
                    fault = http(status, headers={"Location": f"{other.url}?token={SECRET}"})
                    with (
                        ScriptedServer(script_for(way, fault)) as server,
                        MCPClient(
                            server.url, timeouts=PATIENT, auth=BearerAuth(SECRET), headers={"X-Key": SECRET}
                        ) as client,
                    ):
                        rows = run_rows(client)
                    assert other.connections == 0
                for number in (2, 5):
                    assert isinstance(rows[number].outcome, ConnectError)
                    assert f"127.0.0.1:{other.port}" in str(rows[number].outcome)
                    assert SECRET not in str(rows[number].outcome)
                assert sum(row.good for row in rows) == len(rows) - 2


def page(request):
    number = int(request.params.get("cursor", "0"))
    return rpc({"tools": [{"name": f"t{number}"}], "nextCursor": str(number + 1)})(request)


LISTINGS = {
    "endless pages": (page, ResultTooLarge, "more than 40 pages"),
    "cursor loop": (
        [rpc({"tools": [{"name": c}], "nextCursor": c}) for c in "aba"],
        ProtocolError,
        "in circles",
    ),
    "endless tools": (rpc({"tools": [{"name": "t"}] * 500}), ResultTooLarge, "more than 100 tools"),
    "no list": (rpc({"tools": {"a": 1}}), ProtocolError, "not a list"),
    "lifetime beyond all numbers": (rpc({"tools": [], "ttlMs": 10**400}), None, ""),
    "negative lifetime": (rpc({"tools": [], "ttlMs": -(10**400)}), None, ""),
    "tools that are none": (rpc({"tools": [1, None, {}, {"name": 3}, {"name": ""}, []]}), None, ""),
    "schema that is none": (rpc({"tools": [{"name": "t", "inputSchema": [1], "outputSchema": 3}]}), None, ""),
    "huge page": (
        rpc({"tools": [{"name": "t", "description": "x" * 500_000}]}),
        ResultTooLarge,
        "larger than",
    ),
    "deep schema": (
        lambda r: http(
            200,
            f'{{"jsonrpc": "2.0", "id": {r.json["id"]}, "result": {{"tools": [{{"name": "t", "inputSchema": '
            + '{"not":' * 300
            + "{}"
            + "}" * 300
            + "}]}}",
        ),
        ProtocolError,
        "nested too deeply",
    ),
}


def test_a_list_of_tools_ends_whatever_it_is(subtests):
    for name in LISTINGS:
        with subtests.test(name=name):
            reply, kind, words = LISTINGS[name]
            limits = Limits(pages=40, tools=100, result_bytes=300_000)
            with (
                ScriptedServer(modern(tools__list=reply)) as server,
                MCPClient(server.url, timeouts=PATIENT, limits=limits) as client,
            ):
                if kind is None:
                    client.list_tools()
                else:
                    with pytest.raises(kind, match=words):
                        client.list_tools()
                assert client.call_tool("echo").text == "hi"


def test_an_event_of_100_megabytes_ends_at_the_limit():
    block = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    def reply(request):
        return [*stream(end=False)(request), b"6\r\ndata: \r\n", *([block] * 1600)]

    with (
        ScriptedServer(script_for("modern-sse", reply)) as server,
        MCPClient(server.url, timeouts=PATIENT) as client,
    ):
        rows = run_rows(client, rows=4, bad=(1,))
    assert isinstance(rows[1].outcome, ResultTooLarge)
    assert "an event of more than 67108864 bytes" in str(rows[1].outcome)
    assert [row.good for row in rows] == [True, False, True, True]


HANDSHAKES = {
    "html": http(200, "<html><title>Hello</title>", content_type="text/html"),
    "nothing": http(204, content_type=None),
    "list": http(200, "[]"),
    "wrong shapes": rpc({"supportedVersions": {}, "protocolVersion": [], "capabilities": 3, "serverInfo": 4}),
    "endless versions": rpc({"supportedVersions": ["9" * 100_000], "protocolVersion": "9" * 100_000}),
    "versions of no kind": lambda r: http(
        400,
        json.dumps(
            {"id": None, "error": {"code": -32022, "message": "no", "data": {"supported": [[], {}, 1]}}}
        ),
    ),
    "always another version": lambda r: http(
        400,
        json.dumps(
            {
                "id": 1,
                "error": {
                    "code": -32022,
                    "message": "no",
                    "data": {"supported": ["2026-07-28", "2025-11-25"]},
                },
            }
        ),
    ),
    "redirect in circles": http(308, headers={"Location": "/mcp"}),
    "429 for ever": http(429, headers={"Retry-After": "0"}),
    "503 for ever": http(503, headers={"Retry-After": "0"}),
    "close": [Part.CLOSE],
    "garbage": [b"\x00\xff\xfe" * 100, Part.CLOSE],
    "404": http(404, "not here", content_type="text/plain"),
    "endless stream": stream(*[b"data: {}\n\n"] * 3000),
}


def test_negotiation_ends_whatever_is_answered(subtests):
    for transport in ["auto", "sse"]:
        for name in HANDSHAKES:
            with subtests.test(transport=transport, name=name):
                limits = Limits(events=500)
                with ScriptedServer({"*": HANDSHAKES[name]}) as server:
                    client = MCPClient(server.url, timeouts=PATIENT, transport=transport, limits=limits)
                    with pytest.raises(MCPError) as caught:
                        client.connect()
                    assert len(server.requests) <= 12
                assert len(str(caught.value)) < 3000


def test_a_server_that_closes_its_connections_after_each_reply_is_connected_to():
    """Without saying so, and late enough for the next request to be lost."""

    def closing(reply):
        return lambda request: [*(reply(request) if callable(reply) else reply), 0.02, Part.CLOSE]

    script = {method: closing(reply) for method, reply in legacy().items()}
    with ScriptedServer(script) as server, MCPClient(server.url) as client:
        assert client.server.protocol_version == "2025-11-25"
        assert len(client.list_tools()) == 1
