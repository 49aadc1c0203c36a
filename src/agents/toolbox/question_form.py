"""The form that a server wants filled in: its fields, from the schema, and what was entered.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, *Requested Schema*: texts,
numbers, booleans, and choices of one or several, with or without titles, also in the older form with
``enumNames``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ...client.protocol.messages import as_object, as_text
from ...types.errors import ArgumentsInvalid
from ...types.texts import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]

_FORMATS: Final = {
    "email": "an e-mail address, such as ada@example.org",
    "uri": "an address, such as https://example.org",
    "date": "a date, such as 2026-01-31",
    "date-time": "a moment, such as 2026-01-31T12:00:00Z",
}
_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form; `choices` are values with their titles."""

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    format: str = ""

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def hint(self) -> str:
        """What may be entered, for people."""
        return "; ".join(filter(None, (self.description, _FORMATS.get(self.format, ""))))

    def value_of(self, text: str) -> Any:
        """What somebody typed, as a value; a choice also by its number or title. Texts stay what they are."""
        match self.kind:
            case "boolean" if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            case "number" | "integer":
                return _number(text)
            case "choice":
                return self._chosen(text)
            case "choices":
                return [self._chosen(part.strip()) for part in text.split(",") if part.strip()]
            case _:
                return text

    def _chosen(self, text: str) -> str:
        values = [value for value, _ in self.choices]
        # A value that is a number counts before the place of a choice.
        if text not in values and text.isdecimal() and 0 < int(text) <= len(values):
            return values[int(text) - 1]
        titles = {title.casefold(): value for value, title in self.choices}
        return text if text in values else titles.get(text.casefold(), text)


def form_fields(schema: Mapping[str, Any]) -> tuple[FormField, ...] | None:
    """The fields in their order; None if the schema has other ones than forms may have."""
    listed = schema.get("required")
    required = cast("list[Any]", listed) if isinstance(listed, list) else []
    fields: list[FormField] = []
    for name, raw in as_object(schema.get("properties")).items():
        part = as_object(raw)
        kind, choices = _kind_of(part)
        if kind is None:
            return None
        fields.append(
            FormField(
                name=name,
                kind=kind,
                title=as_text(part.get("title")) or "",
                description=as_text(part.get("description")) or "",
                is_required=name in required,
                default=part.get("default"),
                choices=choices,
                format=as_text(part.get("format")) or "",
            )
        )
    return tuple(fields)


def checked_form(schema: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """What was entered, in the types of the schema; raises `ArgumentsInvalid`, which names the field."""
    from ...runs.checked_calls import ArgumentValidator

    checked, _ = ArgumentValidator.for_schema(canonical_json(schema)).check(content)
    for name, raw in as_object(schema.get("properties")).items():
        kind, value = as_object(raw).get("format"), checked.get(name)
        # JSON Schema leaves formats to the reader, and the validator for arguments does not check them.
        if kind in _FORMATS and isinstance(value, str) and not _has_format(str(kind), value):
            raise ArgumentsInvalid(f"This is not {_FORMATS[str(kind)]}", pointer=f"/{name}")
    return checked


def _kind_of(part: Mapping[str, Any]) -> tuple[FieldKind | None, tuple[tuple[str, str], ...]]:
    match part.get("type"):
        case "string" if "enum" in part or "oneOf" in part:
            return "choice", _choices(part)
        case "string":
            return "text", ()
        case "number" | "integer" | "boolean" as kind:
            return kind, ()
        case "array":
            items = as_object(part.get("items"))
            choices = _choices(items)
            return ("choices" if choices else None), choices
        case _:
            return None, ()


def _choices(part: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    # Choices of one are `oneOf`, choices of several `anyOf`.
    titled = part.get("oneOf") or part.get("anyOf")
    if isinstance(titled, list):
        options = [as_object(option) for option in cast("list[Any]", titled)]
        return tuple(
            (str(option.get("const")), str(option.get("title") or option.get("const"))) for option in options
        )
    listed = part.get("enum")
    values = list(map(str, cast("list[Any]", listed))) if isinstance(listed, list) else []
    named = part.get("enumNames")
    titles = list(map(str, cast("list[Any]", named))) if isinstance(named, list) else []
    return tuple(zip(values, titles if len(titles) == len(values) else values, strict=True))


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and text.lstrip("+-").isdecimal() else value


def _has_format(kind: str, value: str) -> bool:
    return _format_checker(kind).is_valid(value)


@cache
def _format_checker(kind: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"type": "string", "format": kind}, validate_formats=True)
