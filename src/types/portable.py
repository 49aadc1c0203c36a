"""A tool as text for CSV files and any version of KNIME: canonical JSON of the nine fields.

The keys are `FIELD_NAMES`; ``tool_type`` and ``message_output_port_index`` are numbers, all other values are
text or null. Schema and specs are JSON texts within the JSON, so that they keep the order of their keys and
every character. Fields that do not apply are null; on reading they may be absent.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from .canonical import canonical_json, without_surrogates
from .errors import ToolFormatError
from .fields import FIELD_NAMES, MESSAGE_INDEX, TOOL_TYPE, from_fields, to_fields
from .tool_texts import parse_json

if TYPE_CHECKING:
    from .fields import Fields
    from .tool import Tool


def to_json_text(tool: Tool) -> str:
    """A tool as canonical JSON of the nine fields, cached for repeated calls."""
    return _text_of(to_fields(tool))


def from_json_text(text: str, *, row: str | None = None) -> Tool:
    """Reads a tool from the JSON of `to_json_text`, in any layout.

    ``row`` is the row of the text, for errors.

    Raises:
        ToolFormatError: The text is no JSON object, or has an unknown key or tool type, a value of the wrong
            type, or a missing field; the message names the field.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _malformed(f"The tool cannot be read: {error}", FIELD_NAMES[TOOL_TYPE], row) from None
    return from_json_value(value, row=row)


def from_json_value(value: Any, *, row: str | None = None) -> Tool:
    """Reads a tool from a parsed JSON value, as `from_json_text` does."""
    if not isinstance(value, dict):
        raise _malformed("The tool is JSON, but not an object", FIELD_NAMES[TOOL_TYPE], row)
    members = cast("dict[str, Any]", value)
    unknown = next((key for key in members if key not in FIELD_NAMES), None)
    if unknown is not None:
        shown, known = without_surrogates(unknown), ", ".join(FIELD_NAMES)
        raise _malformed(f"The tool has an unknown field '{shown}'; known are {known}", unknown, row)
    fields: list[Any] = []
    for i, name in enumerate(FIELD_NAMES):
        field_value = members.get(name)
        if i in {TOOL_TYPE, MESSAGE_INDEX}:
            fits, kind = _is_number(field_value), "a number of 32 bits"
        else:
            fits, kind = isinstance(field_value, str), "text"
        if field_value is not None and not fits:
            raise _malformed(f"The field {name} of the tool must be {kind}", name, row)
        fields.append(without_surrogates(field_value) if isinstance(field_value, str) else field_value)
    return from_fields(*fields, row=row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 32


# Cached by the texts and not by the tool: tools with schemas in different order are equal.
@lru_cache(maxsize=256)
def _text_of(fields: Fields) -> str:
    return canonical_json(dict(zip(FIELD_NAMES, fields, strict=True)))


def _malformed(what: str, field: str, row: str | None) -> ToolFormatError:
    return ToolFormatError(what, field=field, row=row, fix="Make the tool again with the node that lists it")
