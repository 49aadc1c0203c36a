"""KNIME starts a process for each execution, so a node imports nothing heavy for a call."""

import subprocess
import sys

import pytest

from tests.house.sources import ROOT
from tests.support import peers

#: Each of these takes a tenth of a node's first execution, or more.
HEAVY = {"asyncio", "jsonschema", "langchain_core", "mcp", "pandas", "pyarrow.compute", "rich"}
SCRIPT = '''
import sys

class Without:
    """pyarrow loads pandas where it is installed, as it is for tests."""
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Without())
from tests.support.knime_host import use_standin
use_standin()
from tests.support.host import get_host

host = get_host()
listed = host.run("mcp_tool_provider", [None, None], {"server_url": sys.argv[1], "column_form": "auto"})
tools = listed.outputs[0].as_input()
pairs = [{"name": "a", "value": "2"}, {"name": "b", "value": "40"}]
settings = {"tool_name": "add", "arguments": pairs}
called = host.run("mcp_tool_caller", [tools, None, None], settings, workflow_dir=sys.argv[2])
assert listed.ok and called.ok, (listed.failure, called.failure)
print(*sys.modules)
'''


@pytest.mark.standin
def test_provider_and_caller_load_nothing_heavy(tmp_path):
    with peers.running(peers.counting()) as server:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, server.url("/one"), str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert HEAVY.isdisjoint(done.stdout.split())
    assert list(tmp_path.rglob("*.jsonl"))
