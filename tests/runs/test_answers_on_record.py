"""What the record of a call says about its answer and how often it was sent."""

import gc
import json

import pytest

from knime_mcp.audit.record import CallStatus
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.authorization import BearerAuth
from knime_mcp.client.conversation import memory
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Definitions, Pinning
from knime_mcp.runs.engine import CallInProgress, Run
from knime_mcp.tools import Limits, MCPClient
from knime_mcp.types.tool import MCPTool
from tests.support.scripted_server import (
    Part,
    ScriptedServer,
    http,
    initialize,
    legacy,
    modern,
    rpc,
    rpc_error,
    text,
    tool,
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(autouse=True)
def _nothing_remembered():
    memory.clear()


def outcome_of(script, *, listed=False, **arguments):
    with ScriptedServer(script) as server:
        pool = SessionPool(lambda route: MCPClient(route.url, limits=Limits(attempts=3)))
        with pool:
            run = Run(
                id="r",
                pool=pool,
                definitions=Definitions(pool),
                secrets=SecretMarker(["s3cr3t-value"]),
                pinning=Pinning.WARN,
            )
            chosen = MCPTool("echo", "Echoes.", {"type": "object"}, server.url, "echo")
            if listed:  # as for every tool that is pinned
                pool.client(chosen.route).list_tools()
            return run.call(PlannedCall(tool=chosen, arguments=arguments))


def test_nothing_of_a_call_waits_for_the_garbage_collector():
    """Or many rows take more memory than few, and time for collecting."""
    gc.collect()
    gc.disable()
    before = {id(found) for found in gc.get_objects() if type(found) is CallInProgress}  # of other threads
    try:
        assert outcome_of(modern()).record.ok
        assert {id(found) for found in gc.get_objects() if type(found) is CallInProgress} <= before
    finally:
        gc.enable()


def test_a_result_that_violates_its_schema_is_kept_beside_the_error():
    wrong = text("three, s3cr3t-value", structuredContent={"n": "3", "k": "s3cr3t-value"})
    listing = rpc({"tools": [tool("echo", outputSchema=SCHEMA)], "resultType": "complete"})
    script = modern(tools__list=listing, tools__call=rpc(wrong | {"resultType": "complete"}))
    outcome = outcome_of(script, listed=True)
    record = outcome.record
    assert record.status is CallStatus.FAILED
    assert "violates its own output schema" in record.error
    assert "must be an integer" in record.error
    assert record.result.startswith("three, ")
    assert json.loads(record.structured_result)["n"] == "3"
    assert "s3cr3t" not in record.result + record.structured_result + record.error
    assert (record.attempts, record.protocol, record.server_version) == (1, "2026-07-28", "2")
    assert type(outcome.error).__name__ == "ResultInvalid"


@pytest.mark.parametrize(
    ("script", "status", "attempts"),
    [
        (modern(), "ok", 1),
        (modern(tools__call=[http(429), rpc(text("ok"))]), "ok", 2),
        (modern(tools__call=[Part.CLOSE]), "outcome unknown", 1),
        (modern(tools__call=http(429)), "failed", 3),
        (modern(tools__call=rpc(text("no", isError=True))), "tool error", 1),
        (
            modern(tools__call=[rpc({"resultType": "input_required", "requestState": "x"}), rpc(text("ok"))]),
            "ok",
            2,
        ),
        (
            legacy(
                initialize=[initialize(session="a"), initialize(session="b")],
                tools__call=[rpc_error(-32600, "no such session", status=404), rpc(text("ok"))],
            ),
            "ok",
            2,
        ),
        ({"*": [Part.CLOSE]}, "failed", 0),
    ],
)
def test_how_often_a_call_was_sent(script, status, attempts):
    record = outcome_of(script).record
    assert (record.status.value, record.attempts) == (status, attempts)


class Renewed(BearerAuth):
    """A token that is another one after the server has refused it."""

    def challenged(self, status, challenge, is_canceled=None, /):
        is_new = self.token != "n3w-t0ken"
        object.__setattr__(self, "token", "n3w-t0ken")
        return is_new


def test_a_secret_that_becomes_known_during_the_call_is_marked_in_what_was_sent_before():
    script = modern(tools__call=[http(401), rpc(text("n3w-t0ken") | {"resultType": "complete"})])
    pool = SessionPool(lambda route: MCPClient(route.url, auth=Renewed("0ld-t0ken")))
    with ScriptedServer(script) as server, pool:
        run = Run(id="r", pool=pool, definitions=Definitions(pool), secrets=SecretMarker())
        chosen = MCPTool("echo", "Echoes.", {"type": "object"}, server.url, "echo")
        record = run.call(PlannedCall(tool=chosen, arguments={"a": "n3w-t0ken"})).record
    assert record.ok
    assert json.loads(record.arguments)["a"].startswith("⟨secret ")
    assert record.result.startswith("⟨secret ")
