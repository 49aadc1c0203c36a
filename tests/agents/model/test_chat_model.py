"""Requests to an endpoint and the reading of its answers, checked by the HTTP bodies."""

import json
import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.chat_model import ChatModelSettings, model_route
from knime_mcp.agents.model.endpoint import Endpoint, list_models
from knime_mcp.agents.model.model_errors import AnsweredError, ModelUnreachable
from knime_mcp.agents.model_messages import settle
from knime_mcp.tools.node_settings.connection import Credential
from knime_mcp.types.errors import SettingInvalid
from tests.agents.playing import Functions, asked, model_at
from tests.support import commands
from tests.support.chat_server import ChatServer, call, calls, fails, refuses, says

ROOT = Path(__file__).parents[3]
KEY = "sk-very-secret-0123456789"
CREDENTIAL = Credential("openai", "", KEY)
ODD_SCHEMA = {
    "$defs": {
        "node": {"type": "object", "title": "A node", "properties": {"next": {"$ref": "#/$defs/node"}}}
    },
    "type": "object",
    "title": "Arguments",
    "properties": {
        "start": {"$ref": "#/$defs/node"},
        "anything": {},
        "config": {"type": "string"},
        "self": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["config"],
    "additionalProperties": False,
    "x-own": ["ü", 1.0, 10**20],
}


@pytest.mark.requirement("T19")
def test_the_schema_arrives_as_it_was_given():
    tool = {"type": "function", "function": {"name": "walk", "description": "d", "parameters": ODD_SCHEMA}}
    empty = {"type": "function", "function": {"name": "nothing", "description": "d", "parameters": {}}}
    with ChatServer([says("ok")]) as server:
        asked(model_at(server), tools=[tool, empty])
        [request] = server.requests
    sent = request.body["tools"]
    assert json.dumps(sent, sort_keys=False) == json.dumps([tool, empty], sort_keys=False)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, {}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"token_limit": 7}, {"max_completion_tokens": 7}),
        ({"token_limit": 7, "token_limit_field": "max_tokens"}, {"max_tokens": 7}),
        ({"more": {"seed": 3}}, {"seed": 3}),
    ],
)
def test_only_what_was_set_is_sent(settings, fields, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-somebody")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("OPENAI_PROXY", "http://127.0.0.1:1/")
    with ChatServer([says("ok")]) as server:
        asked(model_at(server, **settings))
        [request] = server.requests
    sent = dict(request.body)
    assert sent.pop("stream", False) is False
    assert sent == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "Hi"}],
        **fields,
    }
    assert "somebody" not in str(request.headers)
    assert "authorization" not in request.headers
    assert not [name for name in request.headers if name.startswith(("x-stainless", "openai"))]


def test_the_credential_is_sent_and_never_seen(caplog):
    caplog.set_level(logging.DEBUG)
    with ChatServer([says("ok"), says("ok")], key=KEY) as server:
        model = model_at(server, CREDENTIAL)
        assert asked(model).content == "ok"
        assert asked(model).content == "ok"
    assert KEY not in caplog.text
    assert KEY not in repr(model) + str(model.__dict__) + repr(model._endpoint)


def test_templates_put_the_key_where_it_is_wanted(caplog):
    caplog.set_level(logging.DEBUG)
    with ChatServer([says("ok")]) as server:
        url = f"{server.url}?code={{credential.password}}&api-version=1"
        headers = (("api-key", "{credential.password}"),)
        model = model_at(server, CREDENTIAL, url=url, headers=headers)
        asked(model)
        [request] = server.requests
    assert request.path == f"/v1/chat/completions?code={KEY}&api-version=1"
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    assert KEY not in caplog.text


def test_one_model_serves_many_event_loops():
    with ChatServer([says("1"), says("2"), says("3")]) as server:
        model = model_at(server)
        assert [asked(model).content for _ in range(3)] == ["1", "2", "3"]


def test_a_redirect_is_not_followed():
    with ChatServer([says("stolen")]) as other:
        moved = fails(307, headers=(("Location", f"{other.url}/chat/completions"),))
        with ChatServer([moved]) as server, pytest.raises(AnsweredError):
            asked(model_at(server, CREDENTIAL))
        assert other.requests == []


def test_a_conversation_with_tools_is_sent_in_the_protocols_form():
    wanted = AIMessage(
        content="", tool_calls=[{"id": "c1", "name": "search", "args": {"self": 1, "config": None}}]
    )
    history = [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        wanted,
        ToolMessage("found", tool_call_id="c1", name="search"),
    ]
    with ChatServer([says("ok")]) as server:
        asked(model_at(server), history)
        assert server.complaints == []
        sent = server.requests[0].messages
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    arguments = sent[2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"self": 1, "config": None}


def test_tool_calls_as_models_write_them(subtests):
    for stream in [False, True]:
        for wanted, arguments, error in [
            (call("t", {"a": 1}), {"a": 1}, None),
            (call("t", ""), {}, None),
            (call("t", "null"), {}, None),
            (call("t", '{"text": "two\nlines"}'), {"text": "two\nlines"}, None),
            (call("t", "[1, 2]"), None, "must be a JSON object"),
            (call("t", "17"), None, "must be a JSON object"),
            (call("t", '"{}"'), {}, None),
            (call("t", '"{"'), None, "not valid JSON"),
            (call("t", '"text"'), None, "must be a JSON object"),
            (call("t", '{"a": 1'), None, "not valid JSON"),
            (call("t", "a=1"), None, "not valid JSON"),
            (call(None, {"a": 1}), {"a": 1}, None),
            (call("", "nope"), None, "not valid JSON"),
        ]:
            with subtests.test(stream=stream, wanted=wanted, arguments=arguments, error=error):
                with ChatServer([calls(wanted, text="Well")]) as server:
                    model = model_at(server)
                    message = asked(model, on_text=(lambda _: None) if stream else None)
                settled, [found] = settle(message, taken=set())
                assert found.arguments == arguments
                assert (found.error is None) == (error is None)
                assert error is None or error in found.error
                assert found.name == (wanted["function"]["name"] or "")
                assert settled.content == "Well"
                assert settled.tool_calls[0]["args"] == (arguments or {})
                assert settled.tool_calls[0]["id"] == found.id == "call_1"
                assert settled.invalid_tool_calls == []


def test_arguments_that_are_an_object_instead_of_its_text():
    odd = {"id": "c", "type": "function", "function": {"name": "t", "arguments": {"a": [1]}}}
    with ChatServer([calls(odd)]) as server:
        message = asked(model_at(server))
    assert message.tool_calls[0]["args"] == {"a": [1]}


def test_many_odd_calls_in_one_answer_are_all_kept():
    odd = [call("a", "[]"), call("b", {"x": 1}), {"id": 7, "type": "function"}, call("c", "{")]
    with ChatServer([calls(*odd)]) as server:
        message = asked(model_at(server))
    settled, found = settle(message, taken=set())
    assert sorted(each.name for each in found) == ["", "a", "b", "c"]
    assert len(settled.tool_calls) == 4
    assert len({each.id for each in found}) == 4


def test_ids_are_made_unique():
    same = [call("a", {}, id="x"), call("b", {}, id="x"), call("c", {}, id="")]
    with ChatServer([calls(*same)]) as server:
        message = asked(model_at(server))
    taken = {"x_2"}
    settled, found = settle(message, taken=taken)
    ids = [each.id for each in found]
    assert ids[0] == "x"
    assert len(set(ids)) == 3
    assert "" not in ids
    assert "x_2" not in ids
    assert [each["id"] for each in settled.tool_calls] == ids
    assert taken >= set(ids)


def test_a_refusal_is_kept():
    with ChatServer([refuses("I will not.")]) as server:
        message = asked(model_at(server))
    assert message.additional_kwargs["refusal"] == "I will not."


def test_settings_survive_the_port():
    route = model_route("https://host/v1/", credential="prod", headers=(("X-Team", "blue"),))
    settings = ChatModelSettings(route=route, model="m", temperature=0.0, token_limit=5, more={"seed": 1})
    document = json.loads(json.dumps(settings.to_json()))
    assert ChatModelSettings.from_json(document) == settings
    assert settings.base_url == "https://host/v1"


@pytest.mark.parametrize(
    "document",
    [{}, {"route": 1, "model": "m"}, {"route": "https://h", "model": None}, {"route": "https://h"}, []],
)
def test_a_document_of_somebody_else_is_an_error(document):
    with pytest.raises(SettingInvalid, match="cannot be read"):
        ChatModelSettings.from_json(document)


@pytest.mark.parametrize("change", [{"temperature": -1.0}, {"temperature": float("nan")}, {"token_limit": 0}])
def test_numbers_that_cannot_work(change):
    with pytest.raises(SettingInvalid):
        ChatModelSettings(route=model_route("https://host/v1"), model="m", **change)


def test_a_header_that_cannot_be_sent_names_the_nodes_setting():
    with pytest.raises(SettingInvalid, match="looks like a secret") as caught:
        model_route("https://host/v1", headers=(("Authorization", f"Bearer {KEY}"),))
    assert caught.value.setting == "extra_headers"


def test_the_list_of_models():
    with ChatServer(models=["b", "a", "b"]) as server:
        assert list_models(Endpoint(model_route(server.url), None), seconds=30) == ("a", "b")
    for body in (b"[]", b"{}", b"no", b'{"data": 1}', b'{"data": [1, {"id": null}]}', b"[" * 100_000):
        with ChatServer(models_turn=says(None, body=body)) as server:
            assert not list_models(Endpoint(model_route(server.url), None), seconds=30)


def test_a_silent_name_service_does_not_hold_the_process(monkeypatch):
    answered, before = threading.Event(), set(threading.enumerate())
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(30) and [])
    try:
        with pytest.raises(ModelUnreachable, match="did not answer"):
            list_models(Endpoint(model_route("http://models.example/v1"), None), seconds=0.5)
        waiting = set(threading.enumerate()) - before
        # Others, such as an executor's, would be joined at the end of the process.
        assert [(thread.name, thread.daemon) for thread in waiting] == [("models", True)]
    finally:
        answered.set()


def test_the_scripted_endpoint_as_a_command(tmp_path):
    script = tmp_path / "script.json"
    turns = [{"fails": 503}, {"calls": [["search", {"q": 1}]], "text": "Well"}, {"says": "Hello"}]
    script.write_text(json.dumps(turns), encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.chat_server", str(script)]
    with commands.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        model = model_at(None, url=process.stdout.readline().strip())
        tools = Functions(search=lambda arguments, _: str(arguments["q"]))
        outcome = run_agent(model, tools, [HumanMessage("Hi")])
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    assert outcome.text == "Hello"
    assert [message.type for message in outcome.messages] == ["human", "ai", "tool", "ai"]
