"""Random schemas and arguments: checking gives arguments or an error of ours, and changes nothing given."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.runs.checked_calls import ArgumentValidator
from knime_mcp.types.errors import ArgumentsInvalid, ProtocolError

NAMES = st.sampled_from(["a", "b", "ab", "A b", "ü", "/~", "$ref", ""])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([10**400, 1e300, -0.0]),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(['{"a": 1}', "[1]", "[NaN]", "{", '[{"a": "[]"}]', "\ud800"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=10,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "thing"])


def keywords(inner):
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, max_size=3)),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "patternProperties": st.dictionaries(
                st.sampled_from(["^a", "(?=a)", "(", "\\1"]), inner, max_size=2
            ),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "propertyNames": inner,
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "contains": inner,
            "anyOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=3),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=3),
            "enum": st.lists(st.one_of(NAMES, st.integers(), st.just({"a": 1})), max_size=3),
            "const": st.one_of(NAMES, st.integers()),
            "pattern": st.sampled_from(["^a", "(a+)+$", "(?!b)", "[", "\\p{L}"]),
            "minimum": st.integers(),
            "maxLength": st.one_of(st.integers(-1, 5), st.just(10**400)),
            "multipleOf": st.sampled_from([0, 1, 0.1, -1, 1e-300]),
            "format": st.sampled_from(["password", "date", "x"]),
            "default": VALUES,
            "nullable": st.one_of(st.booleans(), VALUES),
            # No keyword: whatever stands there is no schema, though it may look like one.
            "x-more": st.fixed_dictionaries(
                {
                    "required": st.lists(VALUES, max_size=2),
                    "properties": st.dictionaries(NAMES, inner, max_size=2),
                }
            ),
            "$ref": st.sampled_from(
                ["#", "#/$defs/a", "#/properties/a", "#a", "http://127.0.0.1:9/x", "b", "#/%"]
            ),
            "$dynamicRef": st.sampled_from(["#a", "#"]),
            "$anchor": st.sampled_from(["a", "b"]),
            "$dynamicAnchor": st.just("a"),
            "$id": st.sampled_from(["http://127.0.0.1:9/x", "b", "#", "http://[::1"]),
            "$defs": st.dictionaries(NAMES, inner, max_size=2),
        },
    )


SCHEMAS = st.recursive(st.one_of(st.booleans(), st.just({}), VALUES), keywords, max_leaves=6)
DIALECTS = st.sampled_from(
    [
        None,
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-04/schema",
        "http://127.0.0.1:9/dialect",
        3,
    ]
)


@given(keywords(SCHEMAS), DIALECTS, st.dictionaries(NAMES, VALUES, max_size=4))
def test_checking_gives_arguments_or_says_what_is_wrong(schema, dialect, arguments):
    if dialect is not None:
        schema["$schema"] = dialect
    before = repr(arguments)
    error = None
    try:
        checked, coercions = ArgumentValidator.for_schema(json.dumps(schema)).check(arguments)
        json.dumps(checked, allow_nan=False)
        assert checked == arguments or coercions
    except (ArgumentsInvalid, ProtocolError) as found:
        error = found
    assert repr(arguments) == before
    match error:
        case ArgumentsInvalid():
            assert error.pointer == "" or error.pointer.startswith("/")
        case ProtocolError():
            assert "cannot be used" in str(error)


@given(st.text(max_size=60))
def test_texts_that_are_no_schema(text):
    with contextlib.suppress(ArgumentsInvalid, ProtocolError):
        ArgumentValidator.for_schema(text).check({})
