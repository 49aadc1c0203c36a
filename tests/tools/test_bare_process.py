"""Nodes in a process as bare as KNIME's may be: no home, no locale, no standard input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.host import KNIME_YML
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

DEADLINE = 100
KEPT = ("PATH", "PYTHONPATH", "KNIME_PYTHON_ROOT", "KNIME_LLM_ROOT", "KNIME_JSON_GIT", "KNIME_CORE_GIT")
SAID = "Grüße, 日本 \U0001f600"
SCRIPT = """
import json, sys
from tests.support.plugin import use_host
use_host()
import pyarrow as pa
from tests.support.host import get_host

sys.argv[:] = [""]
url, folder, said = json.loads(sys.orig_argv[-1])
host = get_host()
rows = host.table(pa.table({"\\u00e4": [said, None]}))
for _ in range(2):  # a process runs nodes more than once
    provided = host.run("mcp_tool_provider", [None, None], {"server_url": url}, workflow_dir=folder)
    assert provided.ok and not provided.problems, (provided.failure, provided.problems)
    called = host.run(
        "mcp_tool_caller",
        [provided.outputs[0].as_input(), rows, None],
        {"tool_name": "echo", "save_audit_workflow_to": "audit"},
        workflow_dir=folder,
    )
    assert called.ok and not called.problems and not called.warnings, (called.failure, called.warnings)
    results = called.outputs[0].arrow.column("Result").to_pylist()
for node in ("mcp_tool_provider", "mcp_tool_caller", "mcp_agent_prompter"):
    host.dialog(node)
print(json.dumps(results))
"""


@pytest.mark.parametrize("home", [None, "/nonexistent/home"])
def test_nodes_in_a_bare_process(tmp_path, home):
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    if home is not None:
        environment["HOME"] = home
    echo = tool("echo", inputSchema={"type": "object", "properties": {"ä": {}}}, description=SAID)
    script = modern(
        tools__list=rpc({"tools": [echo]}), tools__call=rpc({"content": [{"type": "text", "text": SAID}]})
    )
    with ScriptedServer(script) as server:
        given = json.dumps([server.url, str(tmp_path / "workflow"), SAID])
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-u", "-c", SCRIPT, given],
            cwd=KNIME_YML.parent,
            env=environment,
            capture_output=True,
            timeout=DEADLINE,
        )
        sent = [call.params["arguments"] for call in server.named("tools/call")]
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    assert json.loads(done.stdout) == [SAID, SAID]
    assert {"ä": SAID} in sent
    assert len(sent) == 4
    assert len(list(Path(tmp_path, "workflow").rglob("*.knwf"))) == 2
