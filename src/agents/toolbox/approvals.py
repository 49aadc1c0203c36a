"""What a person says of a call before it is made, in a terminal or a page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast

from ...client.protocol.messages import as_object, as_text
from ...runs.call_values import Allow, Deny, Edit
from ...types.errors import ArgumentsInvalid, CallDenied, Canceled
from ...types.texts import canonical_json
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...runs.call_values import PlannedCall

_PERSON: Final = "a person"
FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]

_FORMATS: Final = {
    "email": "an e-mail address, such as ada@example.org",
    "uri": "an address, such as https://example.org",
    "date": "a date, such as 2026-01-31",
    "date-time": "a moment, such as 2026-01-31T12:00:00Z",
}
_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


class Approvals:
    """The verdicts of one person; which tools that person has allowed for good."""

    def __init__(self) -> None:
        self._always: set[tuple[str, str]] = set()

    def already(self, plan: PlannedCall) -> Allow | None:
        return self._for_good() if called(plan) in self._always else None

    def allow(self, plan: PlannedCall, *, always: bool = False) -> Allow:
        if not always:
            return Allow(_PERSON)
        # With the place, as another server may have a tool of that name.
        self._always.add(called(plan))
        return self._for_good()

    def edit(self, text: str, form: Mapping[str, Any] | None = None) -> Edit:
        """Other arguments, as JSON text, or what was entered in a form, which has a schema.

        Raises `ArgumentsInvalid` if they are no JSON object, or do not fit the form.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentsInvalid(f"This is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise ArgumentsInvalid("The arguments are an object of JSON, in braces")
        arguments = cast("dict[str, Any]", value)
        return Edit(arguments if form is None else checked_form(form, arguments), _PERSON)

    def dismiss(self) -> Deny:
        """Neither yes nor no: the person does not want to decide."""
        return Deny(Canceled("The user has dismissed the question"), f"{_PERSON}: dismissed")

    def unanswered(self, why: str) -> Deny:
        """Nobody has said yes; ``why`` says what came in between."""
        error = CallDenied(
            f"Nobody has allowed this call: {why}", fix="Go on without it, and say what could not be done"
        )
        return Deny(error, f"default: nobody has answered ({why})")

    def refuse(self, reason: str = "") -> Deny:
        said = f": {reason}" if reason else ""
        return Deny(
            CallDenied(
                f"The user does not want this call{said}",
                fix="Do not try it again in another way; ask the user, or go on without it",
            ),
            f"{_PERSON}{said}",
        )

    def _for_good(self) -> Allow:
        return Allow(f"{_PERSON}, for all calls of the tool")


def form_of(plan: PlannedCall) -> dict[str, Any]:
    """The schema of the form that a server asks to fill in."""
    assert isinstance(plan.tool, MCPTool)
    return plan.tool.parameter_schema


def called(plan: PlannedCall) -> tuple[str, str]:  # @ToolTypeDispatch
    """The tool that a call is of, and where that is, for people."""
    tool = plan.tool
    if tool is None:
        return plan.name or "", ""
    match tool:
        case MCPTool():
            return tool.name, tool.route.url
        case WorkflowTool():
            return tool.name, "a workflow"
        case _:
            assert_never(tool)


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
