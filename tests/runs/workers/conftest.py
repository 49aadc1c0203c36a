"""A server that notes what workers do, and workers of both kinds."""

from contextlib import contextmanager

import pytest
from distributed import Client

from knime_mcp.runs.workers import DaskWorkers, ProcessWorkers
from tests.support import noting, peers


@pytest.fixture
def server(tmp_path):
    """A run of calls at a server of its own."""
    file = tmp_path / "notes.txt"
    with peers.running(noting.noting_server(file)) as running:
        found = noting.Noting(running.url("/mcp"), file)
        with found.run.pool:
            yield found


@contextmanager
def dask_client():
    """A client of a cluster with Dask's own settings, which run tasks of a lost worker again."""
    with noting.local_cluster() as made, Client(made, set_as_default=False) as found:
        yield found


def dask_executor(client):
    return DaskWorkers(client, 8)


@pytest.fixture(scope="package")
def client():
    """For the tests that leave all processes alive."""
    with dask_client() as found:
        yield found


@pytest.fixture(scope="package")
def processes():
    """Two processes, for the tests that leave them alive."""
    with ProcessWorkers(2) as executor:
        yield executor


@pytest.fixture(params=["processes", "client"])
def workers(request, server):
    """Makes calls on processes of this machine, and on those of a Dask cluster."""
    found = request.getfixturevalue(request.param)
    return server.workers(found if request.param == "processes" else dask_executor(found))
