"""The extension's own nodes load workflows that are written here, on either host; KNIME's are read."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from examples.knime_nodes import Column, table_creator
from knime_mcp.knwf import (
    Connection,
    NativeNode,
    OtherNode,
    VariableControl,
    Workflow,
    WorkflowCredential,
    check,
    extension_node,
    write_workflow,
)
from knime_mcp.knwf.workflow_model import object_class
from tests.support import real_knime as rig
from tests.support.archives import read_workflow
from tests.support.new_node import declared_ports

ROOT = Path(__file__).parents[2]
EXTENSION_ID = "org.knime_mcp.mcp"
VERSION = "0.1.0"
NASTY = "100% %%00065 \t\n\x01 😀 <&>\" '"


def our_node(host, node_id, extension_node_id, parameters, present=None, **options):
    described = {own["id"]: own for own in host.describe()["nodes"]}[extension_node_id]
    dialog = host.dialog(extension_node_id)
    return extension_node(
        node_id,
        described["name"],
        extension_id=EXTENSION_ID,
        extension_node_id=extension_node_id,
        version=VERSION,
        parameters={"model": dialog["data"]["model"] | parameters},
        schema=dialog["schema"],
        inputs=declared_ports(described["input_port_specifier"], present),
        outputs=declared_ports(described["output_port_specifier"]),
        **options,
    )


def batch(host):
    """A Provider's tools and a table of constants go into a Caller."""
    provider = our_node(
        host,
        1,
        "mcp_tool_provider",
        {"server_url": "https://host/mcp", "include": NASTY, "connection_options": "total_timeout = 12.5"},
        variables=[VariableControl(("server_url",), used="url")],
    )
    arguments = [{"name": "q", "value": NASTY}, {"name": NASTY, "value": ""}]
    caller = our_node(
        host,
        3,
        "mcp_tool_caller",
        {
            "tool_name": "search",
            "arguments": arguments,
            "connection_options": "concurrency = 7",
            "resume": True,
        },
        present={"Tools": 1, "Parameters": 1},
        annotation=NASTY,
    )
    columns = [Column("q", "string", ("a", NASTY)), Column("n", "int", (1, None))]
    return Workflow(
        NASTY,
        (provider, table_creator(2, columns), caller),
        (
            Connection(1, provider.output_port("Tools"), 3, caller.input_port("Tools")),
            Connection(2, 1, 3, caller.input_port("Parameters")),
        ),
        credentials=(WorkflowCredential("prod", "me"),),
    )


def test_our_nodes_load_what_is_written(host, tmp_path):
    workflow = batch(host)
    assert check(workflow) == []
    write_workflow(workflow, tmp_path / "w.knwf")
    again = read_workflow(tmp_path / "w.knwf")
    assert again == workflow
    for node in (again.node(1), again.node(3)):
        loaded = host.load_parameters(node.node_id, node.parameters, node.parameters_version)
        assert loaded["model"] == node.parameters["model"]
    assert again.node(3).input_names == ("Tools", "Parameters")
    assert again.node(3).parameters["model"]["arguments"][0] == {"name": "q", "value": NASTY}


def test_an_unknown_port_is_refused(host):
    with pytest.raises(ValueError, match="declares no port 'Tables'"):
        our_node(host, 1, "mcp_tool_caller", {}, present={"Tables": 1})


def test_ports_have_the_classes_that_java_knows():
    assert object_class("PortType.TABLE") == "org.knime.core.node.BufferedDataTable"
    assert object_class("org.example.my_port").endswith(".PythonBinaryBlobFileStorePortObject")


@pytest.mark.real_knime
def test_the_rig_loads_what_is_written_without_complaint(host, tmp_path):
    path = tmp_path / "w.knwf"
    write_workflow(batch(host), path)
    result = rig.check_knwf(str(path), host.host)
    assert result["problems"] == []
    assert result["nodes"][3]["parameters"]["model"]["arguments"][1]["name"] == NASTY
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests/support/real_knime_host.py"),
            "knwf",
            str(path),
            str(ROOT / "knime.yml"),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout[done.stdout.index("{") :])["problems"] == []


@pytest.mark.real_knime
def test_settings_are_written_as_the_rig_writes_them(host):
    """The tree for each of our nodes' defaults, compared with the rig's way from the same schema."""
    from knime_mcp.knwf.json_parameters import from_model, to_model
    from knime_mcp.knwf.settings_xml import from_xml

    for node_id in ("mcp_tool_provider", "mcp_tool_caller"):
        dump = rig.default_settings(host.host, node_id)
        theirs = from_xml(dump["settings_xml"].encode(), "settings.xml")
        assert theirs == to_model(dump["parameters"], host.host.version, schema=dump["schema"])
        assert from_model(theirs)[0] == dump["parameters"]


@pytest.fixture
def knimes_own_workflow(tmp_path):
    """A workflow that KNIME wrote, from the sources that the rig needs anyway, as an archive."""
    folder = "org.knime.core.tests/files/Workflow_Test"
    packed = tmp_path / "files.tar"
    git = [
        "git",
        f"--git-dir={os.environ['KNIME_CORE_GIT']}",
        "archive",
        f"--output={packed}",
        "HEAD",
        folder,
    ]
    if not Path(os.environ["KNIME_CORE_GIT"], "HEAD").is_file():
        git[1] += "/.git"
    subprocess.run(git, check=True, timeout=60)
    path = tmp_path / "Workflow_Test.knwf"
    with tarfile.open(packed) as tar, zipfile.ZipFile(path, "w") as archive:
        for member in tar:
            if member.isfile():
                name = member.name.removeprefix("org.knime.core.tests/files/")
                archive.writestr(name, tar.extractfile(member).read())
    return path


@pytest.mark.real_knime
def test_knimes_own_workflow_is_read(knimes_own_workflow):
    workflow = read_workflow(knimes_own_workflow)
    assert (workflow.name, workflow.version) == ("Workflow_Test", "4.1.0")
    kinds = {n.id: n.kind if isinstance(n, OtherNode) else n.name for n in workflow.nodes}
    assert kinds[8] == "metanode"
    assert kinds[7] == "component"
    assert kinds[11] == "Concatenate"
    concatenate = workflow.node(11)
    assert isinstance(concatenate, NativeNode)
    assert concatenate.model is not None
    assert workflow.annotations[1].text == "Meta Node section\r\n"
    said = "\n".join(map(str, check(workflow)))
    assert "Table Creator (#10)/settings.xml is missing" in said  # this one KNIME's sources lack
    assert "older format 4.1.0" in said
