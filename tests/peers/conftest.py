"""One server of each kind for all peer tests; each is started when the first test asks for it."""

from collections.abc import Iterator

import pytest

from tests.support import peers
from tests.support.peers import Server, running


@pytest.fixture(scope="session")
def everything_http() -> Iterator[Server]:
    with running(peers.everything("streamableHttp")) as server:
        yield server


@pytest.fixture(scope="session")
def everything_sse() -> Iterator[Server]:
    with running(peers.everything("sse")) as server:
        yield server


@pytest.fixture(scope="session")
def mcp2() -> Iterator[Server]:
    with running(peers.mcp2()) as server:
        yield server


@pytest.fixture(scope="session")
def mcp1() -> Iterator[Server]:
    with running(peers.mcp1()) as server:
        yield server


@pytest.fixture(scope="session")
def fastmcp4() -> Iterator[Server]:
    with running(peers.fastmcp4()) as server:
        yield server


@pytest.fixture(scope="session")
def fastmcp3() -> Iterator[Server]:
    with running(peers.fastmcp3()) as server:
        yield server


@pytest.fixture(scope="session")
def shapes() -> Iterator[Server]:
    with running(peers.shapes()) as server:
        yield server
