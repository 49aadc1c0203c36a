"""Finding tools: right often enough on many tools, the same every time, and cheap for the model."""

import json

import pytest

from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.agents.toolbox.tool_search import ToolIndex
from knime_mcp.agents.toolbox.toolset import token_estimate
from knime_mcp.types.tool import MCPTool
from tests.agents.toolbox import many_tools, try_recall


def test_people_find_one_of_five_hundred_tools_in_their_own_words():
    tools, questions = many_tools.tools(), many_tools.questions()
    names = [tool["function"]["name"] for tool in tools]
    assert len(set(names)) == 500
    assert len(questions) >= 100
    assert {name for _, name in questions} <= set(names)
    index = ToolIndex(tools)
    found = {question: [names[place] for place in index.find(question, 10)] for question, _ in questions}
    top5 = sum(name in found[question][:5] for question, name in questions)
    top10 = sum(name in found[question] for question, name in questions)
    # The figures measured when the test was written; it fails if they get worse.
    assert top5 / len(questions) >= 0.94
    assert top10 / len(questions) >= 0.95
    costs = [token_estimate(tools[place] for place in index.find(question, 10)) for question, _ in questions]
    assert sum(costs) / len(costs) < token_estimate(tools) / 40
    again = ToolIndex(tools)
    assert all(
        [names[place] for place in again.find(question, 10)] == best for question, best in found.items()
    )


def test_paraphrases_are_found_by_what_they_mean():
    """The figures measured when the test was written; it fails if they get worse."""
    recall = try_recall.recall()
    assert recall["English", "held out"] >= 0.7
    assert recall["English", "worked on"] >= 0.75
    assert min(recall["German", half] for half in ("held out", "worked on")) >= 0.2


def define(name, description="", **properties):
    parameters = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def test_every_part_of_a_definition_counts():
    nested = {"type": "array", "items": {"type": "object", "properties": {"zipCode": {"type": "string"}}}}
    tools = [
        define("getHTTPStatus"),
        define("b", "Calculates the circumference"),
        define("c", "", latitude={"description": "Degrees of the place"}),
        define("d", "", places=nested),
        {
            "type": "function",
            "function": {
                "name": "e",
                "description": "",
                "parameters": {
                    "$defs": {"t": {"properties": {"kin": {"$ref": "#/$defs/t"}, "genealogy": {}}}},
                    "$ref": "#/$defs/t",
                },
            },
        },
    ]
    index = ToolIndex(tools)
    asked = ["http status", "circumferences", "degrees", "zip code", "genealogy"]
    assert [index.find(query)[:1] for query in asked] == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("query", ["", "   ", "the of and", "xyzzy", "?!", "工具", "a" * 10_000])
def test_a_query_without_a_word_of_any_tool_finds_none(query):
    assert ToolIndex([define("add", "Adds numbers")]).find(query) == []


def test_no_tools_and_equal_tools():
    assert ToolIndex([]).find("anything") == []
    twins = ToolIndex([define("t", "same words") for _ in range(20)])
    assert twins.find("same words", 3) == [0, 1, 2]


@pytest.fixture
def many(box):
    tools = [
        MCPTool(
            function["name"],
            function["description"],
            function["parameters"],
            "http://127.0.0.1:9/mcp",
            function["name"],
        )
        for function in (tool["function"] for tool in many_tools.tools())
    ]
    return box(tools, options=ToolOptions(search_above=20_000))


def test_the_model_searches_and_then_calls(many):
    assert many.names == ["find_tools"]
    (definition,) = many.executor.definitions()
    assert "500" in definition["function"]["description"]
    reply = many.call("find_tools", {"query": "cancel an order that was not shipped"})
    assert not reply.failed
    assert reply.record is None
    assert '"shop_cancel_order"' in reply.content.splitlines()[1]
    assert many.names[:1] == ["find_tools"]
    assert "shop_cancel_order" in many.names
    assert len(many.names) == 11
    before = many.names
    many.call("find_tools", {"query": "cancel an order that was not shipped"})
    assert many.names == before
    assert many.records == []


def test_the_model_sees_the_names_and_takes_tools_by_them(many):
    (definition,) = many.executor.definitions()
    shown = definition["function"]["parameters"]["properties"]["query"]["description"]
    assert all(tool["function"]["name"] in shown for tool in many_tools.tools())
    assert len(definition["function"]["description"]) < 1024
    reply = many.call("find_tools", {"query": "bank_transfer_money, weather_air_quality"})
    assert [json.loads(line)["name"] for line in reply.content.splitlines()[1:3]] == [
        "bank_transfer_money",
        "weather_air_quality",
    ]


def test_names_are_shown_as_far_as_they_fit(box):
    url = "http://127.0.0.1:9/mcp"
    tools = [MCPTool(f"{'t' * 50}_{number}", "", {}, url, "t") for number in range(400)]
    (definition,) = box(tools, options=ToolOptions(search_above=100)).executor.definitions()
    shown = definition["function"]["parameters"]["properties"]["query"]["description"]
    assert shown.endswith(", …")
    assert 15_000 < len(shown) < 16_500


def test_a_tool_that_was_guessed_runs_and_is_bound(many):
    reply = many.call("wiki_broken_links", {"page_id": "1"})
    assert reply.record.status == "failed"  # no server listens there
    assert "wiki_broken_links" in many.names


def test_what_was_found_long_ago_makes_room(many):
    """The budget also limits the tools that were found."""
    many.call("find_tools", {"query": "cancel an order"})
    for number, (question, _) in enumerate(many_tools.questions()):
        if number % 5 == 0:
            many.call("shop_cancel_order", None)
        before = many.names
        listed = many.call("find_tools", {"query": question}).content.splitlines()[1:]
        names = many.names
        assert {json.loads(line)["name"] for line in listed} <= set(names)
        assert [name for name in names if name in before] == [name for name in before if name in names]
        assert token_estimate(many.executor.definitions()) < 25_000
    assert "shop_cancel_order" in many.names  # it is being used
    assert len(many.names) > 30


def test_mistakes_in_searching_say_what_to_do(many):
    assert "Error: /query is missing" in many.call("find_tools", {}).content
    assert many.call("find_tools", None, error="not JSON").failed
    assert many.call("find_tools", {"query": "xyzzy"}).content.startswith("No tool fits")
    assert "find_tools" in many.call("nothing_like_it_at_all", {}).content


@pytest.mark.parametrize(("count", "searches"), [(127, False), (128, True)])
def test_more_functions_than_endpoints_take_are_searched_whatever_they_cost(box, count, searches):
    """OpenAI's service takes 128; one of them is for reading on in long results."""
    url = "http://127.0.0.1:9/mcp"
    tools = [MCPTool(f"tool_{number}", "Adds", {}, url, f"tool_{number}") for number in range(count)]
    made = box(tools, options=ToolOptions(search_above=1_000_000))
    assert (made.names == ["find_tools"]) is searches
    for tool in tools:
        made.call(tool.name, None)  # a tool that was guessed is bound
    assert len(made.names) == 127


def test_below_the_budget_all_tools_are_bound(box):
    tool = MCPTool("find_tools", "A real one", {}, "http://127.0.0.1:9/mcp", "find_tools")
    assert box([tool], options=ToolOptions(search_above=1000)).names == ["find_tools"]
    assert box([tool], options=ToolOptions(search_above=0)).names == ["find_tools_2"]
    assert box([tool]).names == ["find_tools"]
