"""The executor against a real server: order, limits, failures, retries, branches, loops, caches."""

import json
import re
import shlex
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from knime_mcp_graph import Hooks, McpGraphApi, RunError
from tests.graph.graphs import ENTRY, EXIT, call, document, load, tool, transform, yaml
from tests.graph.live import DEADLINE, PROGRAM
from tests.support.waiting import until


@pytest.fixture
def run():
    """Runs the tool t of a document with these nodes."""
    opened = []

    def run(*nodes, arguments=None, hooks=None, is_canceled=None, **options):
        api = McpGraphApi(document(ENTRY, *nodes, EXIT, **options))
        opened.append(api)
        return api.executor.run("t", arguments or {}, hooks=hooks, is_canceled=is_canceled)

    yield run
    for api in opened:
        api.close()


def failed(run, *nodes, **options):
    with pytest.raises(RunError) as caught:
        run(*nodes, **options)
    return caught.value


@pytest.mark.requirement("G1")
@pytest.mark.requirement("G9")
def test_context_and_history_of_a_loop(run):
    found = run(
        transform("{'i': $executionCount('x') + 1, 'last': $nodeExecution('x', -1).i}", following="again"),
        "{id: again, type: switch, conditions: [{rule: {'<': [{var: x.i}, 3]}, next: x}], next: out}",
        transform(
            "{'all': $nodeExecutions('x').i, 'first': $nodeExecution('x', 0).i, 'before': $previousNode(),"
            " 'two': $previousNode(2).i, 'none': $previousNode(99), 'n': $executionCount('x')}",
            node="out",
        ),
    )
    assert found.result == {
        "all": [1, 2, 3],
        "first": 1,
        "before": "out",
        "two": 3,
        "none": None,
        "n": 3,
    }
    assert [record.node_id for record in found.history] == ["entry", *["x", "again"] * 3, "out", "exit"]
    assert [record.index for record in found.history] == list(range(9))
    assert found.telemetry.by_node["x"].count == 3
    assert found.telemetry.by_type["transform"].count == 4
    assert not any(spent.errors for spent in found.telemetry.by_node.values())


@pytest.mark.parametrize(("logic", "wanted"), [("", "yes"), ("jsonLogic: standard, ", "no")])
def test_a_switch_of_the_standard_reads_paths(run, logic, wanted):
    rule = "{'==': [{var: 'entry.n + 1'}, 3]}"
    switch = f"{{id: x, type: switch, {logic}conditions: [{{rule: {rule}, next: 'yes'}}], next: 'no'}}"
    ways = [transform(f"{{'way': '{way}'}}", node=f"'{way}'") for way in ("yes", "no")]
    assert run(switch, *ways, arguments={"n": 2}).result == {"way": wanted}


def test_telemetry_counts_what_failed_and_was_caught(run):
    found = run(transform("$error('no')", onError="y"), transform("{'i': 1}", node="y"))
    assert {name: spent.errors for name, spent in found.telemetry.by_node.items() if spent.errors} == {"x": 1}


@pytest.mark.requirement("G21")
def test_time_travel_also_after_a_failure(run):
    error = failed(
        run, transform("{'i': $executionCount('x')}", following="y"), transform("$error('no')", node="y")
    )
    records = error.history
    assert records[2].context() == {"entry": {}, "x": {"i": 0}}
    assert records[1].context() == {"entry": {}}
    assert records[2].error
    assert "no" in records[2].error
    assert json.loads(json.dumps(records[2].to_json()))["error"]["message"] == records[2].error


@pytest.mark.parametrize(
    ("tool_name", "args", "wanted"),
    [
        ("text", "{text: '{\"a\": 1}'}", {"a": 1}),
        ("text", "{text: '17'}", 17),
        ("text", "{text: '1e3'}", 1000),
        ("text", "{text: 'NaN'}", "NaN"),
        ("text", "{text: 'plain'}", "plain"),
        ("text", "{text: ''}", {"type": "text", "text": ""}),
        ("empty", "{}", None),
        (
            "blocks",
            "{content: [{type: image, data: QUJD, mimeType: image/png}, {type: text, text: x}]}",
            "image",
        ),
        (
            "echo",
            "{a: {expr: entry.nothing}, b: [{expr: entry.nothing}, 1], c: '$5.00'}",
            {"received": {"b": [None, 1], "c": "$5.00"}},
        ),
    ],
)
@pytest.mark.requirement("G16")
def test_what_a_result_is_to_the_graph(run, tool_name, args, wanted):
    found = run(call(tool_name, args, following="y"), transform("{'r': x}", node="y")).result
    if wanted == "image":
        assert found["r"]["type"] == "image"
    elif wanted is None:
        assert found == {}
    else:
        assert found == {"r": wanted}


@pytest.mark.parametrize(
    ("node", "parts"),
    [
        (call("fail", "{message: disk full}"), ("Tool 't'", "node 'x'", "'fail'", "'fx'", "disk full")),
        (transform("5 + 'a'"), ("Tool 't'", "node 'x'", "must evaluate to a number", "Expression: 5 + 'a'")),
        (call("die"), ("Tool 't'", "node 'x'", "'die'")),
    ],
)
def test_errors_name_tool_node_expression_and_cause(run, node, parts):
    error = failed(run, node)
    for part in parts:
        assert part in str(error)
    assert error.node == "x"
    assert [record.node_id for record in error.history] == ["entry", "x"]


@pytest.mark.requirement("G13")
def test_limits_count_the_exit():
    def run(most):
        more = f"executionLimits: {{maxNodeExecutions: {most}}}\n"
        with McpGraphApi(document(ENTRY, transform("{'a': 1}"), EXIT, more=more)) as api:
            return api.execute_tool("t").result

    assert run(3) == {"a": 1}
    with pytest.raises(RunError, match=r"maximum node executions \(2\) reached. Current execution count: 2"):
        run(2)


LIMIT = "executionLimits: {maxExecutionTimeMs: 400}\n"


@pytest.mark.parametrize(
    "node", [call("sleep", "{seconds: 20}"), transform("($f := function($n) {$f($n + 1)}; $f(1))")]
)
@pytest.mark.requirement("G13")
def test_time_is_limited_inside_of_a_node(run, node):
    error = failed(run, node, more=LIMIT)
    assert "maximum execution time (400ms) reached" in str(error)
    assert error.kind == "limit"
    assert error.node == "x"  # not the one after it


def test_a_call_has_a_timeout_of_its_own(run):
    error = failed(run, call("sleep", "{seconds: 20}", more=", timeout: 0.3, retry: 3"))
    assert error.kind == "call"
    assert error.node == "x"
    assert error.history[1].attempts == 1  # it may have run


def test_retry_until_it_works(run):
    retry = ", retry: {attempts: 4, delay: 0.01, toolErrors: true}"
    found = run(call("fail_times", "{key: a, times: 2}", more=retry))
    assert found.result == {"tries": 3}
    assert found.history[1].attempts == 3
    often = ", retry: {attempts: 2, delay: 0.01, toolErrors: true}"
    assert failed(run, call("fail_times", "{key: a, times: 9}", more=often)).history[1].attempts == 2
    answered = ", retry: {attempts: 4, delay: 0.01}"
    assert failed(run, call("fail_times", "{key: b, times: 1}", more=answered)).history[1].attempts == 1


def test_an_error_edge_leads_on_and_shows_what_happened(run):
    found = run(
        call("fail", "{message: oops}", following="exit", more=", onError: y"),
        transform(
            "{'caught': x.error.message, 'node': x.error.node, 'kind': $previousNode().error.kind}", node="y"
        ),
    )
    assert "oops" in found.result["caught"]
    assert found.result["node"] == "x"
    assert found.result["kind"] == "call"
    assert found.history[1].error is not None


def test_limits_are_not_caught(run):
    error = failed(
        run, call("sleep", "{seconds: 20}", more=", onError: y"), transform("{'a': 1}", node="y"), more=LIMIT
    )
    assert error.kind == "limit"


def test_branches_run_at_the_same_time_and_join(run):
    found = run(
        "{id: x, type: parallel, branches: [a, b], next: y}",
        call("sleep", "{seconds: 0.5}", node="a", following="a2"),
        transform("{'slept': a.slept, 'seen': $exists(b)}", node="a2", following="y"),
        call("sleep", "{seconds: 0.5}", node="b", following="y"),
        transform("{'x': x, 'a2': a2, 'b': b, 'n': $executionCount('a')}", node="y"),
    )
    assert found.result == {
        "x": {"a": {"slept": 0.5, "seen": False}, "b": {"slept": 0.5}},
        "a2": {"slept": 0.5, "seen": False},
        "b": {"slept": 0.5},
        "n": 1,
    }
    begun = {record.node_id: record for record in found.history}
    assert begun["b"].start_time < begun["a"].end_time
    assert begun["a"].start_time < begun["b"].end_time
    assert begun["a"].branch == ("x#1[a]",)


def test_a_branch_that_fails_ends_the_others(run, tmp_path):
    mark = tmp_path / "mark"
    error = failed(
        run,
        "{id: x, type: parallel, branches: [a, b], next: exit}",
        call("sleep", f"{{seconds: 30, mark: {str(mark)!r}}}", node="a", following="exit"),
        call("fail", "{message: broken}", node="b", following="exit"),
    )
    assert "broken" in str(error)
    assert error.node == "b"


def test_for_each_keeps_order_and_is_bounded(run):
    nodes = (
        "{id: x, type: forEach, items: entry.list, do: a, next: y, maxConcurrency: 4, maxItems: 5}",
        call("echo", "{v: {expr: x.item}, i: {expr: x.index}}", node="a", following="b"),
        transform("a.received.v * 10", node="b", following="y"),
        transform("{'r': x, 'last': b, 'n': $executionCount('b'), 'all': $nodeExecutions('b')}", node="y"),
    )
    found = run(*nodes, arguments={"list": [3, 1, 2]})
    assert found.result == {"r": [30, 10, 20], "last": 20, "n": 3, "all": [30, 10, 20]}
    for nothing in ({}, {"list": None}, {"list": []}):
        assert run(*nodes, arguments=nothing).result == {"r": [], "n": 0, "all": []}
    assert run(*nodes, arguments={"list": 7}).result["r"] == [70]
    assert "more than maxItems (5)" in str(failed(run, *nodes, arguments={"list": [1] * 6}))


def test_contexts_inside_of_loops_are_kept(run):
    found = run(
        "{id: x, type: forEach, items: '[1, 2]', do: a, next: y}",
        transform("x.item + 1", node="a", following="y"),
        transform("{'r': x}", node="y"),
    )
    inside = [record for record in found.history if record.node_id == "a"]
    assert [record.context()["x"] for record in inside] == [{"item": 1, "index": 0}, {"item": 2, "index": 1}]


def test_results_are_cached_for_the_same_arguments(run):
    found = run(
        "{id: x, type: forEach, items: '[1, 1, 2]', do: a, next: y}",
        call("count", "{v: {expr: x.item}}", node="a", following="y", more=", cache: {ttl: 60}"),
        transform("{'r': x.calls}", node="y"),
    )
    assert found.result == {"r": [1, 1, 2]}


def test_a_tool_calls_another_one_of_the_document():
    text = yaml(
        tool(ENTRY, "{id: x, type: tool, tool: inner, args: {v: {expr: entry.v}}, next: y}",
             transform("{'outer': x.r, 'seen': $exists(inner_node)}", node="y"), EXIT),
        tool("{id: entry, type: entry, next: inner_node}", transform("{'r': entry.v * 2}", node="inner_node"),
             EXIT, name="inner"),
    )  # fmt: skip
    with McpGraphApi(load(text)) as api:
        found = api.execute_tool("t", {"v": 21})
    assert found.result == {"outer": 42, "seen": False}
    assert [(record.node_id, record.branch) for record in found.history] == [
        ("entry", ()),
        ("x", ()),
        ("entry", ("x#1[inner]",)),
        ("inner_node", ("x#1[inner]",)),
        ("exit", ("x#1[inner]",)),
        ("y", ()),
        ("exit", ()),
    ]


def test_arguments_and_results_are_checked():
    schema = "{type: object, properties: {n: {type: integer}}, required: [n]}"
    output = "{type: object, properties: {r: {type: number}}, required: [r]}"
    with McpGraphApi(
        document(ENTRY, transform("{'r': entry.n = 1 ? 5 : 'x'}"), EXIT, schema=schema, output=output)
    ) as api:
        assert api.execute_tool("t", {"n": 1}).result == {"r": 5}
        with pytest.raises(RunError, match="violate the tool's inputSchema"):
            api.execute_tool("t", {"n": "1"})
        with pytest.raises(RunError, match="violates the tool's outputSchema"):
            api.execute_tool("t", {"n": 2})
    with (
        McpGraphApi(
            document(ENTRY, transform("entry"), EXIT, schema="{type: object, additionalProperties: false}")
        ) as api,
        pytest.raises(RunError, match="inputSchema: The arguments must be empty"),
    ):
        api.execute_tool("t", {"n": 1})
    with McpGraphApi(
        document(ENTRY, transform("{'r': entry.n}"), EXIT, schema=schema, output=output), check_schemas=False
    ) as api:
        assert api.execute_tool("t", {"n": "1"}).result == {"r": "1"}


def test_a_hundred_runs_at_once_do_not_see_each_other():
    echo = call("echo", "{v: {expr: entry.v}}", following="y")
    made = document(ENTRY, echo, transform("{'r': x.received.v}", node="y"), EXIT)
    with McpGraphApi(made) as api, ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda n: api.execute_tool("t", {"v": n}).result, range(100)))
    assert found == [{"r": n} for n in range(100)]


def test_a_dead_server_comes_back_in_the_middle_of_a_graph(run, tmp_path):
    mark = tmp_path / "died"
    found = run(
        call("count", following="y"),
        call(
            "die_once",
            f"{{mark: {str(mark)!r}}}",
            node="y",
            following="z",
            more=", retry: {attempts: 3, delay: 0.05}, onError: z",
        ),
        call("count", node="z", following="r"),
        transform("{'same': x.pid = z.pid, 'kind': y.error.kind}", node="r"),
    )
    assert found.result == {"same": False, "kind": "call"}
    assert found.history[2].attempts == 1  # it may have run


def test_the_context_as_an_output_does_not_grow_and_shows_what_ran_last_first(run):
    found = run(
        transform("{'all': $}", following="y"),
        transform("{'then': x.all, 'names': $keys($), 'last': *[0].all}", node="y"),
    )
    assert found.result == {"then": {"entry": {}}, "names": ["x", "entry"], "last": {"entry": {}}}


def test_a_run_is_canceled_while_it_calls(run, tmp_path):
    mark = tmp_path / "mark"
    error = failed(run, call("sleep", f"{{seconds: 60, mark: {str(mark)!r}}}"), is_canceled=mark.exists)
    assert error.kind == "stopped"
    assert "Execution was stopped" in str(error)
    until(mark.read_text, "the server notes how it ended")
    assert mark.read_text() == "canceled"


def test_progress_of_tools_is_passed_on(run):
    told = []
    run(call("progress"), hooks=Hooks(on_progress=lambda node, text: told.append((node.id, text))))
    assert ("x", "step 1") in told


def test_unknown_tool(run):
    with (
        McpGraphApi(document(ENTRY, transform("{}"), EXIT)) as api,
        pytest.raises(RunError, match="Tool not found: y"),
    ):
        api.execute_tool("y")


@pytest.mark.parametrize(
    ("content", "said"), [("some text", "text"), ("{a: 1}", "a mapping"), ("0", "the number 0")]
)
def test_content_that_is_no_list_is_said(run, content, said):
    error = failed(run, call("blocks", f"{{content: {content}}}"))
    assert error.kind == "call"
    assert f"'content' must be a list, not {said}" in str(error)


BLOCKS = [
    {"type": "text", "text": "first"},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "resource_link", "uri": "file:///a", "name": "a"},
]


def blocks(**result):
    return call("blocks", json.dumps({"content": BLOCKS, **result}), following="out")


def test_blocks_after_the_first_are_warned_of_once_and_kept_in_the_history(run, caplog):
    found = run(blocks(), transform("{'r': x}", node="out"))
    assert found.result == {"r": "first"}
    assert caplog.messages == [
        "Tool 't', node 'x': its output lacks 2 of the 3 blocks of the result (image, resource_link)."
        " $nodeContent('x') gives all of them."
    ]
    assert found.history[1].to_json()["content"] == BLOCKS
    assert "content" not in found.history[2].to_json()


def test_all_blocks_can_be_reached(run, caplog):
    expression = (
        "{'types': $nodeContent('x').type, 'picture': $nodeContent('x')[1].data, 'no': $nodeContent('y')}"
    )
    found = run(blocks(), transform(expression, node="out"))
    assert found.result == {"types": [block["type"] for block in BLOCKS], "picture": "AAAA", "no": []}
    assert not caplog.messages


def test_pictures_beside_structured_content_are_missed_too(run, caplog):
    found = run(blocks(structuredContent={"n": 1}), transform("x", node="out"))
    assert found.result == {"n": 1}
    assert "lacks 2 of the 3 blocks" in caplog.text


def test_a_cached_result_has_its_blocks(run):
    cached = blocks().replace("tool: blocks", "tool: blocks, cache: true")
    again = cached.replace("id: x", "id: out").replace("next: out", "next: last")
    found = run(cached, again, transform("{'a': $nodeContent('out').type}", node="last"))
    assert found.result == {"a": [block["type"] for block in BLOCKS]}


def test_defaults_of_the_input_schema_are_arguments(run):
    schema = (
        "{type: object, required: [n], properties: {n: {type: integer, default: 3}, s: {default: null},"
        " o: {type: object, properties: {a: {default: [1]}, b: {default: 2}}}, x: {type: integer}}}"
    )
    assert run(transform("entry"), schema=schema).result == {"n": 3, "s": None}
    given = {"n": 1, "s": "", "o": {"b": 0}, "x": 9}
    found = run(transform("entry"), schema=schema, arguments=given)
    assert found.result == {"n": 1, "s": "", "o": {"b": 0, "a": [1]}, "x": 9}
    assert given["o"] == {"b": 0}


def test_a_called_tool_has_its_defaults_too():
    inner = tool(
        ENTRY, transform("{'r': entry.n}"), EXIT,
        name="inner", schema="{type: object, properties: {n: {default: 5}}}",
    )  # fmt: skip
    outer = tool(ENTRY, "{id: x, type: tool, tool: inner, args: {}, next: exit}", EXIT)
    with McpGraphApi(load(yaml(outer, inner))) as api:
        assert api.execute_tool("t").result == {"r": 5}


RECURSION = (
    ENTRY,
    "{id: x, type: parallel, branches: [a, b, c], next: exit}",
    *(f"{{id: {name}, type: tool, tool: t, args: {{}}, next: exit}}" for name in "abc"),
    EXIT,
)


def test_branches_that_call_their_own_tool_end_with_few_threads_and_a_clear_error():
    seen = set()
    hooks = Hooks(on_node_start=lambda *_: seen.add(threading.active_count()))
    before = threading.active_count()
    with McpGraphApi(load(yaml(tool(*RECURSION), servers=""))) as api, pytest.raises(RunError) as caught:
        api.execute_tool("t", hooks=hooks)
    assert max(seen) - before <= 128
    # Whichever it comes to first, which depends on the threads.
    assert re.search(r"maximum node executions \(1000\) reached|more than 32 levels deep", str(caught.value))
    assert threading.active_count() == before


def test_without_threads_branches_run_one_after_the_other(run, monkeypatch):
    def start(_self):
        raise RuntimeError("can't start new thread")

    nodes = (
        "{id: x, type: parallel, branches: [a, b], next: exit}",
        *(transform(f"'{name}'", node=name) for name in "ab"),
    )
    run(*nodes)  # starts the thread of the expressions' clock, which lives as long as the process
    monkeypatch.setattr(threading.Thread, "start", start)
    assert run(*nodes).result == {"a": "a", "b": "b"}


CALLS_ITSELF_TWICE = (
    "{id: x, type: parallel, branches: [a, b], next: exit}",
    "{id: a, type: tool, tool: t, args: {}, next: exit}",
    "{id: b, type: tool, tool: t, args: {}, next: exit}",
)


def test_a_node_asks_once_whether_it_is_to_end_however_deep_it_is():
    asked = []
    with (
        McpGraphApi(document(ENTRY, *CALLS_ITSELF_TWICE, EXIT)) as api,
        pytest.raises(RunError, match=r"deep|maximum node") as caught,
    ):
        api.executor.run("t", {}, is_canceled=lambda: asked.append(1))
    assert len(asked) <= 2 * len(caught.value.history)


@pytest.mark.parametrize("kilobytes", [300_000, 700_000])
def test_parallel_recursion_fails_with_a_sentence_where_memory_is_limited(tmp_path, kilobytes):
    file = tmp_path / "graph.yaml"
    file.write_text(yaml(tool(ENTRY, *CALLS_ITSELF_TWICE, EXIT), servers=""))
    command = f"ulimit -v {kilobytes}; exec {shlex.join([*PROGRAM, 'run', str(file), 't'])}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=DEADLINE)
    assert ended.returncode == 1
    assert "levels deep" in ended.stderr or "maximum node executions" in ended.stderr
    assert "Traceback" not in ended.stderr
