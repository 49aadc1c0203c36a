"""Fixtures for the tests of agents in several folders."""

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


@pytest.fixture(scope="session")
def shapes():
    """A server of odd but legal tools; `empty_schema`, like most of them, answers with its arguments."""
    with peers.running(peers.shapes()) as running:
        yield running


@pytest.fixture
def knows():
    """Makes the context of a node that knows one credential."""

    def context(name, password):
        class Context:
            def get_credential_names(self):
                return [name]

            def get_credentials(self, wanted):
                return type("Known", (), {"username": "", "password": password})()

        return Context()

    return context
