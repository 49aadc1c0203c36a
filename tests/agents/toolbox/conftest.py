"""Servers, and toolboxes with their tools."""

from functools import partial

import pytest

from tests.support import peers, toolboxes


@pytest.fixture(scope="session")
def server():
    """A counting server; paths /one and /two."""
    with peers.running(peers.counting()) as running:
        yield running


@pytest.fixture
def pool():
    """The sessions of a run."""
    with toolboxes.sessions() as made:
        yield made


@pytest.fixture
def tools_of(pool):
    """Lists the tools of a server, pinned as the Provider pins them."""
    return partial(toolboxes.tools_at, pool)


@pytest.fixture
def box(pool):
    """Makes a toolbox."""
    return partial(toolboxes.toolbox, pool)
