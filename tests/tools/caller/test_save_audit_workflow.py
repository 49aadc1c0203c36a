"""*Save audit workflow to* of the Caller."""

import pyarrow as pa
import pytest

from tests.knwf.java_streams import segment
from tests.support.archives import check_archive, read_workflow

pytestmark = pytest.mark.requirement("T49")


def test_a_folder_gets_a_workflow_per_run(server, call, tmp_path):
    result = call(
        rows={"a": [1, 2, 3]},
        server_url=server.url("/one"),
        tool_name="add",
        save_audit_workflow_to="audits",
        connection_options="concurrency = 1",  # the order is that in which calls finish
    )
    assert result.ok, result.failure
    assert result.warnings == []
    (file,) = (tmp_path / "workflow" / "data" / "audits").glob("*.knwf")
    assert check_archive(file) == []
    models = [node.parameters["model"] for node in read_workflow(file).nodes]
    assert [model["arguments"] for model in models] == [[{"name": "a", "value": str(n)}] for n in (1, 2, 3)]


def test_running_a_step_of_it_makes_the_same_call(server, call, tmp_path):
    first = call(
        server_url=server.url("/one"),
        tool_name="weather",
        arguments={"city": "Konstanz", "days": "3"},
        save_audit_workflow_to=str(tmp_path / "once.knwf"),
    )
    (node,) = read_workflow(tmp_path / "once.knwf").nodes
    again = call(**node.parameters["model"] | {"all_columns": True})
    rows = [result.outputs[0].to_pylist()[0] for result in (first, again)]
    for name in ("Arguments", "Result", "Structured result", "Digest", "Server"):
        assert rows[0][name] == rows[1][name] is not None


def test_nothing_is_saved_unasked(server, call, tmp_path):
    assert call(server_url=server.url("/one"), tool_name="add", arguments={"a": "1"}).ok
    assert not list((tmp_path / "workflow").rglob("*.knwf"))


def test_secrets_are_placeholders_in_the_workflow(server, call, tmp_path):
    result = call(
        server_url=server.url("/one"),
        tool_name="login",
        arguments={"user": "anna", "password": "hunter2-secret"},
        save_audit_workflow_to=str(tmp_path / "w.knwf"),
    )
    assert result.ok, result.failure
    assert "to fill in: node 1: /password" in result.warnings[-1]
    (node,) = read_workflow(tmp_path / "w.knwf").nodes
    assert "hunter2" not in str(node)


def test_a_place_that_cannot_be_written_does_not_lose_the_run(server, call, tmp_path):
    (tmp_path / "file").write_text("x")
    result = call(
        server_url=server.url("/one"),
        tool_name="add",
        arguments={"a": "1"},
        save_audit_workflow_to=str(tmp_path / "file" / "x.knwf"),
    )
    assert result.ok, result.failure
    assert "cannot be written" in result.warnings[-1]


@pytest.mark.requirement("T50")
@pytest.mark.parametrize("is_there", [True, False])
def test_the_workflow_behind_a_workflow_tool_is_a_metanode(host, call, tmp_path, is_there):
    """Its segment, where the file store has one; a note with its parameters in any case."""
    from knime.types.tool import WorkflowTool as KnimeTool

    from knime_mcp.knwf import OtherNode

    data = segment() if is_there else b"no archive"
    key = f"segment-{is_there}"
    host.add_file_store(key, data)
    schema = {"city": {"type": "string"}}
    tool = KnimeTool("Report", "Makes a report", schema, 0, [], [], key)
    result = call(
        host.table(pa.table({"Tool": host.tool_column([tool])})),
        tool_name="Report",
        arguments={"city": "Konstanz"},
        tool_handler=lambda *_: ("done", []),
        save_audit_workflow_to=str(tmp_path / "w.knwf"),
    )
    assert result.ok, result.failure
    assert [found.severity for found in check_archive(tmp_path / "w.knwf")] == ["warning"] * is_there
    workflow = read_workflow(tmp_path / "w.knwf")
    assert [(type(node), node.name) for node in workflow.nodes] == [(OtherNode, "Report")] * is_there
    assert any("Counter" in path for path in workflow.files) == is_there
    assert 'Parameters: {"city":"Konstanz"}' in workflow.annotations[-1].text
