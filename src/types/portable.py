"""A tool as text that survives CSV files and any version of KNIME: canonical JSON of the nine fields.

The keys are `FIELD_NAMES`; ``tool_type`` and ``message_output_port_index`` are numbers, everything else is
text or null. Schema and specs stay text within the text, so that they keep their own order and every
character. Fields that do not apply are null; on reading they may be left out.
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
    """A tool as canonical JSON of the nine fields, written once for all calls of the same tool."""
    return _text_of(to_fields(tool))


def from_json_text(text: str, *, row: str | None = None) -> Tool:
    """Reads a tool from JSON: what `to_json_text` wrote, in any layout.

    ``row`` is where the text comes from, for errors.

    Raises:
        ToolFormatError: No JSON object, an unknown key or tool type, a value of the wrong type, or a missing
            field; the message names the field.
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
    given = cast("dict[str, Any]", value)
    unknown = next((key for key in given if key not in FIELD_NAMES), None)
    if unknown is not None:
        shown, known = without_surrogates(unknown), ", ".join(FIELD_NAMES)
        raise _malformed(f"The tool has an unknown field '{shown}'; known are {known}", unknown, row)
    fields: list[Any] = []
    for i, name in enumerate(FIELD_NAMES):
        found = given.get(name)
        if i in {TOOL_TYPE, MESSAGE_INDEX}:
            fits, kind = _is_number(found), "a number of 32 bits"
        else:
            fits, kind = isinstance(found, str), "text"
        if found is not None and not fits:
            raise _malformed(f"The field {name} of the tool must be {kind}", name, row)
        fields.append(without_surrogates(found) if isinstance(found, str) else found)
    return from_fields(*fields, row=row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 32


# Keyed by the very texts: tools compare as equal that only order their schemas differently.
@lru_cache(maxsize=256)
def _text_of(fields: Fields) -> str:
    return canonical_json(dict(zip(FIELD_NAMES, fields, strict=True)))


def _malformed(what: str, field: str, row: str | None) -> ToolFormatError:
    return ToolFormatError(what, field=field, row=row, fix="Make the tool again with the node that lists it")
