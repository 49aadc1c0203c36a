"""Settings are judged: what is certainly wrong is found, and nothing else is said to be."""

from dataclasses import replace

import pytest

from knime_node_knowledge.configuration_check import check_configuration
from knime_node_knowledge.node_details import derived_defaults
from knime_node_knowledge.node_model import NodeParameter, Option, SourceKind

from .conftest import spec

SETTINGS = (
    NodeParameter(
        name="method",
        type="enum",
        required=True,
        options=(Option(value="GET", label="Fetch"), Option(value="POST")),
    ),
    NodeParameter(name="timeout", type="integer", min=1, max=60, default_value=5, has_default=True),
    NodeParameter(name="share", type="float", min=0, max=1, min_exclusive=True),
    NodeParameter(name="retry", type="boolean"),
    NodeParameter(name="headers", type="object"),
    NodeParameter(name="tags", type="array"),
    NodeParameter(name="url", type="string", validation_pattern="^https?://"),
    NodeParameter(name="ahead", type="string", validation_pattern="^(?=a)"),
    NodeParameter(name="seed", type="long", min=-(2**63), max=2**63 - 1),
    NodeParameter(name="line", type="string", validation_pattern="^[a-z]+$"),
    NodeParameter(name="group.inner", type="integer"),
)
NODE = spec("N", parameters=SETTINGS, settings_known=True)


def problems(**settings):
    return [
        (entry.setting, entry.problem)
        for entry in check_configuration(NODE, {"method": "GET"} | settings).problems
    ]


def test_what_is_right_is_left_alone():
    check = check_configuration(NODE, {"method": "GET"})
    assert (check.valid, check.problems, check.defaults) == (True, (), {"timeout": 5})


def test_what_is_certainly_wrong_is_found(subtests):
    for setting, value, said in [
        ("method", "DELETE", "'DELETE' is not allowed"),
        ("method", None, "is required and is null"),
        ("timeout", 0, "0 is out of range"),
        ("timeout", "61", "61 is out of range"),
        ("timeout", 1.5, "1.5 is no whole number"),
        ("timeout", "soon", "'soon' is no number"),
        ("share", 0, "0 is out of range"),
        ("seed", 2**63, "9223372036854775808 is out of range"),
        ("seed", str(-(2**63) - 1), "-9223372036854775809 is out of range"),
        ("seed", 10**400, "1" + "0" * 78 + "… is out of range"),
        ("seed", float("inf"), "inf is no number"),
        ("retry", "perhaps", "'perhaps' is neither true nor false"),
        ("headers", [1], "[1] is no mapping"),
        ("tags", {"a": 1}, "is a mapping where a list belongs"),
        ("url", "ftp://x", "'ftp://x' has not the form that is wanted"),
        ("methd", "GET", "is not a setting of this node"),
    ]:
        with subtests.test(setting=setting, value=value, said=said):
            assert problems(**{setting: value}) == [(setting, said)]


def test_a_missing_setting_and_a_wrong_key_come_with_what_to_do():
    first, second = check_configuration(NODE, {"metod": "GET"}).problems
    assert (first.setting, first.problem) == ("method", "is required and has no default")
    assert "'GET', 'POST'" in first.fix
    assert second.fix.startswith("Did you mean 'method'?")


def test_no_false_alarm(subtests):
    for settings in [
        {"method": "get"},
        {"method": "Fetch"},
        {"method": "{{ $json.method }}"},
        {"timeout": "5"},
        {"timeout": 5.0},
        {"timeout": "${TIMEOUT}"},
        {"timeout": "=$vars.t"},
        {"retry": "true"},
        {"retry": 1},
        {"headers": '{"a": 1}'},
        {"tags": "a,b"},
        {"url": ""},
        {"url": "$flow.url$"},
        {"ahead": "b"},
        {"line": "\ud800"},
        {"seed": 2**63 - 1},
        {"seed": str(-(2**63))},
        {"line": "abc\n"},
        {"url": None},
        {"method_Internals": {"x": 1}},
        {"__comment": "why"},
        {"group": {"inner": 3}},
        {"group.inner": 3},
    ]:
        with subtests.test(settings=settings):
            assert check_configuration(NODE, {"method": "GET"} | settings).problems == ()


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(a|aa)+$", "^((a+))+$", "^a*a*a*a*a*a*$"])
def test_no_pattern_takes_for_ever(pattern):
    node = replace(NODE, parameters=(NodeParameter(name="text", type="string", validation_pattern=pattern),))
    assert check_configuration(node, {"text": "a" * 2_000}).valid
    (problem,) = check_configuration(node, {"text": "a" * 1_999 + "!"}).problems
    assert problem.problem.endswith("has not the form that is wanted")


def test_of_many_wrong_keys_the_first_are_named():
    found = check_configuration(NODE, {"method": "GET"} | {f"wrong {number}": 1 for number in range(1_000)})
    assert len(found.problems) == 51
    assert (found.problems[-1].setting, found.problems[-1].problem) == (
        "wrong 50",
        "and 949 further keys are not settings of this node",
    )


def test_a_nested_setting_is_judged_as_well():
    assert problems(group={"inner": "x"}) == [("group.inner", "'x' is no number")]


def test_settings_under_model_are_those_of_a_saved_node():
    assert check_configuration(NODE, {"model": {"method": "GET"}, "variables": {}}).valid is True
    assert check_configuration(replace(NODE, parameters=()), {"model": {}}).valid is True


@pytest.mark.parametrize("key", ["configurations", "default_configurations", "parameters", "settings"])
def test_settings_of_a_whole_node_are_found_under_their_key(key):
    whole = {"id": "n1", "type": "ACTION", "subtype": "N", key: {"method": "GET", "timeout": 99}}
    assert [entry.setting for entry in check_configuration(NODE, whole).problems] == ["timeout"]
    beside = {"method": "GET", key: {"timeout": 99}}
    assert [entry.setting for entry in check_configuration(NODE, beside).problems] == [key]
    group = replace(NODE, parameters=(NodeParameter(name=f"{key}.inner", type="integer"),))
    assert check_configuration(group, {key: {"inner": 1}}).valid is True


def test_what_may_be_meant_by_a_part_of_a_name_is_said():
    named = (NodeParameter(name=f"{what}_timeout", type="integer") for what in ("connect", "total"))
    node = replace(NODE, parameters=(*named, NodeParameter(name="model_version", type="string")))
    fixes = [entry.fix for entry in check_configuration(node, {"timeout": 3, "model": "x"}).problems]
    assert fixes[0].startswith("Did you mean 'total_timeout' or 'connect_timeout'?")
    assert fixes[1].startswith("Did you mean 'model_version'?")


def test_what_the_node_takes_when_it_runs_is_no_setting():
    node = replace(NODE, input_params=(NodeParameter(name="message", type="string"),))
    (wrong,) = check_configuration(node, {"method": "GET", "message": "hello"}).problems
    assert wrong.fix.startswith("The node takes it as input when it runs.")


def test_a_node_may_have_a_setting_that_is_called_model():
    chat = replace(NODE, parameters=(NodeParameter(name="model", type="string"), *SETTINGS[1:]))
    for saved in ({"model": {"zzqx": 1}, "variables": {}}, {"model": {"model": "m", "zzqx": 1}}):
        assert [entry.setting for entry in check_configuration(chat, saved).problems] == ["zzqx"]
    assert check_configuration(chat, {"model": "m", "timeout": 9}).valid is True
    (wrong,) = check_configuration(chat, {"model": {"name": "m"}}).problems
    assert (wrong.setting, wrong.problem) == ("model", "is a mapping where a text belongs")


def test_what_a_flow_variable_overwrites_is_not_judged():
    saved = {
        "model": {"timeout": 0, "share": 7, "group": {"inner": "x"}},
        "variables": {
            "version": "V_2019_09_13",
            "tree": {
                "method": {"used_variable": "verb", "exposed_variable": None},
                "timeout": {"used_variable": "t", "exposed_variable": None},
                "share": {"used_variable": None, "exposed_variable": "s"},
                "group": {"inner": {"used_variable": "i", "exposed_variable": None}},
            },
        },
    }
    check = check_configuration(NODE, saved)
    assert [(entry.setting, entry.problem) for entry in check.problems] == [("share", "7 is out of range")]
    assert "'method' is filled in later and was not judged." in check.notes


def test_nothing_is_said_where_nothing_is_known():
    check = check_configuration(replace(NODE, settings_known=False), {"anything": object})
    assert (check.valid, check.problems) == (None, ())
    assert check.notes


def test_no_false_alarm_on_anything_that_comes_along(own_catalogue):
    judged = 0
    for node in own_catalogue.nodes():
        for settings in [*(example.get("configurations", {}) for example in node.examples)]:
            filled = {
                p.name: "x"
                for p in node.configurations
                if p.required and not p.enum_values and p.type == "string"
            }
            wrong = [
                p for p in check_configuration(node, filled | settings).problems if p.setting in settings
            ]
            assert not wrong, (node.id, wrong)
            judged += 1
        defaults = derived_defaults(node.configurations)
        assert check_configuration(node, defaults).valid in (True, None), node.id
        judged += 1
    assert judged > 250


def test_no_false_alarm_on_what_this_extensions_own_dialogs_save(host, own_catalogue):
    for node in own_catalogue.nodes():
        if node.origin.kind is SourceKind.PYTHON_EXTENSION:
            saved = host.dialog(node.id.rpartition(".")[2])["data"]
            check = check_configuration(node, saved)
            assert (check.valid, check.problems) == (True, ()), node.id
