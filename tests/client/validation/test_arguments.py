import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.limits import Limits
from knime_mcp.client.validation.schemas import compile_schema
from knime_mcp.runs.checked_calls import ArgumentValidator, Coercion
from knime_mcp.types.errors import ArgumentsInvalid, MCPError, ProtocolError
from tests.client.protocol.test_messages import json_values

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
        "maybe": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "array"}, {"type": "string"}]},
        "secret": {"type": "string", "format": "password", "maxLength": 3},
        "pin": {"type": "integer", "writeOnly": True},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def check(schema, arguments):
    return ArgumentValidator.for_schema(json.dumps(schema)).check(arguments)


def refused(schema, arguments):
    with pytest.raises(ArgumentsInvalid) as caught:
        check(schema, arguments)
    return caught.value


def test_good_arguments_pass_as_they_are():
    arguments = {"city": "Ulm", "days": 3.0, "filter": {"tags": ["a"]}}
    assert check(SCHEMA, arguments) == (arguments, ())


@pytest.mark.parametrize(
    ("arguments", "pointer", "parts"),
    [
        ({}, "/city", ["/city is missing", "wanted: text"]),
        ({"citty": "Ulm"}, "/city", ["is 'citty' meant?", "no parameter 'citty' (is 'city' meant?)"]),
        ({"city": 3}, "/city", ["/city must be text", "the integer 3"]),
        ({"city": "Ulm", "days": "3 d"}, "/days", ["must be an integer", 'text "3 d"']),
        ({"city": "Ulm", "days": 99}, "/days", ["at most 14", "99"]),
        ({"city": "Ulm", "unit": "Celcius"}, "/unit", ['"celsius", "fahrenheit"', 'is "celsius" meant?']),
        ({"city": "Ulm", "filter": {"tags": [1]}}, "/filter/tags/0", ["must be text"]),
        ({"city": "Ulm", "x": 1}, "", ["no parameter 'x'", "it has city, days"]),
        ({"city": None}, "/city", ["must be text, but is null"]),
        ({"city": "Ulm", "maybe": 3}, "/maybe", ["must be null or an object"]),
    ],
)
@pytest.mark.requirement("T56")
def test_the_message_says_where_what_is_wanted_and_what_came(arguments, pointer, parts):
    error = refused(SCHEMA, arguments)
    assert error.pointer == pointer
    for part in parts:
        assert part in str(error)
    assert "nothing was sent" in str(error)


def test_secrets_are_told_by_their_type_only():
    error = refused(SCHEMA, {"city": "Ulm", "secret": "hunter2", "pin": "0815"})
    assert "hunter2" not in str(error)
    assert "0815" not in str(error)
    assert "text" in str(error)
    error = refused({"properties": {"api_key": {"type": "integer"}}}, {"api_key": "sk-0815-4711"})
    assert "4711" not in str(error)
    error = refused({"properties": {"o": {"type": "array"}}}, {"o": {"password": "hunter2"}})
    assert "hunter2" not in str(error)
    error = refused({"properties": {"o": {"not": {"type": "string"}}}}, {"o": "hunter2-long"})
    assert "hunter2" not in str(error)


COUNTED = {
    "properties": {
        "count": {"type": "integer"},
        "part": {"type": "number"},
        "sure": {"type": "boolean"},
        "either": {"type": ["integer", "null"]},
        "order": {"properties": {"count": {"type": "integer"}}, "required": ["count"]},
    }
}


@pytest.mark.parametrize(
    ("arguments", "expected", "said"),
    [
        ({"count": "1"}, {"count": 1}, "/count: text was read as integer"),
        ({"count": "-12"}, {"count": -12}, "/count: text was read as integer"),
        ({"part": "1.50"}, {"part": 1.5}, "/part: text was read as number"),
        ({"part": "2"}, {"part": 2}, "/part: text was read as number"),
        ({"sure": "true"}, {"sure": True}, "/sure: text was read as boolean"),
        ({"either": "3"}, {"either": 3}, "/either: text was read as integer"),
        ({"order": {"count": "3"}}, {"order": {"count": 3}}, "/order/count: text was read as integer"),
        ({"count": None, "part": 1}, {"part": 1}, "/count: null was left out"),
    ],
)
def test_what_loses_nothing_is_converted(arguments, expected, said):
    checked, coercions = check(COUNTED, arguments)
    assert checked == expected
    assert [str(coercion) for coercion in coercions] == [said]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"count": "one"}, "/count must be an integer"),
        ({"count": "1.5"}, "/count must be an integer"),
        ({"count": " 1"}, "/count must be an integer"),
        ({"part": "NaN"}, "/part must be a number"),
        ({"part": "0.12345678901234567890123"}, "/part must be a number"),
        ({"sure": "True"}, "/sure must be true or false"),
        ({"order": {"count": None}}, "/order/count must be an integer"),
    ],
)
def test_what_loses_something_or_is_required_is_refused(arguments, said):
    with pytest.raises(ArgumentsInvalid, match=said):
        check(COUNTED, arguments)


@pytest.mark.parametrize(
    ("arguments", "expected", "coercions"),
    [
        ({"filter": '{"tags": ["a"]}'}, {"filter": {"tags": ["a"]}}, [("/filter", "object")]),
        ({"filter": {"tags": ' ["a", "b"]'}}, {"filter": {"tags": ["a", "b"]}}, [("/filter/tags", "array")]),
        (
            {"filter": '{"tags": "[\\"a\\"]"}'},
            {"filter": {"tags": ["a"]}},
            [("/filter", "object"), ("/filter/tags", "array")],
        ),
        ({"maybe": "{}"}, {"maybe": {}}, [("/maybe", "object")]),
        ({"either": "[1]"}, {"either": "[1]"}, []),
        ({"city": "[1]"}, {"city": "[1]"}, []),
    ],
)
def test_text_is_parsed_only_where_no_text_is_wanted(arguments, expected, coercions):
    arguments = {"city": "Ulm", **arguments}
    before = json.dumps(arguments)
    checked, found = check(SCHEMA, arguments)
    assert checked == {"city": "Ulm", **expected}
    assert found == tuple(Coercion(pointer, wanted) for pointer, wanted in coercions)
    assert json.dumps(arguments) == before


@pytest.mark.parametrize("text", ["{", "[1", "3", "null", '"{}"', "[NaN]", "{}", "[" * 5000])
def test_text_that_is_not_what_is_wanted_stays_and_is_refused(text):
    error = refused({"properties": {"a": {"type": "array"}}}, {"a": text})
    assert error.pointer == "/a"


def test_names_with_slashes_are_pointed_to():
    assert refused({"properties": {"a/b~c": {"type": "string"}}}, {"a/b~c": 1}).pointer == "/a~1b~0c"


def test_the_alternative_that_came_closest_is_explained():
    schema = {
        "properties": {
            "shape": {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}},
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "box"}, "w": {"type": "number"}},
                        "required": ["w"],
                    },
                ]
            }
        }
    }
    assert "/shape/w is missing" in str(refused(schema, {"shape": {"kind": "box"}}))


def _object(required, **properties):
    return {"type": "object", "properties": properties, "required": [required]}


@pytest.mark.parametrize(
    ("alternatives", "value", "said"),
    [
        ([_object("n", n={"type": "integer"}), {"type": "null"}], {"n": "x"}, "/a/n must be an integer, but"),
        (
            [{"type": "null"}, _object("n", n={"enum": ["x", "y"]})],
            {"n": "z"},
            '/a/n must be one of "x", "y"',
        ),
        (
            [{"items": {"type": "integer"}, "type": "array"}, {"type": "string"}],
            [1, ""],
            "/a/1 must be an int",
        ),
        (
            [_object("kind", kind={"const": "box"}), _object("kind", kind={"enum": ["disc"]})],
            {"kind": "disk"},
            '/a/kind must be one of "box", "disc" (is "disc" meant?), but is text "disk"',
        ),
        ([{"const": 1}, {"const": 2}], 3, "/a must be one of 1, 2, but is the integer 3"),
        ([{"minimum": 1}, {"multipleOf": 7}], -1, "/a must be a number of at least 1"),
        ([_object("n", n={"const": 1}), _object("m", m={"const": 1})], {"n": 2, "m": 2}, "/a fits none of"),
        ([{"type": "integer", "enum": [1, 2]}, {"type": "null"}], "x", "/a must be an integer or null"),
    ],
)
def test_a_value_that_fits_no_alternative_hears_what_is_wanted(alternatives, value, said):
    error = refused({"properties": {"a": {"anyOf": alternatives}}}, {"a": value})
    assert error.what.startswith(said)
    assert ";" not in error.what


def test_alternatives_that_overlap_are_sent_unless_the_schema_tells_them_apart():
    either = {"oneOf": [{"type": "string"}, {"type": "string", "format": "uuid"}, {"type": "integer"}]}
    assert check({"properties": {"a": either}}, {"a": "x"}) == ({"a": "x"}, ())
    assert refused({"properties": {"a": either}}, {"a": []}).pointer == "/a"
    elsewhere = {"properties": {"a": either, "b": {"$ref": "#/properties/a/oneOf/2"}}}
    assert refused(elsewhere, {"a": "x"}).pointer == "/a"
    both = {"properties": {"a": {**either, "anyOf": [{}]}}}
    assert refused(both, {"a": "x"}).what == "/a fits several alternatives of which it must fit only one"


def test_who_hears_which_values_there_are_need_not_hear_their_type():
    error = refused({"properties": {"a": {"type": "integer", "enum": [1, 2]}}}, {"a": "x"})
    assert error.what == '/a must be one of 1, 2, but is text "x"'


@pytest.mark.parametrize("part", [{"$ref": "#/$defs/s"}, {"allOf": [{"$ref": "#/$defs/s"}]}, {"enum": ["x"]}])
def test_what_is_nullable_takes_null_however_it_is_defined(part):
    schema = {"properties": {"a": {**part, "nullable": True}}, "$defs": {"s": {"type": "string"}}}
    assert check(schema, {"a": None}) == ({"a": None}, ())
    assert refused(schema, {"a": 5}).pointer == "/a"


@pytest.mark.parametrize("schema", [{}, True, {"type": "object"}, {"properties": {}}])
def test_tools_without_parameters_take_anything(schema):
    assert check(schema, {"x": 1}) == ({"x": 1}, ())


def test_empty_text_is_no_schema():
    assert ArgumentValidator.for_schema("").check({"a": 1})[0] == {"a": 1}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$schema": "https://example.com/mine"}, "dialect 'https://example.com/mine'"),
        ({"$schema": 3}, "dialect"),
        ({"$ref": "https://example.com/s.json"}, "never fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "never fetched"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "never fetched"),
        ([], "neither"),
    ],
)
def test_schemas_that_cannot_be_used(schema, reason):
    with pytest.raises(ProtocolError, match=reason):
        ArgumentValidator.for_schema(json.dumps(schema))


def test_text_that_is_no_json_is_no_schema():
    with pytest.raises(ProtocolError, match="not JSON"):
        ArgumentValidator.for_schema("{")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "not there"),
        ('{"type": "strin"}', "strin"),
        ('{"properties": {"a": {"pattern": "("}}}', "regex"),
        ('{"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}}', "regex"),
        ("[" * 100_000, "too deeply"),
        ('{"a":' * 200 + "1" + "}" * 200, "levels deep"),
        ('{"x": "' + "y" * 3_000_000 + '"}', "longer than"),
    ],
)
def test_a_malformed_or_huge_schema_is_no_reason_not_to_call(text, fault):
    validator = ArgumentValidator.for_schema(text)
    assert fault in validator.fault
    assert validator.check({"a": [1]}) == ({"a": [1]}, ())


@pytest.mark.parametrize(
    ("dialect", "schema", "bad"),
    [
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}]}, [1]),
        (
            "http://json-schema.org/draft-07/schema",
            {"definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a"},
            1,
        ),
        ("http://json-schema.org/draft-04/schema#", {"minimum": 1, "exclusiveMinimum": True}, 1),
        ("https://json-schema.org/draft/2019-09/schema", {"dependentRequired": {"a": ["b"]}}, {"a": 1}),
        (None, {"prefixItems": [{"type": "string"}]}, [1]),
    ],
)
def test_dialects_are_honoured(dialect, schema, bad):
    whole = {"properties": {"v": schema}} | ({} if dialect is None else {"$schema": dialect})
    if "definitions" in schema:
        whole = {
            "$schema": dialect,
            "definitions": schema["definitions"],
            "properties": {"v": {"$ref": "#/definitions/a"}},
        }
    assert refused(whole, {"v": bad}).pointer.startswith("/v")


def bomb(levels=30, width=2):
    definitions = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * width} for i in range(levels)}
    return {"$defs": {**definitions, f"a{levels}": {"type": "object"}}, "$ref": "#/$defs/a0"}


def recursive_bomb():
    again = {"$ref": "#/$defs/n"}
    return {"$defs": {"n": {"properties": {"c": {"allOf": [again, again]}}}}, "$ref": "#/$defs/n"}


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"c": value}
    return value


def test_exponential_references_are_refused_in_time():
    for schema, value in [
        (bomb(), {}),
        (bomb(8, 20), {}),
        (recursive_bomb(), nested(40)),
        (bomb(300), {"a": 1}),
    ]:
        error = refused(schema, value)
        assert "too long" in str(error)


def test_recursion_is_legal():
    tree = {
        "$defs": {
            "n": {"type": "object", "properties": {"l": {"$ref": "#/$defs/n"}, "r": {"$ref": "#/$defs/n"}}}
        },
        "properties": {"t": {"$ref": "#/$defs/n"}, "self": {"$ref": "#"}},
    }
    value = {}
    for _ in range(10):
        value = {"l": value, "r": {"l": {}}}
    assert check(tree, {"t": value, "self": {"self": {"t": {}}}})[1] == ()
    assert refused(tree, {"t": {"l": {"r": 3}}}).pointer == "/t/l/r"


def test_conditions_that_nest_alternatives_are_affordable():
    names = ["and", "or", "not", "xor", "nand", "nor", "if", "any", "all", "none"]
    condition = {
        "anyOf": [
            {"properties": {name: {"items": {"$ref": "#/$defs/c"}}}, "required": [name]} for name in names
        ]
        + [{"type": "string"}]
    }
    value = "x"
    for level in range(12):
        value = {names[level % 10]: [value, "y"]}
    assert (
        check({"$defs": {"c": condition}, "properties": {"c": {"$ref": "#/$defs/c"}}}, {"c": value})[1] == ()
    )


def test_references_that_go_round_in_place_end():
    check({"$ref": "#"}, {})
    check({"allOf": [{"$ref": "#"}]}, {})
    check(
        {
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "properties": {"x": {"$ref": "#/$defs/a"}},
        },
        {"x": 1},
    )


def test_anchors_identifiers_and_meta_schemas_resolve():
    schema = {
        "$id": "https://example.com/root",
        "$defs": {
            "a": {"$anchor": "here", "type": "string"},
            "b": {"$id": "inner", "type": "integer", "$defs": {"c": {"type": "null"}}},
        },
        "properties": {
            "x": {"$ref": "#here"},
            "y": {"$ref": "inner"},
            "z": {"$ref": "https://example.com/inner#/$defs/c"},
            "w": {"$ref": "root#/$defs/a"},
            "s": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            "p": {"$ref": "#/x-elsewhere/a~1b"},
        },
        "x-elsewhere": {"a/b": {"type": "boolean"}},
    }
    assert check(schema, {"x": "a", "y": 1, "z": None, "w": "b", "s": {"type": "object"}, "p": True})[1] == ()
    for name, bad in [("x", 1), ("y", "x"), ("z", 1), ("w", 1), ("s", {"type": "strin"}), ("p", 1)]:
        assert refused(schema, {name: bad}).pointer.startswith(f"/{name}")


@pytest.mark.parametrize(("dialect", "key"), [("draft-07", "$id"), ("draft-06", "$id"), ("draft-04", "id")])
def test_identifiers_of_older_dialects_are_anchors(dialect, key):
    schema = {
        "$schema": f"http://json-schema.org/{dialect}/schema#",
        "definitions": {"whole": {key: "#whole", "type": "integer"}},
        "properties": {"a": {"$ref": "#whole"}},
    }
    assert check(schema, {"a": 1})[1] == ()
    assert refused(schema, {"a": "x"}).pointer == "/a"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=(a+)+b$)x", r"(a|a)*\1b", "(a*)*b"])
def test_patterns_cannot_hang(pattern):
    schema = {"properties": {"a": {"pattern": pattern}}}
    with contextlib.suppress(MCPError):
        check(schema, {"a": "a" * 5000 + "!"})


def test_many_violations_are_summed_up():
    error = refused({"additionalProperties": {"type": "integer"}}, {f"k{i}": "x" for i in range(1000)})
    assert "more" in str(error)
    assert len(str(error)) < 2000


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1: 2}, object(), {"x": {1, 2}}])
def test_values_that_json_does_not_have(value):
    with pytest.raises(ArgumentsInvalid):
        check({}, {"v": [value]})


def test_validators_are_compiled_once():
    from knime_mcp.client.validation.schemas import compile_schema

    text = json.dumps({"properties": {"once": {"type": "string"}}})
    assert compile_schema(text, Limits()) is compile_schema(text, Limits())


@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "properties", "$ref", "$defs", "items", "anyOf", "enum", "const", "$id", "pattern"]
        ),
        json_values,
    ),
    st.dictionaries(st.text(), json_values),
)
def test_any_schema_and_arguments_pass_or_are_our_error(schema, arguments):
    try:
        checked, coercions = check(schema, arguments)
    except MCPError:
        return
    assert coercions or checked == arguments


def test_of_very_many_missing_names_one_is_told():
    """The validator would make all errors first, which took 200 MB for 100,000 names."""
    names = [f"name{number}" for number in range(40_000)]
    schema = compile_schema(json.dumps({"type": "object", "required": names}), Limits())
    assert [problem.message for problem in schema.problems({})] == ['"name0" is a required property']
