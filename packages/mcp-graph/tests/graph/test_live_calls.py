"""Many calls, large results and endless expressions, on a server in a process of its own."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp.client import Client

from knime_mcp.types.errors import Canceled
from tests.support.waiting import until

from .graphs import call, transform
from .live import DEADLINE, ERAS, REVISIONS, SERVE, connected, graph_file, official_client, run, served

# Every run loops as often as its arguments say; what it counts must not meet what others count.
COUNTING = (
    call("echo", "{n: {expr: entry.n}}", following="wait"),
    call("sleep", "{seconds: {expr: entry.wait}}", node="wait", following="step"),
    transform("{'i': $executionCount('step') + 1}", node="step", following="again"),
    "{id: again, type: switch, conditions: [{rule: {'<': [{var: step.i}, {var: entry.loops}]}, next: step}],"
    " next: out}",
    transform(
        "{'n': entry.n, 'received': x.received.n, 'loops': $executionCount('step'),"
        " 'others': $count($nodeExecutions('x')) - 1}",
        node="out",
    ),
)


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(
    ("transport", "mode"),
    [
        *zip(("http", "stdio"), ERAS, strict=True),
        *(pytest.param(*way, marks=pytest.mark.long) for way in zip(("stdio", "http"), ERAS, strict=True)),
    ],
)
def test_a_hundred_calls_at_once_have_a_state_each(tmp_path, transport, mode):
    file = graph_file(tmp_path, *COUNTING)
    chance = random.Random(7)
    asked = [{"n": n, "loops": 1 + n % 7, "wait": round(chance.random() / 4, 3)} for n in range(100)]
    expected = [{"n": a["n"], "received": a["n"], "loops": a["loops"], "others": 0} for a in asked]

    async def calls():
        async with official_client(file, transport, mode) as client:
            found = await asyncio.gather(*[client.call_tool("t", arguments) for arguments in asked])
        assert [result.structured_content for result in found] == expected

    run(calls())


@pytest.mark.long
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_five_megabytes_through_three_transforms(tmp_path, transport):
    file = graph_file(
        tmp_path,
        call("large", "{rows: {expr: entry.rows}}", following="a"),
        transform("{'rows': x.rows, 'first': x.rows[0].id}", node="a", following="b"),
        transform("{'kept': a.rows[id >= 10], 'first': a.first}", node="b", following="c"),
        transform("{'kept': b.kept, 'count': $count(b.kept), 'first': b.first}", node="c"),
    )
    with connected(file, transport, "2025-11-25") as client:
        result = client.call_tool("t", {"rows": 50_000}, timeout=DEADLINE)
    assert not result.is_error, result.text[:500]
    assert len(result.text) > 5_000_000
    kept = result.structured_content["kept"]
    assert (result.structured_content["count"], result.structured_content["first"]) == (49_990, 0)
    assert [row["id"] for row in kept] == list(range(10, 50_000))
    assert {row["text"] for row in kept} == {"x" * 80}


ENDLESS = {
    "tail": ("$f := function($n) {$f($n + 1)}; $f(1)", "maximum execution time (3000ms)"),
    "nested": ("$f := function($n) {1 + $f($n + 1)}; $f(1)", "Stack overflow"),
    "mutual": (
        "$f := function($n) {$g($n)}; $g := function($n) {$f($n)}; $f(1)",
        "maximum execution time (3000ms)",
    ),
    "wide": ("[1..1000000].([1..1000000].(1))", "maximum execution time (3000ms)"),
}


@pytest.mark.parametrize("form", ENDLESS)
def test_an_endless_expression_ends_in_its_bounds_and_others_go_on(tmp_path, form):
    expression, said = ENDLESS[form]
    file = graph_file(
        tmp_path,
        transform(f"entry.go ? ({expression}) : {{'r': entry.v}}"),
        more="executionLimits: {maxExecutionTimeMs: 3000}\n",
    )

    async def calls(url):
        async with Client(url) as client:
            endless = [asyncio.create_task(client.call_tool("t", {"go": True})) for _ in range(2)]
            for number in range(10):
                found = await client.call_tool("t", {"v": number})
                assert found.structured_content == {"r": number}
            for result in await asyncio.gather(*endless):
                assert result.is_error
                assert said in result.content[0].text
                assert "node 'x'" in result.content[0].text

    with served(*SERVE, file, "--http", "0") as server:
        run(calls(server.url))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_progress_and_cancel_with_the_client_of_the_nodes(tmp_path, transport, revision):
    mark = tmp_path / "mark"
    file = graph_file(
        tmp_path,
        call("progress", following="y"),
        call("sleep", f"{{seconds: {{expr: entry.s}}, mark: {str(mark)!r}}}", node="y"),
    )
    with connected(file, transport, revision) as client, ThreadPoolExecutor(1) as threads:
        told = []
        client.call_tool("t", {"s": 0}, on_progress=lambda progress: told.append(progress.message))
        assert told[:2] == ["entry", "x"]
        assert "x: step 1" in told
        assert mark.read_text() == "slept"
        mark.unlink()
        canceled, waiting = threading.Event(), threading.Event()

        def heard(progress):
            if progress.message == "y":
                waiting.set()

        slow = threads.submit(
            client.call_tool, "t", {"s": 90}, on_progress=heard, is_canceled=canceled.is_set
        )
        assert waiting.wait(DEADLINE)
        canceled.set()
        with pytest.raises(Canceled):
            slow.result(30)
        until(lambda: mark.exists() and mark.read_text(), "the call was not canceled")
        assert mark.read_text() == "canceled"
        assert client.call_tool("t", {"s": 0}).structured_content == {"slept": 0}
