"""Fixtures for the tests of agents in several folders."""

import pytest

from tests.support import peers


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
