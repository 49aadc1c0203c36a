"""Replay against a real server: verdicts, what is called and what is not, changed and missing tools."""

import dataclasses
import json
import threading

import jsonpatch
import pytest

from knime_mcp.audit.calls_table import calls_table
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.verdicts import Verification
from knime_mcp.runs.replay_comparison import ReplayRules, document_of
from knime_mcp.runs.replaying import (
    RecordedCall,
    Replayer,
    ReplayOptions,
    ReplaySummary,
    RowSelection,
    read_recording,
    recording_of,
)
from knime_mcp.types.errors import Canceled
from knime_mcp.types.texts import canonical_json
from tests.support import peers
from tests.support.recordings import record_calls, replay, replayed_server, running

pytestmark = pytest.mark.requirement("T49")


@pytest.fixture
def recorded(replayed, tmp_path):
    """A run at /base; called with more arguments, another one."""

    def record(*calls, path="/base", **options):
        file = tmp_path / "run.jsonl"
        file.unlink(missing_ok=True)
        record_calls(file, replayed.url(path), *([calls] if calls else []), **options)
        return list(read_recording(file).calls)

    return record


def text_of(path):
    return path.read_text("utf-8") if path.exists() else ""


def test_every_call_has_a_verdict_and_nothing_is_changed(recorded, notes):
    calls = recorded()
    before = text_of(notes)
    found = replay(calls)
    assert found.verdicts == [
        ("add", "same"),
        ("count", "different"),
        ("note", "skipped"),
        ("items", "different"),
        ("fail", "same"),
        ("add", "same"),  # arguments that do not fit, then as now
    ]
    assert text_of(notes) == before
    skipped = found.of("note")
    assert skipped.new is None
    assert skipped.reason == "The tool is not declared as read-only. The arguments fit its present definition"


def test_only_calls_that_reached_the_server_count_as_made(recorded):
    summary = ReplaySummary(Verification((), ()))
    for call in replay(recorded()).calls:
        summary.add(call)
    assert summary.counts.total() == 6
    assert summary.called == 4  # not the skipped one, nor that whose arguments do not fit


def test_patches_are_correct(recorded):
    found = replay(recorded())
    for name in ("count", "items"):
        call = found.of(name)
        before, now = (document_of(record) for record in (call.recorded.record, call.new))
        assert canonical_json(jsonpatch.apply_patch(before, json.loads(call.patch))) == canonical_json(now)
    paths = {operation["path"] for operation in found.patch("items")}
    assert "/structured_result/items/0/id" in paths
    assert "/structured_result/items/0/name" not in paths


def test_rules_pass_over_what_they_name(recorded):
    calls = recorded()
    rules = ReplayRules.parse(["/at", "/items/*/id", r"re:call \d+", ""])
    assert {verdict for _, verdict in replay(calls, rules=rules).verdicts} == {"same", "skipped"}
    only = ReplayRules.parse(["/structured_result/at"])
    assert replay(calls, rules=only).of("items").verdict == "different"


def test_a_named_tool_is_called(recorded, notes):
    calls = recorded()
    before = text_of(notes).count("hello")
    found = replay(calls, also_call=("no*",))
    assert found.of("note").verdict == "same"
    assert text_of(notes).count("hello") == before + 1


def test_a_dry_run_calls_nothing(recorded, notes):
    calls = recorded()
    before = text_of(notes)
    found = replay(calls, dry_run=True, also_call=("*",))
    assert {verdict for _, verdict in found.verdicts} == {"skipped"}
    assert all(call.new is None for call in found.calls)
    assert text_of(notes) == before


def test_only_some_rows(recorded):
    found = replay(recorded(), rows=RowSelection.parse("1, 4-5"))
    chosen = [call.recorded.record.call for call in found.calls if call.reason != "Not among the chosen rows"]
    assert chosen == [1, 4, 5]


def test_stop_at_the_first_difference(recorded):
    found = replay(recorded(), stop_at_first_difference=True, concurrency=8)
    assert [verdict for _, verdict in found.verdicts] == ["same", "different", *["skipped"] * 4]
    assert found.calls[-1].reason == "The replay was to stop at the first difference"


@pytest.mark.parametrize(
    ("variant", "changed"),
    [
        ("described", "description"),
        ("schema", "parameters"),
        ("annotated", "annotations"),
        ("destructive", "annotations"),
    ],
)
def test_a_tool_that_changed_is_not_called(recorded, replayed, variant, changed):
    calls = recorded()
    servers = {replayed.url("/base"): replayed.url(f"/{variant}")}
    add = replay(calls, servers=servers).of("add")
    assert add.verdict == "tool changed"
    assert add.changes == (changed,)
    assert add.new is None
    assert changed in add.reason
    called = replay(calls, servers=servers, call_changed=True).of("add")
    wanted = {"described": "same", "schema": "different", "annotated": "skipped", "destructive": "skipped"}
    assert called.verdict == wanted[variant]
    assert changed in called.reason or called.verdict == "skipped"
    assert called.changes == (changed,)


def test_a_server_that_says_it_is_read_only_now_is_not_believed(recorded, replayed, notes):
    """A new annotation is a change, and a tool that changed is not called."""
    calls = recorded(("add", {"a": 1}), path="/annotated")
    add = replay(calls, servers={replayed.url("/annotated"): replayed.url("/base")}).of("add")
    assert (add.verdict, add.new) == ("tool changed", None)


def test_a_renamed_tool_is_missing_and_its_new_name_is_told(recorded, replayed):
    found = replay(recorded(), servers={replayed.url("/base"): replayed.url("/renamed")})
    add = found.of("add")
    assert add.verdict == "tool missing"
    assert "renamed: 'sum' has its description and parameters" in add.reason
    assert "--tool add=sum" in add.reason
    assert found.of("fail").verdict == "same"


def test_a_renamed_tool_of_which_a_person_says_the_new_name(recorded, replayed):
    servers = {replayed.url("/base"): replayed.url("/renamed")}
    found = replay(recorded(), servers=servers, tools={"add": "sum"})
    assert (found.of("add").verdict, found.of("add").reason) == ("same", None)
    assert found.of("add").new.tool_name == "add"
    wrong = replay(recorded(), servers=servers, tools={"add": "total"}).of("add")
    assert wrong.verdict == "tool missing"
    assert "no tool 'total'" in wrong.reason
    other = replay(recorded(), servers=servers, tools={"add": "count"}).of("add")
    assert other.verdict == "tool changed"
    assert "parameters" in other.changes


def test_a_new_name_hides_no_other_change(recorded, replayed):
    """Also where the name is not new at all, and where the table has lost what the tool was like."""
    servers = {replayed.url("/base"): replayed.url("/described")}
    assert replay(recorded(), servers=servers, tools={"add": "add"}).of("add").changes == ("description",)
    bare = [dataclasses.replace(call, tool=None) for call in recorded()]
    renamed = {replayed.url("/base"): replayed.url("/renamed")}
    lost = replay(bare, servers=renamed, tools={"add": "sum"}).of("add")
    assert (lost.verdict, lost.changes) == ("tool changed", ("definition",))


def test_a_server_that_is_gone(recorded):
    calls = recorded()
    found = replay(calls, servers={calls[0].record.server: "http://127.0.0.1:9/mcp"})
    assert {verdict for _, verdict in found.verdicts} == {"failed"}
    assert "127.0.0.1:9" in found.calls[0].reason


def test_a_server_that_changed_in_place(tmp_path):
    """The same address, an update between recording and replay, and then nothing there any more."""
    with peers.running(replayed_server(tmp_path / "notes.txt")) as server:
        record_calls(tmp_path / "run.jsonl", server.url("/mcp"))
        calls = read_recording(tmp_path / "run.jsonl").calls
        server.command = [*server.command[:-1], "schema"]
        server.restart()
        assert replay(calls).of("add").verdict == "tool changed"
        server.kill()
        assert {verdict for _, verdict in replay(calls).verdicts} == {"failed"}


def test_a_table_that_lost_its_tools(recorded):
    """What a CSV file keeps: the name that people saw, the server, the digest."""
    calls = recorded(prefix="test-")
    bare = [dataclasses.replace(call, tool=None) for call in calls]
    found = replay(bare)
    assert [verdict for _, verdict in found.verdicts] == [
        "same",
        "different",
        "skipped",
        "different",
        "same",
        "same",
    ]
    without = [
        dataclasses.replace(call, record=dataclasses.replace(call.record, digest=None)) for call in bare
    ]
    assert replay(without).of("test-add").verdict == "tool missing"


def test_secrets_are_asked_for(recorded):
    calls = recorded(("login", {"user": "anna", "password": "hunter2-secret"}))
    assert "hunter2" not in str(calls[0].record)
    skipped = replay(calls).of("login")
    assert skipped.verdict == "skipped"
    assert "/password" in skipped.reason
    mark = json.loads(calls[0].record.arguments)["password"].split()[1].rstrip("⟩")
    given = replay(calls, secrets={mark: "hunter2-secret"}).of("login")
    assert given.verdict == "same"
    assert "hunter2" not in str(given.new)
    assert given.reason is None
    other = replay(calls, secrets={mark: "an0ther-0ne-2"}).of("login")
    assert (other.verdict, other.reason) == ("same", "Not the same secret as on record: /password")


def test_what_a_person_wrote_is_no_mark(recorded):
    """Nor is what somebody wrote into the file; a table that lost the column says not what is a mark."""
    (call,) = recorded(("login", {"user": "⟨secret 0123456789ab⟩", "password": "hunter2-secret"}))
    fields = json.loads(call.record.secrets)
    assert list(fields["arguments"]) == ["/password"]
    (mark,) = fields["arguments"]["/password"]
    same = replay([call], secrets={mark: "hunter2-secret"}).of("login")
    assert (same.verdict, same.reason) == ("same", None)
    lost = replay([dataclasses.replace(call, has_secrets=False)], secrets={mark: "x"}).of("login")
    assert lost.verdict == "skipped"
    assert "/user (0123456789ab)" in lost.reason


@pytest.mark.long
def test_results_of_twenty_megabytes_are_compared(recorded):
    calls = recorded(("big", {"megabytes": 20}), ("big", {"megabytes": 20, "letter": "y"}))
    assert [verdict for _, verdict in replay(calls).verdicts] == ["same", "same"]
    changed = [
        dataclasses.replace(
            call, record=dataclasses.replace(call.record, result=f"{call.record.result[:-1]}z")
        )
        for call in calls
    ]
    found = replay(changed)
    assert [verdict for _, verdict in found.verdicts] == ["different"] * 2
    (operation,) = json.loads(found.calls[0].patch)
    assert (operation["op"], operation["path"], len(operation["value"])) == ("replace", "/result", 20 << 20)


def test_recorded_order_whatever_the_order_of_the_table(recorded):
    calls = recorded(*[("add", {"a": number}) for number in range(40)])
    table = calls_table(call.record for call in reversed(calls))
    found = replay(recording_of(table).calls, concurrency=8)
    assert [call.recorded.record.call for call in found.calls] == list(range(1, 41))
    assert {call.verdict.value for call in found.calls} == {"same"}


def test_a_writing_call_waits_for_those_before_it(recorded):
    """`count` tells the order in which calls arrived at the server."""
    many = [("count", {})] * 8
    calls = recorded(*many, ("note", {"text": "between"}), *many)
    found = replay(calls, concurrency=8, also_call=("note",))
    numbers = [int(call.new.result.split()[1]) for call in found.calls if call.new.result.startswith("call")]
    assert max(numbers[:8]) < min(numbers[8:])


def test_what_was_not_made_is_not_made_now():
    records = [
        CallRecord(run="r", call=1, status=CallStatus.DENIED, tool_name="t", server="http://h/mcp"),
        CallRecord(run="r", call=2, status=CallStatus.CANCELED, tool_name="t", server="http://h/mcp"),
        CallRecord(run="r", call=3, status=CallStatus.OK, tool_name="w", tool_type="workflow"),
        CallRecord(run="r", call=4, status=CallStatus.OK, tool_name="t", arguments="{}"),
        CallRecord(run="r", call=5, status=CallStatus.OK, arguments="{}"),
        CallRecord(run="r", call=6, status=CallStatus.OK, tool_name="t", server="not a url", arguments="{}"),
    ]
    calls = [RecordedCall(record=record, tool=None, place=record.call) for record in records]
    found = replay(calls)
    assert [call.verdict.value for call in found.calls] == [
        "skipped",
        "skipped",
        "skipped",
        "failed",
        "skipped",
        "failed",
    ]
    assert "denied" in found.calls[0].reason


def test_canceling_ends_a_replay_and_is_told_once(recorded):
    calls = recorded(*[("add", {"a": number}) for number in range(30)])
    stop = threading.Event()
    with running("again") as run:
        told = []
        replayer = Replayer(
            run,
            ReplayOptions(concurrency=2),
            is_canceled=stop.is_set,
            on_cancel=lambda: told.append(1),
        )
        replaying = replayer.replay(calls)
        assert [next(replaying).recorded.record.call for _ in range(5)] == [1, 2, 3, 4, 5]
        stop.set()
        with pytest.raises(Canceled):
            list(replaying)
    assert told == [1]


@pytest.mark.parametrize("knows_server", [True, False], ids=["with a server", "only a name"])
def test_a_tool_that_was_not_found(recorded, replayed, knows_server):
    """A name that a model made up has no server: it is looked up at all servers on record."""
    (made,) = recorded(("add", {"a": 1}))
    base = replayed.url("/base")
    missing = CallRecord(
        run="r1",
        call=2,
        status=CallStatus.NOT_FOUND,
        tool_name="sum",
        server=base if knows_server else None,
        arguments='{"a":1}',
        error="There is no tool 'sum'",
    )
    calls = [made, RecordedCall.of(missing, 2)]
    assert replay(calls).verdicts == [("add", "same"), ("sum", "same")]
    there = replay(calls, servers={base: replayed.url("/renamed")}).of("sum")
    assert there.verdict.value == "different"
    assert "There was no such tool then" in there.reason
    assert "/renamed has it now" in there.reason
    assert there.new is None


@pytest.mark.parametrize("name", ["elicitation/create", "sampling/createMessage", "resources/read"])
def test_what_is_no_call_of_a_tool_is_not_made_again(recorded, name):
    first = recorded()[0]
    record = dataclasses.replace(first.record, tool=None, tool_name=name, digest=None)
    found = replay([dataclasses.replace(first, record=record, tool=None)])
    assert found.verdicts == [(name, "skipped")]
    assert found.of(name).reason == f"It is no call of a tool, but {name} of its server"
