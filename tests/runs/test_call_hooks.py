"""Hooks before and after every call of a run: allow, deny, ask, edit; what was decided is on record."""

import pytest

from knime_mcp.runs.call_values import Allow, Ask, Deny, Edit, PlannedCall
from knime_mcp.runs.engine import RunRecords, new_run
from knime_mcp.types.errors import MCPError
from knime_mcp.types.tool import WorkflowTool

pytestmark = pytest.mark.quick


TRANSFER = WorkflowTool("transfer", "", {"amount": {"type": "integer"}})


class Hook:
    """A hook that answers with a function of the arguments, and notes what came of calls."""

    def __init__(self, decide):
        self.decide, self.asked, self.seen = decide, 0, []

    def before(self, plan):
        self.asked += 1
        return self.decide(plan.arguments)

    def after(self, plan, outcome):
        self.seen.append((dict(plan.arguments), outcome.record.status.value))


def made(*hooks, ask=None, amount=5):
    run = new_run(lambda route: None)
    run.hooks, run.ask, run.records = hooks, ask, RunRecords()
    sent = []
    run.run_workflow = lambda tool, arguments, tables: (sent.append(dict(arguments)), ("done", ()))[1]
    outcome = run.call(PlannedCall(tool=TRANSFER, arguments={"amount": amount}))
    return outcome.record, sent


def no_more_than(most):
    return Hook(lambda a: Allow() if a["amount"] <= most else Deny(MCPError("Too much"), "the bank"))


def asking():
    return Hook(lambda _: Ask("it costs money"))


def test_who_has_nothing_to_say_changes_nothing():
    hook = Hook(lambda _: Allow())
    record, sent = made(hook)
    assert (record.decision, record.status.value, sent) == (None, "ok", [{"amount": 5}])
    assert hook.seen == [({"amount": 5}, "ok")]


def test_the_first_that_denies_decides():
    later = asking()
    record, sent = made(no_more_than(1), later)
    assert (record.status.value, record.decision) == ("denied", "denied by the bank")
    assert (sent, later.asked) == ([], 0)
    assert "Too much" in record.error


def test_without_a_person_what_has_to_be_asked_is_denied():
    record, sent = made(asking())
    assert (record.status.value, sent) == ("denied", [])
    assert "nobody can be asked" in record.error
    assert "it costs money" in record.decision


@pytest.mark.parametrize(
    ("answer", "status", "decision", "sent"),
    [
        (Allow("Ada"), "ok", "allowed by Ada", [{"amount": 5}]),
        (Deny(MCPError("Not today"), "Ada"), "denied", "denied by Ada", []),
        (Edit({"amount": 1}, "Ada"), "ok", "edited by Ada: amount", [{"amount": 1}]),
    ],
)
def test_a_person_decides_and_it_is_on_record(answer, status, decision, sent):
    questions = []

    def ask(plan, question):
        questions.append(question.why)
        return answer

    record, was_sent = made(asking(), asking(), ask=ask)
    assert (record.status.value, record.decision, was_sent) == (status, decision, sent)
    assert questions == ["it costs money"]


def test_how_long_the_question_stood_is_on_record():
    record, _ = made(asking(), ask=lambda *_: Allow("Ada", asked=2.5))
    assert record.asked == 2.5
    for answer in (Deny(MCPError("No"), "Ada", asked=0.25), Edit({"amount": 1}, "Ada", asked=0.25)):
        record, _ = made(asking(), ask=lambda *_, answer=answer: answer)
        assert record.asked == 0.25
    record, _ = made(asking())
    assert record.asked is None


def test_what_was_edited_is_decided_anew():
    record, sent = made(no_more_than(10), asking(), ask=lambda *_: Edit({"amount": 99}, "Ada"))
    assert (record.status.value, sent) == ("denied", [])
    assert record.decision == "edited by Ada: amount; denied by the bank"


def test_hooks_that_edit_without_end_are_stopped():
    record, sent = made(Hook(lambda a: Edit({"amount": a["amount"] + 1}, "more")))
    assert (record.status.value, sent) == ("denied", [])


def test_a_hook_that_fails_does_not_let_the_call_pass():
    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        made(Hook(broken))
