"""Verifying tables of calls after everything that can happen to them."""

import json
import random
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import compute

from knime_mcp.audit.calls_table import calls_table, read_calls, write_calls
from knime_mcp.audit.journal import Journal
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file, verify_table
from tests.audit.calls import write_run


def numbers(finding):
    return list(chain.from_iterable(finding.calls))


@pytest.fixture(params=[".parquet", ".csv", "memory"])
def table(request, tmp_path):
    """Verifies a table in memory, or after a way through a file."""

    def verify(found, **options):
        if request.param == "memory":
            return verify_table(found, **options)
        file = tmp_path / f"t{request.param}"
        if request.param == ".csv":
            from pyarrow import csv

            csv.write_csv(found, file)
        else:
            from pyarrow import parquet

            parquet.write_table(found, file)
        return verify_file(file, **options)

    return verify


@pytest.fixture
def calls(tmp_path):
    return calls_table(
        [*write_run(tmp_path / "r1.jsonl")[0], *write_run(tmp_path / "r2.jsonl", 5, run="r2")[0]]
    )


def test_what_an_earlier_version_wrote_verifies(table, tmp_path):
    """Its structured results are canonical JSON; today's are in the server's order."""
    file = Path(__file__).parent / "old_journal.jsonl"
    assert verify_file(file).consistent
    old = read_calls(file)
    ours = tmp_path / "new.jsonl"
    with Journal(ours, run="new") as journal:
        for call in old:
            shuffled = call.structured_result.replace('{"count":2,"rows":', '{"rows":').replace(
                "]}", '],"count":2}'
            )
            journal.append(replace(call, run="new", structured_result=shuffled, hash=None))
    assert verify_file(ours).consistent
    for calls in (old, read_calls(ours)):
        made = calls_table(calls)
        assert table(made).consistent
        # As programs write JSON anew, in the same order.
        place = made.column_names.index("Structured result")
        spaced = [json.dumps(json.loads(text), indent=1) for text in made.column(place).to_pylist()]
        assert table(made.set_column(place, "Structured result", pa.array(spaced))).consistent


def test_a_table_in_any_order(table, calls):
    order = list(range(calls.num_rows))
    random.Random(2).shuffle(order)
    found = table(calls.take(order))
    assert found.consistent
    assert [(run.run, run.count) for run in found.runs] == [("r1", 8), ("r2", 5)]
    assert "mcp_audit_head" in found.notes[0]


def test_a_filtered_table(table, calls):
    found = table(calls.filter(compute.equal(calls["Status"], "ok")))
    assert found.verdict is Verdict.ROWS_MISSING
    assert [(finding.run, numbers(finding)) for finding in found.findings] == [("r1", [3, 6]), ("r2", [3])]


def test_a_tampered_table(table, calls):
    results = calls["Result"].to_pylist()
    results[4] = "better"
    position = calls.column_names.index("Result")
    found = table(calls.set_column(position, "Result", pa.array(results, pa.string())))
    assert found.verdict is Verdict.ALTERED
    assert [numbers(finding) for finding in found.findings] == [[5]]
    assert "row 5" in found.findings[0].text


def test_a_table_whose_end_was_cut_off_shows_against_the_head(table, calls):
    head = calls["Hash"][7].as_py()
    run = calls.slice(0, 8)
    assert table(run, head=head).consistent
    assert table(run.slice(0, 6)).consistent
    assert table(run.slice(0, 6), head=head).verdict is Verdict.TRUNCATED
    later = table(run, head=calls["Hash"][5].as_py())
    assert later.verdict is Verdict.ALTERED
    assert "call 6" in later.findings[0].text


def test_rows_that_stand_there_twice(table, calls):
    found = table(pa.concat_tables([calls, calls.slice(2, 1)]))
    assert found.verdict is Verdict.ALTERED
    assert "more than once" in found.findings[0].text


def test_a_table_without_columns_that_are_needed(table, calls):
    found = table(calls.drop_columns(["Tool (JSON)"]))
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "Tool" in found.findings[0].text
    assert table(calls.drop_columns(["Hash"])).verdict is Verdict.UNVERIFIABLE
    assert table(calls.drop_columns(["Run"])).verdict is Verdict.UNVERIFIABLE
    assert table(calls.drop_columns(["Call"])).verdict is Verdict.UNVERIFIABLE
    assert table(calls.select(["Tool name", "Arguments"])).verdict is Verdict.UNVERIFIABLE


def test_a_column_that_was_empty_may_be_gone(table, calls):
    assert table(calls.drop_columns(["Iteration"])).consistent


def test_an_empty_table(table, calls):
    assert table(calls.slice(0, 0)).consistent
    assert not table(calls.slice(0, 0), head="sha256:" + "ab" * 32).consistent


@pytest.mark.long
def test_ten_thousand_rows(tmp_path):
    path = tmp_path / "r1.jsonl"
    written, head = write_run(path, 10_000)
    assert verify_file(path, head=head).consistent
    for ending in (".csv", ".parquet"):
        write_calls(reversed(written), tmp_path / f"t{ending}")
        found = verify_file(tmp_path / f"t{ending}", head=head)
        assert (found.verdict, found.runs[0].count) == (Verdict.INTACT, 10_000)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[5000:5003], lines[9]
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines))
    found = verify_file(tmp_path / "cut.jsonl")
    assert found.verdict is Verdict.ALTERED  # nobody filters a journal
    assert numbers(found.findings[0]) == [9, 5000, 5001, 5002]
    assert "Lines 10, 5000" in found.findings[-1].text
    shutil.copy(path, tmp_path / "copy.jsonl")
    assert verify_file(tmp_path / "copy.jsonl").consistent
