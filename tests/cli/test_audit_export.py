"""``knime-mcp audit export``, and ``knime-mcp run`` of what it writes."""

import json

import pytest

from knime_mcp.knwf import check_archive, read_workflow
from tests.support import peers
from tests.support.recordings import CALLS, record_calls, replayed_server

pytestmark = pytest.mark.requirement("T61")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    with peers.running(replayed_server(tmp_path_factory.mktemp("export") / "notes.txt")) as running:
        yield running


def test_export(cli, replayed, tmp_path):
    record_calls(tmp_path / "run.jsonl", replayed.url("/base"))
    done = cli("audit", "export", "run.jsonl", "out.knwf", "--question", "Why?", "--answer", "Because.")
    assert done.code == 0, done.err
    assert f"{len(CALLS)} calls as nodes" in done.err
    assert check_archive(tmp_path / "out.knwf") == []
    workflow = read_workflow(tmp_path / "out.knwf")
    assert workflow.name == "out"
    assert [node.parameters["model"]["tool_name"] for node in workflow.nodes] == [name for name, _ in CALLS]


def test_running_it_gives_the_recorded_results(cli, replayed, tmp_path):
    """Deterministic tools: the same results. The journals of the run are compared, as any replay is."""
    calls = [("add", {"a": 1, "b": 2}), ("add", {"a": 40}), ("big", {"megabytes": 1})]
    record_calls(tmp_path / "run.jsonl", replayed.url("/base"), calls)
    assert cli("audit", "export", "run.jsonl", "out.knwf").code == 0
    done = cli("run", "out.knwf", "--out", "made", "--json")
    assert done.code == 0, done.err
    recorded = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    journals = sorted((tmp_path / "made").rglob("*.jsonl"))
    made = [json.loads(line) for file in journals for line in file.read_text("utf-8").splitlines()]
    results = [
        [(e["tool_name"], e["arguments"], e["result"]) for e in entries if e["kind"] == "call"]
        for entries in (recorded, made)
    ]
    assert results[0] == results[1]
    assert len(results[0]) == 3


def test_altered_records_are_told(cli, replayed, tmp_path):
    record_calls(tmp_path / "run.jsonl", replayed.url("/base"))
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(text.replace('"result":"3"', '"result":"4"'), encoding="utf-8")
    done = cli("audit", "export", "run.jsonl", "out.knwf")
    assert done.code == 1
    assert "altered" in done.err


def test_numbers_that_json_does_not_have_are_null(cli, replayed, tmp_path):
    record_calls(tmp_path / "run.jsonl", replayed.url("/base"), [("add", {"a": 1, "b": 2})])
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(text.replace('{\\"a\\":1,', '{\\"a\\":NaN,'), encoding="utf-8")
    assert cli("audit", "export", "run.jsonl", "out.knwf").code == 1  # altered
    (node,) = read_workflow(tmp_path / "out.knwf").nodes
    assert node.parameters["model"]["arguments"] == [
        {"name": "a", "value": "null"},
        {"name": "b", "value": "2"},
    ]


def test_usage(cli, replayed, tmp_path):
    record_calls(tmp_path / "run.jsonl", replayed.url("/base"))
    assert cli("audit", "export", "run.jsonl", "out.zip").code == 2
    assert cli("audit", "export", "run.jsonl", "nowhere/out.knwf").code == 2
    assert cli("audit", "export", "missing.jsonl", "out.knwf").code == 1
