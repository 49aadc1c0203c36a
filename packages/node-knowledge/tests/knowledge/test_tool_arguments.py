"""Arguments as people and models send them: what is meant is taken, what cannot be used is refused."""

import json
from contextlib import suppress

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.types.errors import ArgumentsInvalid
from knime_node_knowledge.tool_definitions import TOOLS, TOOLS_BY_NAME


@pytest.mark.requirement("W2")
def test_bad_arguments_are_refused_with_what_is_allowed(subtests, tools):
    for name, arguments, said in [
        (
            "search_nodes",
            {"query": "x", "limit": 3},
            r"no argument 'limit'.*Allowed arguments: query \(required\)",
        ),
        ("search_nodes", {}, "'query' is missing"),
        ("search_nodes", {"query": "x", "max_results": "many"}, "whole number"),
        ("search_nodes", {"query": "x", "max_results": 1.5}, "whole number"),
        ("search_nodes", {"query": "x", "max_results": True}, "whole number"),
        ("search_nodes", {"query": ["x"]}, "must be a text"),
        ("search_nodes", {"query": "x", "include_details": "maybe"}, "true or false"),
        ("search_nodes", {"query": "x", "detail": "huge"}, "minimal, standard, full"),
        ("search_nodes", {"query": "x", "cursor": "1; DROP TABLE nodes"}, "cursor"),
        ("search_nodes", {"query": "x", "node_type": "'; --"}, "Node types: TRIGGER"),
        ("get_node_types", {"type_filter": "ACTON"}, "Node types: TRIGGER"),
        ("get_node_details", {"nodes": []}, "1 to 100"),
        ("get_node_details", {"nodes": 7}, "must be a list"),
        (
            "get_node_details",
            {"nodes": ["FLOW.IF", {"name": "Joiner"}]},
            r"entry \{'name': 'Joiner'\}.*or of ids",
        ),
        ("get_node_details", {"nodes": [None]}, "entry None"),
        ("find_compatible", {"node": " "}, "id, a name"),
        ("find_compatible", {"node": "CSV Reader", "port": 0.5}, "whole number"),
        ("find_compatible", {"node": "CSV Reader", "port": True}, "whole number"),
        ("find_compatible", {"node": 7.5}, "id, a name"),
        ("check_configuration", {"node": "FLOW.IF", "settings": "no object"}, "must be an object"),
        ("check_configuration", {"node": "FLOW.IFF", "settings": {}}, "Did you mean FLOW.IF"),
    ]:
        with subtests.test(name=name, arguments=arguments), pytest.raises(ArgumentsInvalid, match=said):
            tools.invoke_tool(name, arguments)


def test_arguments_as_models_send_them(call):
    text = json.dumps([{"node_type": "FLOW", "subtype": "IF"}])
    for nodes in (text, {"node_type": "FLOW", "subtype": "IF"}, ["FLOW.IF"], "FLOW.IF"):
        (found,) = call("get_node_details", nodes=nodes, detail="MINIMAL")["nodes"]
        assert found["subtype"] == "IF"
    assert call("find_compatible", node="CSV Reader", port=0.0)["total"]
    assert call("search_nodes", query=42, max_results="3.0", cursor=None, include_details=None)["catalogue"]
    assert "max_results is 100" in call("search_nodes", query="row", max_results=5_000)["warning"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_node_types", {"type_filter": "", "max_results": "", "cursor": ""}),
        ("search_nodes", {"query": "row", "node_type": "", "detail": " "}),
        ("find_compatible", {"node": "CSV Reader", "port": "", "direction": ""}),
    ],
)
def test_what_is_optional_and_blank_is_left_out(call, name, arguments):
    given = {key: value for key, value in arguments.items() if value.strip()}
    assert call(name, **arguments) == call(name, **given)


def test_what_the_search_names_may_be_asked_for_as_it_is(call):
    """Clients check arguments against the schema, so a text must fit there, too."""
    (hit, *_) = call("search_nodes", query="Joiner")["nodes"]
    name = f"{hit['node_type']}.{hit['subtype']}"
    schema = TOOLS_BY_NAME["get_node_details"].parameters
    for entry in (name, "Joiner", {"id": name}):
        jsonschema_rs.validate(dict(schema), {"nodes": [entry]})
        (found,) = call("get_node_details", nodes=[entry])["nodes"]
        assert found["subtype"] == hit["subtype"]
    for entry in (7, None, {}, {"name": name}, [name]):
        assert not jsonschema_rs.is_valid(dict(schema), {"nodes": [entry]})


def test_a_blank_entry_costs_only_itself(call):
    entries = ["FLOW.IF", "", {"id": " "}, {"node_type": "FLOW", "subtype": ""}]
    found, *blank = call("get_node_details", nodes=entries)["nodes"]
    assert found["subtype"] == "IF"
    assert [entry["error"] for entry in blank] == ["Node specification not found"] * 3


def test_what_was_asked_for_is_not_quoted_at_length(call):
    (found,) = call("get_node_details", nodes=[{"node_type": "x" * 5_000, "subtype": "y" * 5_000}])["nodes"]
    assert len(json.dumps(found)) < 4_000


SQL = [
    "' OR '1'='1",
    "'; DROP TABLE nodes; --",
    '" UNION SELECT * FROM meta',
    "x\x00y",
    "\ud800",
    "9" * 10_000,
    "%",
    "TRIGGER.%",
]


@pytest.mark.parametrize("text", SQL, ids=lambda text: ascii(text[:12]))
def test_sql_in_every_argument_is_text(tools, text):
    for tool in TOOLS:
        for name in tool.parameters["properties"]:
            arguments = {"query": "row", "node": "FLOW.IF", "settings": {}, "nodes": ["FLOW.IF"]}
            given = {key: value for key, value in arguments.items() if key in tool.parameters["properties"]}
            for value in (text, {"id": text}, [{"node_type": text, "subtype": text}], {text: text}):
                with suppress(ArgumentsInvalid):
                    tools.invoke_tool(tool.name, given | {name: value})
    assert tools.invoke_tool("get_node_types")["TRIGGER"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_arguments_give_an_answer_in_its_schema_or_a_refusal(tools, data):
    tool = data.draw(st.sampled_from(TOOLS))
    arguments = {name: data.draw(JSON) for name in tool.parameters["properties"] if data.draw(st.booleans())}
    with suppress(ArgumentsInvalid):
        found = tools.invoke_tool(tool.name, arguments)
        jsonschema_rs.validate(dict(tool.output_schema), found)
