"""The node *Tool Call Replayer*, on either host, against a real server."""

import json
import re
import zipfile

import pyarrow as pa
import pytest

from knime_mcp.audit.calls_table import calls_table
from tests.knwf.java_streams import segment
from tests.support import peers
from tests.support.pages import RunPage
from tests.support.recordings import CALLS, record_calls, replayed_server

pytestmark = pytest.mark.requirement("T49")


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    return tmp_path_factory.mktemp("replayer") / "notes.txt"


@pytest.fixture(scope="module")
def server(notes):
    with peers.running(replayed_server(notes)) as running:
        yield running


@pytest.fixture
def recorded(server, tmp_path):
    """A table *Tool calls* as Arrow data, and the head hash."""

    def record(calls=CALLS):
        records = record_calls(tmp_path / "run.jsonl", server.url("/base"), calls)
        return calls_table(records), records[-1].hash

    return record


@pytest.fixture
def replay(host, tmp_path):
    def run(table, workflow_dir=None, **parameters):
        options = {
            name: parameters.pop(name)
            for name in ("cancel", "credentials", "flow_variables", "tool_handler", "execute")
            if name in parameters
        }
        return host.run(
            "tool_call_replayer",
            [host.table(table), None],
            parameters,
            workflow_dir=workflow_dir or tmp_path / "workflow",
            **options,
        )

    return run


def rows_of(result, port=0):
    assert result.ok, result.failure
    assert not result.problems
    assert not result.outputs[port].problems
    table = result.outputs[port]
    return [{"RowID": row_id, **row} for row_id, row in zip(table.row_ids, table.to_pylist(), strict=True)]


def test_every_call_gets_a_verdict_and_the_summary_counts_them(replay, recorded):
    table, head = recorded()
    result = replay(table, expected_head=head)
    rows = rows_of(result)
    assert [row["Verdict"] for row in rows] == ["same", "different", "skipped", "different", "same", "same"]
    assert rows[0]["Recorded result"] == rows[0]["New result"] == "3"
    assert json.loads(rows[1]["Patch"])[0]["op"] == "replace"
    summary = {row["RowID"]: row for row in rows_of(result, 1)}
    assert summary["same"]["Calls"] == 3
    assert "not declared as read-only" in summary["skipped"]["Details"]
    assert summary["records"]["Verdict"] == "unchanged since you noted its head"
    assert "3 same, 2 different, 1 skipped" in result.warnings[-1]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}-[0-9a-f]{64}", result.flow_variables["mcp_audit_head"])


def test_row_ids_are_kept_and_the_order_is_the_recorded_one(replay, recorded):
    table, _ = recorded()
    turned = table.take(pa.array([5, 0, 4])).add_column(
        0, "<RowID>", pa.array(["last", "first", "fifth"], pa.string())
    )
    rows = rows_of(replay(turned))
    assert [(row["RowID"], row["Call"]) for row in rows] == [("first", 1), ("fifth", 5), ("last", 6)]


@pytest.mark.parametrize("form", ["auto", "portable"])
def test_results_of_the_caller(replay, host, server, form, tmp_path):
    """Tools from a Provider, in the form of this host; one row of *Parameters* per call."""
    provided = host.run(
        "mcp_tool_provider", [None, None], {"server_url": server.url("/base"), "column_form": form}
    )
    called = host.run(
        "mcp_tool_caller",
        [provided.outputs[0].as_input(), host.table(pa.table({"a": [1, 2]})), None],
        {"tool_name": "add"},
        workflow_dir=tmp_path / "before",
    )
    assert called.ok, called.failure
    result = host.run(
        "tool_call_replayer",
        [called.outputs[0].as_input(), None],
        {},
        workflow_dir=tmp_path / "workflow",
    )
    assert [(row["RowID"], row["Verdict"], row["New result"]) for row in rows_of(result)] == [
        ("Row0", "same", "2"),
        ("Row1", "same", "3"),
    ]
    assert rows_of(result, 1)[-1]["Verdict"] == "not verifiable"  # Results have no hashes


def test_a_table_without_a_tool_column_is_replayed_from_names_and_servers(replay, recorded):
    table, _ = recorded()
    kept = table.select(
        ["Tool name", "Server", "Digest", "Arguments", "Result", "Structured result", "Status"]
    )
    rows = rows_of(replay(kept.slice(0, 3)))
    assert [row["Verdict"] for row in rows] == ["same", "different", "skipped"]


def test_a_table_without_results_says_that_there_was_nothing_to_compare(replay, recorded):
    table, _ = recorded(CALLS[:1])
    (warning,) = replay(table.select(["Tool name", "Server", "Digest", "Arguments"])).warnings
    assert "The table has no column Result, so there was nothing to compare with" in warning


def test_tampering_and_filtering_are_told(replay, recorded):
    table, head = recorded()
    place = table.column_names.index("Result")
    cells = table.column("Result").to_pylist()
    tampered = table.set_column(place, "Result", pa.array(["4", *cells[1:]]))
    refused = replay(tampered)
    assert "The records are changed at call 1, so nothing was called" in refused.failure["message"]
    filtered = replay(table.slice(2, 2))
    assert rows_of(filtered, 1)[-1]["Verdict"] == "rows missing"
    cut = replay(table.slice(0, 3), expected_head=head)
    assert rows_of(cut, 1)[-1]["Verdict"] == "end missing, or not what the given head is of"


def test_other_servers_and_ignore_rules(replay, recorded, server):
    table, _ = recorded()
    rows = rows_of(
        replay(
            table,
            servers=[{"recorded": server.url("/base"), "new": server.url("/renamed")}],
            ignore="/at\n/items/*/id\ncall \\d+",
        )
    )
    assert [row["Verdict"] for row in rows] == [
        "tool missing",
        "same",
        "skipped",
        "same",
        "same",
        "tool missing",
    ]
    assert rows[1]["New server"] == server.url("/renamed")


def test_a_named_tool_runs_and_is_in_the_journal(replay, recorded, notes, journals):
    table, _ = recorded([("note", {"text": "from the node"})])
    before = notes.read_text("utf-8").count("from the node")
    assert rows_of(replay(table, also_call="note"))[0]["Verdict"] == "same"
    assert notes.read_text("utf-8").count("from the node") == before + 1
    (journal,) = journals()
    assert [line["kind"] for line in journal] == ["start", "call", "end"]


def test_secret_arguments_come_from_a_credential(replay, recorded):
    table, _ = recorded([("login", {"user": "anna", "password": "hunter2-secret"})])
    assert rows_of(replay(table))[0]["Verdict"] == "skipped"
    mark = re.search("[0-9a-f]{12}", table.column("Arguments")[0].as_py())[0]
    result = replay(
        table,
        secrets=[{"digest": mark, "credential": "login"}],
        credentials={"login": ("", "hunter2-secret")},
    )
    (row,) = rows_of(result)
    assert row["Verdict"] == "same"
    assert "hunter2" not in str(row) + result.view_html
    missing = replay(table, secrets=[{"digest": mark, "credential": "nobody"}])
    assert "There is no credential 'nobody'" in missing.failure["message"]


def test_a_token_goes_to_one_server_only(host, recorded, tmp_path):
    table, _ = recorded(CALLS[:1])
    place = table.column_names.index("Server")
    both = pa.concat_tables(
        [table, table.set_column(place, "Server", pa.array(["https://elsewhere.example/mcp"]))]
    ).drop_columns(["Tool (JSON)"])
    result = host.run(
        "tool_call_replayer",
        [host.table(both), host.credential_port("a-token-that-is-secret")],
        {},
        workflow_dir=tmp_path,
    )
    assert "would go to 2 servers" in result.failure["message"]


def test_settings_that_cannot_work(host, replay, recorded):
    table, _ = recorded(CALLS[:1])
    for parameters, words in (
        ({"ignore": "("}, "regular expression"),
        ({"servers": [{"recorded": "http://a/", "new": "b"}]}, "does not start with http"),
    ):
        result = replay(table, execute=False, **parameters)
        assert words in result.failure["message"]
        assert result.failure["invalid_settings"]
    result = replay(pa.table({"x": [1]}), execute=False)
    assert "no column Tool name and no column Arguments" in result.failure["message"]


def test_the_view_shows_both_results_side_by_side(replay, recorded):
    table, _ = recorded()
    view = replay(table).view_html
    for words in (
        "2 different",
        "RFC 6902",
        "prefers-color-scheme: dark",
        "Content-Security",
    ):
        assert words in view
    steps = RunPage(view).steps
    assert [step["status"] for step in steps].count("different") == 2
    assert all(old != now for step in steps for _, old, now in step.get("differences", ()))
    assert sum("differences" in step for step in steps) == 2


def test_an_audit_workflow_is_saved(replay, recorded, tmp_path):
    table, _ = recorded()
    assert replay(table, save_audit_workflow_to="audits").ok
    (file,) = (tmp_path / "workflow" / "data" / "audits").glob("*.knwf")
    assert len([n for n in zipfile.ZipFile(file).namelist() if "MCP Tool Caller" in n]) == len(CALLS)


def test_an_empty_table_has_no_rows_and_counts_nothing(replay, recorded):
    table, _ = recorded(CALLS[:1])
    result = replay(table.slice(0, 0))
    assert rows_of(result) == []
    assert {row["Calls"] for row in rows_of(result, 1)} == {0}


def test_a_cancel_closes_the_journal_as_canceled(replay, recorded, journals):
    table, _ = recorded([("add", {"a": number}) for number in range(30)])
    result = replay(table, cancel=3)
    assert not result.ok
    (journal,) = journals()
    assert journal[-1]["outcome"] == "canceled"


def test_workflow_tools_run_only_if_they_are_named(host, replay, tmp_path):
    from knime.types.tool import WorkflowTool as KnimeTool

    host.add_file_store("replayed-workflow", b"workflow")
    tool = KnimeTool("Report", "Makes a report", {"n": {"type": "integer"}}, 0, [], [], "replayed-workflow")
    asked = []

    def handler(tool, parameters, inputs, hints):
        asked.append(parameters)
        return f"report {parameters['n']}", []

    called = host.run(
        "mcp_tool_caller",
        [host.table(pa.table({"Tool": host.tool_column([tool])})), None, None],
        {"tool_name": "Report", "arguments": [{"name": "n", "value": "3"}]},
        tool_handler=handler,
        workflow_dir=tmp_path / "before",
    )
    assert called.ok, called.failure
    assert asked == [{"n": 3}]

    def again(**parameters):
        result = host.run(
            "tool_call_replayer",
            [called.outputs[0].as_input(), None],
            parameters,
            tool_handler=handler,
            workflow_dir=tmp_path / "workflow",
        )
        (row,) = rows_of(result)
        return row["Verdict"], row["Reason"]

    assert again() == ("skipped", "A workflow runs only if it is named")
    assert len(asked) == 1
    assert again(also_call="Report") == ("same", None)
    assert asked == [{"n": 3}, {"n": 3}]


@pytest.mark.requirement("T50")
def test_a_workflow_that_is_not_the_one_that_ran(host, replay, tmp_path):
    """The record has the digest of the workflow, and a replay looks whether it is still the same."""
    from knime.types.tool import WorkflowTool as KnimeTool

    from knime_mcp.knwf import segment_digest

    host.add_file_store("digested-workflow", segment())
    tool = KnimeTool("Report", "", {"n": {"type": "integer"}}, 0, [], [], "digested-workflow")
    asked = []

    def handler(tool, parameters, inputs, hints):
        asked.append(parameters)
        return "done", []

    called = host.run(
        "mcp_tool_caller",
        [host.table(pa.table({"Tool": host.tool_column([tool])})), None, None],
        {"tool_name": "Report", "arguments": [{"name": "n", "value": "3"}]},
        tool_handler=handler,
        workflow_dir=tmp_path / "before",
    )
    assert called.ok, called.failure
    assert called.outputs[0].to_pylist()[0]["Digest"] == segment_digest(segment())

    def again(**parameters):
        result = host.run(
            "tool_call_replayer",
            [called.outputs[0].as_input(), None],
            {"also_call": "Report", **parameters},
            tool_handler=handler,
            workflow_dir=tmp_path / "workflow",
        )
        (row,) = rows_of(result)
        return row["Verdict"], row["Reason"], row["New digest"]

    host.add_file_store("digested-workflow", segment(when=1))  # Workflow to Tool was executed again
    assert again()[0] == "same"
    host.add_file_store("digested-workflow", segment(limit=4))
    new = segment_digest(segment(limit=4))
    assert again() == (
        "tool changed",
        "The workflow in its file store is not the one that ran. It was not called",
        new,
    )
    assert len(asked) == 2
    assert again(call_changed=True) == ("same", "The tool has changed: workflow", new)
