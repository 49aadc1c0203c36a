"""Building a catalogue of folders with files that no plug-in should have."""

import os

import pytest

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.sources.catalogue_build import build_catalogue
from knime_node_knowledge.sources.knime_plugins import read_plugins
from tests.knowledge.sources.plugin_files import node, plugin_xml, write_folder

pytestmark = pytest.mark.quick


def files(name):
    return {
        "plugin.xml": plugin_xml(f'factory-class="a.{name}NodeFactory"'),
        f"a/{name}NodeFactory.xml": node(name),
    }


def test_a_folder_whose_name_is_no_unicode(tmp_path):
    odd = tmp_path / os.fsdecode(b"odd\xff")
    write_folder(odd, files("Odd"))
    (tmp_path / os.fsdecode(b"damaged\xff.jar")).write_bytes(b"no jar")
    report = build_catalogue(tmp_path / "nodes.sqlite", plugins=[tmp_path], with_own_packs=False)
    with Catalogue(report.path) as catalogue:
        (found,) = catalogue.nodes()
    assert (found.name, found.origin.name) == ("Odd", "odd?")
    assert [entry.what for entry in report.plugins.skipped] == ["damaged?.jar"]


def test_a_pack_whose_name_is_no_unicode(tmp_path):
    pack = tmp_path / os.fsdecode(b"odd\xff.yaml")
    pack.write_text("pack: {name: p, version: 1.0.0}\nnodes: [{type: T, subtype: N, description: A.}]\n")
    report = build_catalogue(tmp_path / "nodes.sqlite", packs=[pack], with_own_packs=False)
    with Catalogue(report.path) as catalogue:
        assert catalogue.node("T.N").origin.file == f"{tmp_path}/odd\ufffd.yaml:2"


def test_a_pipe_is_not_waited_for(tmp_path):
    write_folder(tmp_path / "good", files("Good"))
    write_folder(tmp_path / "waits", files("Waits"))
    pipe = tmp_path / "waits" / "a" / "WaitsNodeFactory.xml"
    pipe.unlink()
    os.mkfifo(pipe)
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Good"]
    assert [entry.what for entry in result.skipped] == ["a.WaitsNodeFactory"]
