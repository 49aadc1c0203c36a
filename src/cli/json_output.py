"""What ``--json`` prints and ``--out FILE.json`` writes: results as JSON for other programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..client.protocol.jsonrpc import decode
from ..types.column_kinds import ROW_ID
from ..types.errors import ProtocolError

if TYPE_CHECKING:
    import pyarrow as pa

    from ..audit.record import CallRecord

_JSON_COLUMNS = ("Tool (JSON)", "Parameters", "Example arguments", "Security findings")
_JSON_KEYS = ("tool", "arguments", "structured_result")


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Turns a table into JSON objects: *Tool name* becomes ``tool_name``, and JSON texts are parsed."""
    keys = {name: _key(name) for name in table.column_names if name != ROW_ID}
    return [
        {key: _parsed(row[name]) if name in _JSON_COLUMNS else row[name] for name, key in keys.items()}
        for row in table.to_pylist()
    ]


def json_record(record: CallRecord) -> dict[str, Any]:
    """Turns a record of a call into a JSON object, with its JSON texts parsed.

    Args:
        record: The record.

    Returns:
        One key per attribute of the record; absent attributes are left out.
    """
    members = record.to_json()
    return {key: _parsed(value) if key in _JSON_KEYS else value for key, value in members.items()}


def _parsed(text: str | None) -> Any:
    """Parses JSON text; returns the text itself if it is not JSON, as in edited tables."""
    try:
        return None if text is None else decode(text)
    except ProtocolError:
        return text


def _key(column: str) -> str:
    words = re.sub(r"[^0-9a-z]+", "_", column.removesuffix(" (JSON)").lower())
    return words.strip("_")
