"""Segments, read as KNIME's Java writes them, and written."""

import io
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.knime_nodes import table_creator
from knime_mcp.knwf import (
    Connection,
    KnwfError,
    OtherNode,
    PortOf,
    Segment,
    Workflow,
    read_segment,
    segment_digest,
    segment_file,
    write_segment,
)
from knime_mcp.knwf.workflow_file import workflow_files
from tests.knwf.java_streams import segment, stream
from tests.knwf.strategies import workflows


def test_what_knime_wrote_is_read():
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(segment()))
    read = read_segment(segment())
    assert (read.workflow.name, read.workflow.description) == ("Word count", "Counts")
    assert [(node.id, node.name, node.factory) for node in read.workflow.nodes] == [
        (7, "Counter", "org.example.CounterNodeFactory")
    ]
    assert read.workflow.nodes[0].model.integer("limit") == 3
    assert read.inputs == ((PortOf(7, 1), PortOf(7, 2)),)
    assert read.outputs == (PortOf(7, 1),)
    assert not [problem for problem in read.workflow.problems if problem.severity == "error"]


@pytest.mark.parametrize(
    "change",
    [
        {"when": 1},
        {"x": 99},
        {"order": -1},
        {"secret": "v1-other"},
        {"description": "Counts otherwise"},
        {"node": "Counter _deprecated_"},
        {"name": "Words counted"},
    ],
)
def test_saving_again_and_new_names_change_no_digest(change):
    assert segment(**change) != segment()
    assert segment_digest(segment(**change)) == segment_digest(segment())


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 4},
        {"said": "m"},  # a setting that is called as a node's name is
        {"port": 2},
        {"more": [("Word count/data/list.csv", b"a")]},
        {"more": [("Word count/Counter (#7)/internal/workflow.svg", b"a")]},
        {"more": [("Word count/7/internal/kept.bin", b"kept")]},
    ],
)
def test_another_workflow_has_another_digest(change):
    assert segment_digest(segment(**change)) != segment_digest(segment())


def test_a_node_renamed_in_a_metanode_changes_no_digest():
    def named(metanode, node):
        inner = Workflow("inner", (replace(table_creator(5, []), name=node),))
        outer = Workflow(
            "outer",
            (OtherNode(2, metanode, "metanode", f"{metanode} (#2)/workflow.knime"),),
            files={f"{metanode} (#2)/{path}": body for path, body in workflow_files(inner).items()},
        )
        return segment_digest(write_segment(Segment(workflow=outer)))

    assert named("Part", "Table Creator") == named("Teil", "Table Creator (deprecated)")


def test_what_is_no_segment_has_the_digest_of_its_bytes():
    plain = b"no zip"
    assert segment_digest(plain) == segment_digest(bytes(plain)) != segment_digest(b"no zi")
    assert segment_digest(plain).startswith("sha256:")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no zip file"),
        (b"PK\3\4 and no more", "within the header"),
        (segment()[:700], "too early"),
        (segment()[:-9] + bytes(9), "damaged"),
        (stream([("workflow.bin", b""), ("metadata.xml", b"")]), "starts with workflow.bin"),
        (stream([("metadata.xml", b"<config key='m'/>"), ("workflow.bin", b"")]), "no zip file"),
        (
            stream([("metadata.xml", b"<config key='m'/>"), ("workflow.bin", stream([("w/a", b"")]))]),
            "with its workflow.knime",
        ),
        (
            stream([("metadata.xml", b"<config key='m'/>"), ("workflow.bin", stream([("../a", b"")]))]),
            "outside",
        ),
        (stream([("metadata.xml", b""), ("metadata.xml", b"")]), "twice"),
    ],
)
def test_other_bytes_are_refused(data, message):
    with pytest.raises(KnwfError, match=message):
        read_segment(data)


def test_a_small_file_does_not_become_a_large_one(monkeypatch):
    bomb = stream([("metadata.xml", bytes(1 << 20))])
    assert len(bomb) < 2000
    monkeypatch.setattr(segment_file, "MOST_IN_A_FILE", 1000)
    with pytest.raises(KnwfError, match="more than 1000 bytes"):
        read_segment(bomb)
    many = stream([(f"f{i}", b"x" * 600) for i in range(3)])
    monkeypatch.setattr(segment_file, "MOST_BYTES", 1000)
    with pytest.raises(KnwfError, match="more files or bytes"):
        read_segment(many)


def test_a_segment_is_whole_zip_files_in_knimes_order():
    made = Segment(
        workflow=Workflow("a/b", (table_creator(3, []), table_creator(4, [])), (Connection(3, 0, 4, 0),)),
        outputs=(PortOf(4, 1),),
        behind={"mcp-tool.json": b"{}"},
    )
    data = write_segment(made)
    assert write_segment(made) == data
    assert read_segment(data) == made
    with zipfile.ZipFile(io.BytesIO(data)) as outer:
        assert outer.namelist() == ["metadata.xml", "workflow.bin", "mcp-tool.json"]
        inner = zipfile.ZipFile(io.BytesIO(outer.read("workflow.bin")))
    assert {name.partition("/")[0] for name in inner.namelist()} == {"a_b"}


@given(workflow=workflows(), node=st.integers(0, 3), index=st.integers(0, 3))
def test_segments_come_back(workflow, node, index):
    made = Segment(workflow=workflow, inputs=((PortOf(node, index),), ()), outputs=(PortOf(node, index),))
    data = write_segment(made)
    again = read_segment(data)
    assert again == made
    assert segment_digest(write_segment(again)) == segment_digest(data)
