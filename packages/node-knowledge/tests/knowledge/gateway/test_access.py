"""Who gets in: keys, scopes, limits, and the listener that is for this machine only."""

import concurrent.futures
import json
import socket
import sqlite3
import ssl
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import trustme

from knime_mcp.types.errors import SettingInvalid
from knime_node_knowledge.gateway.api_keys import KeyStore, KeyStoreError, RateLimiter, Scope
from tests.knowledge.conftest import nodes_command
from tests.knowledge.gateway.running import ALL, start_process
from tests.support import commands

V1 = "/api/v1/mcp"
CALL = {"name": "get_node_types", "arguments": {}}
SIMPLE_CALL = {"tool_name": "get_node_types", "params": {}}
#: (method, path, body, scope)
GUARDED = [
    ("GET", f"{V1}/tools", None, Scope.TOOLS_READ),
    ("GET", f"{V1}/tools/search_nodes", None, Scope.TOOLS_READ),
    ("POST", f"{V1}/invoke", CALL, Scope.TOOLS_EXECUTE),
    ("GET", f"{V1}/health", None, Scope.HEALTH_CHECK),
    ("GET", "/mcp/tools", None, Scope.TOOLS_READ),
    ("POST", "/mcp/invoke", SIMPLE_CALL, Scope.TOOLS_EXECUTE),
]
INTERNAL = [
    ("GET", f"{V1}/tools/internal", None),
    ("POST", f"{V1}/invoke/internal", CALL),
    ("GET", "/metrics", None),
]


def message_of(response):
    body = response.json()
    return body["error"]["message"] if "jsonrpc" in body else body["error"]


@pytest.mark.requirement("N21", "N25", "W8", "V6")
@pytest.mark.parametrize(("method", "path", "body", "scope"), GUARDED)
def test_an_endpoint_wants_a_key_with_its_scope(gateway, method, path, body, scope):
    def ask(key):
        with gateway.client(key) as client:
            return client.request(method, path, json=body)

    missing = ask("")
    assert missing.status_code == 401
    assert "X-API-Key" in message_of(missing)
    assert "www-authenticate" in missing.headers
    assert ask(gateway.key(scope)).status_code == 200
    for other in set(ALL) - {scope}:
        refused = ask(gateway.key(other))
        assert refused.status_code == 403
        assert scope.value in message_of(refused)
    assert ask(gateway.key(days=-1)).status_code == 401
    revoked = gateway.key()
    assert ask(revoked).status_code == 200
    gateway.gateway.keys.revoke(gateway.made[-1].id)
    assert ask(revoked).status_code == 401
    good = gateway.key()
    for bad in (good[:-1], good + "x", good.upper(), "kmcp__", "kmcp_x_y", "x" * 5000, good.split("_")[2]):
        assert ask(bad).status_code == 401


def test_two_keys_are_no_key(gateway):
    key = gateway.key()
    with gateway.client("") as client:
        response = client.get("/mcp/tools", headers=[("X-API-Key", key), ("X-API-Key", key)])
    assert response.status_code == 401


def test_a_key_is_wanted_before_the_body_is_read(gateway):
    with gateway.client("") as client:
        headers = {"content-type": "application/json"}
        assert client.post(f"{V1}/invoke", content=b"{broken", headers=headers).status_code == 401
        assert client.post("/mcp/invoke", content=b"x" * 3_000_000).status_code == 401


@pytest.mark.requirement("N20")
@pytest.mark.parametrize(("method", "path", "body"), INTERNAL)
def test_internal_endpoints_are_not_on_the_public_listener(gateway, method, path, body):
    for key in ("", gateway.key()):
        with gateway.client(key) as client:
            for spelled in (path, path + "/", path.replace("internal", "%69nternal"), "/%2e" + path):
                response = client.request(method, spelled, json=body)
                assert response.status_code in (401, 404, 405)
                assert "structuredContent" not in response.text
    assert httpx.request(method, gateway.internal + path, json=body).status_code == 200


@pytest.mark.requirement("N20")
def test_the_internal_listener_is_on_loopback_and_not_for_browsers(gateway):
    host, port = gateway.internal.removeprefix("http://").split(":")
    assert host == "127.0.0.1"
    own = socket.gethostbyname_ex(socket.gethostname())[2]
    for address in {address for address in own if not address.startswith("127.")}:
        with socket.socket() as probe:
            probe.settimeout(30)
            assert probe.connect_ex((address, int(port))) != 0
    url = gateway.internal + f"{V1}/tools/internal"
    for host in ("evil.example", "localhost.evil.example", "[::", "b\xfcro", "a b"):
        assert httpx.get(url, headers={"Host": host.encode("latin-1")}).status_code == 403
    assert httpx.get(url, headers={"Origin": "https://evil.example"}).status_code == 403
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8001", "[::1]:8001"):
        assert httpx.get(url, headers={"Host": host}).status_code == 200


def test_the_internal_listener_can_be_left_out(start):
    assert start(gateway_internal_port=-1).internal is None


@pytest.mark.requirement("N25", "V6", "W8")
def test_a_key_may_only_send_so_many_requests(start):
    running = start(gateway_rate_limit=5)
    with running.client() as client, running.client(running.key(rate_limit=0)) as unlimited:
        statuses = [client.get("/mcp/tools").status_code for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        refused = client.get(f"{V1}/tools")
        assert 1 <= int(refused.headers["retry-after"]) <= 12
        assert refused.json()["error"]["data"]["error_type"] == "VALIDATION_ERROR"
        search = {"name": "search_nodes", "arguments": {"query": "mail"}}
        assert client.post(f"{V1}/invoke", json=search).status_code == 429
        assert unlimited.post(f"{V1}/invoke", json=search).status_code == 200
        assert all(unlimited.get("/mcp/tools").status_code == 200 for _ in range(20))


@pytest.mark.requirement("W11")
def test_a_bucket_fills_up_again():
    now = 0.0
    limiter = RateLimiter(now=lambda: now)
    assert [limiter.wait_for("a", 2) for _ in range(3)] == [0, 0, 30]
    now = 30.0
    assert [limiter.wait_for("a", 2) for _ in range(2)] == [0, 30]


@pytest.mark.requirement("N25")
def test_no_web_page_may_call_unless_its_origin_was_named(gateway, start):
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,content-type,traceparent,baggage,mcp-param-city",
    }
    with gateway.client("") as client:
        closed = client.options(f"{V1}/invoke", headers=asked)
        assert closed.status_code == 405
        assert "access-control-allow-origin" not in closed.headers
    opened = start(gateway_cors_origins=("https://app.example/",))
    with opened.client("") as client:
        response = client.options(f"{V1}/invoke", headers=asked)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert response.headers["access-control-allow-headers"] == asked["Access-Control-Request-Headers"]
        other = client.options(f"{V1}/invoke", headers=asked | {"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


@pytest.fixture
def certificate(tmp_path):
    """Files with a certificate and its key, and whom to trust."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    issued.private_key_pem.write_to_path(key)
    for part in issued.cert_chain_pems:
        part.write_to_path(chain, append=True)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return chain, key, context


@pytest.mark.requirement("N26")
def test_https_with_a_certificate(start, certificate):
    chain, key, context = certificate
    running = start(gateway_tls_certificate=chain, gateway_tls_key=key)
    assert running.url.startswith("https://")
    with running.client(verify=context) as client:
        assert client.get("/mcp/tools").status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(running.url.replace("https:", "http:") + "/api/v1/public/health")


@pytest.mark.requirement("N26")
def test_the_options_of_the_command_for_https(tmp_path, catalogue, certificate):
    chain, key, context = certificate
    with start_process(tmp_path, catalogue, "--tls-certificate", chain, "--tls-key", key) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        assert httpx.get(f"{url}/api/v1/public/health", verify=context).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/api/v1/public/health", verify=ssl.create_default_context())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tls-certificate", "chain.pem"], "one needs the other"),
        (["--tls-certificate", "nothing.pem", "--tls-key", "nothing.pem"], "nothing.pem"),
        (["--tls-certificate", "key.pem", "--tls-key", "chain.pem"], "cannot be used with"),
    ],
)
def test_a_certificate_that_cannot_work_is_said(tmp_path, catalogue, certificate, options, told):
    files = [str(tmp_path / part) if part.endswith(".pem") else part for part in options]
    with (
        pytest.raises(AssertionError) as caught,
        start_process(tmp_path, catalogue, *files),
    ):
        pass
    text = " ".join(str(caught.value).split())
    assert told in text
    assert "Traceback" not in text


def test_only_digests_are_kept_and_only_the_owner_may_read_them(tmp_path):
    path = tmp_path / "folder" / "keys.sqlite"
    with KeyStore(path) as store:
        secret, key = store.create("ci", [Scope.TOOLS_READ])
        found = store.verify(secret)
        assert (found.id, found.name, found.scopes) == (key.id, "ci", {Scope.TOOLS_READ})
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0
            assert secret.split("_", 2)[2].encode() not in file.read_bytes()
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_key_of_one_process_works_in_another_at_once(tmp_path):
    path = tmp_path / "keys.sqlite"
    with KeyStore(path) as one, KeyStore(path) as other:
        secret, _ = one.create("ci", [Scope.TOOLS_READ])
        assert other.verify(secret)
        other.revoke("ci")
        assert one.verify(secret) is None
        assert one.all()[0].revoked_at is not None
        with pytest.raises(SettingInvalid):
            one.revoke("ci")


def test_many_keys_made_at_once_are_all_there(tmp_path):
    path = tmp_path / "keys.sqlite"

    def make(number):
        with KeyStore(path) as store:
            return [store.create(f"{number}-{i}", ALL)[0] for i in range(25)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = [key for keys in pool.map(make, range(8)) for key in keys]
    with KeyStore(path) as store:
        assert len(store.all()) == len(made) == 200
        assert all(store.verify(key) for key in made)


def test_a_file_that_is_no_key_store_is_an_error_with_a_name(tmp_path):
    broken, other = tmp_path / "broken.sqlite", tmp_path / "other.sqlite"
    broken.write_text("no database")
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE keys (a)")
    db.close()
    for path in (broken, other, tmp_path):
        with pytest.raises(KeyStoreError, match="keys"):
            KeyStore(path)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
def test_names_of_keys_can_be_shown(tmp_path, name):
    with KeyStore(tmp_path / "keys.sqlite") as store, pytest.raises(SettingInvalid):
        store.create(name, ALL)


def test_a_key_expires(tmp_path):
    with KeyStore(tmp_path / "keys.sqlite") as store:
        key = store.create("ci", ALL, days=1)[1]
    assert key.works()
    assert not key.works(datetime.now(UTC) + timedelta(days=1, seconds=1))


def cli(*arguments):
    done = commands.run(
        nodes_command("keys", *arguments), capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.requirement("N25")
def test_the_command_line_makes_lists_and_revokes_keys(tmp_path):
    file = ("--keys-file", str(tmp_path / "keys.sqlite"))
    code, secret, told = cli(
        "create", "ci", "--scope", "tools:read", "--rate-limit", "5", "--days", "2", *file
    )
    assert code == 0
    assert "tools:read" in told
    code, listed, _ = cli("list", "--json", *file)
    (entry,) = json.loads(listed)
    assert (entry["name"], entry["scopes"], entry["rate_limit"], entry["works"]) == (
        "ci",
        ["tools:read"],
        5,
        True,
    )
    assert secret.strip().split("_", 2)[2] not in listed
    with KeyStore(tmp_path / "keys.sqlite") as store:
        assert store.verify(secret.strip())
    assert cli("revoke", "ci", *file)[0] == 0
    assert "revoked" in cli("list", *file)[1]
    code, _, told = cli("revoke", "ci", *file)
    assert code == 2
    assert "no such key" in told
    assert cli("create", "ci", "--scope", "everything", *file)[0] == 2


def test_a_file_of_keys_that_is_removed_or_replaced_lets_nobody_in_whom_it_does_not_name(tmp_path):
    path, other = tmp_path / "keys.sqlite", tmp_path / "other.sqlite"
    with KeyStore(other) as store:
        new, _ = store.create("new", ALL)
    with KeyStore(path) as store:
        old, _ = store.create("old", ALL)
        assert store.verify(old)
        path.unlink()
        with pytest.raises(KeyStoreError, match="cannot be used"):
            store.verify(old)
        other.replace(path)
        assert store.verify(old) is None
        assert store.verify(new).name == "new"
