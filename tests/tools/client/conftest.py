import pytest

from knime_mcp.tools.client.connecting import memory


@pytest.fixture(autouse=True)
def _nothing_remembered():
    # Ports are used again by the operating system; what one server spoke says nothing about the next one.
    memory.clear()
