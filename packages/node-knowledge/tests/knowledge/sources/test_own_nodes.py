"""This extension's nodes among those that come along, and what their settings really refuse."""

import dataclasses
from types import SimpleNamespace

import pytest

from knime_mcp.version import VERSION
from knime_node_knowledge.packs import OWN_NODES
from knime_node_knowledge.sources.shipped_nodes import own_nodes
from node_facts.own_nodes import as_facts, described, nodes_of, plain_text, read_extension


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
        found = described()
    return {node.id.rpartition(".")[2]: node for node in found}


def settings(node):
    return {parameter.name: parameter for parameter in node.parameters}


@pytest.mark.standin
def test_the_file_has_this_extensions_nodes_as_they_are_now(nodes):
    """Otherwise: python -m node_facts.own_nodes."""
    assert OWN_NODES.read_text("utf-8") == as_facts(list(nodes.values()))
    assert own_nodes() == list(nodes.values())


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


def test_settings_have_types_defaults_ranges_and_choices(nodes):
    caller, prompter = settings(nodes["mcp_tool_caller"]), settings(nodes["mcp_agent_prompter"])
    concurrency = prompter["prompt_concurrency"]
    assert (concurrency.type, concurrency.min, concurrency.max) == ("integer", 1, 64)
    assert concurrency.default_value == 1
    assert concurrency.advanced
    assert prompter["idle_timeout"].type == "float"
    assert caller["pinning"].type == "enum"
    assert caller["pinning"].enum_values == ("warn", "fail", "ignore")
    assert caller["pinning"].options[1].label == "Do not call"
    assert not caller["server_url"].advanced


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


def test_exclusive_bounds_arrays_and_unknown_ports():
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
