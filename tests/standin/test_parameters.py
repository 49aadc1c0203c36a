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
    assert seen["column"] is None
    assert seen["arguments"] == []
    assert seen["made"] == 2  # the minor version, by a default that is a function


def test_settings_are_saved_as_one_document(trial):
    parameters = trial.run_node("Settings", (None,), execute=False).parameters
    assert set(parameters) == {"model"}
    assert parameters["model"]["column"] == ""
    assert parameters["model"]["lines"] == "a\nb"


def test_what_a_node_sets_on_itself_is_kept(trial):
    import pyarrow as pa

    result = trial.run_node("Settings", (pa.table({"t": ["x"]}),))
    assert result.parameters["model"]["column"] == "t"  # in configure()
    assert result.parameters["model"]["flag"] is False  # in execute()


def test_setting_values_checks_them(trial):
    node = trial.new_node("Settings")
    with pytest.raises(ValueError, match="largest"):
        node.number = 10.0
    with pytest.raises(TypeError, match="boolean"):
        node.flag = 1
    node.number = 2.0
    assert node.number == 2.0


def test_unknown_setting_names_the_known_ones(trial):
    failure = trial.run_node("Settings", (None,), {"mod": "LOUD"}).failure
    assert "'mod'" in failure["message"]
    assert "mode" in failure["message"]
    assert failure["invalid_settings"]


def test_settings_of_other_versions(trial):
    """How they become values is compared with KNIME's own: `scenarios.SAVED`."""
    saved = {"zeroth": "z", "first": "a"}
    loaded = trial.load_parameters("versions", {"model": saved}, "1.0.0")["model"]
    assert loaded == {"first": "z", "second": "two of 1.0.0"}
    with pytest.raises(ValueError, match='missing for key "second"'):
        trial.load_parameters("versions", {"model": {"first": "a"}}, "1.1.0")


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


def test_choice_descriptions_are_shown(trial):
    schema = trial.get_dialog("Settings", credentials={"prod": ("u", "p")})["schema"]
    description = schema["properties"]["model"]["properties"]["credential"]["description"]
    assert "- PROD: called prod" in description
    assert "- None\n" in description


def test_a_rule_is_about_a_setting_of_its_node(make_source):
    host = make_source(
        before='stranger = knext.BoolParameter("Stranger", "")',
        body='own = knext.BoolParameter("Own", "").rule(knext.OneOf(stranger, [True]), knext.Effect.HIDE)',
    )
    with pytest.raises(HostError, match="not a setting of this node"):
        host.get_dialog("Source")
