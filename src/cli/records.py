"""Records of calls as JSON for other programs: one shape, the same for every command."""

import json
from typing import Any

from ..audit.record import CallRecord

_JSON_TEXTS = ("tool", "arguments", "structured_result")


def record_for_people(record: CallRecord) -> dict[str, Any]:
    """Turns a record into a JSON object, its JSON texts into what they say.

    Args:
        record: The record.

    Returns:
        One key per attribute of the record; absent ones are left out.
    """
    found = record.to_json()
    return {key: json.loads(value) if key in _JSON_TEXTS else value for key, value in found.items()}
