import pytest

from knime_node_knowledge.sources.catalogue_build import build_catalogue
from tests.knowledge.gateway.running import running_gateway


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory):
    path = tmp_path_factory.mktemp("catalogue") / "nodes.sqlite"
    build_catalogue(path)
    return path


@pytest.fixture(scope="module")
def gateway(catalogue, tmp_path_factory):
    """One that several tests use; keys without limit unless a test makes others."""
    keys = tmp_path_factory.mktemp("keys") / "keys.sqlite"
    with running_gateway(catalogue, keys, gateway_rate_limit=0) as running:
        yield running


@pytest.fixture
def client(gateway):
    with gateway.client() as client:
        yield client


@pytest.fixture
def start(catalogue, tmp_path):
    """Starts gateways with settings of their own."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(
            running_gateway(given.pop("catalogue", catalogue), tmp_path / "keys.sqlite", **given)
        )
