"""Parameters as values, JSON documents and dialogs."""

import pytest

from tests.support.knime_host import HostError

pytestmark = pytest.mark.quick


def values(trial, **options):
    """What the Settings node saw, by name."""
    import json

    result = trial.run_node("Settings", (None,), **options)
    assert result.ok, result.failure
    return {row["name"]: json.loads(row["value"]) for row in result.outputs[0].to_pylist()}


def test_settings_that_nobody_set_have_their_defaults(trial):
    seen = values(trial)
    assert seen["mode"] == "PLAIN"
    assert seen["several"] == ["A", "B"]
    assert seen["column"] is None
    assert seen["arguments"] == []
    assert seen["made"] == 2  # the minor version, by a default that is a function


def test_settings_are_saved_as_one_document(trial):
    parameters = trial.run_node("Settings", (None,), execute=False).parameters
    assert set(parameters) == {"model"}
    assert parameters["model"]["column"] == ""
    assert parameters["model"]["more"] == {"count": 3, "text": "a\nb", "inner": {"depth": 2}}


def test_nodes_share_no_values(trial):
    assert values(trial, parameters={"more": {"count": 5}, "several": []})["count"] == 5
    assert values(trial)["count"] == 3


def test_what_a_node_sets_on_itself_is_kept(trial):
    import pyarrow as pa

    result = trial.run_node("Settings", (pa.table({"t": ["x"]}),))
    assert result.parameters["model"]["column"] == "t"  # in configure()
    assert result.parameters["model"]["flag"] is False  # in execute()
    assert result.parameters["model"]["more"]["count"] == 7  # in a group


def test_setting_values_checks_them(trial):
    node = trial.new_node("Settings")
    with pytest.raises(ValueError, match="largest"):
        node.more.count = 10
    with pytest.raises(ValueError, match="negative"):
        node.number = -1.0
    with pytest.raises(RuntimeError, match="group"):
        node.more = None
    node.more.count = 9
    assert node.more.count == 9


def test_unknown_setting_names_the_known_ones(trial):
    failure = trial.run_node("Settings", (None,), {"mod": "LOUD"}).failure
    assert "'mod'" in failure["message"]
    assert "mode" in failure["message"]
    assert failure["invalid_settings"]


@pytest.mark.parametrize(
    ("saved", "version", "expected"),
    [
        ({"first": "a"}, "1.0.0", {"first": "a", "second": "two of 1.0.0", "late": {"level": "new"}}),
        ({"first": "a"}, None, {"first": "a", "second": "two of 0.0.0", "late": {"level": "new"}}),
        (
            {"zeroth": "z", "first": "a"},
            "1.0.0",
            {"first": "z", "second": "two of 1.0.0", "late": {"level": "new"}},
        ),
        (
            {"first": "a", "second": "b", "late": {"level": "c"}, "nonsense": 1},
            "1.2.0",
            {"first": "a", "second": "b", "late": {"level": "c"}},
        ),
    ],
)
def test_saved_settings_of_other_versions(trial, saved, version, expected):
    assert trial.load_parameters("versions", {"model": saved}, version)["model"] == expected


def test_setting_of_the_saved_version_must_be_there(trial):
    with pytest.raises(ValueError, match="second"):
        trial.load_parameters("versions", {"model": {"first": "a", "late": {"level": "x"}}}, "1.1.0")


def test_opening_a_dialog_changes_a_default_of_the_class(make_source):
    """As in KNIME: with choices and an empty default, the first choice becomes every node's default."""
    host = make_source(
        body="""naive = knext.StringParameter("Naive", "", choices=lambda ctx: ctx.get_credential_names())
    safe = knext.StringParameter("S", "", "<none>", choices=lambda c: ["<none>", *c.get_credential_names()])
"""
    )
    assert host.run_node("Source").parameters["model"] == {"naive": "", "safe": "<none>"}
    dialog = host.get_dialog("Source", credentials={"prod": ("u", "p")})
    naive = dialog["schema"]["properties"]["model"]["properties"]["naive"]
    assert naive["oneOf"] == [{"const": "prod", "title": "prod"}]
    assert host.run_node("Source").parameters["model"] == {"naive": "prod", "safe": "<none>"}


def test_dialog_without_choices_says_so(trial):
    elements = trial.get_dialog("Settings")["ui_schema"]["elements"]
    naive = next(element for element in elements if element["scope"].endswith("/naive"))
    assert naive["options"] == {"format": "dropDown", "placeholder": "No values present"}


def test_choice_descriptions_are_shown(trial):
    schema = trial.get_dialog("Settings", credentials={"prod": ("u", "p")})["schema"]
    description = schema["properties"]["model"]["properties"]["credential"]["description"]
    assert "- PROD: called prod" in description
    assert "- None\n" in description


def test_rules_become_conditions_of_the_dialog(trial):
    import pyarrow as pa

    def effect(dialog, name):
        return next(e["rule"] for e in dialog["ui_schema"]["elements"] if e.get("scope", "").endswith(name))

    dialog = trial.get_dialog("Settings")
    root = "#/properties/model/properties"
    assert effect(dialog, "/more_shown") == {
        "effect": "SHOW",
        "condition": {
            "type": "AND",
            "conditions": [
                {
                    "scope": f"{root}/more/properties/count",
                    "schema": {"oneOf": [{"const": 1}, {"const": 2}]},
                },
                {
                    "type": "OR",
                    "conditions": [
                        {"scope": f"{root}/several", "schema": {"contains": {"const": "A"}}},
                        {"scope": f"{root}/flag", "schema": {"oneOf": [{"const": True}]}},
                    ],
                },
            ],
        },
    }
    assert effect(dialog, "/with_input")["condition"]["schema"] == {"type": ["null"]}
    connected = trial.get_dialog("Settings", [pa.table({"t": ["x"]})])
    assert effect(connected, "/with_input")["condition"]["schema"] == {"type": ["object"]}


def test_a_rule_is_about_a_setting_of_its_node(make_source):
    host = make_source(
        before='stranger = knext.BoolParameter("Stranger", "")',
        body='own = knext.BoolParameter("Own", "").rule(knext.OneOf(stranger, [True]), knext.Effect.HIDE)',
    )
    with pytest.raises(HostError, match="not a setting of this node"):
        host.get_dialog("Source")


def test_known_defects_of_knime_are_kept():
    import knime.extension as knext

    class Options(knext.EnumParameterOptions):
        A = ("A", "a")

    with pytest.raises(AttributeError, match="validator"):
        knext.EnumParameter("E", "", "A", Options, validator=print)
    with pytest.raises(AttributeError, match="default_value"):
        knext.EnumParameter("E", "", enum=Options)


def test_group_defaults_from_its_constructor(trial):
    import knime.extension as knext

    @knext.parameter_group("G")
    class Group:
        n = knext.IntParameter("N", "", 1)

        def __init__(self, n=1):
            self.n = n

    class Node:
        few = Group()
        many = Group(100)

    node = Node()
    assert (node.few.n, node.many.n) == (1, 100)
    node.few.n = 5
    assert (node.few.n, Node().few.n) == (5, 1)
