"""Nodes that ask a person: who decides, where a run goes on, and what is said if nobody decides."""

import threading
from pathlib import Path

import pytest

from knime_mcp.client.protocol.messages import RpcError
from knime_mcp.graph import Hooks, McpGraphApi, RunError
from knime_mcp.graph.approvals import Decision
from knime_mcp.graph.document_loading import check_text
from knime_mcp.graph.graph_cases import recorded_case, run_case
from knime_mcp.graph.run_control import RunClient
from knime_mcp.yaml_text import Severity
from tests.graph.graphs import ENTRY, EXIT, document, one_tool, texts, transform

ASK = '{id: x, type: approve, message: {expr: \'"Delete " & entry.path & "?"\'}, next: done, denied: kept}'
NODES = (
    ENTRY,
    ASK,
    transform("{'gone': entry.path, 'because': x.comment}", node="done"),
    transform("{'kept': entry.path, 'by': x.by}", node="kept"),
    EXIT,
)
WITHOUT_A_WAY = (ENTRY, "{id: x, type: approve, message: Really?, next: exit}", EXIT)


def run(nodes=NODES, *, approve=None, **arguments):
    with McpGraphApi(document(*nodes)) as api:
        return api.execute_tool("t", arguments, hooks=Hooks(approve=approve))


def says(approved, **more):
    return lambda _: Decision(approved=approved, by="Ada", **more)


def test_the_person_reads_the_message_and_the_run_goes_that_way():
    asked = []

    def approve(question):
        asked.append((question.node, question.message))
        return Decision(approved=True, by="Ada", comment="it is old")

    assert run(approve=approve, path="/a").result == {"gone": "/a", "because": "it is old"}
    assert asked == [("x", "Delete /a?")]
    found = run(approve=says(False), path="/a")
    assert found.result == {"kept": "/a", "by": "Ada"}
    assert [record.node_id for record in found.history] == ["entry", "x", "kept", "exit"]
    assert found.history[1].output == {"approved": False, "by": "Ada"}
    assert run(WITHOUT_A_WAY, approve=says(True)).result == {"approved": True, "by": "Ada"}


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        (None, "nobody can be asked: Really?"),
        (lambda _: None, "Nobody has decided: Really?"),
        (says(False, comment="too early"), "Denied by Ada: too early"),
    ],
)
def test_a_run_fails_where_nobody_says_yes_and_no_way_leads_on(approve, said):
    with pytest.raises(RunError, match=said.replace("?", r"\?")) as caught:
        run(WITHOUT_A_WAY, approve=approve)
    assert caught.value.node == "x"


ACCEPTED = {"action": "accept", "content": {"comment": "old"}}
DECLINED = {"action": "decline"}


@pytest.mark.parametrize(
    ("capabilities", "answer", "said"),
    [
        ({"elicitation": {}}, ACCEPTED, {"gone": "/a", "because": "old"}),
        ({"elicitation": {"form": {}}}, DECLINED, {"kept": "/a", "by": "a person at the client"}),
        ({"elicitation": {}}, {"action": "cancel"}, "Nobody has decided"),
        ({"elicitation": {}}, RpcError(-32603, "broken"), "Nobody has decided"),
        ({"elicitation": {"url": {}}}, None, "nobody can be asked"),
        ({"sampling": {}}, None, "nobody can be asked"),
    ],
)  # fmt: skip
def test_the_client_that_called_is_asked_if_it_can_be(capabilities, answer, said):
    asked = []

    def ask(method, params):
        asked.append((method, params["message"], params["requestedSchema"]["type"]))
        return answer

    hooks = Hooks(client=RunClient(capabilities=capabilities, ask=ask, tell=lambda *_: None))
    with McpGraphApi(document(*NODES)) as api:
        if isinstance(said, dict):
            assert api.execute_tool("t", {"path": "/a"}, hooks=hooks).result == said
        else:
            with pytest.raises(RunError, match=said):
                api.execute_tool("t", {"path": "/a"}, hooks=hooks)
    assert asked == ([("elicitation/create", "Delete /a?", "object")] if answer else [])


def test_the_time_of_a_person_is_not_that_of_the_run():
    def approve(_):
        threading.Event().wait(0.3)
        return Decision(approved=True, by="Ada")

    limits = "executionLimits: {maxExecutionTimeMs: 200}\n"
    with McpGraphApi(document(*WITHOUT_A_WAY, more=limits)) as api:
        assert api.execute_tool("t", {}, hooks=Hooks(approve=approve)).result["approved"] is True


def test_a_stopped_run_waits_for_nobody():
    stop = threading.Event()

    def approve(question):
        stop.set()
        assert question.is_stopped()

    with McpGraphApi(document(*WITHOUT_A_WAY)) as api, pytest.raises(RunError, match="stopped"):
        api.executor.run("t", {}, hooks=Hooks(approve=approve), is_canceled=stop.is_set)


def test_cases_have_the_decisions():
    graph = document(*NODES)
    with McpGraphApi(graph) as api:
        kept = {"call": api.sessions.call, "secrets": api.secrets}
        case = recorded_case(graph, "yes", "t", {"path": "/a"}, approve=says(True, comment="old"), **kept)
        no = recorded_case(document(*WITHOUT_A_WAY), "no", "t", {}, approve=says(False), **kept)
    assert case.decisions == {"x": {"approved": True, "by": "Ada", "comment": "old"}}
    assert run_case(graph, case).failures == ()
    assert no.error == "Denied by Ada"
    assert run_case(document(*WITHOUT_A_WAY), no).failures == ()


def test_the_example_of_the_documentation():
    page = Path(__file__).parents[2] / "docs" / "graph-documents.md"
    blocks = [block.split("```")[0] for block in page.read_text("utf-8").split("```yaml\n")[1:]]
    (text,) = [block for block in blocks if "approve" in block]
    checked = check_text(text, environ={})
    assert checked.document is not None
    assert checked.problems == ()
    with McpGraphApi(checked.document) as api:
        yes = api.execute_tool("tidy", {"path": "/a"}, hooks=Hooks(approve=says(True, comment="old")))
        no = api.execute_tool("tidy", {"path": "/a"}, hooks=Hooks(approve=says(False)))
    assert (yes.result, no.result) == ({"deleted": "/a", "because": "old"}, {"kept": "/a"})


def found(*nodes, severity=Severity.WARNING):
    return "\n".join(texts(check_text(one_tool(*nodes), environ={}), severity))


def test_check_knows_ways_and_output():
    assert found(*NODES) == ""
    assert "non-existent denied node" in found(ENTRY, ASK, *NODES[2:3], EXIT, severity=Severity.ERROR)
    wrong = ENTRY, ASK, transform("{'a': x.comentt}", node="done"), NODES[3], EXIT
    assert "comment" in found(*wrong)
    never = ENTRY, ASK, transform("x.approved = 'yes'", node="done"), NODES[3], EXIT
    assert "never" in found(*never)
    broken = ENTRY, "{id: x, type: approve, message: {expr: '1 +'}, next: exit}", EXIT
    assert "message" in found(*broken, severity=Severity.ERROR)
