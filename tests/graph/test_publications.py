"""What a document publishes of its servers: how it is written, and what becomes of a tool."""

import pytest

from knime_mcp.graph.document_loading import check_text
from knime_mcp.graph.publications import ArgumentChange, Selection, ToolChange
from knime_mcp.types.errors import SettingInvalid
from knime_mcp.yaml_text import Severity

from .graphs import ENTRY, EXIT, load, texts, tool, transform, yaml

SUM = {
    "name": "get-sum",
    "description": "Adds.",
    "execution": {"taskSupport": "optional"},
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number", "description": "b"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


def publishing(text):
    return yaml(tool(ENTRY, transform("entry"), EXIT), more=f"publish:\n  fx: {text}\n")


def published(text):
    return load(publishing(text)).publications["fx"]


def test_everything_or_parts_are_published():
    whole = published("{tools: true, resources: true, prompts: false, questions: true}")
    assert (whole.tools, whole.resources, whole.prompts) == (Selection(), Selection(), None)
    assert (whole.questions, whole.logs, whole.prefix) == (True, False, "")
    part = published("{prefix: f_, tools: {only: ['a*', b], except: [ab]}, prompts: [c]}")
    assert [name for name in ("a", "ab", "b", "bb") if part.tools.takes(name)] == ["a", "b"]
    assert part.prompts == Selection(only=("c",))
    assert part.prefix == "f_"


def test_a_changed_tool_is_listed_and_called_so():
    change = published(
        "{tools: {change: {get-sum: {name: add, description: d, annotations: {readOnlyHint: true}, arguments:"
        " {a: {name: first, default: 1}, b: {value: 40}}}}}}"
    ).changes["get-sum"]
    assert change.described(SUM, "add") == {
        "name": "add",
        "description": "d",
        "annotations": {"readOnlyHint": True},
        "inputSchema": {
            "type": "object",
            "properties": {"first": {"type": "number", "default": 1}},
            "required": [],
            "additionalProperties": False,
        },
    }
    assert change.sent({"first": 2, "b": 7}) == {"a": 2, "b": 40}
    assert change.sent({}) == {"a": 1, "b": 40}


def test_an_argument_that_is_hidden_is_never_sent():
    change = ToolChange(arguments={"b": ArgumentChange(hidden=True)})
    optional = {**SUM, "inputSchema": {**SUM["inputSchema"], "required": ["a"]}}
    assert change.described(optional, "add")["inputSchema"]["properties"].keys() == {"a"}
    assert change.sent({"a": 1, "b": 2}) == {"a": 1}
    with pytest.raises(SettingInvalid, match="requires the argument 'b'"):
        change.described(SUM, "add")


def test_an_argument_that_is_not_there_is_told():
    with pytest.raises(SettingInvalid, match=r"no argument 'aa'.*Did you mean 'a'"):
        ToolChange(arguments={"aa": ArgumentChange(name="x")}).described(SUM, "add")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3", "'publish.fx' must be a mapping"),
        ("{tools: 3}", "'tools' must be true or false or a list or a mapping"),
        ("{tools: {only: [3]}}", "must be text, not the number 3"),
        ("{tools: {change: {x: {name: t}}}}", "there is a tool 't' already, of the document"),
        (
            "{prefix: a, tools: {change: {x: {name: y}, z: {name: y}}}}",
            "there is a tool 'ay' already, of the server 'fx'",
        ),
        ("{tools: {change: {x: {arguments: {a: {value: 1, name: b}}}}}}", "is not offered"),
    ],
)
def test_what_is_wrong_is_found(text, said):
    (found,) = texts(check_text(publishing(text), environ={}))
    assert said in found


def test_unknown_servers_are_errors_and_what_has_no_effect_is_a_warning():
    text = publishing("{}").replace("  fx: {}\n", "  fy: {tools: true}\n")
    (found,) = texts(check_text(text, environ={}))
    assert "there is no server 'fy' to publish (at publish.fy)" in found
    checked = check_text(publishing("{tools: {only: [a], change: {b: {name: c}}}, prompt: true}"), environ={})
    changed, unknown = texts(checked, Severity.WARNING)
    assert "the tool 'b' is changed, but not published" in changed
    assert "the key 'prompt' is not known here" in unknown
