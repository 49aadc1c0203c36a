"""Arguments of calls: literals, expressions in them, and one expression for all of them."""

import pytest

from knime_mcp_graph import McpGraphApi, RunError
from knime_mcp_graph.document_loading import check_text
from tests.graph.graphs import ENTRY, EXIT, call, document, tool, yaml

pytestmark = pytest.mark.quick


WHOLE = call("echo", "{expr: entry.all}")
INNER = tool("{id: entry, type: entry, next: exit}", EXIT, name="inner")


def run(*nodes, **arguments):
    with McpGraphApi(document(ENTRY, *nodes, EXIT)) as api:
        return api.execute_tool("t", arguments).result["received"]


def test_one_expression_gives_all_arguments():
    assert run(WHOLE, all={"a": 1, "b": [None]}) == {"a": 1, "b": [None]}
    assert run(WHOLE) == {}


@pytest.mark.parametrize(
    ("value", "said"), [([1], "a list"), ("x", "text"), (5, "the number 5"), (None, "an empty value")]
)
def test_arguments_that_are_no_object_are_not_sent(value, said):
    with pytest.raises(RunError, match=f"must give an object, not {said}") as caught:
        run(WHOLE, all=value)
    assert caught.value.kind == "arguments"


def test_a_tool_of_the_document_gets_them_too():
    text = yaml(tool(ENTRY, "{id: x, type: tool, tool: inner, args: {expr: entry}, next: exit}", EXIT), INNER)
    checked = check_text(text)
    assert checked.document is not None, checked.problems
    with McpGraphApi(checked.document) as api:
        assert api.execute_tool("t", {"a": 1}).result == {"a": 1}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("{expr: '1 +'}", "Invalid JSONata syntax in args.expr: "),
        ("{expr: '{}', a: 1}", "Invalid expression object at args: object with"),
    ],
)
def test_what_is_wrong_is_said_before_it_runs(args, said):
    checked = check_text(yaml(tool(ENTRY, call("echo", args), EXIT)))
    assert checked.document is None
    assert said in "\n".join(problem.text("f") for problem in checked.problems)


def test_an_expression_that_is_no_text_fails_when_it_is_used():
    with pytest.raises(RunError, match='"expr" property must be a string, got number'):
        run(call("echo", "{expr: 5}"))


def test_without_an_expression_the_dialect_target_sends_it():
    text = yaml(tool(ENTRY, call("echo", "{expr: 1 + 1}"), EXIT))
    checked = check_text(text, dialect="target")
    assert checked.document is not None
    with McpGraphApi(checked.document) as api:
        assert api.execute_tool("t").result["received"] == {"expr": "1 + 1"}


@pytest.mark.parametrize(
    ("args", "dialect"),
    [
        ("{expr: entry}", "next"),
        ("{a: [{expr: entry.v}], b: $.entry.v}", "next"),
        ("{expr: 1 + 1, other: $.entry.v}", "target"),
    ],
)
def test_an_argument_called_expr_beside_others_is_a_name(args, dialect):
    checked = check_text(yaml(tool(ENTRY, call("echo", args), EXIT)))
    assert checked.dialect is not None
    assert checked.dialect.dialect == dialect
    assert checked.document is not None, checked.problems
