"""A call crosses few of our own modules, and a node loads little for it: real calls are traced."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.traced_calls import WORKS
from tests.support import peers

#: At most so many own modules; what stands in for KNIME (`headless`) or before the operating
#: system (`system.py`) does not count.
LIMITS = {
    "client.call_tool": 10,
    "Provider node": 25,
    "Caller node": 31,
    "an agent's tool call": 20,
    "graph run": 40,
    "nodes search": 19,
}
#: KNIME starts a process for each execution: each of these is a tenth of a node's first one, or more.
HEAVY = {"asyncio", "jsonschema", "langchain_core", "mcp", "pandas", "pyarrow.compute", "rich"}


@pytest.fixture(scope="module")
def server():
    with peers.running(peers.counting()) as running:
        yield running


@pytest.mark.standin
@pytest.mark.parametrize("work", WORKS)
def test_a_call_crosses_few_rooms(work, server):
    command = [sys.executable, "-m", "tests.house.traced_calls", work, server.url("/one")]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    crossed = json.loads(done.stdout.splitlines()[-1])
    assert len(crossed["modules"]) <= LIMITS[work], "\n".join(crossed["modules"])
    if work in ("Provider node", "Caller node"):
        assert HEAVY.isdisjoint(crossed["loaded"])
