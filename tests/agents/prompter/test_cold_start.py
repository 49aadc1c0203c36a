"""KNIME starts a process for each execution: what is loaded until the model is asked, the user waits for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys, tempfile
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.host import get_host
import pyarrow as pa

host = get_host()
from knime.types.tool import WorkflowTool
host.add_file_store("segment", b"workflow")
tool = WorkflowTool("add", "Adds.", {}, 0, [], [], "segment")
loaded = []

def first(request):
    assert [each["function"]["name"] for each in request.body["tools"]] == ["add"]
    loaded.extend(sys.modules)
    return says("Hello")

with ChatServer([first]) as server:
    chosen = {"base_url": server.url, "model_name": "test-model", "check_connection": False}
    model = host.port_object(host.run("openai_compatible_chat_model", [], chosen).outputs[0])
    tools = host.table(pa.table({"Tool": host.tool_column([tool])}))
    result = host.run(
        "mcp_agent_prompter", [model, tools, None, [], None], {"user_message": "Hi"},
        workflow_dir=tempfile.mkdtemp(), credentials={}, output_groups={"Data outputs": 1},
    )
assert result.ok, result.failure
print(*loaded)
"""
#: Each is a tenth of a second of a processor, or more.
HEAVY = {
    *("langsmith", "openai", "langchain_openai", "langchain_anthropic", "jsonschema", "mcp"),
    *("langchain_core.tools", "langchain_core.language_models.chat_models", "langchain_core.runnables.base"),
}


@pytest.mark.standin
def test_the_model_is_asked_before_what_is_heavy_is_loaded():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "langchain_core.messages" in done.stdout.split()
    assert HEAVY & set(done.stdout.split()) == set()
