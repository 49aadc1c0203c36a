import threading

import pytest

from knime_mcp.tools import MCPClient, SessionPool
from knime_mcp.types.errors import ConnectError
from knime_mcp.types.routing import ServerRoute
from tests.support.scripted_server import ScriptedServer, legacy

pytestmark = pytest.mark.quick


@pytest.mark.requirement("T65")
def test_one_live_client_per_server_and_caller():
    made = []

    def connect(route):
        made.append(route)
        return MCPClient(route.url)

    with ScriptedServer(legacy(session="s")) as server:
        with SessionPool(connect) as pool:
            first = pool.client(ServerRoute(server.url))
            assert pool.client(ServerRoute(server.url, tool="x", digest="sha256:1")) is first
            others = [
                ServerRoute(server.url, credential="c"),
                ServerRoute(server.url, credential="c", send_credentials_as="basic"),
                ServerRoute(server.url, headers=(("X-A", "1"),)),
                ServerRoute(server.url, transport="http"),
                ServerRoute(server.url + "/other"),
            ]
            assert len({id(pool.client(route)) for route in others} | {id(first)}) == 6
            first.call_tool("echo")
        assert server.methods.count("DELETE") == 1
    assert len(made) == 6
    with pytest.raises(ConnectError, match="closed"):
        pool.client(ServerRoute(server.url))


def test_many_threads_get_the_same_client():
    made = []
    barrier = threading.Barrier(8)
    clients = []

    def connect(route):
        made.append(route)
        return MCPClient(route.url)

    with SessionPool(connect) as pool:

        def work():
            barrier.wait()
            clients.append(pool.client(ServerRoute("http://127.0.0.1:9/mcp")))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(made) == 1
    assert len(set(map(id, clients))) == 1


def test_a_failure_is_not_kept():
    attempts = []

    def connect(route):
        attempts.append(route)
        if len(attempts) == 1:
            raise ConnectError("no", phase="tcp")
        return MCPClient(route.url)

    with SessionPool(connect) as pool:
        with pytest.raises(ConnectError):
            pool.client(ServerRoute("http://127.0.0.1:9/mcp"))
        assert pool.client(ServerRoute("http://127.0.0.1:9/mcp"))


def test_servers_do_not_wait_for_each_other():
    slow, release = threading.Event(), threading.Event()

    def connect(route):
        if "slow" in route.url:
            slow.set()
            assert release.wait(30)
        return MCPClient(route.url)

    with SessionPool(connect) as pool:
        thread = threading.Thread(target=pool.client, args=(ServerRoute("http://127.0.0.1:9/slow"),))
        thread.start()
        assert slow.wait(30)
        assert pool.client(ServerRoute("http://127.0.0.1:9/fast"))
        release.set()
        thread.join(30)
