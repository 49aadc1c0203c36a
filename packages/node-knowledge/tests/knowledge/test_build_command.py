"""`knime-nodes build` as people run it."""

import json

import pytest

from knime_node_knowledge.catalogue_reader import Catalogue
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
    done = cli("knime-nodes", "build", "--plugins", plugins, "--pack", "mine.yaml", env=homes)
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
    done = cli(
        "knime-nodes", "build", "--knime", plugins, "--bare", "--out", "my.sqlite", "--json", env=homes
    )
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["file"], report["nodes"], report["plugins"]) == ("my.sqlite", 1, 1)
    assert [source["name"] for source in report["sources"]] == ["org.a_1.0.0"]
    assert len(report["skipped"]) == 4
    assert report["bytes"] > 0


def test_build_tells_all_problems_of_a_pack_and_keeps_the_old_catalogue(cli, homes, tmp_path):
    (tmp_path / "mine.yaml").write_text(PACK)
    assert cli("knime-nodes", "build", "--bare", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes).code == 0
    before = (tmp_path / "c.sqlite").read_bytes()
    (tmp_path / "mine.yaml").write_text(PACK.replace("subtype: MINE", "subtipe: mine"))
    done = cli("knime-nodes", "build", "--bare", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes)
    assert done.code == 1
    assert (
        "mine.yaml:4:21: nodes[0].subtipe: the key 'subtipe' is not known here. Did you mean 'subtype'?"
        in done.err
    )
    assert (tmp_path / "c.sqlite").read_bytes() == before


def plugin(letter):
    registered = plugin_xml(f'factory-class="org.b.{letter}NodeFactory"')
    return {"plugin.xml": registered, f"org/b/{letter}NodeFactory.xml": node(f"{letter} Node")}


def names_in(path):
    with Catalogue(path) as catalogue:
        return {node.name for node in catalogue.nodes()}


def test_a_pack_is_added_to_what_commands_know_without_a_catalogue(cli, homes, tmp_path):
    (tmp_path / "mine.yaml").write_text(PACK)
    done = cli("knime-nodes", "build", "--pack", "mine.yaml", env=homes)
    assert done.code == 0, done.err
    assert "nodes from spec pack knime-basics" in done.err
    found = cli("knime-nodes", "search", "VLOOKUP", "--json", env=homes).json
    assert found["nodes"][0]["name"] == "Value Lookup"
    assert cli("knime-nodes", "show", "TRIGGER.MINE", env=homes).code == 0


def test_sources_that_are_not_read_anew_stay(cli, plugins, homes, tmp_path):
    path = tmp_path / "data" / "knime-mcp" / "nodes.sqlite"
    (tmp_path / "mine.yaml").write_text(
        PACK + "old_names: [{node_type: T, subtype: WAS, instead: TRIGGER.MINE}]"
    )
    assert cli("knime-nodes", "build", "--plugins", plugins, env=homes).code == 0
    assert cli("knime-nodes", "build", "--pack", "mine.yaml", env=homes).code == 0
    jar = write_jar(
        tmp_path / "more" / "org.b_1.0.0.jar",
        {
            "plugin.xml": plugin_xml('factory-class="org.b.BNodeFactory"'),
            "org/b/BNodeFactory.xml": node("B Node"),
        },
    )
    done = cli("knime-nodes", "build", "--plugins", jar, env=homes)
    assert "As before: 2 nodes of sources that were not read now" in done.err
    assert {"A Node", "Mine", "B Node", "Joiner"} <= names_in(path)
    assert cli("knime-nodes", "show", "T.WAS", env=homes).code == 0  # the pack's old names, too
    # A source that is read anew counts as it is now.
    write_jar(
        jar,
        {
            "plugin.xml": plugin_xml('factory-class="org.b.CNodeFactory"'),
            "org/b/CNodeFactory.xml": node("C Node"),
        },
    )
    assert cli("knime-nodes", "build", "--plugins", jar, env=homes).code == 0
    assert {"A Node", "Mine", "C Node"} <= names_in(path)
    assert "B Node" not in names_in(path)
    done = cli("knime-nodes", "build", "--bare", "--pack", "mine.yaml", env=homes)
    assert names_in(path) == {"Mine"}


def test_well_known_nodes_of_knime_go_when_knimes_own_come(cli, homes, tmp_path):
    registered = plugin_xml('factory-class="org.knime.base.node.JoinerNodeFactory"')
    files = {"plugin.xml": registered, "org/knime/base/node/JoinerNodeFactory.xml": node("Joiner")}
    write_jar(tmp_path / "plugins" / "org.knime.base_5.5.0.jar", files)
    (tmp_path / "mine.yaml").write_text(PACK)
    assert cli("knime-nodes", "build", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes).code == 0
    assert "Value Lookup" in names_in(tmp_path / "c.sqlite")
    assert cli("knime-nodes", "build", "--knime", "plugins", "-o", "c.sqlite", env=homes).code == 0
    assert cli("knime-nodes", "build", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes).code == 0
    with Catalogue(tmp_path / "c.sqlite") as catalogue:
        assert [found.id for found in catalogue.nodes() if found.name == "Joiner"] == [
            "org.knime.base.node.JoinerNodeFactory"
        ]
    assert "Value Lookup" not in names_in(tmp_path / "c.sqlite")


def test_a_plug_in_that_was_removed_from_a_folder_goes_with_the_next_reading(cli, plugins, homes, tmp_path):
    gone = write_jar(plugins / "org.b_1.0.0.jar", plugin("B"))
    for there in (True, False):
        assert cli("knime-nodes", "build", "--plugins", plugins, "-o", "c.sqlite", env=homes).code == 0
        assert ("B Node" in names_in(tmp_path / "c.sqlite")) is there
        gone.unlink(missing_ok=True)


def test_a_catalogue_that_cannot_be_read_is_replaced_and_that_is_said(cli, homes, tmp_path):
    (tmp_path / "mine.yaml").write_text(PACK)
    (tmp_path / "c.sqlite").write_text("no catalogue")
    done = cli("knime-nodes", "build", "--pack", "mine.yaml", "-o", "c.sqlite", env=homes)
    assert done.code == 0
    assert "Nothing is taken over from it." in done.err


@pytest.mark.parametrize(
    ("option", "named", "said"),
    [
        ("--plugins", "empty", "There are no nodes in empty. empty has no plug-ins in it."),
        ("--knime", "empty", "Name the folder of an installed KNIME (with 'plugins' in it)"),
    ],
)
def test_a_source_without_nodes_is_an_error_and_the_catalogue_stays(
    cli, plugins, homes, tmp_path, option, named, said
):
    (tmp_path / "empty").mkdir()
    assert cli("knime-nodes", "build", "--plugins", plugins, "-o", "c.sqlite", env=homes).code == 0
    before = (tmp_path / "c.sqlite").read_bytes()
    done = cli("knime-nodes", "build", option, named, "--plugins", plugins, "-o", "c.sqlite", env=homes)
    assert done.code == 1
    told = " ".join(done.err.split())
    assert said in told
    assert "c.sqlite is as it was: Catalogue " in told
    assert (tmp_path / "c.sqlite").read_bytes() == before
    assert cli("knime-nodes", "build", option, named, "-o", "d.sqlite", env=homes).code == 1
    assert not (tmp_path / "d.sqlite").exists()


@pytest.mark.parametrize("option", ["--knime", "--plugins", "--pack"])
def test_a_source_that_is_not_there_is_a_mistake_in_the_command_line(cli, option):
    done = cli("knime-nodes", "build", option, "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err
