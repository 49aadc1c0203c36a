"""Every endpoint with all that one of them refuses: no tool is lost, and few requests are made."""

import pytest

from tests.agents.model.strict_endpoints import CONSTRUCTS, ENDPOINTS
from tests.agents.playing import Functions, play
from tests.support.chat_server import call, calls, fails, says


def strict(endpoint, name, arguments):
    """An endpoint that refuses, then calls a tool as it was described, then answers."""

    def turn(request):
        tools = request.body.get("tools", [])
        if fault := endpoint(tools):
            return fails(400, fault)
        if any(message["role"] == "tool" for message in request.messages):
            return says("Done.")
        offered = {tool["function"]["name"]: tool["function"] for tool in tools}
        assert name in offered, "the tool is lost"
        return calls(call(name, arguments))

    return turn


def outcome_of(endpoint, schema, written, *, tools=1):
    names = [f"tool_{number}" for number in range(tools)]
    functions = Functions(dict.fromkeys(names, schema), **{n: lambda _, __: "done" for n in names})
    turn = strict(endpoint, names[-1], written)
    outcome, server, *_ = play([turn] * 9, functions, to_the_end=False)
    made = [request.arguments for request in functions.requests]
    return outcome, made, len(server.requests) - 2


def is_refused(endpoint, schema):
    return bool(endpoint([{"function": {"name": "t", "description": "T.", "parameters": schema}}]))


def problem_of(endpoint, construct, *, tools):
    schema, written, meant = CONSTRUCTS[construct]
    outcome, made, more = outcome_of(endpoint, schema, written, tools=tools)
    is_right = outcome.error is None and made == [meant] and more <= 2
    return None if is_right else (endpoint.__name__, construct, outcome.error, made, more)


def test_what_an_endpoint_refuses_costs_neither_the_tool_nor_many_requests():
    refused = [
        (endpoint, construct)
        for endpoint in ENDPOINTS.values()
        for construct in CONSTRUCTS
        if is_refused(endpoint, CONSTRUCTS[construct][0])
    ]
    assert list(filter(None, (problem_of(*case, tools=1) for case in refused))) == []
    # Of each endpoint one, as a second tool is all that it takes.
    of_each = dict(refused)
    assert list(filter(None, (problem_of(*case, tools=45) for case in of_each.items()))) == []


def table():
    """The table of the page for users: what endpoints refuse."""
    shown = ["Gemini", "OpenAI", "Ollama", "llama.cpp", "Bedrock"]
    yield "a tool with", *shown
    for construct, (schema, *_) in CONSTRUCTS.items():
        cells = ["in words" if is_refused(ENDPOINTS[name], schema) else "" for name in shown]
        if any(cells):
            yield construct, *cells


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("query_dataset<|channel|>commentary", True),
        ("<|start|>assistant<|channel|>query_dataset", True),
        ("functions.query_dataset<|constrain|>json", True),
        ("functions.query_dataset", True),
        ("query_dataset</tool_call>", True),
        ("query_dataset{", True),
        ("query_dataset:", True),
        ("functions.query_dataset:0", True),
        ("default_api.query_dataset", True),
        ("<function=query_dataset>", True),
        ("commentary to=functions.query_dataset json", True),
        ("query_dataset or list<|message|>", False),
        ("query_datasets", False),
        ("admin.query_dataset", False),
    ],
)
def test_names_with_pieces_of_a_template_are_those_of_the_tools_that_are_meant(written, called):
    functions = Functions(query_dataset=lambda _, __: "7 rows", list=lambda _, __: "")
    play([calls(call(written, {})), says("7")], functions)
    assert (functions.requests[0].name == "query_dataset") is called
