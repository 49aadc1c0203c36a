"""The flow variable that lets the Caller's dialog offer the Provider's tools.

A KNIME dialog sees no table rows, only specs, credentials and flow variables. The Provider therefore pushes
one string-array flow variable, ``mcp_tools: <prefix or host>``, and dialogs that offer tools read all
variables with such names. Each entry is the canonical JSON of one object::

    {"description": "…", "name": "crm_search", "server": "https://host/mcp",
     "signature": "query: string, limit?: integer", "type": "mcp"}

``name`` is the shown name. ``description`` is cut to keep the variable small; the table has the full text.
Unknown keys are ignored and unreadable entries are skipped, so that versions can be mixed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ...client.validation.argument_schemas import listed_parameters, resolve
from ...types.texts import canonical_json, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PREFIX: Final = "mcp_tools: "
"""The beginning of the names of these flow variables."""

_MAX_CHARACTERS: Final = 1_000_000
_DESCRIPTIONS: Final = (600, 120, 0)
"""Lengths of descriptions to try, in characters; the more tools, the shorter the descriptions."""
_MAX_PARAMETERS: Final = 12
_MAX_DEPTH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    name: str  # shown name, unique in the Provider's table
    type: str = "mcp"  # or workflow
    server: str = ""  # URL without secrets, or stdio:<name>
    signature: str = ""
    description: str = ""  # may be cut

    @property
    def label(self) -> str:
        return f"{self.name}({self.signature})"


def variable_name(prefix: str, servers: Sequence[str], *, taken: Iterable[str] = ()) -> str:
    """The name of the flow variable, from the Provider's prefix, which may be empty, and the servers' URLs.

    It is ``mcp_tools: `` and the prefix without its separator, else the host (``host + 2 more`` for several
    servers), with a number if that name is taken by another flow variable.
    """
    hosts = list(dict.fromkeys(urlsplit(server).netloc or server for server in servers)) or ["no server"]
    several = f"{hosts[0]} + {len(hosts) - 1} more" if len(hosts) > 1 else hosts[0]
    name = base = PREFIX + (prefix.rstrip(" _-.:/") or several)
    number = 1
    occupied = set(taken)
    while name in occupied:
        number += 1
        name = f"{base} ({number})"
    return name


def encode_choices(choices: Sequence[ToolChoice]) -> list[str]:
    """The value of the flow variable, one entry per tool, with descriptions cut to fit."""
    entries: list[str] = []
    for length in _DESCRIPTIONS:
        cut = [replace(tool, description=shortened(tool.description, length)) for tool in choices]
        entries = [canonical_json(asdict(tool)) for tool in cut]
        if sum(map(len, entries)) <= _MAX_CHARACTERS:
            break
    return entries


def decode_choices(flow_variables: Mapping[str, Any]) -> list[ToolChoice]:
    """Reads the tools that Providers pushed, each name once. Never raises, so that the dialog opens."""
    tools: dict[str, ToolChoice] = {}
    for name, value in flow_variables.items():
        if name.startswith(PREFIX) and isinstance(value, (list, tuple)):
            for entry in cast("Sequence[object]", value):
                tool = _decoded(entry)
                if tool is not None:
                    tools.setdefault(tool.name, tool)
    return list(tools.values())


def signature(schema: Mapping[str, Any]) -> str:
    """The parameters of a schema in short, such as ``query: string, limit?: integer``; ``?`` is optional."""
    root = dict(schema)
    known, needed = listed_parameters(root)
    names = sorted(known, key=lambda name: name not in needed)
    parts = [f"{name}{'' if name in needed else '?'}: {type_in_words(root, known[name])}" for name in names]
    more = [f"… {len(parts) - _MAX_PARAMETERS} more"] if len(parts) > _MAX_PARAMETERS else []
    return ", ".join(parts[:_MAX_PARAMETERS] + more)


def type_in_words(root: dict[str, Any], part: Any, depth: int = 0) -> str:
    """The type that a part of a schema wants: ``string``, ``integer or string``, ``choice``, ``any`` ...

    ``root`` is the whole schema, for references; ``depth`` the number of alternatives (``anyOf``) around.
    """
    schema = resolve(root, part)
    declared = schema.get("type")
    branches = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(declared, str):
        return declared
    if isinstance(declared, list) and all(isinstance(kind, str) for kind in cast("list[Any]", declared)):
        kinds = cast("list[str]", declared)
    elif isinstance(branches, list) and depth < _MAX_DEPTH:
        kinds = [type_in_words(root, branch, depth + 1) for branch in cast("list[Any]", branches)[:6]]
    elif "enum" in schema or "const" in schema:
        return "choice"
    else:
        kinds = ["object"] if "properties" in schema else []
    return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or "any"


def _decoded(entry: object) -> ToolChoice | None:
    try:
        fields = json.loads(entry) if isinstance(entry, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    known = cast("dict[str, object]", fields)
    texts = {
        key: value
        for key in ("name", "type", "server", "signature", "description")
        if isinstance(value := known.get(key), str)
    }
    return ToolChoice(**texts) if texts.get("name") else None
