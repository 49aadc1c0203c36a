"""The server and the helpers of the Caller's tests."""

import pyarrow as pa
import pytest

from tests.support import peers


@pytest.fixture(scope="session")
def server():
    """A counting server; paths /one, /two and /old (HTTP+SSE)."""
    with peers.running(peers.counting()) as running:
        yield running


@pytest.fixture
def tools_of(host):
    """Makes the Provider's *Tools* table for URLs, as input for the Caller."""

    def tools(*urls, form="auto", **parameters):
        servers = host.table(pa.table({"url": list(urls)})) if len(urls) > 1 else None
        settings = {"server_url": urls[0], "column_form": form, **parameters}
        result = host.run("mcp_tool_provider", [servers, None], settings)
        assert result.ok, result.failure
        return result.outputs[0].as_input()

    return tools
