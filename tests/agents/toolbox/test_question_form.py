"""The forms that servers want filled in: every kind of field that the protocol has, and what may be typed."""

import pytest

from knime_mcp.agents.toolbox.approvals import checked_form, form_fields
from knime_mcp.types.errors import ArgumentsInvalid

pytestmark = pytest.mark.quick


TITLED = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
KINDS = {
    "text": ({"type": "string", "minLength": 2}, "text", ()),
    "number": ({"type": "number"}, "number", ()),
    "integer": ({"type": "integer", "minimum": 1}, "integer", ()),
    "yes": ({"type": "boolean"}, "boolean", ()),
    "one": ({"type": "string", "enum": ["s", "l"]}, "choice", (("s", "s"), ("l", "l"))),
    "titled": ({"type": "string", "oneOf": TITLED}, "choice", (("s", "Small"), ("l", "Large"))),
    "older": (
        {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "choice",
        (("s", "Small"), ("l", "Large")),
    ),
    "many": (
        {"type": "array", "items": {"type": "string", "enum": ["s", "l"]}},
        "choices",
        (("s", "s"), ("l", "l")),
    ),
    "titles": ({"type": "array", "items": {"anyOf": TITLED}}, "choices", (("s", "Small"), ("l", "Large"))),
}
SCHEMA = {"type": "object", "properties": {name: part for name, (part, _, _) in KINDS.items()}}


def field(name, **more):
    (found,) = form_fields({"type": "object", "properties": {name: {**KINDS[name][0], **more}}})
    return found


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_field_is_known(name):
    _, kind, choices = KINDS[name]
    assert (field(name).kind, field(name).choices) == (kind, choices)


def test_what_is_typed_becomes_a_value(subtests):
    for name, typed, value in [
        ("text", "12", "12"),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("integer", "-3", -3),
        ("integer", "many", "many"),
        ("yes", "y", True),
        ("yes", "No", False),
        ("yes", "perhaps", "perhaps"),
        ("one", "2", "l"),
        ("titled", "large", "l"),
        ("titled", "s", "s"),
        ("titles", "1, Large", ["s", "l"]),
    ]:
        with subtests.test(name=name, typed=typed, value=value):
            assert field(name).value_of(typed) == value


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"text": "x"}, "/text"),
        ({"integer": 0}, "/integer"),
        ({"integer": "many"}, "/integer"),
        ({"one": "x"}, "/one"),
        ({"many": ["x"]}, "/many/0"),
    ],
)
def test_what_does_not_fit_is_named(content, where):
    with pytest.raises(ArgumentsInvalid) as refused:
        checked_form(SCHEMA, content)
    assert refused.value.pointer == where


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("email", "ada@example.org", "ada"),
        ("uri", "https://example.org", "example"),
        ("date", "2026-01-31", "31.1.2026"),
        ("date-time", "2026-01-31T12:00:00Z", "noon"),
    ],
)
def test_formats_are_checked(kind, good, bad):
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": kind}}}
    assert checked_form(schema, {"x": good}) == {"x": good}
    with pytest.raises(ArgumentsInvalid, match="This is not"):
        checked_form(schema, {"x": bad})


def test_a_schema_that_is_no_form_has_no_fields():
    nested = {"type": "object", "properties": {"x": {"type": "object"}}}
    assert form_fields(nested) is None
    assert form_fields({}) == ()
