"""A model whose context is small: tools are searched, results are cut, and nothing is lost."""

import json

import pytest

from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.model_errors import context_in
from knime_mcp.agents.toolbox.replies import ToolRequest
from tests.agents.playing import QUESTION, Functions, model_at, play
from tests.support.chat_server import ChatServer, call, calls, fails, says


def small(tokens, *turns):
    """An endpoint that refuses what is longer than its context, at three characters a token."""
    played = iter(turns)

    def turn(request):
        sent = len(json.dumps(request.body)) // 3
        if sent > tokens:
            return fails(
                400,
                f"request ({sent} tokens) exceeds the available context size ({tokens} tokens)",
                "exceed_context_size_error",
            )
        made = next(played)
        return made if not callable(made) else made(request)

    return [turn] * 30


def test_one_result_that_does_not_fit_is_cut_and_read_on_in(box, shapes, tools_of):
    tools = tools_of(shapes.url("/modern/json/many"))[:2]
    executor = box(tools).executor
    long = {"value": 7, "text": "lorem ipsum " * 200}

    def reads(request):
        assert "read_result" in [tool["function"]["name"] for tool in request.body["tools"]]
        return calls(call("read_result", {"id": "r1", "offset": 700}))

    with ChatServer(small(1700, calls(call(tools[0].name, long)), reads, says("Read."))) as endpoint:
        outcome = run_agent(model_at(endpoint), executor, QUESTION)
    assert (outcome.error, outcome.text) == (None, "Read.")
    assert any("1,700 tokens" in note for note in outcome.notes)


def test_tools_that_do_not_fit_are_searched_also_by_the_next_prompt(box, shapes, tools_of):
    tools = tools_of(shapes.url("/modern/json/many"))[:40]
    context = box(tools).toolset.tokens // 2

    def finds(request):
        assert [tool["function"]["name"] for tool in request.body["tools"]] == ["find_tools"]
        return calls(call("find_tools", {"query": tools[3].name}))

    asks = [finds, calls(call(tools[3].name, {"value": 7, "text": "x"})), says("Done.")]
    with ChatServer(small(context, *asks, *asks)) as endpoint:
        model = model_at(endpoint)
        outcomes = [run_agent(model, box(tools).executor, QUESTION) for _ in range(2)]
        requests = len(endpoint.requests)
    assert [(outcome.error, outcome.text) for outcome in outcomes] == 2 * [(None, "Done.")]
    assert requests <= 3 + 2 * len(asks)


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ("request (5031 tokens) exceeds the available context size (2048 tokens), try increasing it", 2048),
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)", 1048576),
        ("exceeds the model's maximum context limit of 32,768 tokens", 32768),
        ("type: exceed_context_size_error\nn_prompt_tokens 5031\nn_ctx 4096", 4096),
        ("the conversation is too long", None),
        ("prompt too long; exceeded max context length by 500 tokens", None),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32768),
        ("`inputs` must have less than 4096 tokens. Given: 5031", 4096),
        ("size limit exceeded by 11326 tokens. The limit for this model is 4081 tokens", 4081),
        ("Input length 5031 exceeds the maximum length 4096", 4096),
        ("Range of input length should be [1, 30720]", 30720),
        ("input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000", 200000),
    ],
)
def test_the_size_of_a_context_is_read_from_the_refusal(said, tokens):
    assert context_in(said) == tokens


def test_a_person_is_told_if_the_endpoint_read_less_than_was_sent():
    tools = Functions(read=lambda *_: "lorem ipsum " * 1600)
    turns = [calls(call("read"), usage=(300, 9)), says("What?", usage=(2050, 9))]
    outcome, *_ = play(turns, tools)
    assert any("cut the conversation" in note for note in outcome.notes)
    for honest in ((5200, 9), None, (0, 0), (12, 9)):  # the last counts only what no cache had
        outcome, *_ = play([turns[0], says("ok", usage=honest)], tools)
        assert outcome.notes == ()


@pytest.mark.parametrize(
    "words",
    [
        "Invalid 'tools': array too long. Expected an array with maximum length 12, but got {count} instead.",
        "At most 12 function declarations are allowed, got {count}",
        "The maximum number of tools is 12",
        "Too many tools.",
        "too many functions",
    ],
)
def test_an_endpoint_that_takes_fewer_tools_is_searched_with(words, box, shapes, tools_of):
    tools = tools_of(shapes.url("/modern/json/many"))[:40]

    def turn(request):
        names = [tool["function"]["name"] for tool in request.body["tools"]]
        if len(names) > 12:
            return fails(400, words.replace("{count}", str(len(names))))
        if tools[3].name not in names:
            return calls(call("find_tools", {"query": tools[3].name}))
        called = any(
            message["role"] == "tool" and "lorem" in message["content"] for message in request.messages
        )
        return says("Done.") if called else calls(call(tools[3].name, {"value": 7, "text": "lorem"}))

    with ChatServer([turn] * 12) as endpoint:
        model = model_at(endpoint)
        outcomes = [run_agent(model, box(tools).executor, QUESTION) for _ in range(2)]
        refused = sum(len(request.body["tools"]) > 12 for request in endpoint.requests)
    assert [(outcome.error, outcome.text) for outcome in outcomes] == 2 * [(None, "Done.")]
    assert refused <= 2, "the second prompt knows it"
    assert any("tools, so the model has to search" in note for note in outcomes[0].notes)


def test_many_tools_that_are_found_stay_within_what_an_endpoint_takes(box, shapes, tools_of):
    tools = tools_of(shapes.url("/modern/json/many"))[:40]
    executor = box(tools).executor
    assert executor.offer_at_most(6)
    for tool in tools[:20]:
        executor.run(
            ToolRequest(id="1", name=tool.name, arguments={"value": 1, "text": "x"}, iteration=1),
            is_canceled=lambda: False,
        )
        assert len(executor.definitions()) <= 6
    assert not executor.offer_at_most(2)
