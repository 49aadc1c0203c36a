"""The Caller's journal: chained, verifiable, and its head handed on as a flow variable."""

import pytest

from knime_mcp.audit.calls_table import read_calls, write_calls
from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verify import verify_file

IN_TURN = {"connection_options": "concurrency = 1"}

pytestmark = pytest.mark.quick


CANARY = "canary-7f3a9c51d2"


def test_the_head_is_handed_on_and_fits_the_journal(server, tools_of, call, rows_of, journal_files):
    tools = tools_of(server.url("/one"))
    result = call(
        tools,
        {"a": [1, 2, None, 4], "b": [0] * 4},
        tool_name="add",
        flow_variables={"kept": 1},
        connection_options="concurrency = 4",
    )
    assert len(rows_of(result)) == 4
    head = result.flow_variables["mcp_audit_head"]
    assert isinstance(head, str)
    assert result.flow_variables["kept"] == 1
    found = verify_file(journal_files()[-1], head=head)
    assert found.intact
    assert (found.runs[0].count, found.runs[0].anchor) == (4, head)
    other = call(tools, {"a": [1]}, tool_name="add").flow_variables["mcp_audit_head"]
    assert other != head
    assert not verify_file(journal_files()[0], head=other).consistent


def test_no_calls_have_no_head(server, tools_of, call, journal_files):
    import pyarrow as pa

    rows = pa.table({"a": pa.array([], pa.int64())})
    result = call(tools_of(server.url("/one")), rows, tool_name="add")
    assert result.ok, result.failure
    head = result.flow_variables["mcp_audit_head"]
    assert verify_file(journal_files()[-1], head=head).intact


def test_a_resumed_run_goes_on_from_the_interrupted_one(server, tools_of, call, rows_of, journal_files):
    tools = tools_of(server.url("/one"))
    failed = call(tools, {"a": [1, None, 3]}, tool_name="add", on_error="fail", **IN_TURN)
    assert not failed.ok
    assert verify_file(journal_files()[-1]).consistent
    earlier = read_journal(journal_files()[-1])
    resumed = call(tools, {"a": [1, 2, 3]}, tool_name="add", resume=True, **IN_TURN)
    rows_of(resumed)
    records = read_journal(journal_files()[-1]).records
    assert records[0].previous_hash == earlier.head
    assert [record.resumed_from for record in records] == [earlier.run, None, None]
    assert [record.call for record in records] == [1, 2, 3]
    found = verify_file(journal_files()[-1], head=resumed.flow_variables["mcp_audit_head"])
    assert found.consistent
    assert "earlier run" in found.notes[0]
    both = journal_files()[-1].with_name("both.jsonl")
    both.write_bytes(b"".join(file.read_bytes() for file in journal_files()))
    assert verify_file(both).consistent
    assert not [note for note in verify_file(both).notes if "earlier run" in note]


@pytest.mark.parametrize("user", ["me", "nobody"])
def test_secrets_are_in_nothing_made_of_the_journal(server, tools_of, call, journal_files, tmp_path, user):
    tools = tools_of(server.url("/one"))
    rows = {"user": [user, "me"], "password": [CANARY, CANARY]}
    result = call(tools, rows, tool_name="login")
    assert result.ok, result.failure
    (journal,) = journal_files()
    found = verify_file(journal, head=result.flow_variables["mcp_audit_head"])
    assert found.consistent
    records = read_calls(journal)
    assert len(records) == 2
    write_calls(records, tmp_path / "t.csv")
    write_calls(records, tmp_path / "t.parquet")
    texts = [file.read_bytes().decode("utf-8", "replace") for file in (journal, tmp_path / "t.csv")]
    texts += [str(read_calls(tmp_path / "t.parquet")), repr(found), str(result.flow_variables)]
    assert "⟨secret " in texts[0]
    assert not [text for text in texts if CANARY in text]
