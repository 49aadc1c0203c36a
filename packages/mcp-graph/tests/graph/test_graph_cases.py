"""Cases: recorded at a real server, then run without any."""

import json
import re
from pathlib import Path

import pytest

from knime_mcp.types.errors import SettingInvalid
from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.graph_cases import differences, read_cases, recorded_case, run_case

from .graphs import ENTRY, EXIT, call, document, load, tool, transform, yaml

pytestmark = pytest.mark.quick


FLOW = (
    call("echo", "{n: {expr: entry.n}}", following="shaped"),
    transform("{'twice': x.received.n * 2}", node="shaped"),
)


def recorded(graph, arguments=None):
    """A case from a run at the fixture's server, as the file has it."""
    with McpGraphApi(graph) as api:
        secrets = api.secrets_of("t", arguments)
        case = recorded_case(graph, "c", "t", arguments or {}, call=api.sessions.call, secrets=secrets)
    return case.to_json()


def ran(graph, case):
    (read,) = read_cases(json.loads(json.dumps({"cases": [case]})), "f")
    return run_case(graph, read)


def without_server(*nodes, **options):
    """A document whose server cannot be started."""
    servers = "mcpServers:\n  fx: {command: /nowhere/at-all, args: []}\n"
    return load(yaml(tool(ENTRY, *nodes, EXIT, **options), servers=servers))


def test_a_recorded_run_repeats_without_its_server():
    case = recorded(document(ENTRY, *FLOW, EXIT), {"n": 21})
    assert case["path"] == ["entry", "x", "shaped", "exit"]
    assert case["result"] == {"twice": 42}
    (made,) = case["calls"]
    assert (made["server"], made["tool"], made["arguments"]) == ("fx", "echo", {"n": 21})
    assert made["result"]["structuredContent"] == {"received": {"n": 21}}
    outcome = ran(without_server(*FLOW), case)
    assert outcome.failures == ()
    assert outcome.nodes == {("t", "entry"), ("t", "x"), ("t", "shaped"), ("t", "exit")}


def test_other_results_are_told_with_their_place():
    case = recorded(document(ENTRY, *FLOW, EXIT), {"n": 21})
    changed = without_server(FLOW[0], transform("{'twice': x.received.n * 3}", node="shaped"))
    assert ran(changed, case).failures == ("result.twice: expected 42, got 63",)


def test_a_graph_that_asks_something_else_fails_even_with_the_same_result():
    case = recorded(document(ENTRY, *FLOW, EXIT), {"n": 21})
    asks = call("echo", "{n: {expr: entry.n}, more: 1}", following="shaped", more=", onError: shaped")
    changed = without_server(asks, transform("{'twice': 42}", node="shaped"))
    unknown, left = ran(changed, case).failures
    assert unknown == (
        """no reply is recorded for 'echo' on 'fx' with {"n": 21, "more": 1}; there is one with {"n": 21}"""
    )
    assert left == """'echo' on 'fx' was not called with {"n": 21}"""


def test_retries_repeat_in_their_order_and_do_not_wait():
    retry = ", retry: {attempts: 3, delay: 0.01, toolErrors: true}"
    nodes = call("fail_times", "{key: k, times: 2}", more=retry)
    case = recorded(document(ENTRY, nodes, EXIT))
    assert [made["result"].get("isError", False) for made in case["calls"]] == [True, True, False]
    patient = call("fail_times", "{key: k, times: 2}", more=retry.replace("0.01", "3600"))
    assert ran(without_server(patient), case).failures == ()


def test_a_run_that_fails_is_a_case():
    case = recorded(document(ENTRY, call("fail", "{message: no paper}"), EXIT))
    assert "no paper" in case["error"]
    assert "result" not in case
    assert ran(without_server(call("fail", "{message: no paper}")), case).failures == ()
    (told,) = ran(without_server(call("fail", "{message: no paper}", more=", onError: exit")), case).failures[
        :1
    ]
    assert told.startswith("the run should fail with ")


def test_errors_of_servers_keep_their_code():
    nodes = (
        call("die", more=", onError: y"),
        transform("{'code': x.error.code, 'kind': x.error.kind, 'message': x.error.message}", node="y"),
    )
    case = recorded(document(ENTRY, *nodes, EXIT))
    assert "error" in case["calls"][0]
    assert ran(without_server(*nodes), case).failures == ()


def test_branches_and_loops_repeat():
    nodes = (
        "{id: x, type: forEach, items: entry.all, do: ask, next: exit, maxConcurrency: 4}",
        call("echo", "{i: {expr: x.item}}", node="ask", following="exit"),
    )
    case = recorded(document(ENTRY, *nodes, EXIT, output="{type: array}"), {"all": [1, 2, 3, 4, 5]})
    assert case["path"] == ["entry", "x", "exit"]
    assert len(case["calls"]) == 5
    assert ran(without_server(*nodes, output="{type: array}"), case).failures == ()


def test_a_secret_argument_is_a_mark_that_repeats():
    schema = "{type: object, properties: {pin: {type: string, format: password}}}"
    nodes = (
        call("echo", "{key: {expr: '\"Bearer \" & entry.pin'}}", following="y"),
        transform("{'said': x.received.key}", node="y"),
    )
    case = recorded(document(ENTRY, *nodes, EXIT, schema=schema), {"pin": "c4n4ry-5ecret-v4lue"})
    assert "c4n4ry-5ecret-v4lue" not in json.dumps(case)
    assert "⟨secret " in case["arguments"]["pin"]
    assert ran(without_server(*nodes, schema=schema), case).failures == ()


@pytest.mark.parametrize(
    ("expected", "failures"),
    [
        ({"asserts": ["$result.twice = 42", "x.received.n > 20"]}, 0),
        ({"asserts": ["$result.twice"]}, "assertion $result.twice: gave 42"),
        ({"asserts": ["$result.nothing"]}, "assertion $result.nothing: found nothing"),
        ({"asserts": ["$result."]}, "assertion $result.: "),
        ({"path": ["entry", "exit"]}, "path: expected entry → exit; it was entry → x → shaped → exit"),
        ({"error": "no"}, "the run should fail with 'no'; its result is "),
        ({}, 0),
    ],
)
def test_what_a_case_written_by_hand_expects(expected, failures):
    reply = {"server": "fx", "tool": "echo", "result": {"structuredContent": {"received": {"n": 21}}}}
    outcome = ran(without_server(*FLOW), {"name": "c", "tool": "t", "calls": [reply], **expected})
    if failures:
        assert outcome.failures[0].startswith(failures)
    else:
        assert outcome.failures == ()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "f: the document must be a mapping (key: value), not a list"),
        ({"case": []}, "f: 'cases' is missing"),
        ({"cases": [{"tool": "t"}]}, "f, cases[0]: 'name' is missing"),
        (
            {"cases": [{"name": "a", "tool": "t", "reslt": 1}]},
            "f, cases[0].reslt: the key 'reslt' is not known",
        ),
        ({"cases": [{"name": "a", "tool": "t", "path": "x"}]}, "f, cases[0].path: 'path' must be a list"),
        ({"cases": [{"name": "a", "tool": 1}]}, "f, cases[0].tool: 'tool' must be text"),
        (
            {"cases": [{"name": "a", "tool": "t", "calls": [{"server": "s", "tool": "u"}]}]},
            "f, cases[0].calls[0]: a call needs either 'result' or 'error'",
        ),
        ({"cases": [{"name": "a", "tool": "t"}, {"name": "a", "tool": "t"}]}, "two cases are called 'a'"),
    ],
)
def test_files_are_read_strictly(raw, said):
    with pytest.raises(SettingInvalid) as caught:
        read_cases(raw, "f")
    assert said in caught.value.what


def test_differences():
    assert list(differences({"a": [1, {"b": True}]}, {"a": [1, {"b": 1}], "c": None}, "r")) == [
        "r.a[1].b: expected true, got 1",
        "r.c is new: null",
    ]
    assert list(differences([1, 2], [1], "r")) == ["r should have 2 entries, not 1"]
    assert list(differences({"a": "⟨secret 0123456789ab⟩"}, {"a": "plain"})) == []


def test_the_documented_case_holds_for_the_documented_document():
    text = (Path(__file__).parents[2] / "docs" / "graph-documents.md").read_text("utf-8")
    documented = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
    (case,) = [
        case
        for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)
        if '"cases"' in block
        for case in json.loads(block)["cases"]
    ]
    assert ran(load(documented), case).failures == ()
