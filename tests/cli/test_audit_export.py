"""``knime-mcp audit export``, and running what it writes."""

import pytest

from tests.support.archives import check_archive, read_workflow
from tests.support.files import json_lines
from tests.support.recordings import CALLS

pytestmark = pytest.mark.requirement("T61")


def test_every_call_becomes_a_node(cli, record, tmp_path):
    record()
    done = cli("audit", "export", "run.jsonl", "out.knwf", "--question", "Why?", "--answer", "Because.")
    assert done.code == 0, done.err
    assert f"{len(CALLS)} calls as nodes" in done.err
    assert check_archive(tmp_path / "out.knwf") == []
    workflow = read_workflow(tmp_path / "out.knwf")
    assert workflow.name == "out"
    assert [node.parameters["model"]["tool_name"] for node in workflow.nodes] == [name for name, _ in CALLS]


def test_running_it_gives_the_recorded_results(cli, linear, record, tmp_path):
    """Deterministic tools: the same results. The journals of the run are compared, as any replay is."""
    calls = [("add", {"a": 1, "b": 2}), ("add", {"a": 40}), ("big", {"megabytes": 1})]
    record(calls)
    assert cli("audit", "export", "run.jsonl", "out.knwf").code == 0
    done = linear("out.knwf", "made")
    assert done.code == 0, done.err
    recorded = json_lines(tmp_path / "run.jsonl")
    journals = sorted((tmp_path / "made").rglob("*.jsonl"))
    made = [line for file in journals for line in json_lines(file)]
    results = [
        [(e["tool_name"], e["arguments"], e["result"]) for e in entries if e["kind"] == "call"]
        for entries in (recorded, made)
    ]
    assert results[0] == results[1]
    assert len(results[0]) == 3


def test_altered_records_are_told(cli, record, tmp_path):
    record()
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(text.replace('"result":"3"', '"result":"4"'), encoding="utf-8")
    done = cli("audit", "export", "run.jsonl", "out.knwf")
    assert done.code == 1
    assert "changed: " in done.err


def test_numbers_that_json_does_not_have_are_null(cli, record, tmp_path):
    record([("add", {"a": 1, "b": 2})])
    text = (tmp_path / "run.jsonl").read_text("utf-8")
    (tmp_path / "run.jsonl").write_text(text.replace('{\\"a\\":1,', '{\\"a\\":NaN,'), encoding="utf-8")
    assert cli("audit", "export", "run.jsonl", "out.knwf").code == 1  # altered
    (node,) = read_workflow(tmp_path / "out.knwf").nodes
    assert node.parameters["model"]["arguments"] == [
        {"name": "a", "value": "null"},
        {"name": "b", "value": "2"},
    ]


def test_files_that_cannot_be_exported(cli, record, tmp_path):
    record()
    assert cli("audit", "export", "run.jsonl", "out.zip").code == 2
    assert cli("audit", "export", "run.jsonl", "nowhere/out.knwf").code == 2
    assert cli("audit", "export", "missing.jsonl", "out.knwf").code == 1
