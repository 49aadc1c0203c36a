"""A server that notes what workers do."""

import pytest

from tests.support import noting, peers


@pytest.fixture
def server(tmp_path):
    """A run of calls at a server of its own."""
    file = tmp_path / "notes.txt"
    with peers.running(noting.noting_server(file)) as running:
        found = noting.Noting(running.url("/mcp"), file)
        with found.dispatcher.pool:
            yield found
