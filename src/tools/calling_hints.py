"""How a tool is called, for people: its parameters in short, in dialogs too, and example arguments.

A KNIME dialog sees no table rows, only specs, credentials and flow variables. The Provider therefore pushes
one string-array flow variable, ``mcp_tools: <host>``, and dialogs that offer tools read all
variables with such names. Each entry is canonical JSON: a server's route, for the tools after it, or a tool::

    {"server": "https://host/mcp#credential=crm"}
    {"description": "…", "digest": "sha256:…", "name": "crm_search",
     "parameters": [["query", "string", true, ""], ["limit", "integer", false, "10"]], "tool": "search"}

``name`` is the shown name, ``tool`` the server's, if it differs. A variable is copied into every node behind
the Provider, so it is kept small: the more tools there are, the more is left out; tables have all of it.
Unknown keys are ignored and unreadable entries are skipped, so that versions can be mixed.

Example arguments are made from a tool's schema, ready to copy into the Caller and to change. They hold the
required properties, and those for which the schema has a default or an example: an invented value for an
optional property would change what the tool does. Only references within the schema are followed, and
recursion ends where no property is required.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from ..client.protocol.messages import as_list, as_object
from ..client.validation.argument_schemas import (
    listed_parameters,
    matches,
    member,
    required_names,
    resolve,
    type_of,
)
from ..types.errors import MCPError
from ..types.routing import ServerRoute, qualified
from ..types.texts import canonical_json, compact_json, numbered, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


PREFIX: Final = "mcp_tools: "
"""The beginning of the names of these flow variables."""

_MAX_CHARACTERS: Final = 32_768
_DETAILS: Final = ((600, True, 80), (120, True, 80), (0, True, 80), (0, False, 80), (0, False, 0))
"""Length of the description, whether there are parameters, and length of the digest, until all tools fit."""
_MAX_PARAMETERS: Final = 12
_MAX_ALTERNATIVES: Final = 3
_MOST_CHOICES: Final = 8
_LONGEST_CHOICES: Final = 60
_LONGEST_DEFAULT: Final = 20
_LONGEST_LABEL: Final = 200


class ParameterHint(NamedTuple):
    """A parameter of a tool."""

    name: str
    type: str
    is_required: bool
    default: str = ""  # JSON, may be cut

    @property
    def label(self) -> str:
        said = f"{self.type}, required" if self.is_required else self.type
        return f"{self.name}: {said}{f' = {self.default}' if self.default else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """A tool as a dialog shows it."""

    name: str  # shown name, unique in the Provider's table
    route: str = ""  # `ServerRoute.uri` without tool and digest: the server and the name of its credential
    tool: str = ""  # the server's name of the tool, if the shown one is another
    digest: str = ""
    description: str = ""  # may be cut
    parameters: tuple[ParameterHint, ...] | None = None  # all of them, or None where they had no room

    @property
    def server(self) -> str:
        """The server's URL, as tables show it."""
        return ServerRoute.parse(self.route).url if self.route else ""

    def label(self, name: str) -> str:
        """The tool with its parameters, under the name by which it is offered."""
        if self.parameters is None:
            return f"{name}(…)"
        most = _MAX_PARAMETERS
        while len(text := _in_short(self.parameters, most)) > _LONGEST_LABEL and most:
            most -= 1
        return f"{name}({text})"


def variable_name(servers: Sequence[str], *, taken: Iterable[str] = ()) -> str:
    """The name of the flow variable, from the servers' URLs.

    It is ``mcp_tools: `` and the host (``host + 2 more`` for several servers), with a number if that name is
    taken by another flow variable.
    """
    hosts = list(dict.fromkeys(urlsplit(server).netloc or server for server in servers)) or ["no server"]
    several = f"{hosts[0]} + {len(hosts) - 1} more" if len(hosts) > 1 else hosts[0]
    return numbered([*taken, PREFIX + several])[-1]


def encode_choices(choices: Sequence[ToolChoice]) -> list[str]:
    """The value of the flow variable, with as many details as fit: they go before any tool does."""
    entries: list[str] = []
    for details in _DETAILS:
        entries = [
            entry
            for route, tools in groupby(choices, lambda choice: choice.route)
            for entry in (canonical_json({"server": route}), *(_encoded(tool, *details) for tool in tools))
        ]
        if sum(map(len, entries)) <= _MAX_CHARACTERS:
            break
    return entries


def _encoded(tool: ToolChoice, description: int, has_parameters: bool, digest: int) -> str:
    texts = {
        "name": tool.name,
        "tool": tool.tool,
        "digest": tool.digest[:digest],
        "description": shortened(tool.description, description) if description else "",
    }
    entry: dict[str, Any] = {key: text for key, text in texts.items() if text}
    if has_parameters and tool.parameters is not None:
        entry["parameters"] = [list(parameter) for parameter in tool.parameters]
    return canonical_json(entry)


def decode_choices(flow_variables: Mapping[str, Any]) -> list[ToolChoice]:
    """Reads the tools that Providers pushed, each once. Never raises, so that the dialog opens."""
    tools: dict[tuple[str, str], ToolChoice] = {}
    for name, value in flow_variables.items():
        if not name.startswith(PREFIX) or not isinstance(value, (list, tuple)):
            continue
        route = ""
        for entry in map(_decoded, cast("Sequence[object]", value)):
            texts = {key: text for key in _TEXTS if isinstance(text := entry.get(key), str) and text}
            if "name" in texts:
                tool = ToolChoice(route=route, parameters=_hints(entry.get("parameters")), **texts)
                # The same Provider may come in on several ways through the workflow.
                tools.setdefault((tool.name, route), tool)
            elif isinstance(server := entry.get("server", route), str):
                route = _readable(server)
    return list(tools.values())


_TEXTS: Final = ("name", "tool", "digest", "description")


def _decoded(entry: object) -> dict[str, Any]:
    try:
        return as_object(json.loads(entry) if isinstance(entry, str) else None)
    except (ValueError, RecursionError):
        return {}


def _hints(entries: Any) -> tuple[ParameterHint, ...] | None:
    """All parameters, or none: where some are choices, KNIME lets nobody enter the name of another."""
    hints: list[ParameterHint] = []
    for entry in as_list(entries):
        match entry:
            case [str(name), str(kind), bool(is_required), str(default)]:
                hints.append(ParameterHint(name, kind, is_required, default))
            case _:
                return None
    return tuple(hints) if isinstance(entries, list) else None


def offered(choices: Sequence[ToolChoice]) -> dict[str, ToolChoice]:
    """The tools by what a dialog offers and a node saves: the name, with the server where several have it."""
    shared = Counter(choice.name for choice in choices)
    named = Counter((choice.name, choice.server) for choice in choices)
    by_id: dict[str, ToolChoice] = {}
    for choice in choices:
        name = choice.name
        if shared[name] > 1:
            is_same = named[name, choice.server] > 1
            name = qualified(name, choice.server, _credential(choice.route) if is_same else None)
        by_id.setdefault(name, choice)
    return by_id


def _credential(route: str) -> str | None:
    return ServerRoute.parse(route).credential if route else None


def _readable(route: str) -> str:
    try:
        return ServerRoute.parse(route).uri
    except MCPError:
        return ""


def parameter_hints(schema: Mapping[str, Any]) -> tuple[ParameterHint, ...]:
    """The parameters of a schema, required ones first, else in the server's order."""
    root = dict(schema)
    known, needed = listed_parameters(root)
    return tuple(
        ParameterHint(name, type_in_words(root, known[name]), name in needed, _default(root, known[name]))
        for name in sorted(known, key=lambda name: name not in needed)
    )


def signature(schema: Mapping[str, Any]) -> str:
    """The parameters of a schema in short: ``query: string, limit?: integer = 10``; ``?`` is optional."""
    return _in_short(parameter_hints(schema), _MAX_PARAMETERS)


def _in_short(hints: Sequence[ParameterHint], most: int) -> str:
    parts = [
        f"{name}{'' if is_required else '?'}: {kind}{f' = {default}' if default else ''}"
        for name, kind, is_required, default in hints[:most]
    ]
    return ", ".join([*parts, *([f"… {len(hints) - most} more"] if len(hints) > most else [])])


def _default(root: dict[str, Any], part: Any) -> str:
    default = resolve(root, part).get("default")
    if default is None or default == "":
        return ""
    return shortened(json.dumps(default, ensure_ascii=False), _LONGEST_DEFAULT)


def type_in_words(root: dict[str, Any], part: Any, depth: int = 0) -> str:
    """The type that a part of a schema wants: ``string``, ``integer or string``, ``"C" or "F"``, ``any`` ...

    ``root`` is the whole schema, for references; ``depth`` the number of alternatives (``anyOf``) around.
    """
    schema = resolve(root, part)
    declared = schema.get("type")
    branches = schema.get("anyOf", schema.get("oneOf"))
    if values := _listed(schema):
        kinds = values
    elif isinstance(declared, str):
        return declared
    elif isinstance(declared, list) and all(isinstance(kind, str) for kind in cast("list[Any]", declared)):
        kinds = cast("list[str]", declared)
    elif isinstance(branches, list) and depth < _MAX_ALTERNATIVES:
        kinds = [type_in_words(root, branch, depth + 1) for branch in cast("list[Any]", branches)[:6]]
    else:
        kinds = ["object"] if "properties" in schema else []
    return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or "any"


def _listed(schema: Mapping[str, Any]) -> list[str]:
    """The values that a schema lists, as a signature can have them; ``choice`` if they are many, or long."""
    listed = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    if len(listed) > _MOST_CHOICES:
        return ["choice"]
    values = [json.dumps(value, ensure_ascii=False) for value in listed if value is not None]
    return values if sum(map(len, values)) <= _LONGEST_CHOICES else ["choice"]


_MAX_DEPTH: Final = 12
_MAX_NODES: Final = 2000
_MAX_LOOKS: Final = 100_000
_MAX_ITEMS: Final = 20
_LONGEST_TEXT: Final = 1000
_BY_FORMAT: Final = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "iri": "https://example.com",
    "uri-reference": "/path",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "regex": ".*",
    "json-pointer": "/path",
}


_LIKELY: Final = "a A 1 ab AB 12 abc ABC 123 1234 12345 a1 1.0.0 00:00 #00ff00"
"""What people mean by many patterns, beside texts of a format; nobody makes up a text for any other one."""


def example_arguments(schema: dict[str, Any]) -> str:
    """Makes example arguments for a schema: JSON text of an object, properties in the schema's order."""
    value = _Example(schema).of(schema, 0)
    return compact_json(value if isinstance(value, dict) else {})


def example_of(part: Any, root: dict[str, Any]) -> Any:
    """Makes an example of what a part of a schema describes."""
    return _Example(root).of(part, 0)


class _Example:
    """Makes one example. Counts its parts, so that a hostile schema cannot make the example huge."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self._examined = 0  # the number of properties examined

    def of(self, part: Any, depth: int) -> Any:
        schema = self._merged(part, depth)
        self._nodes += 1
        given = _proposed_values(schema)
        if given:
            return given[0]
        kind = _kind(schema)
        is_deep = depth >= _MAX_DEPTH or self._nodes > _MAX_NODES
        match kind:
            case "object":
                return {} if is_deep else self._object(schema, depth)
            case "array":
                return [] if is_deep else self._array(schema, depth)
            case "string":
                return _string(schema)
            case "integer" | "number":
                return _number(schema, integer=kind == "integer")
            case "boolean":
                return False
            case _:
                return None if kind == "null" else "text"

    def _merged(self, part: Any, depth: int) -> dict[str, Any]:
        schema = resolve(self._root, part)
        self._examined += 1
        if depth >= _MAX_DEPTH or self._examined > _MAX_LOOKS:
            return schema
        parts = [self._merged(each, depth + 1) for each in as_list(schema.get("allOf"))[:50]]
        branch = self._branch(schema)
        if branch is not None:
            parts.append(self._merged(branch, depth + 1))
        for each in parts:
            self._examined += len(as_object(schema.get("properties"))) + len(as_list(schema.get("required")))
            if self._examined > _MAX_LOOKS:
                break
            both = {
                **each,
                **{key: value for key, value in schema.items() if key not in {"allOf", "anyOf", "oneOf"}},
            }
            both["properties"] = {**as_object(each.get("properties")), **as_object(schema.get("properties"))}
            both["required"] = [*as_list(each.get("required")), *as_list(schema.get("required"))]
            schema = both
        return schema

    def _branch(self, schema: dict[str, Any]) -> Any:
        branches = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
        # An example shows what can be given, and null says nothing.
        for branch in branches:
            if _kind(resolve(self._root, branch)) != "null":
                return branch
        return branches[0] if branches else None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = as_object(schema.get("properties"))
        required = required_names(schema)
        self._examined += len(properties)
        example: dict[str, Any] = {}
        for name, part in properties.items():
            if name in required:
                example[name] = self.of(part, depth + 1)
            elif self._examined <= _MAX_LOOKS and (
                given := _proposed_values(resolve(self._root, part), only_informative=True)
            ):
                example[name] = given[0]
        least = min(_length(schema.get("minProperties"), 0), _MAX_ITEMS)
        invented = (f"name{number}" for number in range(1, least + 1))
        for name in (*sorted(required - properties.keys()), *properties, *invented):
            if name not in example and (name in required or len(example) < least):
                parts = [*filter(as_object, member(schema, self._root, name)["anyOf"])]
                example[name] = self.of(parts[-1] if parts else None, depth + 1)
        return example

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        declared = schema.get("items", schema.get("contains"))
        prefix = as_list(schema.get("prefixItems")) or as_list(declared)  # `items` in drafts before 2020-12
        rest = schema.get("additionalItems") if isinstance(declared, list) else declared
        items = [self.of(part, depth + 1) for part in prefix[:_MAX_ITEMS]]
        least = min(_length(schema.get("minItems"), 0), _MAX_ITEMS)
        if not items and not least and self._nodes < _MAX_NODES // 2 and schema.get("maxItems") != 0:
            # An empty list as example would not show what stands in it.
            least = 1
        while len(items) < least:
            items.append(self.of(rest, depth + 1))
            if schema.get("uniqueItems") is True:
                break
        return items


def _proposed_values(schema: dict[str, Any], *, only_informative: bool = False) -> list[Any]:
    """The value that the schema proposes, if any; `only_informative` skips null defaults and enumerations."""
    allowed = [*(schema[key] for key in ("const",) if key in schema), *as_list(schema.get("enum"))]
    proposed = [
        *(
            schema[key]
            for key in ("default",)
            if key in schema and not (only_informative and schema[key] is None)
        ),
        *as_list(schema.get("examples")),
        *(schema[key] for key in ("example",) if key in schema),
    ]
    fitting = [value for value in proposed if (not allowed or value in allowed) and _is_of(value, schema)]
    return fitting[:1] or ([] if only_informative else allowed[:1])


def _kind(schema: dict[str, Any]) -> str | None:
    declared = schema.get("type")
    for kind in declared if isinstance(declared, list) else [declared]:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(kind, str) and kind != "null":
            return kind
    if declared is not None:
        return "null"
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None


def _is_of(value: Any, schema: dict[str, Any]) -> bool:
    declared, kind = schema.get("type"), type_of(value)
    kinds = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    return declared is None or kind in kinds or (kind == "integer" and "number" in kinds)


def _string(schema: dict[str, Any]) -> str:
    shortest = min(_length(schema.get("minLength"), 0), _LONGEST_TEXT)
    longest = _length(schema.get("maxLength"), _LONGEST_TEXT)
    text = _BY_FORMAT.get(str(schema.get("format")), "text")
    if isinstance(pattern := schema.get("pattern"), str):
        likely = (
            one for one in (text, *_LIKELY.split(), *_BY_FORMAT.values()) if shortest <= len(one) <= longest
        )
        text = next((one for one in likely if matches(pattern, one, unknown=False)), text)
    return (text + " text" * shortest)[:shortest] if len(text) < shortest else text[:longest]


def _length(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _number(schema: dict[str, Any], *, integer: bool) -> int | float:
    low, high = _numeric(schema.get("minimum")), _numeric(schema.get("maximum"))
    above, below = _numeric(schema.get("exclusiveMinimum")), _numeric(schema.get("exclusiveMaximum"))
    step = _numeric(schema.get("multipleOf"))

    def fits(value: int | float) -> bool:
        return (
            (low is None or value >= low)
            and (high is None or value <= high)
            and (above is None or value > above)
            and (below is None or value < below)
            and (not step or value % step == 0)
        )

    least = low if low is not None else above
    most = high if high is not None else below
    candidates: list[int | float] = [1, 0]
    if step:
        candidates += [step, (least or 0) // step * step + step, (most or 0) // step * step]
    bounds = [bound for bound in (least, most) if bound is not None]
    bounds = [*map(math.ceil, bounds), *map(math.floor, bounds)] if integer else bounds
    # Next to each bound, as it may be exclusive.
    candidates += [bound + way for bound in bounds for way in (0, 1, -1)]
    if least is not None and most is not None:
        candidates.append((least + most) / 2)
    value = next((value for value in candidates if fits(value)), 1)
    return int(value) if integer or float(value).is_integer() else value


def _numeric(value: Any) -> int | float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    return value if usable else None
