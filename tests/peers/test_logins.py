"""Logins at the authorization servers that come with fastmcp, on the official Python SDK 1.x and 2.x."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.tools import MCPClient
from tests.client.oauth.world import Person
from tests.support import peers
from tests.support.peers import Server, running

pytestmark = pytest.mark.peer


@pytest.fixture(params=["mcp1", "mcp2"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(peers.guarded(request.param)) as server:
        yield server


def test_a_person_logs_in_and_tokens_that_end_cost_no_row(guarded: Server) -> None:
    person = Person()
    authorization = OAuth(guarded.url("/mcp"), AuthorizationCode(person))
    with MCPClient(guarded.url("/mcp"), auth=authorization) as client, ThreadPoolExecutor(8) as threads:

        def double(value: int) -> str:
            if value == 25:
                httpx.post(guarded.url("/end"), trust_env=False).raise_for_status()
            return client.call_tool("double", {"value": value}).text

        assert list(threads.map(double, range(50))) == [str(2 * value) for value in range(50)]
    assert len(person.pages) == 1
    assert person.scopes() == ["read"]
