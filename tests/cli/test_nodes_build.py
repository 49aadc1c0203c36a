"""`knime-mcp nodes build` as people run it."""

import json

import pytest

from knime_mcp.knowledge.catalogue_reader import Catalogue
from tests.knowledge.sources.plugin_files import CATEGORIES, node, plugin_xml, write_jar

PACK = """
pack: {name: mine, version: 0.1.0}
nodes:
  - {type: TRIGGER, subtype: MINE, description: Mine.}
"""


@pytest.fixture
def homes(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}


@pytest.fixture
def plugins(tmp_path):
    registered = [
        f'factory-class="org.a.{name}NodeFactory" category-path="/manipulation"' for name in "ABCDE"
    ]
    files = {"plugin.xml": plugin_xml(*registered, more=CATEGORIES), "org/a/ANodeFactory.xml": node("A Node")}
    write_jar(tmp_path / "plugins" / "org.a_1.0.0.jar", files)
    return tmp_path / "plugins"


def test_build_reports_what_is_in_it_and_what_is_not(cli, plugins, homes, tmp_path):
    (tmp_path / "mine.yaml").write_text(PACK)
    done = cli("nodes", "build", "--plugins", plugins, "--pack", "mine.yaml", env=homes)
    assert done.code == 0, done.err
    path = tmp_path / "data" / "knime-mcp" / "nodes.sqlite"
    assert f"{path}: " in done.out
    assert "nodes from 1 plug-in and" in done.out
    assert "Left out: 4 × describes itself in Java code" in done.err
    assert "org.a.BNodeFactory in " in done.err
    assert "and 1 more; --skipped names them all" in done.err
    assert "1 nodes from spec pack mine 0.1.0" in done.err
    assert "39 nodes from spec pack workflow-engine 3.0.0" in done.err
    with Catalogue(path) as catalogue:
        assert catalogue.node("org.a.ANodeFactory").name == "A Node"
        assert catalogue.node("TRIGGER.MINE").version == "0.1.0"
        assert catalogue.node("org.knime_mcp.mcp.mcp_tool_caller").settings_known


def test_build_bare_and_as_json(cli, plugins, homes):
    done = cli("nodes", "build", "--knime", plugins, "--bare", "--out", "my.sqlite", "--json", env=homes)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["file"], report["nodes"], report["plugins"]) == ("my.sqlite", 1, 1)
    assert [source["name"] for source in report["sources"]] == ["org.a_1.0.0"]
    assert len(report["skipped"]) == 4
    assert report["bytes"] > 0


def test_build_tells_all_problems_of_a_pack_and_keeps_the_old_catalogue(cli, homes, tmp_path):
    (tmp_path / "mine.yaml").write_text(PACK)
    assert cli("nodes", "build", "--bare", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes).code == 0
    before = (tmp_path / "c.sqlite").read_bytes()
    (tmp_path / "mine.yaml").write_text(PACK.replace("subtype: MINE", "subtipe: mine"))
    done = cli("nodes", "build", "--bare", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes)
    assert done.code == 1
    assert "mine.yaml:4:21: nodes[0].subtipe: is not a key here; did you mean 'subtype'?" in done.err
    assert (tmp_path / "c.sqlite").read_bytes() == before


def test_an_extension_that_cannot_be_imported_is_reported_and_the_rest_built(cli, homes, tmp_path):
    (tmp_path / "knime.yml").write_text(
        "name: x\ngroup_id: g\nversion: '1.0.0'\nextension_module: src/gone\n"
    )
    done = cli("nodes", "build", "--extension", "knime.yml", "-o", "c.sqlite", env=homes)
    assert done.code == 0, done.err
    assert "Left out: 1 × is a Python extension that cannot be imported" in done.err


@pytest.mark.parametrize("named", ["knime.yml", "."])
def test_an_extension_that_registers_no_nodes_is_reported_with_the_usual_reason(cli, homes, tmp_path, named):
    (tmp_path / "knime.yml").write_text("name: x\ngroup_id: g\nversion: '1.0.0'\nextension_module: main\n")
    (tmp_path / "main.py").write_text("import knime.extension as knext\n")
    beside = cli("nodes", "build", "--extension", named, "-o", "c.sqlite", env=homes)
    assert beside.code == 0, beside.err
    assert "Left out: 1 × is a Python extension that registers no nodes" in beside.err
    alone = cli("nodes", "build", "--extension", named, "--bare", "-o", "d.sqlite", env=homes)
    assert alone.code == 1
    what = tmp_path.name if named == "." else named
    told = " ".join(alone.err.split())
    assert f"There are no nodes in the sources. {what} is a Python extension that registers no nodes" in told
    for done in (beside, alone):
        assert "names as extension_module must define the nodes" in " ".join(done.err.split())


@pytest.mark.parametrize("option", ["--knime", "--plugins", "--extension", "--pack"])
def test_a_source_that_is_not_there_is_a_mistake_in_the_command_line(cli, option):
    done = cli("nodes", "build", option, "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err
