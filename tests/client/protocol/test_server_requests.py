import pytest
from hypothesis import given

from knime_mcp.client.protocol.messages import RpcError
from knime_mcp.client.protocol.negotiation import ServerRequests, answer_inputs
from knime_mcp.types.errors import ProtocolError
from tests.client.protocol.test_messages import json_values

FORM = {
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "x"}, "n": {"type": "integer"}, "odd": 3},
    },
}


def test_ping_is_always_answered():
    answer = ServerRequests().respond({"id": "a", "method": "ping"})
    assert answer == {"jsonrpc": "2.0", "id": "a", "result": {}}


@pytest.mark.parametrize(
    "method", ["roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "made/up"]
)
def test_what_was_not_declared_is_refused(method):
    requests = ServerRequests()
    assert requests.capabilities == {}
    answer = requests.respond({"id": 3, "method": method, "params": FORM})
    assert answer is not None
    assert answer["error"]["code"] == -32601


def test_forms_can_be_declined_or_accepted_with_their_defaults():
    assert ServerRequests("decline").answer("elicitation/create", FORM) == {"action": "decline"}
    accepting = ServerRequests("defaults")
    assert accepting.capabilities == {"elicitation": {}}
    assert accepting.answer("elicitation/create", FORM) == {"action": "accept", "content": {"name": "x"}}


@pytest.mark.parametrize("required", [["name", "n"], ["else"]])
def test_a_form_that_requires_what_has_no_default_is_declined(required):
    schema = FORM["requestedSchema"] | {"required": required}
    answer = ServerRequests("defaults").answer("elicitation/create", {"requestedSchema": schema})
    assert answer == {"action": "decline"}


@pytest.mark.parametrize("required", [["name"], [], None, "n", [["odd"], {}]])
def test_a_form_that_its_defaults_fill_is_accepted(required):
    schema = FORM["requestedSchema"] | {"required": required}
    answer = ServerRequests("defaults").answer("elicitation/create", {"requestedSchema": schema})
    assert answer == {"action": "accept", "content": {"name": "x"}}


def test_a_mode_that_was_not_declared_is_bad_parameters():
    answer = ServerRequests("defaults").answer("elicitation/create", {"mode": "url", "url": "https://x"})
    assert isinstance(answer, RpcError)
    assert answer.code == -32602


def test_input_rounds_are_answered_by_key_or_named():
    wanted = {
        "who": {"method": "elicitation/create", "params": FORM},
        "model": {"method": "sampling/createMessage", "params": {}},
        "odd": 3,
    }
    with pytest.raises(ProtocolError, match="wants a language model and None, which"):
        answer_inputs(ServerRequests("defaults"), wanted)
    who = {"who": wanted["who"]}
    assert answer_inputs(ServerRequests("defaults"), who) == {
        "who": {"action": "accept", "content": {"name": "x"}}
    }
    with pytest.raises(ProtocolError, match=r"wants input from a person \(Who\?\), which"):
        answer_inputs(ServerRequests(), who)


@given(json_values)
def test_a_form_of_any_shape_is_accepted_or_declined(params):
    answer = ServerRequests("defaults").answer("elicitation/create", {"requestedSchema": params})
    assert answer["action"] in ("accept", "decline")
    fields = params.get("properties", {}) if isinstance(params, dict) else {}
    assert set(answer.get("content", {})) <= set(fields)
