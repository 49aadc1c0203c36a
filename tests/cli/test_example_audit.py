"""The example in ``examples/audit``: intact, the same when replayed, and a workflow made from that record."""

import re
from pathlib import Path

import pytest

from knime_mcp.audit.calls_table import read_calls
from knime_mcp.cli.demo_server import DemoServer
from knime_mcp.tools.audit_workflow import audit_workflow
from tests.support.archives import check_archive, read_workflow
from tests.support.linear_run import LinearRun

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / "examples" / "audit"
NAME = "what-the-agent-did"

pytestmark = pytest.mark.requirement("T49", "T61")


@pytest.fixture(scope="module")
def demo():
    with DemoServer(ROOT / "examples" / "demo" / "files") as server:
        yield server.url


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_it_is_intact(cli, ending):
    done = cli("audit", "verify", AUDIT / f"{NAME}.{ending}")
    assert done.code == 4
    assert ": complete in itself, but nobody vouches for it" in done.out


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_replay_gives_the_same(cli, demo, ending):
    """Changed definitions are let pass: the SDK of the demo's server may word its schemas anew."""
    recorded = read_calls(AUDIT / f"{NAME}.jsonl")[0].server
    done = cli(
        "replay", AUDIT / f"{NAME}.{ending}", "--server", f"{recorded}={demo}", "--call-changed", "--json"
    )
    assert done.json["counts"] == {"same": 7}
    assert done.code == 0


def test_the_workflow_is_made_from_the_record():
    stored = read_workflow(AUDIT / f"{NAME}.knwf")
    assert check_archive(AUDIT / f"{NAME}.knwf") == []
    script = (AUDIT / "make_audit.py").read_text("utf-8")
    question = re.search(r'QUESTION = "(.*)"', script)[1]
    answer = next(note.text for note in stored.annotations if note.text.startswith("Answer\n"))
    records = read_calls(AUDIT / f"{NAME}.jsonl")
    made = audit_workflow(records, name=NAME, question=question, answer=answer.removeprefix("Answer\n"))
    assert made.workflow == stored


@pytest.mark.usefixtures("host")
def test_running_the_workflow_gives_the_recorded_results(demo, tmp_path):
    """At the address of this test's server, which is all that is changed."""
    import dataclasses

    from knime_mcp.knwf.json_parameters import to_model

    stored = read_workflow(AUDIT / f"{NAME}.knwf")
    nodes = []
    for node in stored.nodes:
        document = node.parameters
        document["model"]["server_url"] = demo
        nodes.append(dataclasses.replace(node, model=to_model(document, node.parameters_version)))
    LinearRun(tmp_path).run(dataclasses.replace(stored, nodes=tuple(nodes)))
    recorded = [(r.tool_name, r.arguments, r.status, r.result) for r in read_calls(AUDIT / f"{NAME}.jsonl")]
    journals = sorted(tmp_path.rglob("*.jsonl"))
    made = [(r.tool_name, r.arguments, r.status, r.result) for file in journals for r in read_calls(file)]
    assert made == recorded
