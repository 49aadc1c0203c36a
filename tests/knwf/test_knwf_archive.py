"""Archives of other programs: hostile, broken, old, or with unknown content."""

import stat
import struct
import zipfile

import pytest

from knime_mcp.knwf import ArchiveLimits, KnwfError, NodeState, OtherNode, check_archive, read_workflow
from tests.knwf.by_hand import NODE, archive, node, settings, workflow

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", ["../x", "w/../../x", "/x", "w/a\\..\\x", "C:/x", "w//x", "w/./x", "w/.."])
def test_names_that_lead_out_are_refused(name, tmp_path):
    path = archive(tmp_path, {"w/workflow.knime": workflow(), name: "x"}, top="")
    with pytest.raises(KnwfError, match="could land outside"):
        read_workflow(path)


def test_symbolic_links_are_refused(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow()})
    with zipfile.ZipFile(path, "a") as file:
        link = zipfile.ZipInfo("w/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    with pytest.raises(KnwfError, match="symbolic link"):
        read_workflow(path)


def test_a_doubled_name_is_refused(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow()})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("w/workflow.knime", workflow())
    with pytest.raises(KnwfError, match="twice"):
        read_workflow(path)


def test_what_unpacks_to_too_much_is_refused(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow() + " " * 50_000_000})
    assert path.stat().st_size < 100_000
    with pytest.raises(KnwfError, match="unpacks to more than"):
        read_workflow(path)


def test_the_size_that_an_archive_claims_does_not_count(tmp_path):
    """The archive's own figures are not believed."""
    path = archive(tmp_path, {"workflow.knime": workflow() + " " * 1_000_000})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    assert struct.unpack_from("<I", data, at)[0] > 1_000_000
    struct.pack_into("<I", data, at, 10)
    path.write_bytes(data)
    with pytest.raises(KnwfError):
        read_workflow(path, limits=ArchiveLimits(settings_file=100_000))


def test_too_many_files_are_refused(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow()} | {f"data/{i}": "" for i in range(20)})
    with pytest.raises(KnwfError, match="21 files; 20 are allowed"):
        read_workflow(path, limits=ArchiveLimits(entries=20))


def test_large_data_is_left_out_and_said(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow(), "data/big": "x" * 5000, "data/small": "x"})
    read = read_workflow(path, limits=ArchiveLimits(other_file=1000))
    assert list(read.files) == ["data/small"]
    assert [problem.where for problem in read.problems] == ["data/big"]


@pytest.mark.parametrize(
    ("files", "top", "message"),
    [
        ({}, "", "holds nothing"),
        ({"a/workflow.knime": "", "b/workflow.knime": ""}, "", "one folder, the workflow; it holds 'a', 'b'"),
        ({"w/a": ""}, "", "it holds no workflow"),
        ({"group/inner/workflow.knime": ""}, "", "its first workflow is in 'inner'"),
        ({"w/workflow.knime": "<config"}, "", "workflow.knime is not well-formed"),
    ],
)
def test_what_is_no_workflow_is_refused(files, top, message, tmp_path):
    with pytest.raises(KnwfError, match=message):
        read_workflow(archive(tmp_path, files, top))


def test_every_cut_of_an_archive_is_an_error(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow(nodes=node(1)), "N (#1)/settings.xml": settings()})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(KnwfError):
            read_workflow(path)


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_broken_stream_is_an_error(how, tmp_path):
    path = tmp_path / "w.knwf"
    with zipfile.ZipFile(path, "w", how) as file:
        file.writestr("w/workflow.knime", workflow())
    data = path.read_bytes()
    start = data.index(b"w/workflow.knime") + len("w/workflow.knime")
    said = set()
    for place in range(start, start + 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            read_workflow(path)  # a few bytes may be anything
        except KnwfError as error:
            said.add(str(error))
    assert said
    assert all("cannot be read" in text for text in said)


def test_a_folder_is_no_archive(tmp_path):
    (tmp_path / "w").mkdir()
    with pytest.raises(KnwfError, match="w is a folder; export the workflow from KNIME"):
        read_workflow(tmp_path / "w")


def test_a_folder_without_a_name_is_no_archive():
    with pytest.raises(KnwfError, match=r"^\. is a folder; export the workflow from KNIME"):
        read_workflow(".")


def test_a_folder_belongs_to_one_node(tmp_path):
    """Were it not so, a few nested metanodes that name one folder often would hold more than any machine."""
    shared = NODE.replace("N (#{id})", "N (#1)")
    deep = NODE.replace("N (#{id})", "N (#1)/deeper")
    nodes = node(1) + shared.format(id=2, type="MetaNode") + deep.format(id=3, type="NativeNode")
    files = {
        "workflow.knime": workflow(nodes=nodes),
        "N (#1)/settings.xml": settings(),
        "N (#1)/deeper/settings.xml": settings(),
    }
    found = read_workflow(archive(tmp_path, files))
    assert [own.id for own in found.nodes if isinstance(own, OtherNode)] == [2, 3]
    assert [str(problem) for problem in found.problems] == [
        "error: node 2 (N): its folder 'N (#1)' is also that of another node",
        "error: node 3 (N): its settings file is not in a folder of its own",
    ]


def test_a_missing_node_folder_is_named(tmp_path):
    path = archive(tmp_path, {"workflow.knime": workflow(nodes=node(1))})
    read = read_workflow(path)
    assert isinstance(read.node(1), OtherNode)
    assert [str(p) for p in check_archive(path)] == [
        "error: node 1 (N): 'N (#1)/settings.xml' is not in the archive"
    ]


def test_a_folder_is_found_in_other_letter_case_as_knime_finds_it(tmp_path):
    files = {"workflow.knime": workflow(nodes=node(1)), "n (#1)/settings.xml": settings()}
    read = read_workflow(archive(tmp_path, files))
    assert read.problems == ()
    assert read.node(1).factory == "org.example.F"
    assert read.files == {}


def test_missing_keys_are_named(tmp_path):
    keys = ("state", "workflow_credentials", "connections")
    text = workflow(nodes=node(1))
    for key in keys:
        text = text.replace(f'key="{key}"', f'key="{key}s"')
    files = {"workflow.knime": text, "N (#1)/settings.xml": settings().replace("hasContent", "hasContents")}
    assert [str(problem) for problem in check_archive(archive(tmp_path, files))] == [
        *(f"error: workflow.knime: the key '{key}' is missing" for key in keys),
        "error: node 1 (N): the key 'hasContent' is missing in its settings",
    ]


def test_an_empty_workflow_as_knime_hub_makes_it_is_read(tmp_path):
    text = '<config key="workflow.knime"><config key="nodes"/><config key="connections"/></config>'
    read = read_workflow(archive(tmp_path, {"workflow.knime": text}))
    assert (read.name, read.nodes) == ("w", ())
    [problem] = read.problems
    assert problem.severity == "warning"
    assert "says no version" in problem.what


def test_broken_nodes_and_connections_are_named(tmp_path):
    nodes = node(1) + node(2) + node(3, "LoopNode") + '<config key="node_4"/>'
    connections = '<config key="connection_0"><entry key="sourceID" type="xint" value="1"/></config>'
    files = {
        "workflow.knime": workflow(nodes=nodes, connections=connections),
        "N (#1)/settings.xml": settings().replace('key="factory"', 'key="fabric"'),
        "N (#2)/settings.xml": "<config",
    }
    found = "\n".join(map(str, check_archive(archive(tmp_path, files))))
    assert "node 1 (N): its settings do not say which node it is" in found
    assert "node 2 (N): N (#2)/settings.xml is not well-formed XML" in found
    assert "node 3 (N): it is a 'LoopNode', which is no kind of node" in found
    assert "'node_4' has no id or no settings file" in found
    assert "'connection_0' has no destID, sourcePort, destPort" in found


@pytest.mark.parametrize(
    ("version", "message"),
    [("4.1.0", "older format 4.1.0"), ("6.0.0", "'6.0.0', which is not known"), ("", "no version")],
)
def test_other_versions_are_warned_about(version, message, tmp_path):
    [problem] = read_workflow(archive(tmp_path, {"workflow.knime": workflow(version=version)})).problems
    assert problem.severity == "warning"
    assert message in problem.what


def test_executed_nodes_are_read_without_their_data(tmp_path):
    files = {
        "workflow.knime": workflow(nodes=node(1)),
        "N (#1)/settings.xml": settings("EXECUTED", '<config key="view"/>'),
        "N (#1)/port_1/data.zip": "x" * 1000,
        "workflow.svg": "<svg/>",
        ".artifacts/x.json": "{}",
        "data/in.csv": "a",
    }
    read = read_workflow(archive(tmp_path, files))
    assert read.problems == ()
    assert read.node(1).state is NodeState.EXECUTED
    assert [kept.key for kept in read.node(1).other] == ["view"]
    assert read.files == {"data/in.csv": b"a"}


def test_an_unknown_state_counts_as_idle(tmp_path):
    files = {"workflow.knime": workflow(nodes=node(1)), "N (#1)/settings.xml": settings("EXECUTING")}
    read = read_workflow(archive(tmp_path, files))
    assert read.node(1).state is NodeState.IDLE
    assert "EXECUTING" in read.problems[0].what


def test_a_variable_of_unknown_type_is_left_out(tmp_path):
    more = '<config key="workflow_variables"><config key="Var_0"><entry key="name" type="xstring" value="p"/>'
    more += '<entry key="class" type="xstring" value="FSLOCATION"/><config key="value"/></config></config>'
    read = read_workflow(archive(tmp_path, {"workflow.knime": workflow(more=more)}))
    assert read.variables == ()
    assert "'FSLOCATION' cannot be read; it is left out" in read.problems[0].what
