"""Servers that ask back, in the chat's view: forms, pages, and the model; with the official SDK's server."""

import json

import pytest

from knime_mcp.agents.agent_events import AgentOptions, TokenMeter, TokenUsage
from knime_mcp.agents.questions import ServerModel
from knime_mcp.types.errors import CallDenied
from tests.support import peers
from tests.support.chat_script import completion
from tests.support.chat_server import call, calls, says
from tests.support.scripted_server import ScriptedServer, modern, rpc, text

ELICIT = "elicitation/create"


@pytest.fixture(scope="module")
def asking():
    with peers.running(peers.asking()) as server:
        yield server.url("/mcp")


@pytest.fixture
def asked(chat, script, tools_of, asking):
    """A chat whose model calls one tool, and the question of the server."""

    def begin(tool, *turns, arguments=None, **parameters):
        model = script(calls(call(tool, arguments or {})), *turns, says("Done."))
        page = chat(model, tools_of(asking), **{"rules": "allow *", **parameters})
        assert page.call("ask", "Please.") is None
        return page, model

    return begin


def result_of(page, name):
    page.done()
    (found,) = [event for event in page.of("result") if event["name"] == name]
    return found


def test_a_form_is_filled_in_checked_and_sent(asked):
    page, _ = asked("order")
    question = page.until("ask")
    assert (question["about"], question["why"]) == ("form", "the server wants to know: Who orders?")
    fields = {field["name"]: field for field in question["fields"]}
    assert list(fields) == ["name", "pieces", "size", "gift"]
    assert fields["name"]["is_required"]
    assert (fields["pieces"]["kind"], fields["pieces"]["default"]) == ("integer", 1)
    assert fields["size"]["choices"] == [["small", "small"], ["large", "large"]]
    assert "9" in page.call("decide", question["number"], "edit", '{"name": "Ada", "pieces": 12}')
    assert page.call("decide", question["number"], "edit", '{"name": "Ada", "size": "large"}') is None
    assert "accept" in result_of(page, "order")["text"]
    assert "'Ada'" in result_of(page, "order")["text"]
    card = result_of(page, "elicitation/create")
    assert (card["status"], card["decision"]) == ("ok", "filled in by a person: name, pieces, size")
    assert json.loads(card["arguments"]) == {"name": "Ada", "size": "large"}


@pytest.mark.parametrize(
    ("answer", "action", "decision"),
    [
        ("deny", "decline", "denied by a person"),
        ("dismiss", "cancel", "denied by a person: dismissed"),
    ],
)
def test_a_form_is_not_answered(asked, answer, action, decision):
    page, _ = asked("order")
    assert page.call("decide", page.until("ask")["number"], answer) is None
    assert result_of(page, "order")["text"].startswith(action)
    assert result_of(page, "elicitation/create")["decision"] == decision


def test_a_page_is_named_and_not_opened(chat, script, tools_of):
    wanted = {"mode": "url", "message": "Pay there", "url": "https://pay.example.org/1", "elicitationId": "e"}
    rounds = [
        rpc({"resultType": "input_required", "inputRequests": {"a": {"method": ELICIT, "params": wanted}}}),
        rpc(text("Thanks.")),
    ]
    with ScriptedServer(modern(tools__call=rounds)) as server:
        page = chat(script(calls(call("echo")), says("Paid.")), tools_of(server.url), rules="allow *")
        page.call("ask", "Pay.")
        question = page.until("ask")
        assert (question["about"], question["page"]) == ("page", "https://pay.example.org/1")
        page.call("decide", question["number"], "allow")
        assert result_of(page, "echo")["text"] == "Thanks."
        page.hand_on()
    assert server.named("tools/call")[1].params["inputResponses"] == {"a": {"action": "accept"}}


def test_the_model_is_asked_for_a_server_after_a_person_allowed_it(asked, executed, rows_of):
    page, model = asked("summarize", says("Short."), arguments={"text": "A long text."})
    question = page.until("ask")
    assert question["about"] == "model"
    assert len(model.requests) == 1
    page.call("decide", question["number"], "allow")
    page.call("decide", review(page)["number"], "allow")
    assert result_of(page, "summarize")["text"] == "test-model: Short."
    sampled = model.requests[1].body
    assert [message["role"] for message in sampled["messages"]] == ["system", "user"]
    assert (sampled["max_completion_tokens"], sampled.get("tools")) == (7, None)
    assert page.cost["read"] == sum(usage["prompt_tokens"] for usage in map(usage_of, model.requests)), (
        "what the server asked is part of the cost"
    )
    calls_table = rows_of(executed(model, view_data=page.hand_on()), 1)
    assert [(row["Tool name"], row["Decision"]) for row in calls_table] == [
        ("sampling/createMessage", "allowed by a person; answer allowed by a person"),
        ("summarize", "allowed by rule: allow *"),
    ]


def review(page):
    """The question whether a server may have the model's answer."""
    question = page.until("ask")
    assert question["about"] == "answer"
    return question


@pytest.mark.parametrize(
    ("answer", "text", "told", "decision"),
    [
        ("edit", '{"text": "Shorter."}', "test-model: Shorter.", "edited by a person: text"),
        ("deny", "It is private.", "which was refused", "denied by a person: It is private."),
        ("dismiss", "", "which was refused", "denied by a person: dismissed"),
    ],
)
def test_the_model_s_answer_is_reviewed_before_the_server_gets_it(asked, answer, text, told, decision):
    page, _ = asked("summarize", says("My secret plan."), arguments={"text": "A long text."})
    page.call("decide", page.until("ask")["number"], "allow")
    question = review(page)
    assert (question["text"], question["why"]) == (
        "My secret plan.",
        "the server gets this answer of your model",
    )
    if answer == "edit":
        assert "text" in page.call("decide", question["number"], "edit", '{"other": 1}')
    assert page.call("decide", question["number"], answer, text) is None
    assert told in result_of(page, "summarize")["text"]
    card = result_of(page, "sampling/createMessage")
    assert card["decision"] == f"allowed by a person; answer {decision}"
    assert ("My secret plan." in json.dumps([card, result_of(page, "summarize")])) is False


def test_who_allows_a_server_for_good_is_not_asked_again(asked):
    page, _ = asked("summarize", says("Short."), arguments={"text": "A long text."})
    page.call("decide", page.until("ask")["number"], "always")
    assert result_of(page, "summarize")["text"] == "test-model: Short."
    assert len(page.of("ask")) == 1


def usage_of(request):
    return completion(request, says("x"))["usage"]


def test_a_budget_that_is_used_up_holds_for_servers_too():
    meter = TokenMeter(10)
    meter.add(TokenUsage(input=8, output=2, turns=1))
    with pytest.raises(CallDenied, match="tokens for the model are used up: 10 of 10 tokens"):
        ServerModel(None, AgentOptions(), meter)(None)


def test_rules_deny_what_servers_ask(asked):
    page, _ = asked("summarize", arguments={"text": "x"}, rules="deny sampling/*\nallow *")
    assert "which was refused" in result_of(page, "summarize")["text"]
    card = result_of(page, "sampling/createMessage")
    assert (card["status"], page.of("ask")) == ("denied", [])
    assert "rule: deny sampling/*" in card["decision"]


def test_stop_dismisses_a_form(asked):
    page, model = asked("order")
    page.until("ask")
    page.call("stop")
    page.done()
    assert page.of("stopped")
    model.turns.pop()  # is not asked for


def test_without_a_person_it_is_refused_in_words(executed, script, tools_of, asking, rows_of):
    model = script(calls(call("order")), says("I could not."))
    result = executed(model, tools_of(asking), questions="Order.", rules="allow *")
    (row,) = rows_of(result, 1)
    assert row["Status"] != "ok"
    assert "elicitation" in row["Error"].lower() or "input from a person" in row["Error"]
