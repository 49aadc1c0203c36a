"""Runs that go on after they were interrupted: what was done is not done again, whatever it was."""

import json
from contextlib import contextmanager

import pytest

from knime_mcp.audit.journal_reading import read_journal
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.audit.verify import verify_file
from knime_mcp.graph import Hooks, McpGraphApi
from knime_mcp.graph.approvals import Decision
from knime_mcp.graph.durable_runs import CannotGoOn, Noted, arguments_to_go_on, earlier_runs
from knime_mcp.graph.graph_service import REPEAT_KEY
from knime_mcp.runs.engine import new_run
from knime_mcp.runs.resuming import JournalAltered, learn_unknown, to_resume
from tests.graph.graphs import ENTRY, EXIT, load, tool, transform, yaml
from tests.support.scripted_server import ScriptedServer, modern, rpc, text
from tests.support.scripted_server import tool as listed


def pay(node, n, following, more=""):
    return f"{{id: {node}, type: mcp, server: s, tool: pay, args: {{n: {n}}}, next: {following}{more}}}"


INNER = tool(
    ENTRY,
    pay("x", "{expr: entry.n}", "again"),
    "{id: again, type: switch, conditions: [{rule: {'<': [{var: $executionCount('x')}, 2]}, next: x}],"
    " next: y}",
    transform("{'paid': $nodeExecutions('x').n}", node="y"),
    EXIT,
    name="inner",
)
OUTER = tool(
    ENTRY,
    pay("x", "1", "chance"),
    transform("{'r': $random(), 'at': $millis()}", node="chance", following="each"),
    "{id: each, type: forEach, items: '[10..12]', do: one, next: ask, maxConcurrency: 2}",
    pay("one", "{expr: each.item}", "ask"),
    "{id: ask, type: approve, message: Go on?, next: fan}",
    "{id: fan, type: parallel, branches: [left, right], next: fails}",
    pay("left", "{expr: '$round($random() * 1000) + 1000'}", "fails"),
    "{id: right, type: tool, tool: inner, args: {n: 30}, next: fails}",
    pay("fails", "666", "out", ", onError: instead"),
    pay("instead", "40", "out"),
    transform("{'x': x, 'chance': chance, 'each': each, 'ask': ask, 'fan': fan, 'i': instead}", node="out"),
    EXIT,
)


@contextmanager
def paying(hints=None):
    """A server that pays, and refuses to pay 666."""

    def answer(request):
        n = request.params["arguments"]["n"]
        return rpc({**text(json.dumps({"n": n})), "isError": n == 666})(request)

    dialogue = modern(
        tools__list=rpc({"tools": [listed("pay", annotations=hints or {})]}), tools__call=answer
    )
    with ScriptedServer(dialogue) as server:
        yield server


def paid(server):
    return sorted(request.params["arguments"]["n"] for request in server.named("tools/call"))


def document(server, *tools):
    servers = f"mcpServers:\n  s: {{type: streamableHttp, url: {server.url!r}}}\n"
    return load(yaml(*(tools or (OUTER, INNER)), servers=servers))


def runs(graph, journal, *, resume=False, repeat=False, given=None, approve=None, is_canceled=None, name="t"):
    """Runs the tool, with its journal, or goes on with the only run in it."""
    run = new_run(None)
    content = to_resume(journal) if resume else None
    with run, McpGraphApi(graph, run=None) as plain:
        known = plain.secrets
    run.open_journal(journal, about="t", append=journal.exists(), after=content and content.chain)
    with run, McpGraphApi(graph, run=run) as api:
        durable, arguments = None, given or {}
        if content is not None:
            earlier = only_run(journal)
            arguments = arguments_to_go_on(
                graph, earlier, content, given or {}, known=known, repeat_unknown=repeat
            )
            learn_unknown(earlier.unknown(content), run)
            definition = graph.tool(name)
            durable = api.durable(
                definition, arguments, id=earlier.id, earlier=earlier, repeat_unknown=repeat
            )
        hooks = Hooks(approve=approve or (lambda _: Decision(approved=True, by="Ada")))
        return api.executor.run(name, arguments, hooks=hooks, is_canceled=is_canceled, durable=durable).result


def only_run(journal):
    (name,) = earlier_runs(journal)
    return earlier_runs(journal, name)[name]


def cut(journal, lines, to):
    """A journal of a process that was killed after so many lines."""
    to.write_bytes(b"".join(lines[:journal]))
    return to


def test_a_run_killed_anywhere_goes_on_and_does_nothing_twice(tmp_path):
    whole = tmp_path / "whole.jsonl"
    with paying() as server:
        graph = document(server)
        result = runs(graph, whole)
        first = paid(server)
        lines = whole.read_bytes().splitlines(keepends=True)
        began = next(i for i, line in enumerate(lines) if b'"kind":"graph"' in line)
        ended = next(i for i, line in enumerate(lines) if b'"kind":"result"' in line)
        for number in range(began + 1, ended + 1):
            journal = cut(number, lines, tmp_path / f"{number}.jsonl")
            done = [json.loads(line) for line in lines[:number]]
            keys = {entry["key"]: entry["row"] for entry in done if entry["kind"] == "sent"}
            rows = {f"{entry['graph']}/{entry['place']}" for entry in done if entry.get("part") == "reply"}
            ends = {entry["key"] for entry in done if entry["kind"] == "call"}
            unknown = {row for key, row in keys.items() if key not in ends and row not in rows}
            before = len(server.named("tools/call"))
            if unknown:
                with pytest.raises(CannotGoOn) as caught:
                    runs(graph, journal, resume=True)
                assert all(row in caught.value.what for row in unknown)
                assert all(way in (caught.value.fix or "") for way in ("--repeat-unknown", REPEAT_KEY))
                assert len(server.named("tools/call")) == before
            asked = []

            def approve(question, asked=asked):
                asked.append(question)
                return Decision(approved=True, by="Ada")

            again = runs(graph, journal, resume=True, repeat=bool(unknown), approve=approve)
            requests = server.named("tools/call")[before:]
            made = [request.params["arguments"]["n"] for request in requests]
            sent = {request.params["_meta"]["knime-mcp/idempotency-key"] for request in requests}
            assert {key for key, row in keys.items() if row in unknown} <= sent
            parts = {entry["part"] for entry in done if entry["kind"] == "node"}
            places = {entry["place"] for entry in done if entry["kind"] == "node"}
            kept = [reply(entry) for entry in done if entry.get("part") == "reply"]
            kept += [666] if "error" in parts else []
            assert fixed(made + kept) == fixed(first), number
            assert bool(asked) is ("decision" not in parts)
            assert again["each"] == result["each"]
            assert again["chance"] == result["chance"] or "chance" not in places
            assert again["fan"] == result["fan"] or "fan[left]/left" not in places
            assert verify_file(journal).verdict is Verdict.TRUNCATED


def reply(entry):
    """What was paid, by a line of the journal."""
    return json.loads(json.loads(entry["value"])["content"][0]["text"])["n"]


def fixed(numbers):
    """Those that do not depend on chance."""
    return sorted(n for n in numbers if not 1000 <= n <= 2000)


ASK = "{id: ask, type: approve, message: Go on?, next: y}"
SHORT = tool(ENTRY, pay("x", "1", "ask"), ASK, pay("y", "2", "exit"), EXIT)
RENAMED = SHORT.replace("id: x,", "id: z,").replace("next: x}", "next: z}")


def interrupted(server, journal, *tools, **options):
    """A run that ended while a person was asked."""

    def killed(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs(document(server, *(tools or (SHORT,))), journal, approve=killed, **options)


def test_a_run_that_waited_for_a_person_asks_again_and_only_until_somebody_has_decided(tmp_path):
    journal, asked = tmp_path / "j.jsonl", []

    def approve(question):
        asked.append(question.message)
        return Decision(approved=True, by="Ada")

    with paying() as server:
        interrupted(server, journal)
        assert runs(document(server, SHORT), journal, resume=True, approve=approve) == {"n": 2}
        assert asked == ["Go on?"]
        assert runs(document(server, SHORT), journal, resume=True, approve=approve) == {"n": 2}
        assert (asked, paid(server)) == (["Go on?"], [1, 2])
    content = read_journal(journal)
    assert [record.input_row.split("/")[1] for record in content.records] == ["x", "y"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (SHORT.replace("n: 2", "n: 3"), "node 'y' of the tool 't' changed"),
        (RENAMED, "node 'z' of the tool 't' was added; node 'x'"),
        (SHORT.replace("{type: object}", "{type: object, maxProperties: 3}", 1), "tool 't' changed"),
        (SHORT.replace("name: t", "name: other"), "no tool 't' any more"),
    ],
)  # fmt: skip
def test_another_document_is_refused_with_what_is_otherwise(tmp_path, changed, said):
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        interrupted(server, journal)
        with pytest.raises(CannotGoOn, match=said):
            runs(document(server, changed), journal, resume=True)
        with pytest.raises(CannotGoOn, match="other arguments"):
            runs(document(server, SHORT), journal, resume=True, given={"a": 1})
        assert paid(server) == [1]


SECRET = SHORT.replace("{type: object}", "{type: object, properties: {pin: {format: password}}}", 1).replace(
    "args: {n: 2}", "args: {n: 2, pin: {expr: entry.pin}, again: {expr: x.n}}"
)


def test_secret_arguments_are_given_again(tmp_path):
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        interrupted(server, journal, SECRET, given={"pin": "canary-7f3a9c51d2-81e6"})
        assert "canary-7f3a9c51d2-81e6" not in journal.read_text("utf-8")
        with pytest.raises(CannotGoOn, match="secret arguments: /pin"):
            runs(document(server, SECRET), journal, resume=True)
        with pytest.raises(CannotGoOn, match="other arguments"):
            runs(document(server, SECRET), journal, resume=True, given={"pin": "another"})
        runs(document(server, SECRET), journal, resume=True, given={"pin": "canary-7f3a9c51d2-81e6"})
        last = server.named("tools/call")[-1].params["arguments"]
        assert last == {"n": 2, "pin": "canary-7f3a9c51d2-81e6", "again": 1}


def test_a_reply_with_a_secret_is_as_it_was(tmp_path):
    echo = (
        "{id: x, type: mcp, server: s, tool: pay, args: {n: {expr: entry.pin}}, next: ask}",
        ASK,
        transform("{'n': x.n}", node="y"),
    )
    echoing = tool(ENTRY, *echo, EXIT, schema="{type: object, properties: {pin: {format: password}}}")
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        interrupted(server, journal, echoing, given={"pin": "canary-7f3a9c51d2-81e6"})
        assert "canary-7f3a9c51d2-81e6" not in journal.read_text("utf-8")
        again = runs(document(server, echoing), journal, resume=True, given={"pin": "canary-7f3a9c51d2-81e6"})
        assert (again, paid(server)) == ({"n": "canary-7f3a9c51d2-81e6"}, ["canary-7f3a9c51d2-81e6"])


def test_a_reply_with_a_secret_that_nobody_gives_leads_on_no_other_way(tmp_path):
    node = "{id: x, type: mcp, server: s, tool: pay, args: {n: {expr: entry.pin}}, next: ask, onError: ask}"
    noted = Noted(value={"n": "⟨secret 0123456789ab⟩"}, salt="00" * 16, digests=("0123456789ab",))
    graph_tool = tool(ENTRY, node, ASK, transform("x", node="y"), EXIT)
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        graph = document(server, graph_tool)
        interrupted(server, journal, graph_tool, given={"pin": "1"})
        earlier = only_run(journal)
        earlier.noted["x", "reply"] = noted
        run = new_run(None)
        run.open_journal(tmp_path / "k.jsonl", about="t")
        with run, McpGraphApi(graph, run=run) as api:
            durable = api.durable(graph.tool("t"), {"pin": "1"}, earlier=earlier)
            with pytest.raises(CannotGoOn, match="held 1 secrets"):
                api.executor.run("t", {"pin": "1"}, durable=durable)


def test_errors_after_which_a_run_went_on_are_taken_too(tmp_path):
    retrying = tool(
        ENTRY,
        pay("x", "666", "ask", ", retry: {attempts: 3, delay: 0.01, toolErrors: true}, onError: ask"),
        ASK,
        transform("{'why': x.error.message}", node="y"),
        EXIT,
    )
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        interrupted(server, journal, retrying)
        assert paid(server) == [666] * 3
        again = runs(document(server, retrying), journal, resume=True)
        assert paid(server) == [666] * 3
        assert "'pay'" in again["why"]


def test_an_altered_journal_is_refused(tmp_path):
    journal = tmp_path / "j.jsonl"
    with paying() as server:
        interrupted(server, journal)
        journal.write_text(journal.read_text("utf-8").replace('\\"n\\": 1', '\\"n\\": 9'), "utf-8")
        with pytest.raises(JournalAltered):
            runs(document(server, SHORT), journal, resume=True)


def test_what_may_be_repeated_is_never_unknown(tmp_path):
    journal = tmp_path / "j.jsonl"
    with paying({"idempotentHint": True}) as server:
        interrupted(server, journal)
        lines = journal.read_bytes().splitlines(keepends=True)
        assert not any(b'"kind":"sent"' in line for line in lines)
        short = cut(2, lines, tmp_path / "short.jsonl")  # killed in its first call
        assert runs(document(server, SHORT), short, resume=True) == {"n": 2}
        assert paid(server) == [1, 1, 2]
