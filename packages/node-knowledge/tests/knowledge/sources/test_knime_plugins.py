"""Nodes out of KNIME's plug-ins: folders, jars, jars inside, and everything that can be wrong with them."""

import nturl2path
import re
import zipfile
import zlib

import pytest

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.node_service import NodeKnowledgeMCPService
from knime_node_knowledge.sources import knime_plugins, plugin_bundles
from knime_node_knowledge.sources.catalogue_build import build_catalogue
from knime_node_knowledge.sources.knime_plugins import read_plugins
from knime_node_knowledge.sources.plugin_bundles import find_bundles
from tests.knowledge.sources.plugin_files import (
    CATEGORIES,
    OLD_NODE,
    jar_bytes,
    manifest,
    node,
    plugin_xml,
    write_folder,
    write_jar,
)

ROW = 'factory-class="org.a.row.RowNodeFactory" category-path="/manipulation/row"'
ROW_XML = "org/a/row/RowNodeFactory.xml"


def plugin(*nodes, more=CATEGORIES, version="5.4.0.v2024", **files):
    return {
        "META-INF/MANIFEST.MF": manifest("org.a", version),
        "plugin.xml": plugin_xml(*nodes, more=more),
        "plugin.properties": "row = Zeile \\u00e4 \\ud83d\\ude00 \\ud800\n",
        **files,
    }


def reasons(result):
    return {entry.what: entry.reason for entry in result.skipped}


def test_a_plugin_in_a_jar_gives_the_whole_node(tmp_path):
    jar = write_jar(tmp_path / "plugins" / "org.a_5.4.0.jar", {**plugin(ROW), ROW_XML: node("Row Thing")})
    result = read_plugins([tmp_path])
    assert not result.skipped
    (found,) = result.nodes
    assert (found.id, found.subtype) == ("org.a.row.RowNodeFactory",) * 2
    assert (found.name, found.node_type, found.version) == ("Row Thing", "MANIPULATOR", "5.4.0.v2024")
    assert found.category == ("Manipulation", "Zeile ä 😀 \ufffd")
    assert found.short_description == "Does Row Thing in one step."
    assert found.description == (
        "First paragraph.\n\n- one\n- two link (https://a.example/x)\n\n"
        "See also:\n- More about it (https://a.example/more)"
    )
    assert [(p.name, p.tab, p.description) for p in found.parameters] == [
        ("Column to use", "Settings", "The column."),
        ("Limit", "", "At most so many & no more."),
    ]
    assert not found.settings_known
    assert [(p.name, p.group, p.optional) for p in found.input_ports] == [
        ("First", False, False),
        ("Further", True, True),
        ("Last", False, False),
    ]
    assert [(p.name, p.description) for p in found.output_ports] == [("Result", "What came out.")]
    assert [(view.name, view.description) for view in found.views] == [("Plot", "Dots.")]
    assert found.keywords == ("Row Thing word",)
    assert (found.origin.name, found.origin.version) == ("org.a", "5.4.0.v2024")
    assert found.origin.file == f"{jar}!/{ROW_XML}"


def test_descriptions_of_1x_have_a_dtd_that_nobody_fetches_and_know_their_ports(tmp_path):
    attributes = 'factory-class="org.a.OldNodeFactory" category-path="/"'
    write_folder(tmp_path / "a", {**plugin(attributes), "src/org/a/OldNodeFactory.xml": OLD_NODE})
    (found,) = read_plugins([tmp_path]).nodes
    assert found.node_type == "LEARNER"
    assert found.short_description == "Learns something."
    assert [port.type for port in (*found.input_ports, *found.output_ports)] == ["Table", "Model"]
    assert found.category == ()


@pytest.mark.parametrize("folder", ["src", "src/eclipse", ""])
def test_a_source_checkout_has_its_packages_below_src(tmp_path, folder):
    write_folder(tmp_path / "org.a", {**plugin(ROW), f"{folder}/{ROW_XML}".strip("/"): node("Row")})
    assert [found.name for found in read_plugins([tmp_path]).nodes] == ["Row"]


def test_a_folder_plugin_has_its_code_in_a_jar_inside(tmp_path):
    inner = jar_bytes({ROW_XML: node("Row")})
    files = {
        **plugin(ROW),
        "META-INF/MANIFEST.MF": manifest("org.a", "1.0.0", "lib/a.jar,."),
        "lib/a.jar": inner,
    }
    write_folder(tmp_path / "folder" / "org.a_1", files)
    write_jar(tmp_path / "jar" / "org.b_1.jar", files)
    for kind in ("folder", "jar"):
        (found,) = read_plugins([tmp_path / kind]).nodes
        assert found.name == "Row"
        assert found.origin.file.endswith(f"lib/a.jar!/{ROW_XML}")


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("0", ["Further", "First", "Last"]),
        ("2", ["First", "Last", "Further"]),
        ("9" * 30, ["First", "Last", "Further"]),
        ("9" * 5_000, ["First", "Last", "Further"]),
        ("-1", ["Further", "First", "Last"]),
        ("x", ["Further", "First", "Last"]),
    ],
)
def test_a_group_of_ports_stands_where_it_may(tmp_path, before, names):
    text = node("Row").replace('insert-before="1"', f'insert-before="{before}"')
    write_folder(tmp_path, {**plugin(ROW), ROW_XML: text})
    (found,) = read_plugins([tmp_path]).nodes
    assert [port.name for port in found.input_ports] == names


def test_locations_of_plugins_are_addresses(tmp_path):
    pool = tmp_path / "Bündel pool+1"
    for name in ("org.a", "org.b"):
        registered = ROW.replace("org.a", name)
        write_jar(
            pool / f"{name}.jar",
            {**plugin(registered), ROW_XML.replace("org/a", name.replace(".", "/")): node(name)},
        )
    listed = [
        f"org.a,1,{(pool / 'org.a.jar').as_uri()},4,false",
        "org.b,1,../B%C3%BCndel%20pool+1/org.b.jar,4,false",
    ]
    write_folder(
        tmp_path / "knime",
        {"configuration/org.eclipse.equinox.simpleconfigurator/bundles.info": "\n".join(listed)},
    )
    assert [found.name for found in read_plugins([tmp_path / "knime"]).nodes] == ["org.a", "org.b"]


def test_an_installation_gives_its_active_plugins_only(tmp_path):
    for version in ("1.0.0", "2.0.0"):
        files = {**plugin(ROW, version=version), ROW_XML: node(f"Row {version}")}
        write_jar(tmp_path / "plugins" / f"org.a_{version}.jar", files)
    write_folder(
        tmp_path,
        {
            "configuration/org.eclipse.equinox.simpleconfigurator/bundles.info": "#version=1\n"
            "org.a,1.0.0,plugins/org.a_1.0.0.jar,4,false\norg.gone,1.0.0,plugins/gone.jar,4,false\n"
        },
    )
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Row 1.0.0"]
    assert result.bundles == 1


def test_of_two_versions_of_a_plugin_the_newer_one_counts(tmp_path):
    for version in ("5.10.0", "5.9.1"):
        write_jar(tmp_path / f"org.a_{version}.jar", {**plugin(ROW, version=version), ROW_XML: node(version)})
    result = read_plugins([tmp_path])
    assert [found.version for found in result.nodes] == ["5.10.0"]
    assert [entry.reason for entry in result.skipped] == [knime_plugins.OLDER_DUPLICATE]


def test_what_is_out_of_use_names_its_successor(tmp_path):
    old = 'factory-class="org.a.OldNodeFactory" category-path="/" deprecated="true"'
    other = 'factory-class="org.a.OtherNodeFactory" deprecated="true"'
    hidden = 'factory-class="org.a.HiddenNodeFactory" hidden="true"'
    first = 'factory-class="org.a.join.JoinNodeFactory" deprecated="true"'
    third = 'factory-class="org.a.join3.Join3NodeFactory"'
    files = {
        **plugin(ROW, old, other, hidden, first, third),
        ROW_XML: node("Row Thing"),
        "org/a/OldNodeFactory.xml": node("Row thing (deprecated)"),
        "org/a/OtherNodeFactory.xml": node("Other"),
        "org/a/join/JoinNodeFactory.xml": node("Table Joiner"),
        "org/a/join3/Join3NodeFactory.xml": node("Joiner"),
        "org/a/HiddenNodeFactory.xml": node("Other", attributes='deprecated="true"'),
    }
    write_jar(tmp_path / "a.jar", files)
    found = {entry.id.rpartition(".")[2]: entry for entry in read_plugins([tmp_path]).nodes}
    assert found["OldNodeFactory"].deprecated
    assert found["OldNodeFactory"].successor == "org.a.row.RowNodeFactory"
    assert found["OtherNodeFactory"].successor is None
    assert found["JoinNodeFactory"].successor == "org.a.join3.Join3NodeFactory"
    assert found["Join3NodeFactory"].successor is None
    assert found["HiddenNodeFactory"].hidden
    assert not found["RowNodeFactory"].deprecated


def test_what_cannot_be_read_is_reported_with_the_reason(tmp_path):
    java = 'factory-class="org.a.JavaNodeFactory"'
    broken = 'factory-class="org.a.BrokenNodeFactory"'
    nameless = 'factory-class="org.a.NamelessNodeFactory"'
    files = {
        **plugin(ROW, java, broken, nameless),
        ROW_XML: node("Row"),
        "org/a/BrokenNodeFactory.xml": "<knimeNode><name>x</name>",
        "org/a/NamelessNodeFactory.xml": "<knimeNode><name> </name></knimeNode>",
        "org/a/RetiredNodeFactory.xml": node("Retired"),
        "org/a/build.xml": "<project/>",
    }
    write_jar(tmp_path / "a.jar", files)
    (tmp_path / "no.jar").write_bytes(b"not a zip")
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Row"]
    assert reasons(result) == {
        "org.a.JavaNodeFactory": knime_plugins.NO_XML,
        "org.a.BrokenNodeFactory": "has a description that cannot be read",
        "org.a.NamelessNodeFactory": "has a description that cannot be read",
        "org.a.RetiredNodeFactory": knime_plugins.NOT_REGISTERED,
        "no.jar": "is no readable plug-in",
    }
    details = {entry.what: entry.detail for entry in result.skipped}
    assert "not well-formed" in details["org.a.BrokenNodeFactory"]
    assert "names no node" in details["org.a.NamelessNodeFactory"]


def test_a_malformed_plugin_xml_costs_only_that_plugin(tmp_path):
    write_jar(tmp_path / "bad.jar", {"plugin.xml": "<plugin><extension>", ROW_XML: node("Bad")})
    write_jar(tmp_path / "good.jar", {**plugin(ROW), ROW_XML: node("Good")})
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Good"]
    assert reasons(result)["plugin.xml"] == "cannot be read"


def test_a_set_of_nodes_is_reported_and_descriptions_beside_it_are_taken(tmp_path):
    point = "org.knime.workbench.repository.nodesets"
    sets = f'<extension point="{point}"><nodeset factory-class="org.a.Set"/></extension>'
    write_jar(
        tmp_path / "a.jar", {"plugin.xml": plugin_xml(more=sets), "org/a/OneNodeFactory.xml": node("One")}
    )
    result = read_plugins([tmp_path])
    assert [(found.id, found.name) for found in result.nodes] == [("org.a.OneNodeFactory", "One")]
    assert reasons(result) == {"org.a.Set": knime_plugins.NODE_SET}


def test_a_bare_folder_of_descriptions_is_read_as_well(tmp_path):
    write_folder(tmp_path, {"org/a/OneNodeFactory.xml": node("One"), "Two.xml": node("Two"), "c.xml": "<x/>"})
    assert {found.id for found in read_plugins([tmp_path]).nodes} == {"org.a.OneNodeFactory", "Two"}


def test_loose_descriptions_belong_to_classes_by_the_folder_that_was_named(tmp_path):
    """Or nodes of the same name in different packages would be taken for versions of one."""
    names = ("some-project/src/org/a/OneNodeFactory.xml", "org/b/deep/OneNodeFactory.xml")
    write_folder(tmp_path, {name: node(f"One {number}") for number, name in enumerate(names)})
    result = read_plugins([tmp_path])
    assert {found.id for found in result.nodes} == {"org.a.OneNodeFactory", "org.b.deep.OneNodeFactory"}
    assert result.skipped == []


BOMB = (
    '<!DOCTYPE knimeNode [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    + "]><knimeNode><name>&j;</name></knimeNode>"
)


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("declares entities", BOMB.encode()),
        ("declares entities", ('<?xml version="1.0" encoding="utf-16"?>' + BOMB).encode("utf-16")),
        (
            "declares entities",
            b'<!DOCTYPE k [<!ENTITY x SYSTEM "file:///etc/passwd">]><knimeNode><name>&x;</name></knimeNode>',
        ),
        ("levels deep", b"<knimeNode>" + b"<p>" * 5000 + b"</p>" * 5000 + b"</knimeNode>"),
        ("more than", b"<knimeNode>" + b" " * 9_000_000 + b"</knimeNode>"),
        ("not well-formed", b"\xff\xfe\x00<knimeNode"),
        ("not well-formed", b'<?xml version="1.0" encoding="no-such"?><knimeNode/>'),
        ("its root is", b'<!-- knimeNode --><html xmlns="http://www.w3.org/1999/xhtml"/>'),
    ],
)
def test_hostile_xml_is_refused_and_the_rest_is_read(tmp_path, what, content):
    files = {**plugin(ROW, 'factory-class="org.a.EvilNodeFactory"'), ROW_XML: node("Row")}
    write_jar(tmp_path / "jar" / "a.jar", {**files, "org/a/EvilNodeFactory.xml": content})
    write_folder(tmp_path / "folder", {**files, "org/a/EvilNodeFactory.xml": content})
    for kind in ("jar", "folder"):
        result = read_plugins([tmp_path / kind])
        assert [found.name for found in result.nodes] == ["Row"]
        (evil,) = result.skipped
        assert evil.what == "org.a.EvilNodeFactory"
        assert what in evil.detail


def test_damaged_entries_of_a_jar_cost_only_themselves(tmp_path):
    jar = write_jar(
        tmp_path / "a.jar", {**plugin(ROW, 'factory-class="org.a.XNodeFactory"'), ROW_XML: node("Row")}
    )
    with zipfile.ZipFile(jar, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("org/a/XNodeFactory.xml", node("Marker"))
    data = jar.read_bytes()
    assert data.count(b"Does Marker") == 1
    jar.write_bytes(data.replace(b"Does Marker", b"Does Mrkaer"))
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Row"]
    assert "CRC" in next(entry.detail for entry in result.skipped)


def test_a_jar_inside_that_is_none_is_reported(tmp_path):
    write_folder(tmp_path / "a", {**plugin(ROW), ROW_XML: node("Row"), "lib/x.jar": b"PK\x03\x04 nonsense"})
    result = read_plugins([tmp_path])
    assert [found.name for found in result.nodes] == ["Row"]
    assert reasons(result) == {"lib/x.jar": "is no readable jar"}


def test_bundles_are_found_in_any_depth_once_and_in_order(tmp_path):
    write_folder(tmp_path / "b" / "c", plugin(ROW))
    write_folder(tmp_path / "b" / "c" / "nested", plugin(ROW))
    write_jar(tmp_path / "a" / "x.jar", {})
    write_folder(tmp_path / ".git" / "z", plugin(ROW))
    assert find_bundles(tmp_path) == [tmp_path / "a" / "x.jar", tmp_path / "b" / "c"]
    assert find_bundles(tmp_path / "a" / "x.jar") == [tmp_path / "a" / "x.jar"]


def test_zlib_errors_are_no_surprise(tmp_path):
    """A jar whose directory is right and whose compressed bytes are not."""
    jar = write_jar(tmp_path / "a.jar", {**plugin(ROW), ROW_XML: node("Row") * 50})
    with zipfile.ZipFile(jar) as archive:
        info = archive.getinfo(ROW_XML)
    data = bytearray(jar.read_bytes())
    begin = info.header_offset + 30 + len(info.filename)
    data[begin : begin + 8] = b"\xff" * 8
    with pytest.raises(zlib.error):
        zlib.decompress(bytes(data[begin : begin + info.compress_size]), -15)
    jar.write_bytes(data)
    (entry,) = read_plugins([tmp_path]).skipped
    assert entry.reason == "has a description that cannot be read"


@pytest.mark.parametrize("place", ["a.jar", "a/lib/x.jar"])
def test_a_jar_of_a_later_version_of_zip_is_reported(tmp_path, place):
    data = bytearray(jar_bytes({**plugin(ROW), ROW_XML: node("Row")}))
    data[data.index(b"PK\x01\x02") + 6] = 200  # what is needed to extract it: 20.0
    write_folder(tmp_path, {place: bytes(data), "a/plugin.xml": plugin_xml()})
    (entry,) = read_plugins([tmp_path]).skipped
    assert "zip file version 20.0" in entry.detail


def test_an_installation_in_an_application_of_macos(tmp_path):
    home = tmp_path / "KNIME.app" / "Contents" / "Eclipse"
    for name in ("active", "idle"):
        write_jar(home / "plugins" / f"org.{name}.jar", {**plugin(ROW), ROW_XML: node(name)})
    listed = "configuration/org.eclipse.equinox.simpleconfigurator/bundles.info"
    write_folder(home, {listed: "org.active,1,plugins/org.active.jar,4,false\n"})
    assert [found.name for found in read_plugins([tmp_path / "KNIME.app"]).nodes] == ["active"]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("plugins/org.a_1.0.0.jar", r"plugins\org.a_1.0.0.jar"),
        ("../pool/plugins/org.a%20b.jar", r"..\pool\plugins\org.a b.jar"),
        ("file:/C:/Program%20Files/KNIME/plugins/a.jar", r"C:\Program Files\KNIME\plugins\a.jar"),
        ("file:///D:/K%C3%B6ln/a.jar", r"D:\Köln\a.jar"),
        ("file:C:/knime/a.jar", r"C:\knime\a.jar"),
        ("file://server/share/knime/a.jar", r"\\server\share\knime\a.jar"),
    ],
)
def test_locations_of_plugins_on_windows(monkeypatch, location, path):
    monkeypatch.setattr(plugin_bundles, "url2pathname", nturl2path.url2pathname)
    assert plugin_bundles._local(location) == path


def test_a_node_that_describes_itself_in_code_is_known_by_the_facts_about_its_factory(tmp_path):
    names = [
        "org.knime.base.node.preproc.filter.row3.RowFilterNodeFactory",
        "org.knime.a.row3.RowFilterNodeFactory",
        "org.a.SorterNodeFactory",
    ]
    registered = [f'factory-class="{name}" category-path="/manipulation/row"' for name in names]
    write_jar(tmp_path / "a.jar", plugin(*registered))
    result = read_plugins([tmp_path])
    (found,) = result.nodes
    assert (found.id, found.name) == (names[0], "Row Filter")
    assert (found.category[0], found.origin.name) == ("Manipulation", "org.a")
    assert found.short_description
    assert result.well_known == 1
    assert list(reasons(result)) == names[1:]


def test_well_known_nodes_get_the_types_of_their_ports_and_words_that_people_search_for(tmp_path):
    """KNIME's descriptions do not tell the types, and everything would fit everything."""
    names = {"Writer": "CSV Writer", "Sorter": "Sorter", "Mine": "Unknown to All"}
    registered = [f'factory-class="org.a.{name}NodeFactory"' for name in names]
    ports = '<inPort index="0" name="In">Rows.</inPort><outPort index="0" name="Out">Rows.</outPort>'
    texts = {
        f"org/a/{name}NodeFactory.xml": re.sub(
            "(?s)<ports>.*</ports>", f"<ports>{ports}</ports>", node(shown)
        )
        for name, shown in names.items()
    }
    write_jar(tmp_path / "plugins" / "a.jar", {**plugin(*registered), **texts})
    file = tmp_path / "nodes.sqlite"
    build_catalogue(file, plugins=[tmp_path / "plugins"], with_own_packs=False)
    with Catalogue(file) as catalogue:
        found = {spec.name: spec for spec in catalogue.nodes()}
        types = {name: [p.type for p in (*n.input_ports, *n.output_ports)] for name, n in found.items()}
        assert types == {
            "Sorter": ["Table", "Table"],
            "CSV Writer": ["Table", ""],
            "Unknown to All": ["", ""],
        }
        assert "order rows" in found["Sorter"].keywords
        assert "order rows" not in found["Unknown to All"].keywords
        service = NodeKnowledgeMCPService(catalogue)
        certain = service.invoke_tool("find_compatible", {"node": "Sorter"})
        assert certain["nodes"][0]["via"][0]["type"] == "Table"
        assert "hint" not in certain
        guessed = service.invoke_tool("find_compatible", {"node": "Unknown to All"})
        assert guessed["hint"] == "The types of these ports are not known, so this is only what may fit."
