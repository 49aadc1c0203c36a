import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given

from knime_mcp.knwf.json_parameters import from_model, is_json_model, to_model
from knime_mcp.knwf.settings_xml import Config, KnwfError, from_xml, to_xml
from tests.knwf.strategies import parameters
from tests.support import real_knime as rig


def of(schema, **values):
    return {"properties": {"model": {"properties": schema}}}, {"model": values}


@given(parameters())
def test_parameters_come_back(given_parameters):
    schema, values = given_parameters
    model = to_model(values, "1.2.3", schema=schema)
    stored = from_xml(to_xml(model), "settings.xml")
    assert from_model(stored) == (values, "1.2.3")
    assert is_json_model(stored)


@given(parameters())
def test_two_mappings_agree(given_parameters):
    """The rig has the mapping a second time, written by others from KNIME's Java."""
    schema, values = given_parameters
    model = to_model(values, "1.2.3", schema=schema)
    assert rig.from_settings_xml(ET.fromstring(to_xml(model))) == (values, "1.2.3")
    theirs = rig.to_settings_xml(values, schema, "1.2.3")
    assert from_model(from_xml(theirs.encode(), "settings.xml")) == (values, "1.2.3")
    assert _shape(from_xml(theirs.encode(), "settings.xml")) == _shape(model)


def _shape(config):
    """Keys, order, types and values, without the spelling of numbers."""
    return [
        (child.key, _shape(child)) if isinstance(child, Config) else (child.key, child.type, child.value)
        for child in config
    ]


def test_the_schema_decides_the_type_of_numbers():
    schema, values = of({"a": {"type": "number"}, "b": {"type": "integer", "format": "int64"}}, a=1, b=1)
    model = to_model(values, "1.0.0", schema=schema)
    assert [(e.type, e.value) for e in model][:2] == [("xdouble", 1.0), ("xlong", 1)]


def test_without_schema_values_decide():
    values = {
        "model": {
            "text": "a",
            "none": None,
            "int": 1,
            "long": 2**40,
            "double": 1.0,
            "bool": True,
            "mixed": [1, 2**40],
            "numbers": [1, 2.5],
            "texts": ["a", None],
            "group": {"x": 1, "inner": {"y": [True]}},
            "groups": [{"a": "b"}, {"a": "c"}],
            "empty": [],
        }
    }
    model = to_model(values, "1.0.0")
    assert from_model(from_xml(to_xml(model), "m")) == (values, "1.0.0")
    types = {e.key: e.type for e in model if not isinstance(e, Config)}
    assert (types["int"], types["long"], types["double"]) == ("xint", "xlong", "xdouble")
    assert model.config("mixed").get("0").type == "xlong"
    assert model.config("empty").children == ()


def test_empty_and_null_lists_differ():
    array = {"type": "array", "items": {"type": "string"}}
    schema, values = of({"a": array, "b": array}, a=[], b=None)
    model = to_model(values, "1.0.0", schema=schema)
    assert model.config("a").text("json-type_Internals") == "STRING_ARRAY"
    assert model.config("a").value("null_Internals") is False
    assert from_model(model)[0] == values


def test_what_does_not_fit_is_refused(subtests):
    for schema, value, message in [
        ({"type": "integer"}, None, "parameter p is None"),
        ({"type": "integer"}, 2**31, "more than KNIME's int"),
        ({"type": "integer", "format": "int64"}, 2**63, "more than KNIME's long"),
        ({"type": "integer"}, 1.5, "is 1.5"),
        ({"type": "integer"}, True, "is True"),
        ({"type": "boolean"}, 0, "is 0"),
        ({"type": "number"}, "1", "is '1'"),
        ({"type": "string"}, 1, "is 1"),
        ({"type": "array", "items": {"type": "integer"}}, [1, None], r"p\[1\] is None"),
        ({"type": "array", "items": {"type": "integer"}}, "12", "must be a list"),
        ({"type": "object", "properties": {"q": {"type": "string"}}}, {"q": 1}, "p.q is 1"),
        ({"type": "object", "properties": {}}, {"q": 1}, "no parameter p.q"),
        ({"type": "object", "properties": {}}, [], "must be an object"),
        ({"type": "date"}, "", "type 'date'"),
    ]:
        with subtests.test(schema=schema, value=value, message=message):
            own, values = of({"p": schema}, p=value)
            with pytest.raises(KnwfError, match=message):
                to_model(values, "1.0.0", schema=own)


def test_what_knime_would_drop_is_refused():
    schema, values = of({"server_url": {"type": "string"}}, sever_url="https://host/mcp")
    with pytest.raises(KnwfError, match="no parameter sever_url; it has: server_url"):
        to_model(values, "1.0.0", schema=schema)


def test_settings_without_version_count_as_the_oldest():
    assert from_model(Config("model")) == ({"model": {}}, "0.0.0")
    assert not is_json_model(Config("model"))


def test_infinite_numbers_come_back():
    schema, values = of({"a": {"type": "number"}}, a=math.inf)
    assert from_model(from_xml(to_xml(to_model(values, "1", schema=schema)), "m"))[0] == values
