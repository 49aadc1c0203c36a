"""HTTPS servers with a certificate authority of our own, and with certificates that must be refused."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from knime_mcp.tools import MCPClient, NetworkSettings
from knime_mcp.types.errors import ConnectError, SettingInvalid
from tests.support import peers
from tests.support.peers import Server, running

YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(organization_name="The Company")


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> NetworkSettings:
    file = tmp_path_factory.mktemp("authority") / "company.pem"
    authority.cert_pem.write_to_path(str(file))
    return NetworkSettings(ca_file=str(file))


@pytest.fixture(scope="module")
def certificate(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def issue(*names: str, **options: datetime.datetime) -> Path:
        file = tmp_path_factory.mktemp("certificate") / "server.pem"
        authority.issue_cert(*names, **options).private_key_and_cert_chain_pem.write_to_path(str(file))
        return file

    return issue


@pytest.fixture(scope="module")
def secure(certificate: Callable[..., Path]) -> Iterator[Server]:
    with running(peers.shapes(certificate("127.0.0.1", "localhost"))) as server:
        yield server


@pytest.fixture(scope="module")
def secure_mcp2(certificate: Callable[..., Path]) -> Iterator[Server]:
    with running(peers.mcp2(certificate("127.0.0.1"))) as server:
        yield server


@pytest.fixture(scope="module")
def refused(certificate: Callable[..., Path]) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {
            "expired": stack.enter_context(
                running(peers.shapes(certificate("127.0.0.1", not_after=YESTERDAY)))
            ),
            "other name": stack.enter_context(running(peers.shapes(certificate("mcp.company.example")))),
        }


@pytest.mark.parametrize("route", ["/legacy/json", "/modern/sse", "/old"])
def test_a_private_authority_is_trusted_where_its_file_is_named(
    secure: Server, trusting: NetworkSettings, route: str
) -> None:
    with MCPClient(secure.url(f"{route}/schemas"), network=trusting) as client:
        assert [tool.name for tool in client.list_tools()] == ["forest"]
        tree = {"tree": {"label": "oak"}}
        assert client.call_tool("forest", tree).structured_content == tree


@pytest.mark.peer
@pytest.mark.parametrize("path", ["/stateful", "/sse"])
def test_an_sdk_server_over_https(trusting: NetworkSettings, path: str, secure_mcp2: Server) -> None:
    with MCPClient(secure_mcp2.url(path), network=trusting) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_a_host_name_is_checked_against_the_certificate(secure: Server, trusting: NetworkSettings) -> None:
    url = secure.url("/modern/json/schemas").replace("127.0.0.1", "localhost")
    with MCPClient(url, network=trusting) as client:
        assert len(client.list_tools()) == 1


def test_an_unknown_authority_is_refused_and_the_ca_file_is_the_next_step(secure: Server) -> None:
    url = secure.url("/modern/json/schemas")
    with pytest.raises(ConnectError) as raised:
        MCPClient(url).connect()
    assert raised.value.phase == "tls"
    assert raised.value.server == url
    assert "trust store" in str(raised.value)
    assert "CA" in (raised.value.fix or "")


def test_an_expired_certificate_is_refused(refused: dict[str, Server], trusting: NetworkSettings) -> None:
    with pytest.raises(ConnectError, match="expired") as raised:
        MCPClient(refused["expired"].url("/modern/json/schemas"), network=trusting).connect()
    assert raised.value.phase == "tls"


def test_a_certificate_for_another_name_is_refused(
    refused: dict[str, Server], trusting: NetworkSettings
) -> None:
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1") as raised:
        MCPClient(refused["other name"].url("/modern/json/schemas"), network=trusting).connect()
    assert raised.value.phase == "tls"
    assert raised.value.fix


def test_checks_can_be_turned_off_for_a_test_server(refused: dict[str, Server]) -> None:
    unchecked = NetworkSettings(verify=False)
    for server in refused.values():
        with MCPClient(server.url("/modern/json/schemas"), network=unchecked) as client:
            assert len(client.list_tools()) == 1


def test_https_to_an_http_server_is_a_tls_error(shapes: Server) -> None:
    url = shapes.url("/modern/json/schemas").replace("http:", "https:")
    with pytest.raises(ConnectError) as raised:
        MCPClient(url).connect()
    assert raised.value.phase == "tls"
    assert "http://" in str(raised.value)


def test_http_to_an_https_server_is_an_error(secure: Server) -> None:
    url = secure.url("/modern/json/schemas").replace("https:", "http:")
    with pytest.raises(ConnectError) as raised:
        MCPClient(url).connect()
    assert raised.value.fix


def test_a_ca_file_that_is_none_is_named(secure: Server, tmp_path: Path) -> None:
    file = tmp_path / "company.pem"
    file.write_text("not a certificate")
    with pytest.raises(SettingInvalid, match=r"company\.pem"):
        MCPClient(secure.url("/modern/json/schemas"), network=NetworkSettings(ca_file=str(file))).connect()
