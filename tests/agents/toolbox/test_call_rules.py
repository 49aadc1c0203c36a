"""Rules for allowed calls; annotations of an untrusted server never allow more."""

import pytest

from knime_mcp.agents.toolbox.call_rules import VERDICTS, CallRules
from knime_mcp.agents.toolbox.tool_executor import ToolOptions
from knime_mcp.runs.call_values import Ask, Deny
from knime_mcp.types.errors import MCPError, SettingInvalid
from knime_mcp.types.tool import MCPTool, WorkflowTool

pytestmark = pytest.mark.quick


WORKFLOW = WorkflowTool("Delete all", "", {})
HARMLESS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def mcp(name="delete_row", host="crm.example", annotations=None, tool_name=None):
    return MCPTool(name, "", {}, f"https://{host}/mcp", tool_name or name, annotations=annotations)


def denial(rules, tool, *names, **facts):
    """The rule that denies calls, as text."""
    rule = rules.deciding(tool, *names, **facts)
    return str(rule) if rule is not None and isinstance(VERDICTS[rule.verb](rule), Deny) else None


def decide(rules, tool, trusted=""):
    return denial(CallRules.parse(rules, trusted), tool)


def test_no_rules_allow_all():
    assert denial(CallRules(), mcp()) is None
    assert decide("\n# a comment\n\n", mcp()) is None


def test_the_first_rule_that_fits_decides():
    rules = "allow delete_row\ndeny delete_*\nallow *"
    assert decide(rules, mcp()) is None
    assert decide(rules, mcp("DELETE_table")) == "deny delete_*"
    assert decide(rules, mcp("get")) is None
    assert decide("deny *", mcp("get")) == "deny *"


def test_another_verdict_is_one_entry(monkeypatch):
    monkeypatch.setitem(VERDICTS, "watch", lambda rule: Deny(MCPError(f"Somebody watches ({rule})")))
    rule = CallRules.parse("Watch delete_*").deciding(mcp())
    assert VERDICTS[rule.verb](rule).reason.sentence == "Somebody watches (watch delete_*)."
    with pytest.raises(SettingInvalid, match=r"Write 'allow' or .* or 'watch', a tool's name"):
        CallRules.parse("forbid *")


def test_a_rule_that_asks():
    rule = CallRules.parse("ask delete_*").deciding(mcp())
    assert VERDICTS[rule.verb](rule) == Ask("rule: ask delete_*")


def test_arguments_are_compared(subtests):
    for condition, arguments, fits in [
        ("amount > 100", {"amount": 101}, True),
        ("amount > 100", {"amount": 100}, False),
        ("amount > 100", {"amount": "101"}, True),
        ("amount > 100", {"amount": " 1e3 "}, True),
        ("amount > 100", {}, False),
        ("not amount <= 100", {}, True),
        ("amount > 100", {"amount": [500]}, True),
        ("amount > 100", {"amount": "a lot"}, True),
        ("not amount > 100", {"amount": "a lot"}, True),
        ("amount>=0.5", {"amount": 0.5}, True),
        ("amount == 1", {"amount": 1.0}, True),
        ("order.amount > 100", {"order": {"amount": 101}}, True),
        ("order.amount > 100", {"order": '{"amount": 101}'}, True),
        ("order.0.amount > 100", {"order": [{"amount": 101}]}, True),
        ("to = *@example.com", {"to": "a@EXAMPLE.com"}, True),
        ("to = *@example.com", {"to": ["b@x.org", "a@example.com"]}, True),
        ("to != *@example.com", {"to": ["b@x.org", "a@example.com"]}, False),
        ('text = "a, b", to = x', {"text": "a, b", "to": "x"}, True),
        ("force = true", {"force": True}, True),
        ("force = true", {"force": "true"}, True),
        ("force = true", {"force": 1}, False),
        ("since >= 2026-01-01", {"since": "2026-03-01"}, True),
        ("amount > 1, mcp", {"amount": 2}, True),
        ("amount > 1, workflow", {"amount": 2}, False),
    ]:
        with subtests.test(condition=condition, arguments=arguments, fits=fits):
            rules = CallRules.parse(f"deny delete_* if {condition}")
            assert (denial(rules, mcp(), arguments=arguments) is not None) is fits


@pytest.mark.parametrize("verb", ["allow", "note"])
def test_what_cannot_be_compared_allows_nothing(verb, monkeypatch):
    monkeypatch.setitem(VERDICTS, "note", VERDICTS["allow"])  # any verb that allows
    rules = CallRules.parse(f"{verb} delete_* if amount <= 100\ndeny *")
    assert denial(rules, mcp(), arguments={"amount": 3}) is None
    assert denial(rules, mcp(), arguments={"amount": "little"}) == "deny *"
    assert denial(rules, mcp(), arguments={}) == "deny *"


def test_the_parameters_of_a_workflow_are_compared():
    rules = CallRules.parse("deny * if rows > 3")
    assert denial(rules, WORKFLOW, arguments={"configuration": {"rows": 4}}) == "deny * if rows > 3"


def test_names_of_server_and_people():
    assert decide("deny drop", mcp("crm_drop", tool_name="drop")) == "deny drop"
    assert decide("deny crm_drop", mcp("crm_drop", tool_name="drop")) == "deny crm_drop"
    assert denial(CallRules.parse('deny "drop @ crm.example"'), mcp("drop"), "drop @ crm.example")


def test_patterns_for_servers(subtests):
    for pattern, fits in [
        ("crm.example", True),
        ("*.example", True),
        ("https://crm.example/*", True),
        ("https://crm.example/mcp", True),
        ("https://crm.example", False),
        ("https://crm*", True),
        ("http://crm.example/*", False),
        ("*://*/mcp", True),
        ("*/mcp", True),
        ("*/other", False),
        ("*", True),
        ("example", False),
        ("*.other.example", False),
    ]:
        with subtests.test(pattern=pattern, fits=fits):
            rule = f"deny * @ {pattern}"
            assert decide(rule, mcp()) == (rule if fits else None)
            assert decide(rule, WORKFLOW) is None


def test_a_host_in_the_path_is_no_host():
    assert decide("deny *\n", mcp()) == "deny *"
    for path in ("crm.good", "x/crm.good/y", "https://crm.good/y", "@crm.good/y"):
        evil = MCPTool("t", "", {}, f"https://evil.example/{path}", "t", annotations=HARMLESS)
        for pattern in ("crm.good", "*.good", "*good*", "https://*.good", "https://*.good/*", "*.good/y"):
            assert decide(f"allow * @ {pattern}\ndeny *", evil) == "deny *"
            assert decide("allow * if read-only\ndeny *", evil, trusted=pattern) == "deny *"


@pytest.mark.parametrize("condition", ["read-only", "idempotent", "not destructive", "not open-world"])
def test_an_untrusted_servers_word_allows_nothing(condition):
    rules = f"allow * if {condition}\ndeny *"
    tool = mcp(annotations=HARMLESS)
    assert decide(rules, tool) == "deny *"
    assert decide(rules, tool, trusted="other.example, *.elsewhere") == "deny *"
    assert decide(rules, tool, trusted="crm.example") is None


@pytest.mark.parametrize("condition", ["destructive", "open-world", "not read-only", "not idempotent"])
def test_an_untrusted_servers_word_escapes_no_denial(condition):
    rule = f"deny * if {condition}"
    assert decide(rule, mcp(annotations=HARMLESS)) == rule
    assert decide(rule, mcp()) == rule
    assert decide(rule, mcp(annotations=HARMLESS), trusted="https://crm.example/*") is None
    assert decide(rule, mcp(), trusted="crm.example") == rule


def test_odd_annotations_of_a_trusted_server_count_as_not_declared():
    odd = {"readOnlyHint": "true", "destructiveHint": None, "openWorldHint": 0}
    assert decide("allow * if read-only\ndeny *", mcp(annotations=odd), trusted="*") == "deny *"
    assert decide("deny if destructive, open world", mcp(annotations=odd), trusted="*")


def test_read_only_tools_destroy_nothing():
    assert decide("deny * if destructive", mcp(annotations={"readOnlyHint": True}), trusted="*") is None


def test_rules_tell_workflows_from_mcp_tools():
    assert decide("deny if workflow", WORKFLOW) == "deny * if workflow"
    assert decide("deny if workflow", mcp()) is None
    assert decide("deny if not mcp", WORKFLOW) == "deny * if not mcp"
    for condition in ("destructive", "not destructive"):
        assert decide(f"deny * if {condition}", WORKFLOW) is None


def test_all_conditions_must_hold():
    rules = "deny * if mcp, destructive"
    assert decide(rules, mcp()) == rules
    assert decide(rules, mcp(annotations={"destructiveHint": False}), trusted="*") is None


def test_names_that_look_like_something_else():
    assert decide("deny", mcp()) == "deny *"
    assert decide("deny @ crm.example", mcp()) == "deny * @ crm.example"
    assert decide('deny "x if"', mcp("x if")) == 'deny "x if"'
    assert decide('deny "Price list"', mcp("price list")) == 'deny "Price list"'
    assert decide('deny "a if destructive"', mcp("a if destructive"))
    assert decide('deny "a if destructive"', mcp("a")) is None


def test_lines_that_cannot_be_read(subtests):
    for line in [
        *("forbid x", "denyx", "-", "deny if", "deny x if", "deny * if not", "deny x if harmless"),
        *("allow * if ,", "deny @", "deny x @ a b"),
        *("deny x unless destructive", "deny x when mcp", "deny Price list", "allow x, y"),
    ]:
        with subtests.test(line=line):
            with pytest.raises(SettingInvalid, match="Line 2") as caught:
                CallRules.parse(f"allow *\n{line}")
            assert caught.value.setting == "rules"
            assert caught.value.fix


def test_a_denied_call_is_an_answer_and_a_record(box, tools_of, server):
    options = ToolOptions(rules=CallRules.parse("deny add"))
    made = box(tools_of(server.url("/one")), options=options)
    before = made.call("called", {}).content
    reply = made.call("add", {"a": 1}, iteration=3)
    assert reply.failed
    assert "not allowed here (rule: deny add)" in reply.content
    record = made.records[-1]
    assert (record.status, record.tool_name, record.iteration, record.attempts) == ("denied", "add", 3, 0)
    assert record.arguments == '{"a":1}'
    assert made.call("called", {}).content == before


def test_after_a_result_of_an_untrusted_server():
    policy = CallRules.parse("deny delete_* if after-untrusted", "crm.example")
    assert denial(policy, mcp()) is None
    assert denial(policy, mcp(), after_untrusted=True) == "deny delete_* if after-untrusted"
    careful = CallRules.parse("deny * if not read-only, after-untrusted", "crm.example")
    assert denial(careful, mcp(annotations=HARMLESS), after_untrusted=True) is None
    assert denial(careful, mcp(host="other.example", annotations=HARMLESS), after_untrusted=True)


@pytest.mark.parametrize(("trusted", "denied"), [("", True), ("127.0.0.1", False)])
def test_what_a_server_said_counts_from_the_next_turn_on(box, tools_of, server, trusted, denied):
    rules = CallRules.parse("deny add if after-untrusted", trusted)
    made = box(tools_of(server.url("/one")), options=ToolOptions(rules=rules))
    assert not made.call("add", {"a": 1}).failed
    assert not made.call("add", {"a": 1}).failed  # of the same turn
    assert made.call("add", {"a": 1}, iteration=2).failed is denied
