"""Name look-up, TLS, proxies: which phase failed, and what was in use."""

import math
import select
import socket
import ssl
import threading
import time
from types import SimpleNamespace

import pytest
import trustme

from knime_mcp.client import network
from knime_mcp.client.network import Proxy
from knime_mcp.tools import MCPClient, NetworkSettings, Step, Timeouts
from knime_mcp.types.errors import Canceled, ConnectError, SettingInvalid, TimedOut
from tests.support.scripted_server import ScriptedServer, http, modern

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def authority():
    return trustme.CA(organization_name="Test authority")


@pytest.fixture
def tls_server(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with ScriptedServer(modern(), tls=context) as server:
        yield server


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def test_certificates_are_found_where_this_python_does_not_look(monkeypatch, ca_file):
    nowhere = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr(network, "_BUNDLES", ("/nowhere", ca_file))
    assert len(network._ssl_context(None, True).get_ca_certs()) == 1


def test_a_private_authority_is_trusted_by_its_file(tls_server, ca_file):
    steps: list[Step] = []
    with MCPClient(tls_server.url, network=NetworkSettings(ca_file=ca_file), trace=steps.append) as client:
        assert client.call_tool("echo").text == "hi"
        client.list_tools()
    assert [step.phase for step in steps] == ["tcp", "tls", "protocol", "tools"]
    assert all(step.ok and step.seconds >= 0 for step in steps)
    (tls,) = [step for step in steps if step.phase == "tls"]
    assert "Test authority" in tls.detail
    assert "valid until" in tls.detail


def test_a_handshake_may_take_for_ever(tls_server, ca_file):
    endless = Timeouts(connect=math.inf, idle=math.inf, total=math.inf)
    network_settings = NetworkSettings(ca_file=ca_file)
    with MCPClient(tls_server.url, network=network_settings, timeouts=endless) as client:
        assert client.call_tool("echo").text == "hi"


def test_the_file_can_come_from_the_environment(tls_server, ca_file, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    with MCPClient(tls_server.url) as client:
        assert client.call_tool("echo").text == "hi"


def test_an_unknown_authority_is_refused_and_the_trust_store_named(tls_server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(ConnectError) as caught:
        MCPClient(tls_server.url).connect()
    assert caught.value.phase == "tls"
    assert "operating system's trust store" in str(caught.value)
    assert "CA file" in str(caught.value)
    assert tls_server.requests == []


def test_checking_can_be_turned_off_for_a_test_server(tls_server):
    with MCPClient(tls_server.url, network=NetworkSettings(verify=False)) as client:
        assert client.call_tool("echo").text == "hi"


def test_the_settings_hold_for_a_url_in_capitals(tls_server, ca_file):
    url = tls_server.url.replace("https:", "HTTPS:")
    with MCPClient(url, network=NetworkSettings(ca_file=ca_file)) as client:
        assert client.call_tool("echo").text == "hi"


def test_a_certificate_for_another_host(authority, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example").configure_cert(context)
    with ScriptedServer(modern(), tls=context) as server, pytest.raises(ConnectError) as caught:
        MCPClient(server.url, network=NetworkSettings(ca_file=ca_file)).connect()
    assert caught.value.phase == "tls"
    assert ca_file in str(caught.value)


def test_plain_http_on_the_port_of_a_https_url():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(ConnectError, match="try http://") as caught:
            MCPClient(url, network=NetworkSettings(verify=False)).connect()
        thread.join(30)
    assert caught.value.phase == "tls"


def test_https_on_the_port_of_a_http_url(tls_server):
    with pytest.raises(ConnectError) as caught:
        MCPClient(tls_server.url.replace("https:", "http:")).connect()
    assert caught.value.phase == "http"


def test_a_handshake_that_never_ends_can_be_canceled():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
        started = time.monotonic()
        with pytest.raises(Canceled):
            MCPClient(url, network=NetworkSettings(verify=False), timeouts=Timeouts(connect=60)).connect(
                is_canceled=lambda: time.monotonic() > started + 0.3
            )
        with pytest.raises(TimedOut) as caught:
            MCPClient(url, network=NetworkSettings(verify=False), timeouts=Timeouts(connect=0.3)).connect()
        assert caught.value.kind == "connect"


@pytest.mark.parametrize(("content", "reason"), [(None, "cannot be read"), ("no pem", "is not a PEM file")])
def test_a_ca_file_that_cannot_be_used(tmp_path, content, reason):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingInvalid, match=reason):
        MCPClient("https://127.0.0.1:1/", network=NetworkSettings(ca_file=str(path))).connect()


def test_one_ssl_context_for_all(ca_file):
    settings = NetworkSettings(ca_file=ca_file)
    assert settings.ssl_context() is NetworkSettings(ca_file=ca_file).ssl_context()
    assert settings.ssl_context() is not NetworkSettings(verify=False).ssl_context()


def test_a_name_that_nobody_knows():
    steps: list[Step] = []
    with pytest.raises(ConnectError) as caught:
        MCPClient(
            "http://no-such-host.invalid/mcp", network=NetworkSettings(proxy=""), trace=steps.append
        ).connect()
    assert caught.value.phase == "dns"
    assert "no-such-host.invalid" in str(caught.value)
    assert steps[0].phase == "dns"
    assert not steps[0].ok


def test_a_name_server_that_fails_once_is_asked_again(monkeypatch):
    look_up, failures = socket.getaddrinfo, [socket.gaierror(socket.EAI_AGAIN, "try again")]

    def flaky(host, *args, **options):
        if host == "localhost" and failures:
            raise failures.pop()
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", flaky)
    with (
        ScriptedServer(modern()) as server,
        MCPClient(server.url.replace("127.0.0.1", "localhost")) as client,
    ):
        assert client.call_tool("echo").text == "hi"
    assert not failures


def test_localhost_is_looked_up_and_reached():
    steps: list[Step] = []
    with (
        ScriptedServer(modern()) as server,
        MCPClient(server.url.replace("127.0.0.1", "localhost"), trace=steps.append) as client,
    ):
        assert client.call_tool("echo").text == "hi"
    assert [step.phase for step in steps][:2] == ["dns", "tcp"]


def test_a_proxy_from_the_settings_is_used():
    with ScriptedServer(modern()) as proxy:
        settings = NetworkSettings(proxy=f"http://us%40er:pw@127.0.0.1:{proxy.port}")
        with MCPClient("http://mcp.invalid/mcp?x=1", network=settings) as client:
            assert client.call_tool("echo").text == "hi"
    assert {request.target for request in proxy.requests} == {"http://mcp.invalid/mcp?x=1"}
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic dXNAZXI6cHc="


def test_a_proxy_from_the_environment_is_used_and_no_proxy_obeyed(monkeypatch):
    with ScriptedServer(modern()) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "intern.example, .corp.invalid,10.0.0.0/8")
        with MCPClient("http://mcp.invalid/mcp") as client:
            assert client.call_tool("echo").text == "hi"
        settings = NetworkSettings()
        assert settings.proxy_for("http://x.intern.example/") is None
        assert settings.proxy_for("http://a.corp.invalid/") is None
        assert settings.proxy_for("http://10.1.2.3/") is None
        assert settings.proxy_for("http://127.0.0.1/") is None
        assert settings.proxy_for("http://localhost:3/") is None
        assert settings.proxy_for("http://11.1.2.3/") is not None
        assert NetworkSettings(proxy="").proxy_for("http://mcp.invalid/") is None


@pytest.mark.parametrize(
    ("no_proxy", "direct", "through"),
    [
        ("*", ["http://a.invalid/", "http://10.1.2.3/"], []),
        ("localhost,*.corp.invalid", ["http://a.corp.invalid/"], ["http://a.invalid/"]),
        ("a.invalid b.invalid", ["http://a.invalid/", "http://b.invalid/"], ["http://c.invalid/"]),
        ("a.invalid:81", ["http://a.invalid:81/", "http://x.a.invalid:81/"], ["http://a.invalid/"]),
        ("a.invalid:80", ["http://a.invalid/"], ["http://a.invalid:81/", "https://a.invalid/"]),
    ],
)
def test_who_is_reached_without_a_proxy(monkeypatch, no_proxy, direct, through):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", no_proxy)
    settings = NetworkSettings()
    assert [settings.proxy_for(url) for url in direct] == [None] * len(direct)
    assert all(settings.proxy_for(url) is not None for url in through)


def test_a_proxy_that_is_not_there_is_named_without_its_login():
    with ScriptedServer() as server:
        pass
    settings = NetworkSettings(proxy=f"http://u:pw-s3cret@127.0.0.1:{server.port}")
    with pytest.raises(ConnectError) as caught:
        MCPClient("http://mcp.invalid/mcp", network=settings).connect()
    assert caught.value.phase == "proxy"
    assert str(server.port) in str(caught.value)
    assert "s3cret" not in str(caught.value) + repr(settings)


def test_a_proxy_that_refuses_to_connect():
    with ScriptedServer({"*": http(407)}) as proxy:
        settings = NetworkSettings(proxy=f"http://127.0.0.1:{proxy.port}", verify=False)
        with pytest.raises(ConnectError) as caught:
            MCPClient("https://mcp.invalid/mcp", network=settings).connect()
        assert caught.value.phase == "proxy"
        assert "407" in str(caught.value)
        with pytest.raises(ConnectError) as caught:
            MCPClient("http://mcp.invalid/mcp", network=settings).connect()
        assert caught.value.phase == "proxy"


def test_https_goes_through_a_tunnel(authority, ca_file):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("mcp.invalid").configure_cert(context)
    with ScriptedServer(modern(), tls=context) as server, _Tunnel(server.port) as tunnel:
        settings = NetworkSettings(proxy=f"http://127.0.0.1:{tunnel.port}", ca_file=ca_file)
        with MCPClient("https://mcp.invalid/mcp", network=settings) as client:
            assert client.call_tool("echo").text == "hi"
    assert tunnel.asked.startswith(b"CONNECT mcp.invalid:443 HTTP/1.1\r\n")


class _Tunnel:
    """A CONNECT proxy for one connection."""

    def __init__(self, target_port):
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket() as last:  # in case that nobody came
            last.connect_ex(("127.0.0.1", self.port))
        self._thread.join(30)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self):
        self._listener.settimeout(30)
        client, _ = self._listener.accept()
        while b"\r\n\r\n" not in self.asked:
            if not (data := client.recv(4096)):
                return
            self.asked += data
        server = socket.create_connection(("127.0.0.1", self._target_port))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with client, server:
            while True:
                for source in select.select([client, server], [], [], 5)[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    (server if source is client else client).sendall(data)


def test_a_proxy_never_shows_its_login():
    assert "pw" not in repr(Proxy("http://u:pw@h:1", "the settings"))
