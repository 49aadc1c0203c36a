"""The server and the helpers of the Caller's tests."""

import json

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


@pytest.fixture
def journal_files(tmp_path):
    """The journals of the test's workflow, oldest first."""
    return lambda: sorted((tmp_path / "workflow" / "data" / "mcp-audit").glob("*.jsonl"))


@pytest.fixture
def journals(journal_files):
    """Reads them, each as a list of lines."""
    return lambda: [
        [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in journal_files()
    ]
