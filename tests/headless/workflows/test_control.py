"""Flow variables into settings and out of them: KNIME's table of what fits what."""

import pytest

from knime_mcp.headless.workflows.flow_variables import CredentialValue, FlowVariable, controlled
from knime_mcp.headless.workflows.node_kind import WorkflowError
from knime_mcp.knwf import Config, SettingsEntry, VariableControl
from knime_mcp.knwf.json_parameters import from_model, to_model
from knime_mcp.knwf.settings_xml import array

SETTINGS = Config(
    "model",
    (
        SettingsEntry("text", "xstring", "old"),
        SettingsEntry("flag", "xboolean", False),
        SettingsEntry("int", "xint", 1),
        SettingsEntry("long", "xlong", 1),
        SettingsEntry("double", "xdouble", 1.0),
        SettingsEntry("password", "xpassword", "x"),
        array("texts", "xstring", ["a", "b"]),
        array("ints", "xint", [1]),
        Config(
            "group",
            (
                SettingsEntry("json-type_Internals", "xstring", "OBJECT"),
                SettingsEntry("inner", "xstring", "old"),
            ),
        ),
    ),
)
VALUES = {
    "STRING": "true",
    "BOOLEAN": True,
    "INTEGER": 7,
    "LONG": 8,
    "DOUBLE": 2.5,
    "STRINGARRAY": ("x", "y"),
    "INTARRAY": (3, 4),
}
FITS = {
    "STRING": {"text": "true", "flag": True, "texts": ["true"]},
    "BOOLEAN": {"text": "true", "flag": True, "texts": ["true"]},
    "INTEGER": {"text": "7", "int": 7, "long": 7, "double": 7.0, "texts": ["7"], "ints": [7]},
    "LONG": {"text": "8", "long": 8, "double": 8.0, "texts": ["8"]},
    "DOUBLE": {"text": "2.5", "double": 2.5, "texts": ["2.5"]},
    "STRINGARRAY": {"texts": ["x", "y"]},
    "INTARRAY": {"texts": ["3", "4"], "ints": [3, 4]},
}


def replaced(kind, value, *path):
    control = VariableControl(path, used="v")
    model, exposed = controlled(SETTINGS, [control], {"v": FlowVariable("v", kind, value)})
    assert exposed == ()
    return from_model(model)[0]["model"]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("setting", ["text", "flag", "int", "long", "double", "texts", "ints"])
def test_a_variable_replaces_settings_of_its_own_and_of_wider_types(kind, setting):
    if setting in FITS[kind]:
        found = replaced(kind, VALUES[kind], setting)[setting]
        assert (type(found), found) == (type(FITS[kind][setting]), FITS[kind][setting])
    else:
        with pytest.raises(WorkflowError, match="cannot replace the setting"):
            replaced(kind, VALUES[kind], setting)


def test_inner_settings():
    assert replaced("STRING", "new", "group", "inner")["group"] == {"inner": "new"}


def test_settings_of_an_array_of_groups():
    model = to_model({"model": {"arguments": [{"name": "a", "value": "old"}]}}, "1.0.0")
    control = VariableControl(("arguments", "0", "value"), used="v")
    after, _ = controlled(model, [control], {"v": FlowVariable("v", "STRING", "new")})
    assert from_model(after)[0]["model"]["arguments"] == [{"name": "a", "value": "new"}]


def test_an_empty_list_of_texts_takes_texts():
    model = to_model({"model": {"names": []}}, "1", schema=_schema({"type": "string"}))
    after, _ = controlled(
        model, [VariableControl(("names",), used="v")], {"v": FlowVariable("v", "STRINGARRAY", ("a",))}
    )
    assert from_model(after)[0]["model"]["names"] == ["a"]


def _schema(items):
    names = {"names": {"type": "array", "items": items}}
    return {"properties": {"model": {"properties": names}}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (1.5e-5, "1.5E-5"),
        (-12345678.9, "-1.23456789E7"),
        (1e22, "1.0E22"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_as_java_writes_them(value, text):
    assert replaced("DOUBLE", value, "text")["text"] == text


def test_exposed_settings():
    controls = [VariableControl(("int",), exposed="i"), VariableControl(("texts",), exposed="t")]
    assert controlled(SETTINGS, controls, {})[1] == (
        FlowVariable("i", "INTEGER", 1),
        FlowVariable("t", "STRINGARRAY", ("a", "b")),
    )


def test_a_setting_is_exposed_as_it_was_replaced():
    both = [VariableControl(("text",), used="v", exposed="out")]
    _, exposed = controlled(SETTINGS, both, {"v": FlowVariable("v", "STRING", "new")})
    assert exposed == (FlowVariable("out", "STRING", "new"),)


def test_credentials_replace_credentials_only():
    credential = FlowVariable("prod", "CREDENTIALS", CredentialValue("me", "secret"))
    place = Config(
        "c",
        (SettingsEntry("isCredentials_Internals", "xboolean", True), SettingsEntry("name", "xstring", "")),
    )
    model, _ = controlled(
        Config("model", (place,)), [VariableControl(("c",), used="prod")], {"prod": credential}
    )
    assert (model.config("c").text("name"), model.config("c").text("login")) == ("prod", "me")
    assert "secret" not in repr(model)
    with pytest.raises(WorkflowError, match="cannot replace"):
        controlled(SETTINGS, [VariableControl(("text",), used="prod")], {"prod": credential})


def test_a_setting_or_variable_that_is_not_there_is_named():
    with pytest.raises(
        WorkflowError, match="'v', which sets 'text', does not arrive here; those that do: 'w'"
    ):
        controlled(SETTINGS, [VariableControl(("text",), used="v")], {"w": FlowVariable("w", "STRING", "")})
    with pytest.raises(WorkflowError, match="'nothing'"):
        replaced("STRING", "x", "nothing")
    with pytest.raises(WorkflowError, match=r"'text\.deeper'"):
        replaced("STRING", "x", "text", "deeper")
    with pytest.raises(WorkflowError, match="'password'"):
        controlled(SETTINGS, [VariableControl(("password",), exposed="p")], {})
    with pytest.raises(WorkflowError, match="true or false"):
        replaced("STRING", "maybe", "flag")
