"""A server to record and replay."""

import pytest

from tests.support import peers, recordings


@pytest.fixture(scope="session")
def notes(tmp_path_factory):
    """The file that the server's writing tool changes."""
    return tmp_path_factory.mktemp("replayed") / "notes.txt"


@pytest.fixture(scope="session")
def replayed(notes):
    """The server whose tools change from path to path."""
    with peers.running(recordings.replayed_server(notes)) as running:
        yield running
