"""``knime-mcp audit collect``: all journals of a workflow's folder in one table."""

import csv

import pytest

from tests.audit.calls import write_run


@pytest.fixture
def folder(tmp_path):
    journals = tmp_path / "flow" / "data" / "mcp-audit"
    journals.mkdir(parents=True)
    write_run(journals / "b.agent.jsonl", 2)
    write_run(journals / "a.jsonl", 3)
    return tmp_path / "flow"


def test_all_journals_of_a_workflow_are_one_table(cli, folder, tmp_path):
    done = cli("audit", "collect", folder, "--out", "calls.csv")
    assert done.code == 0, done.err
    assert [line.partition(":")[0] for line in done.out.splitlines()] == ["a.jsonl", "b.agent.jsonl"]
    with (tmp_path / "calls.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert [row["Started at"] for row in rows] == sorted(row["Started at"] for row in rows)


def test_an_altered_journal_is_named(cli, folder):
    file = folder / "data" / "mcp-audit" / "a.jsonl"
    text = file.read_text("utf-8")
    file.write_text(text.replace('"status":"ok"', '"status":"failed"', 1), encoding="utf-8")
    done = cli("audit", "collect", folder)
    assert done.code == 1
    assert "a.jsonl was altered" in done.err


def test_a_folder_without_journals_is_told(cli, tmp_path):
    done = cli("audit", "collect", tmp_path)
    assert done.code != 0
    assert "no journals" in done.err
