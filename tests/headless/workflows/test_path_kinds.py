"""String to Path and Workflow to Tool: what becomes of a path, and of the workflow there."""

import json
import zipfile
from dataclasses import replace

import pytest

from knime_mcp.headless.workflows import NodeStatus, NotRunnable, ToolRunner
from knime_mcp.headless.workflows.run_results import plain_table
from knime_mcp.knwf import (
    Column,
    PathConversion,
    PortGroup,
    ToolColumn,
    boundary_node,
    string_to_path_node,
    table_creator,
    workflow_to_tool_node,
    write_workflow,
)
from knime_mcp.types.columns import read_tools
from tests.headless.workflows.building import numbers, run, table_of, variable, workflow

BESIDE = PathConversion("Path text")
DATA_AREA = PathConversion("Path text", specifier="knime.workflow.data")
LOCAL = PathConversion("Path text", category="LOCAL", specifier=None)


def tool_file(folder, name="the-tool", message="done"):
    nodes = (
        variable(1, "x", 5, parameter="the-x", description="an x"),
        table_creator(2, [Column("Message", "string", (message,))]),
        boundary_node(3, "message"),
    )
    flow = workflow(*nodes, lines=[(1, 1, 2, 0), (2, 1, 3, 1)], description="What it is for")
    write_workflow(flow, folder / f"{name}.knwf")
    return folder / f"{name}.knwf"


def paths_to_tools(*texts, paths=BESIDE, tools=None, **parts):
    return workflow(
        table_creator(1, [Column("Path text", "string", texts)]),
        string_to_path_node(2, paths),
        workflow_to_tool_node(3, tools or ToolColumn("Path")),
        lines=[(1, 1, 2, 1), (2, 1, 3, 1)],
        **parts,
    )


def made(host, folder, *texts, beside=None, **parts):
    report = run(host, paths_to_tools(*texts, **parts), folder, beside=beside)
    assert report.ok, [outcome.message for outcome in report.outcomes]
    return report


def tools_of(report):
    """The tools as the extension's own nodes read them."""
    return read_tools(report.outcome(3).done.outputs[0].as_input(), "Tool")


@pytest.mark.requirement("T26")
def test_a_workflow_beside_becomes_a_tool_that_runs(trial, tmp_path):
    tool_file(tmp_path)
    report = made(trial, tmp_path / "run", "../the-tool", beside=tmp_path)
    ids, (row,) = table_of(report, 3)
    assert ids == ["Row0"]
    assert list(row) == ["Path text", "Path", "Tool"]
    path = row["Path"]
    assert (path.fs_category, path.fs_specifier, path.path) == ("RELATIVE", "knime.workflow", "../the-tool")
    tool = row["Tool"]
    assert (tool.name, tool.description) == ("the-tool", "What it is for")
    assert tool.parameter_schema["the-x"]["description"] == "an x"
    assert ToolRunner(trial)(tool, {"the-x": 7}, [], {}) == ("done", [], [])
    assert report.outcome(3).done.warnings == ()


def test_a_workflow_that_is_a_folder(trial, tmp_path):
    with zipfile.ZipFile(tool_file(tmp_path)) as archive:
        archive.extractall(tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    (tmp_path / "group").mkdir()
    folder.rename(tmp_path / "group" / "folder-tool")
    report = made(trial, tmp_path / "run", "../group/folder-tool", beside=tmp_path)
    tool = table_of(report, 3)[1][0]["Tool"]
    assert tool.name == "folder-tool"
    assert ToolRunner(trial)(tool, {}, [], {})[0] == "done"


def test_a_workflow_in_the_data_area(trial, tmp_path):
    with zipfile.ZipFile(tool_file(tmp_path)) as archive:
        files = {
            f"data/tools/mine/{name.partition('/')[2]}": archive.read(name) for name in archive.namelist()
        }
    report = made(trial, tmp_path / "run", "tools/mine", paths=DATA_AREA, files=files)
    assert table_of(report, 3)[1][0]["Tool"].name == "mine"


def test_an_archive_with_a_local_path(trial, tmp_path):
    report = made(trial, tmp_path / "run", str(tool_file(tmp_path)), paths=LOCAL)
    assert table_of(report, 3)[1][0]["Tool"].name == "the-tool.knwf"


@pytest.mark.parametrize(
    ("paths", "text", "says"),
    [
        (BESIDE, "../gone", "No workflow is at ../gone"),
        (BESIDE, "../the-tool.knwf", "leave .knwf out of the path"),
        (BESIDE, "inside", "does not lead out of the workflow"),
        (BESIDE, "/the-tool", "does not lead out of the workflow"),
        (DATA_AREA, "../../the-tool", "leads out of the workflow's data area"),
        (DATA_AREA, "gone", "No workflow is at gone"),
        (LOCAL, "/no/such.knwf", "No workflow is at /no/such.knwf"),
        (PathConversion("Path text", specifier="knime.space"), "/x", "knime.space are known to KNIME only"),
        (PathConversion("Path text", category="CUSTOM_URL", specifier="1000"), "http://x", "KNIME only"),
        (BESIDE, "../broken", "is no workflow"),
        (BESIDE, "../foreign", "Only KNIME runs this node"),
    ],
)
def test_what_makes_no_tool_is_missing_with_a_warning(trial, tmp_path, paths, text, says):
    tool_file(tmp_path)
    (tmp_path / "broken.knwf").write_bytes(b"PK not a zip")
    foreign = replace(numbers(1, 5), factory="org.example.Foreign")
    write_workflow(workflow(foreign), tmp_path / "foreign.knwf")
    report = made(trial, tmp_path / "run", text, paths=paths, beside=tmp_path)
    assert tools_of(report) == [None]
    (warning,) = report.outcome(3).done.warnings
    assert warning.startswith("Row0 is no tool: ")
    assert says in warning


def test_where_the_workflow_lies_may_be_unknown(trial, tmp_path):
    report = made(trial, tmp_path, "../the-tool")
    assert "not known where the workflow lies" in report.outcome(3).done.warnings[0]


@pytest.mark.parametrize(
    ("policy", "columns"),
    [
        ("APPEND", ["Path text", "Path", "New"]),
        ("REPLACE", ["Path text", "Path"]),
        ("REPLACE_AND_RENAME", ["Path text", "New"]),
    ],
)
def test_where_the_tools_go(trial, tmp_path, policy, columns):
    tool_file(tmp_path)
    report = made(
        trial, tmp_path / "run", "../the-tool", beside=tmp_path, tools=ToolColumn("Path", policy, "New")
    )
    table = report.outcome(3).done.outputs[0]
    assert table.column_names == columns
    assert table.logical_types[columns[-1]].endswith("WorkflowToolValueFactory")


def test_a_path_column_that_replaces_or_is_numbered(trial, tmp_path):
    tool_file(tmp_path)
    replacing = PathConversion("Path text", new_column=None)
    report = made(
        trial,
        tmp_path / "a",
        "../the-tool",
        beside=tmp_path,
        paths=replacing,
        tools=ToolColumn("Path text"),
    )
    assert report.outcome(3).done.outputs[0].column_names == ["Path text", "Tool"]
    numbered = PathConversion("Path text", new_column="Path text")
    report = made(trial, tmp_path / "b", "../x", paths=numbered, tools=ToolColumn("Path text (#1)"))
    assert report.outcome(2).done.outputs[0].column_names == ["Path text", "Path text (#1)"]


@pytest.mark.parametrize(
    ("texts", "says", "message"),
    [
        (("../a", None), BESIDE, "has missing cells"),
        (("../a", " "), BESIDE, "has empty texts"),
        (("../a",), PathConversion("Other"), "has no column 'Other'; it has: Path text"),
        (("../a",), PathConversion("Path text", must_exist=True), "Nothing is at ../a"),
    ],
)
def test_texts_that_are_no_paths(trial, tmp_path, texts, says, message):
    report = run(trial, paths_to_tools(*texts, paths=says), tmp_path / "x", beside=tmp_path)
    assert report.outcome(2).status is NodeStatus.FAILED
    assert message in report.outcome(2).message


def test_missing_cells_stay_missing(trial, tmp_path):
    tool_file(tmp_path)
    paths = PathConversion("Path text", fail_on_missing=False)
    report = made(trial, tmp_path / "run", None, "../the-tool", paths=paths, beside=tmp_path)
    missing, there = tools_of(report)
    assert missing is None
    assert there.name == "the-tool"
    assert table_of(report, 2)[1][0]["Path"] is None
    plain = plain_table(report.outcome(3).done.outputs[0]).to_pylist()
    assert [row["Path"] for row in plain] == [None, "(RELATIVE, knime.workflow, ../the-tool)"]
    assert plain[0]["Tool"] is None
    assert json.loads(plain[1]["Tool"])["name"] == "the-tool"


def test_a_column_of_texts_is_no_column_of_paths(trial, tmp_path):
    report = run(trial, paths_to_tools("../x", tools=ToolColumn("Path text")), tmp_path)
    assert "does not hold paths" in report.outcome(3).message
    flow = workflow(numbers(1, 5), string_to_path_node(2, PathConversion("n")), lines=[(1, 1, 2, 1)])
    assert "does not hold texts" in run(trial, flow, tmp_path).outcome(2).message


def test_a_file_system_connection_does_not_run_here(trial, tmp_path):
    node = replace(
        string_to_path_node(2, BESIDE), port_groups=(PortGroup("File System Connection", ("a.b.C",)),)
    )
    flow = workflow(numbers(1, 5), node, lines=[(1, 1, 2, 1)])
    with pytest.raises(NotRunnable, match="file system connection"):
        run(trial, flow, tmp_path)
