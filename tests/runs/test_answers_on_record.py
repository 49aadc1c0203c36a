"""What the record of a call says about its answer and how often it was sent."""

import gc
import hashlib
import json
import threading

import pyarrow as pa
import pytest

from knime_mcp.audit.record import CallStatus, content_digests
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.authorization import BearerAuth
from knime_mcp.client.conversation import memory
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.client.protocol.tools import TextContent
from knime_mcp.runs.argument_sources import PlannedCalls
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Definitions, Pinning
from knime_mcp.runs.engine import CallInProgress, Run
from knime_mcp.runs.parameter_rows import ParameterRows
from knime_mcp.runs.table_run import TableRun
from knime_mcp.tools import Limits, MCPClient, Timeouts
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


def run_of(pool):
    secrets = SecretMarker(["s3cr3t-value"])
    return Run(id="r", pool=pool, definitions=Definitions(pool), secrets=secrets, pinning=Pinning.WARN)


def outcome_of(script, *, listed=False, **arguments):
    with ScriptedServer(script) as server:
        pool = SessionPool(lambda route: MCPClient(route.url, limits=Limits(attempts=3)))
        with pool:
            chosen = MCPTool("echo", "Echoes.", {"type": "object"}, server.url, "echo")
            if listed:  # as for every tool that is pinned
                pool.client(chosen.route).list_tools()
            return run_of(pool).call(PlannedCall(tool=chosen, arguments=arguments))


WRONG = modern(
    tools__list=rpc({"tools": [tool("echo", outputSchema=SCHEMA)], "resultType": "complete"}),
    tools__call=rpc(
        text("three, s3cr3t-value", structuredContent={"n": "3", "k": "s3cr3t-value"}, resultType="complete")
    ),
)


def test_a_structured_result_is_on_record_in_the_servers_order():
    structured = {"zip": "1", "city": {"b": 1, "a": 2}, "age": 3}
    outcome = outcome_of(modern(tools__call=rpc(text("x", structuredContent=structured))))
    assert outcome.record.structured_result == '{"zip":"1","city":{"b":1,"a":2},"age":3}'


def test_what_misses_the_schema_is_said_and_stands_in_the_record():
    block = {"type": "chart", "x": [1], "y": ["Gewürz"]}
    outcome = outcome_of(modern(tools__call=rpc({"content": [block, block], "resultType": "complete"})))
    assert json.loads(outcome.record.result.splitlines()[0]) == block
    assert outcome.note == (
        "'echo' gives a block of type chart, which is not as the protocol wants it;"
        " what could not be read stands as JSON in the result."
    )


@pytest.mark.parametrize(("script", "status"), [(modern(), "ok"), (WRONG, "failed")])
def test_nothing_of_a_call_waits_for_the_garbage_collector(script, status):
    """Or many rows take more memory than few, and time for collecting."""
    gc.collect()
    gc.disable()
    before = {id(found) for found in gc.get_objects() if type(found) is CallInProgress}  # of other threads
    try:
        assert outcome_of(script, listed=True).record.status == status
        assert {id(found) for found in gc.get_objects() if type(found) is CallInProgress} <= before
    finally:
        gc.enable()


@pytest.mark.parametrize("concurrency", [1, 2])
def test_calls_that_run_out_of_time_while_others_are_under_way_name_the_setting(concurrency):
    with ScriptedServer(legacy(tools__call=[Part.STALL])) as server:
        chosen = MCPTool("echo", "Echoes.", {"type": "object"}, server.url, "echo")
        pool = SessionPool(lambda route: MCPClient(route.url, timeouts=Timeouts(idle=0.3)))
        table = TableRun(
            plan=PlannedCalls(tool=chosen, parameters=ParameterRows(table=pa.table({"RowID": ["a", "b"]}))),
            run=run_of(pool),
            stop=threading.Event(),
            concurrency=concurrency,
            fail=False,
            journal_file=None,
            about="",
        )
        with pool:
            table.make_calls(lambda _: None, is_canceled=lambda: False, on_finished=lambda _: None)
    assert ("lower 'concurrency'" in table.summary.warning()) is (concurrency == 2)


def test_outcomes_that_wait_for_their_row_have_no_answer_in_memory():
    taken = []
    with ScriptedServer(modern()) as server:
        chosen = MCPTool("echo", "Echoes.", {"type": "object"}, server.url, "echo")
        pool = SessionPool(lambda route: MCPClient(route.url))
        table = TableRun(
            plan=PlannedCalls(tool=chosen),
            run=run_of(pool),
            stop=threading.Event(),
            concurrency=1,
            fail=False,
            journal_file=None,
            about="",
        )
        with pool:
            table.make_calls(taken.append, is_canceled=lambda: False, on_finished=lambda _: None)
    (outcome,) = taken
    assert (outcome.record.result, outcome.answer) == ("hi", None)


@pytest.mark.parametrize("said", ["", "s", "ü\ud800" * 1_500_000], ids=["nothing", "little", "a lot"])
def test_the_digest_of_a_text_of_any_length(said):
    digest = hashlib.sha256(said.encode(errors="replace")).hexdigest()
    assert json.loads(content_digests([TextContent(said)], lambda text: text)) == [
        {"type": "text", "sha256": digest}
    ]


def test_a_result_that_violates_its_schema_is_kept_beside_the_error():
    outcome = outcome_of(WRONG, listed=True)
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
