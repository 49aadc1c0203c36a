"""Where addresses that a server names may lead."""

import socket
import threading

import pytest

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.network import NetworkSettings
from knime_mcp.client.oauth.guard import Guard, Zone, zone_of
from knime_mcp.types.errors import ConnectError, TimedOut
from tests.client.oauth.world import Canned, Origin

pytestmark = pytest.mark.quick


PUBLIC = "https://mcp.example/mcp"


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("8.8.8.8", Zone.PUBLIC),
        ("2606:4700::1111", Zone.PUBLIC),
        ("127.0.0.1", Zone.LOOPBACK),
        ("127.255.0.3", Zone.LOOPBACK),
        ("::1", Zone.LOOPBACK),
        ("::ffff:127.0.0.1", Zone.LOOPBACK),
        ("10.1.2.3", Zone.PRIVATE),
        ("172.16.0.1", Zone.PRIVATE),
        ("192.168.0.1", Zone.PRIVATE),
        ("100.64.0.1", Zone.PRIVATE),
        ("fd12::1", Zone.PRIVATE),
        ("fec0::1", Zone.PRIVATE),
        ("192.0.0.192", Zone.FORBIDDEN),
        ("::ffff:10.0.0.1", Zone.PRIVATE),
        ("2002:0a00:0001::", Zone.PRIVATE),
        ("64:ff9b::10.0.0.1", Zone.PRIVATE),
        ("64:ff9b::8.8.8.8", Zone.PUBLIC),
        ("169.254.1.1", Zone.LINK_LOCAL),
        ("fe80::1%eth0", Zone.LINK_LOCAL),
        ("169.254.169.254", Zone.FORBIDDEN),
        ("::ffff:169.254.169.254", Zone.FORBIDDEN),
        ("64:ff9b::a9fe:a9fe", Zone.FORBIDDEN),
        ("100.100.100.200", Zone.FORBIDDEN),
        ("168.63.129.16", Zone.FORBIDDEN),
        ("fd00:ec2::254", Zone.FORBIDDEN),
        ("224.0.0.1", Zone.FORBIDDEN),
        ("ff02::1", Zone.FORBIDDEN),
        ("0.0.0.0", Zone.FORBIDDEN),
        ("::", Zone.FORBIDDEN),
        ("255.255.255.255", Zone.FORBIDDEN),
        ("240.0.0.1", Zone.FORBIDDEN),
    ],
)
def test_an_address_is_judged_by_the_network_it_leads_to(address, zone):
    assert zone_of(address) is zone


def names(monkeypatch, table):
    """A name service: host -> addresses, one list per question, the last one for all further ones."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host, port, *args, **kwargs):
        if host not in table:
            if host in ("127.0.0.1", "::1"):
                return real(host, port, *args, **kwargs)
            raise socket.gaierror(socket.EAI_NONAME, "unknown name")
        asked.append(host)
        answers = table[host]
        addresses = answers[min(asked.count(host), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


@pytest.fixture
def origin():
    opened = Origin(lambda _origin, _seen: Canned(body={"here": True}))
    yield opened
    opened.close()


def fetch(guard, url):
    return guard.fetch("GET", url, headers={}, confidential=False)


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["169.254.169.254"], ["127.0.0.1"]]
)
def test_a_name_that_leads_inside_is_refused_when_the_server_is_outside(monkeypatch, addresses):
    names(monkeypatch, {"mcp.example": [["93.184.216.34"]], "as.example": [addresses]})
    with pytest.raises(ConnectError, match="which leads to"):
        fetch(Guard(PUBLIC), "https://as.example/x")


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch, origin):
    """DNS rebinding: a second question would get another answer, so there is none."""
    port = origin.url.rpartition(":")[2]
    asked = names(monkeypatch, {"as.localhost": [["127.0.0.1"], ["10.0.0.1"]]})
    guard = Guard("http://127.0.0.1:1/mcp")
    assert fetch(guard, f"http://as.localhost:{port}/x").status == 200
    assert asked == ["as.localhost"]


def test_a_name_of_this_machine_that_leads_elsewhere_is_refused(monkeypatch):
    names(monkeypatch, {"as.localhost": [["10.0.0.1"]]})
    with pytest.raises(ConnectError, match="a private network, where the MCP server is not"):
        fetch(Guard("http://127.0.0.1:1/mcp"), "http://as.localhost/x")


@pytest.mark.parametrize(
    ("home", "target", "allowed"),
    [
        (["10.0.0.9"], "10.0.0.1", True),
        (["10.0.0.9"], "127.0.0.1", False),
        (["10.0.0.9"], "169.254.169.254", False),
        (["10.0.0.9"], "8.8.8.8", True),
        (["127.0.0.1"], "10.0.0.1", False),
        (["8.8.8.8"], "10.0.0.1", False),
        (["8.8.8.8", "10.0.0.9"], "10.0.0.1", False),
        (["169.254.3.3"], "169.254.169.254", False),
    ],
)
def test_what_is_inside_depends_on_where_the_server_is(monkeypatch, home, target, allowed):
    names(monkeypatch, {"mcp.example": [home]})
    guard = Guard(PUBLIC)
    if allowed:
        guard.check(f"https://{target}/x")
    else:
        with pytest.raises(ConnectError, match="which leads to"):
            guard.check(f"https://{target}/x")


def test_a_name_service_that_does_not_answer_for_the_server_ends_with_the_clock(monkeypatch):
    found = threading.Event()

    def silent(*_args, **_options):
        found.wait(30)
        raise socket.gaierror(socket.EAI_NONAME, "unknown name")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    guard = Guard(PUBLIC, timeouts=Timeouts(connect=0.1, idle=0.1, total=0.2))
    with pytest.raises(TimedOut):
        guard.check("https://10.0.0.1/x")
    assert not found.is_set()
    found.set()


def test_an_origin_that_a_person_named_may_be_inside(monkeypatch):
    names(monkeypatch, {"mcp.example": [["8.8.8.8"]]})
    guard = Guard(PUBLIC, trusted=["https://10.0.0.1"])
    guard.check("https://10.0.0.1/token")
    for other in ("https://10.0.0.2/token", "https://10.0.0.1:8443/token"):
        with pytest.raises(ConnectError):
            guard.check(other)


def test_the_servers_own_origin_needs_tls_only_for_secrets(monkeypatch):
    names(monkeypatch, {"mcp.corp": [["10.0.0.9"]]})
    guard = Guard("http://mcp.corp/mcp")
    guard.check("http://mcp.corp/.well-known/x", confidential=False)
    with pytest.raises(ConnectError, match="not https"):
        guard.check("http://mcp.corp/token")


def test_odd_spellings_of_addresses_are_judged_by_what_they_lead_to(monkeypatch):
    monkeypatch.undo()
    for host in ("2130706433", "0x7f.1", "0177.0.0.1", "127.1"):
        with pytest.raises(ConnectError):
            Guard("https://93.184.216.34/mcp").fetch("GET", f"https://{host}/x", headers={})


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https://h\r\nX: y/",
        "https://u@h/",
        "https://h:99999/",
        "https://[::1/",
        "https://hé/",
        "https://xn--a/",
        "https://0177.0.0.1/",
        "ftp://h/",
        "",
        "//h/x",
    ],
)
def test_malformed_addresses_are_refused(url):
    with pytest.raises(ConnectError, match="The server names"):
        Guard(PUBLIC).check(url)


def test_the_refusal_shows_neither_query_nor_login():
    with pytest.raises(ConnectError) as caught:
        Guard(PUBLIC).check("https://canary:canary@10.0.0.1/x?token=canary#canary")
    assert "canary" not in str(caught.value)


def test_behind_a_proxy_a_private_name_is_refused_before_the_proxy_is_asked(monkeypatch, origin):
    names(monkeypatch, {"mcp.example": [["8.8.8.8"]], "as.example": [["10.0.0.1"]]})
    network = NetworkSettings(proxy=origin.url)
    with pytest.raises(ConnectError, match="a private network"):
        fetch(Guard(PUBLIC, network=network), "https://as.example/x")
    assert origin.seen == []


def test_nothing_but_what_was_asked_is_sent(origin):
    guard = Guard("http://127.0.0.1:1/mcp")
    origin.canned["/a"] = Canned(headers={"Set-Cookie": "k=canary"})
    fetch(guard, f"{origin.url}/a")
    fetch(guard, f"{origin.url}/b")
    assert all("cookie" not in seen.headers and "authorization" not in seen.headers for seen in origin.seen)


def test_what_was_not_sent_as_nobody_listened_is_sent_again_once(origin):
    guard, away = Guard("http://127.0.0.1:1/mcp"), "http://127.0.0.1:1/x"
    tried = iter([away, origin.url + "/x"])
    assert guard.persist(lambda: fetch(guard, next(tried))).status == 200
    tried = iter([away, away, origin.url + "/x"])
    with pytest.raises(ConnectError):
        guard.persist(lambda: fetch(guard, next(tried)))
    assert next(tried) == origin.url + "/x"
