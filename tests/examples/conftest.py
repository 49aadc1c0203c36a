import pytest

from knime_mcp.cli.demo_server import DemoServer
from tests.examples.running import EXAMPLES


@pytest.fixture(scope="module")
def demo():
    """The URL of the demo's server."""
    with DemoServer(EXAMPLES / "demo" / "files") as server:
        yield server.url
