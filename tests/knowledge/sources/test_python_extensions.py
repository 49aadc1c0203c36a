"""Nodes of Python extensions: this one, as the host describes it, and what its settings really refuse."""

import dataclasses
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from knime_mcp.cli.command_errors import CommandError
from knime_mcp.cli.nodes.node_catalogue import extension_nodes, nodes_of, own_files, own_nodes
from knime_mcp.knowledge import default_catalogue
from knime_mcp.knowledge.catalogue_file import CatalogueError
from knime_mcp.knowledge.catalogue_reader import Catalogue, fingerprint
from knime_mcp.knowledge.sources.catalogue_build import build_catalogue
from knime_mcp.knowledge.sources.python_extensions import plain_text, read_extension
from knime_mcp.version import VERSION
from tests.knowledge.sources.plugin_files import node as described
from tests.knowledge.sources.plugin_files import plugin_xml, write_jar


@pytest.fixture(scope="module")
def nodes(host):
    """This extension's nodes by id, on whichever host: both describe them with the same documents."""
    if host.is_real:
        extension = {"id": host.host.id, "version": host.host.version}
        loaded = SimpleNamespace(
            nodes=host.host.nodes,
            version=host.host.version,
            describe=lambda: {**host.describe(), "extension": extension},
            get_dialog=host.dialog,
            load_parameters=host.load_parameters,
        )
        found = nodes_of(loaded, "knime.yml")
    else:
        found = own_nodes()
    return {node.id.rpartition(".")[2]: node for node in found}


def settings(node):
    return {parameter.name: parameter for parameter in node.parameters}


def test_this_extension_is_described_whole(nodes):
    assert {"mcp_tool_provider", "mcp_tool_caller", "mcp_agent_prompter", "tool_call_replayer"} <= set(nodes)
    caller = nodes["mcp_tool_caller"]
    assert (caller.name, caller.node_type, caller.version) == ("MCP Tool Caller", "MANIPULATOR", VERSION)
    assert caller.id == caller.subtype == "org.knime_mcp.mcp.mcp_tool_caller"
    assert caller.category == ("Community Nodes", "Model Context Protocol")
    assert caller.settings_known
    assert [(port.name, port.type, port.optional) for port in caller.input_ports] == [
        ("Tools", "Table", True),
        ("Parameters", "Table", True),
        ("Credential", "Credential", True),
    ]
    agent = nodes["mcp_agent_prompter"]
    assert agent.input_ports[0].type == "Chat Model"
    assert agent.input_ports[0].type_id == "org.knime_mcp.mcp.ChatModel"
    assert [port.name for port in agent.input_ports if port.group] == ["Data inputs"]
    assert agent.views[0].name == "Timeline"
    for node in nodes.values():
        assert "**" not in node.description, node.id
        assert "`" not in node.description + "".join(p.description for p in node.parameters), node.id


def test_settings_have_types_defaults_ranges_choices_and_groups(nodes):
    caller = settings(nodes["mcp_tool_caller"])
    concurrency = caller["concurrency"]
    assert (concurrency.type, concurrency.min, concurrency.max) == ("integer", 1, 64)
    assert concurrency.default_value == 4
    assert concurrency.advanced
    assert caller["connect_timeout"].type == "float"
    assert caller["transport"].type == "enum"
    assert caller["transport"].enum_values == ("auto", "http", "sse")
    assert caller["transport"].options[1].label == "Streamable HTTP"
    assert not caller["server_url"].advanced
    grouped = settings(nodes["mcp_agent_prompter"])["errors.error_handling"]
    assert grouped.tab == "Errors"


def test_choices_that_depend_on_what_is_connected_are_no_list_of_allowed_values(nodes):
    """Or a check of a configuration would refuse every credential and column that a person has."""
    for node in nodes.values():
        for name in ("credentials", "tool_column", "prompt_column", "tool"):
            if name in settings(node):
                assert settings(node)[name].enum_values == (), (node.id, name)


def test_every_default_is_one_that_the_node_accepts(nodes):
    for node in nodes.values():
        for parameter in node.parameters:
            assert parameter.has_default, (node.id, parameter.name)
            if parameter.enum_values:
                assert parameter.default_value in parameter.enum_values, (node.id, parameter.name)


@pytest.mark.standin
def test_an_extension_that_cannot_be_imported_says_which_and_why(tmp_path):
    (tmp_path / "knime.yml").write_text(
        "name: x\ngroup_id: g\nversion: '1.0.0'\nextension_module: src/gone\n"
    )
    with pytest.raises(CommandError, match=r"(?s)knime\.yml cannot be read: .*gone"):
        extension_nodes(tmp_path / "knime.yml")


EXTENSION = '''
import knime.extension as knext
from utils import NAME

@knext.node(NAME, knext.NodeType.SOURCE, "icon.png", "/community")
@knext.output_table("Out", "a table")
class Read:
    """Reads.

    And more.
    """

    def configure(self, ctx): return None
    def execute(self, ctx): return None
'''


@pytest.fixture
def written(tmp_path):
    """Writes an extension whose modules are called as in every other one that this writes."""

    def write(name, code=EXTENSION):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "icon.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (folder / "utils.py").write_text(f"NAME = {name!r}\n")
        (folder / "my_extension.py").write_text(code)
        keys = f"name: {name}\ngroup_id: g\nversion: '1.0.0'\nextension_module: my_extension\n"
        (folder / "knime.yml").write_text(keys)
        return folder / "knime.yml"

    return write


@pytest.mark.standin
def test_extensions_may_have_modules_of_the_same_name(written):
    files = [written(name) for name in ("one", "two")]
    assert [node.id for file in files for node in extension_nodes(file)] == ["g.one.Read", "g.two.Read"]
    assert [node.name for file in files for node in extension_nodes(file)] == ["one", "two"]


@pytest.mark.standin
@pytest.mark.parametrize("end", ["raise SystemExit('enough')", "import os; os._exit(3)"])
def test_an_extension_that_ends_its_process_costs_only_itself(written, end):
    with pytest.raises(CommandError, match=r"bad.knime\.yml cannot be read: .*end"):
        extension_nodes(written("bad", end))


@pytest.mark.standin
def test_what_an_extension_prints_is_no_output_of_the_command(written, capfd):
    assert extension_nodes(written("loud", f"print('Hello')\n{EXTENSION}"))
    said = capfd.readouterr()
    assert said.out == ""
    assert "Hello" in said.err


def test_exclusive_bounds_arrays_and_unknown_ports_of_other_extensions():
    node = {
        "id": "n",
        "name": "N",
        "node_type": "Source",
        "category": "/x/y",
        "keywords": [],
        "is_deprecated": True,
        "is_hidden": False,
        "short_description": "Short.",
        "full_description": "",
        "input_port_specifier": [],
        "output_port_specifier": [
            {
                "name": "o",
                "type_string": "a.b.HTTPThing",
                "description": "",
                "group": False,
                "optional": False,
            }
        ],
        "views": [],
    }
    description = {"extension": {"id": "g.x", "version": "1.0.0"}, "categories": [], "nodes": [node]}
    bound = {"min": {"parameters": {"min": 0, "isExclusive": True}, "errorMessage": ""}}
    dialog = {
        "data": {"model": {"share": 0.5, "many": []}},
        "schema": {
            "properties": {
                "model": {
                    "properties": {
                        "share": {"type": "number", "title": "Share"},
                        "many": {"type": "array", "items": {"oneOf": [{"const": "a", "title": "A"}]}},
                        "rare": {"anyOf": [{"const": "a", "title": "A"}]},
                    }
                }
            }
        },
        "ui_schema": {
            "elements": [
                {
                    "scope": "#/properties/model/properties/share",
                    "type": "Control",
                    "options": {"validation": bound},
                }
            ]
        },
    }
    (found,) = read_extension(description, {"n": dialog}, closed={"n": {"many"}}, file="knime.yml")
    share, many, rare = found.parameters
    assert (share.type, share.min, share.min_exclusive, share.label) == ("float", 0, True, "Share")
    assert (many.type, many.enum_values, many.options[0].label) == ("array", ("a",), "A")
    assert (rare.type, rare.has_default) == ("array", False)
    assert (found.category, found.deprecated, found.output_ports[0].type) == (("x", "y"), True, "HTTP Thing")
    (without,) = read_extension(description, {}, closed={}, file="knime.yml")
    assert not without.settings_known
    assert dataclasses.replace(found, parameters=(), settings_known=False) == without


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("One.\n\n    Two **bold** and *it* and `co*de*`\n    goes on.\n\n    - a\n    - b\n", "One.\n\n"),
        ("2 * 3 * 4 and a_b_c", "2 * 3 * 4 and a_b_c"),
        ("", ""),
    ],
)
def test_markdown_becomes_text(markdown, text):
    found = plain_text(markdown)
    if text.endswith("\n"):
        assert found == "One.\n\nTwo bold and it and co*de* goes on.\n\n- a\n- b"
    else:
        assert found == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (
            "<p>One <code>two</code> &amp; three.</p>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>",
            "One two & three.\n\n- a\n- b",
        ),
        ("<p>First<br />second</p>", "First\nsecond"),
        ("<p>Half \ud83d</p>", "Half \ufffd"),
        ("<none> is a choice, **not** an element", "<none> is a choice, not an element"),
    ],
)
def test_what_knimes_own_python_makes_of_markdown_becomes_text(shown, text):
    assert plain_text(shown) == text


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "cache" / "knime-mcp"


def test_the_default_catalogue_needs_no_build_and_is_built_once(cache, nodes):
    asked = []

    def extension():
        asked.append(1)
        return list(nodes.values())

    path = default_catalogue.default_catalogue(extension, made_of=own_files())
    assert path.parent == cache
    assert default_catalogue.default_catalogue(extension, made_of=own_files()) == path
    assert len(asked) == 1
    with Catalogue(path) as catalogue:
        assert len(catalogue.nodes()) == 39 + len(nodes)
        assert catalogue.types()["TRIGGER"][0] == "MANUAL"


def test_the_default_catalogue_is_built_anew_when_what_it_is_made_of_changes(cache, tmp_path):
    source = tmp_path / "node.py"
    source.write_text("one")
    first = default_catalogue.default_catalogue(list, made_of=[source])
    source.write_text("other")
    second = default_catalogue.default_catalogue(list, made_of=[source, tmp_path / "gone.py"])
    assert first != second
    assert first.is_file()


def test_the_default_catalogue_is_also_made_of_what_writes_it():
    names = {file.name for file in default_catalogue.made_by()}
    assert {"phrase_tables.py", "meanings.toml", "catalogue_file.py", "word_meanings.py"} <= names


def test_without_a_place_for_a_cache_the_default_catalogue_is_still_there(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    path = default_catalogue.default_catalogue(list)
    with Catalogue(path) as catalogue:
        assert len(catalogue.nodes()) == 39


DEFAULT = """
import sys
from pathlib import Path
from knime_mcp.knowledge import default_catalogue
print(default_catalogue.default_catalogue(list, made_of=[Path(sys.argv[1])]), flush=True)
sys.stdin.read()
"""


def test_of_old_default_catalogues_the_last_used_are_kept_and_those_that_processes_read(cache, tmp_path):
    """A server that runs on would answer every question with an error if its file were gone."""
    sources = [tmp_path / name for name in ("served", "unused", "older", "old", "new")]
    for file in sources:
        file.write_text(file.name)

    @contextmanager
    def process(source):
        arguments = [sys.executable, "-c", DEFAULT, source]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
            yield Path(started.stdout.readline().strip())

    def made(source):
        with process(source) as path:
            return path

    with process(sources[0]) as served:
        unused, older, old = map(made, sources[1:4])
        for age, path in enumerate((old, older, unused, served)):
            os.utime(path, ns=(0, time.time_ns() - (age + 1) * 10**9))
        before = fingerprint(unused)
        assert made(sources[1]) == unused  # now it is the last used
        assert fingerprint(unused) == before
        new = made(sources[4])
        assert set(cache.iterdir()) == {served, unused, old, new}
    assert made(tmp_path / "another") in (left := set(cache.iterdir()))
    assert served not in left


def test_a_source_without_nodes_is_an_error_that_says_what_to_name(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CatalogueError, match=r"in .*empty\. empty has no plug-ins in it\. Name the f"):
        build_catalogue(tmp_path / "o.sqlite", plugins=[tmp_path / "empty"], with_own_packs=False)
    assert not (tmp_path / "o.sqlite").exists()


def test_a_source_without_nodes_beside_others_is_an_error_too(tmp_path):
    (tmp_path / "empty").mkdir()
    write_jar(tmp_path / "library" / "org.l_1.0.0.jar", {"plugin.xml": plugin_xml()})
    registered = plugin_xml('factory-class="org.a.ANodeFactory" category-path="/"')
    write_jar(tmp_path / "a.jar", {"plugin.xml": registered, "org/a/ANodeFactory.xml": described("A")})
    sources = [tmp_path / name for name in ("empty", "a.jar", "library")]
    with pytest.raises(CatalogueError) as caught:
        build_catalogue(tmp_path / "o.sqlite", plugins=sources, with_own_packs=False)
    assert str(caught.value).startswith(
        f"There are no nodes in {tmp_path / 'empty'}, {tmp_path / 'library'}. empty has no plug-ins in it."
        " library has only plug-ins that register no nodes."
    )
    assert not (tmp_path / "o.sqlite").exists()


def test_where_nothing_can_be_read_it_is_said_why(tmp_path):
    (tmp_path / "a.jar").write_text("no jar")
    with pytest.raises(CatalogueError, match=r"in .*a\.jar\. a\.jar is no readable plug-in: "):
        build_catalogue(tmp_path / "o.sqlite", plugins=[tmp_path / "a.jar"], with_own_packs=False)
