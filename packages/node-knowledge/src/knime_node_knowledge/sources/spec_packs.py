"""Reads spec packs: YAML files of node specifications, with the order of types and old names.

::

    pack: {name: workflow-engine, version: 3.0.0, description: …}
    types: [{name: TRIGGER, description: …, old_names: [TRIGGER_NODE]}]
    old_names:
      - {node_type: AI_AGENT_NODE, subtype: OPENAI_NODE, instead: AI_AGENT.OPENAI_CHATGPT}
      - {node_type: ACTION_NODE, subtype: RUN_CODE, nearest: [ACTION.DATA_TRANSFORMATION], note: …}
    nodes: [ … ]

Nodes have two formats, which docs/node-packs.md describes: the legacy one (``NodeSpec``) with ``node_type``,
``parameters`` and ports, and the modern one (``BaseNodeSpec``) with ``type``, ``configurations``,
``input_params``, ``output_params`` and ``attached_nodes``.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import counted
from knime_mcp.yaml_text import Findings, Rules, YamlError, kind_of, read, sorted_problems

from ..configuration_check import check_configuration
from ..node_model import DataFormat, NodeParameter, NodeSpec, OldName, Option, Origin, Port, SourceKind
from .pack_fields import PackMapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from knime_mcp.yaml_text import Path as KeyPath
    from knime_mcp.yaml_text import Problem


_LARGEST: Final = 16 * 1024 * 1024
_RULES: Final = Rules(merge_keys=False, most_values=200_000, deepest=60)

_COMMON: Final = (
    *("subtype", "name", "version", "description", "details", "category", "aliases", "keywords", "tags"),
    *("examples", "deprecated", "successor", "input_ports", "output_ports"),
)
_LEGACY: Final = ("node_type", "parameters", *_COMMON)
_MODERN: Final = ("type", "configurations", "input_params", "output_params", "attached_nodes", *_COMMON)
_IDENTIFIER: Final = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_WORDS_IN_CAPITALS: Final = frozenset({"AI", "HTTP", "MCP", "URL", "API", "JSON", "CSV", "SQL"})
_PARAMETER_KEYS: Final = (
    *("type", "required", "description", "label", "enum_values", "options", "min", "max"),
    *("validation_pattern", "advanced", "secret", "tab"),
)
LEGACY_KEYS: Final = ("name", "default_value", *_PARAMETER_KEYS)
MODERN_KEYS: Final = ("default", *_PARAMETER_KEYS)
_PORT: Final = (
    *("name", "type", "description", "required", "max_connections", "group"),
    *("data_format", "validation_schema"),
)
_NUMERIC: Final = frozenset({"integer", "float", "number"})


class PackError(MCPError):
    """A spec pack cannot be used. The message has the file, line and key of each problem."""

    CODE = "KMCP-NODE-PACK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A spec pack, with types and nodes in the order of the file."""

    name: str
    version: str
    types: tuple[str, ...]
    nodes: tuple[NodeSpec, ...]
    old_names: tuple[OldName, ...]


def read_pack(path: Path, *, shown_as: str | None = None) -> Pack:
    """Reads a pack, whose file is `shown_as` in errors and origins.

    Raises `PackError` with all problems, each with line and key.
    """
    shown = shown_as or str(path)
    if path.stat().st_size > _LARGEST:
        raise PackError(f"{shown} has more than {_LARGEST:,} bytes", fix="Split it into several packs.")
    try:
        # Editors on Windows put a byte order mark in front.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PackError(f"{shown} is no UTF-8 text (byte {error.start})", fix="Save it as UTF-8.") from None
    return parse_pack(text, file=shown)


def parse_pack(text: str, *, file: str) -> Pack:
    try:
        source = read(text, _RULES)
    except YamlError as error:
        raise _refused(file, error.problems) from None
    findings = Findings(source, file)
    root = PackMapping(source.data, (), findings)
    root.allow("pack", "types", "old_names", "nodes")
    head = root.inside("pack")
    head.allow("name", "version", "description")
    name, version = head.text("name", required=True), head.text("version", required=True)
    nodes = tuple(read_node(entry, findings, pack=name, version=version) for entry in root.each("nodes"))
    if not nodes and not findings.problems:
        findings.error("the pack has no 'nodes'", ())
    types, type_names = _types(root, nodes)
    old_names = (*type_names, *_old_names(root, nodes))
    _check_duplicates(nodes, findings)
    _check_references(nodes, findings)
    # Only now, so that a person sees all problems of a pack at once.
    if findings.problems:
        raise _refused(file, findings.problems)
    return Pack(name=name, version=version, types=types, nodes=nodes, old_names=old_names)


def _refused(file: str, problems: Iterable[Problem]) -> PackError:
    lines = [_line(file, problem) for problem in sorted_problems(problems)]
    what = "\n".join([f"{file} has {counted(len(lines), 'problem')}:", *lines])
    return PackError(what, fix="The format is described in docs/node-packs.md.")


def _line(file: str, problem: Problem) -> str:
    position = problem.position
    place = file if position is None else f"{file}:{position.line}:{position.column}"
    key = f"{position.key_path}: " if position is not None and position.path else ""
    return f"{place}: {key}{problem.message}{f'. {problem.fix}' if problem.fix else ''}"


def _types(root: PackMapping, nodes: Iterable[NodeSpec]) -> tuple[tuple[str, ...], tuple[OldName, ...]]:
    names: list[str] = []
    old: list[OldName] = []
    for entry in root.each("types"):
        entry.allow("name", "description", "old_names")
        name = entry.text("name", required=True)
        names.append(name)
        old += [OldName(node_type=was, subtype=None, instead=(name,)) for was in entry.texts("old_names")]
    # Declared types come first; then undeclared types, in the order of the nodes.
    return tuple(dict.fromkeys((*names, *(node.node_type for node in nodes)))), tuple(old)


def _old_names(root: PackMapping, nodes: tuple[NodeSpec, ...]) -> tuple[OldName, ...]:
    known = {node.id for node in nodes}
    found: list[OldName] = []
    for entry in root.each("old_names"):
        entry.allow("node_type", "subtype", "instead", "nearest", "note")
        exact = "instead" in entry
        if exact and "nearest" in entry:
            entry.wrong("nearest", "stands beside 'instead': either it is the same thing or it is not")
        instead = (entry.text("instead", required=True),) if exact else entry.texts("nearest")
        for node_id in instead:
            if node_id and node_id not in known:
                entry.wrong("instead" if exact else "nearest", f"there is no node {node_id} in this pack")
        found.append(
            OldName(
                node_type=entry.text("node_type", required=True),
                subtype=entry.text("subtype", required=True),
                instead=instead,
                exact=exact,
                note=entry.text("note"),
            )
        )
    return tuple(found)


def _check_duplicates(nodes: tuple[NodeSpec, ...], findings: Findings) -> None:
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if node.id in seen:
            findings.error(f"{node.id} is in this pack twice", ("nodes", index))
        seen.add(node.id)


def _check_references(nodes: tuple[NodeSpec, ...], findings: Findings) -> None:
    known = {node.id for node in nodes} | {node.node_type for node in nodes}
    for index, node in enumerate(nodes):
        for position, name in enumerate(node.attached_nodes or ()):
            if name not in known:
                place = ("nodes", index, "attached_nodes", position)
                findings.error(f"there is no node or type {name} in this pack", place)
        if node.successor is not None and node.successor not in known:
            findings.error(f"there is no node {node.successor} in this pack", ("nodes", index, "successor"))


def read_node(fields: PackMapping, findings: Findings, *, pack: str, version: str) -> NodeSpec:
    """Reads a node in either format, and adds its problems to `findings`."""
    legacy = _is_legacy(fields)
    fields.allow(*(_LEGACY if legacy else _MODERN))
    node_type = _identifier(fields, "node_type" if legacy else "type")
    subtype = _identifier(fields, "subtype")
    if legacy:
        settings = tuple(read_parameter(entry) for entry in fields.each("parameters"))
        _refuse_duplicates(fields, "parameters", (parameter.name for parameter in settings))
    else:
        settings = _modern(fields, "configurations")
    attached = fields.texts("attached_nodes") if "attached_nodes" in fields else None
    spec_version = fields.text("version", version)
    node = NodeSpec(
        id=f"{node_type}.{subtype}",
        node_type=node_type,
        subtype=subtype,
        name=fields.text("name") or _shown_name(subtype),
        version=spec_version,
        category=fields.texts("category") or (_shown_name(node_type),),
        short_description=fields.text("description", required=True),
        description=fields.text("details"),
        aliases=fields.texts("aliases"),
        keywords=fields.texts("keywords"),
        parameters=settings,
        settings_known=True,
        input_ports=_ports(fields, "input_ports", many=False),
        output_ports=_ports(fields, "output_ports", many=True),
        input_params=_modern(fields, "input_params"),
        output_params=_modern(fields, "output_params"),
        tags=fields.texts("tags"),
        attached_nodes=attached,
        examples=_examples(fields),
        deprecated=fields.flag("deprecated"),
        successor=fields.text("successor") or None,
        origin=Origin(
            kind=SourceKind.SPEC_PACK,
            name=pack,
            version=version,
            file=f"{findings.file}:{findings.source.at(fields.path).line}",
        ),
    )
    _check_examples(node, fields.path, findings)
    return node


def _is_legacy(fields: PackMapping) -> bool:
    legacy, modern = (
        [key for key in keys if key in fields and key not in _COMMON] for keys in (_LEGACY, _MODERN)
    )
    if legacy and modern:
        fields.wrong(
            modern[0], f"belongs to the modern format, but '{legacy[0]}' to the legacy one; use one of them"
        )
    return bool(legacy) and not modern


def _identifier(fields: PackMapping, key: str) -> str:
    found = fields.text(key, required=True)
    if found and not _IDENTIFIER.match(found):
        fields.wrong(key, f"'{found}' must be written in capitals, like HTTP_REQUEST")
    elif key != "subtype" and found.endswith("_NODE"):
        fields.wrong(key, f"'{found}' must not end in _NODE, which is how types were written before")
    return found


def _modern(fields: PackMapping, key: str) -> tuple[NodeParameter, ...]:
    return tuple(read_parameter(entry, name=name) for name, entry in fields.named(key))


def _ports(fields: PackMapping, key: str, *, many: bool) -> tuple[Port, ...]:
    found = tuple(_port(entry, many=many) for entry in fields.each(key))
    _refuse_duplicates(fields, key, (port.name for port in found))
    return found


def _port(fields: PackMapping, *, many: bool) -> Port:
    fields.allow(*_PORT)
    most = fields.whole("max_connections", -1 if many else 1)
    if most < 1 and most != -1:
        fields.wrong("max_connections", f"{most} must be 1 or more, or -1 for any number")
    required = fields.flag("required", not many)
    return Port(
        name=fields.text("name", required=True),
        type=fields.text("type", required=True),
        description=fields.text("description", required=True),
        optional=not required and not many,
        required=required,
        group=fields.flag("group"),
        max_connections=most,
        data_format=_data_format(fields),
        validation_schema=fields.mapping("validation_schema"),
    )


def _data_format(fields: PackMapping) -> DataFormat | None:
    if "data_format" not in fields:
        return None
    inner = fields.inside("data_format")
    inner.allow("mime_type", "schema", "examples")
    schema = inner.any("schema")
    if isinstance(schema, str):
        try:
            json.loads(schema)
        except ValueError as error:
            inner.wrong("schema", f"is no JSON: {error}")
    elif schema is not None and not isinstance(schema, dict):
        inner.wrong("schema", "must be a JSON schema, as a mapping or as text")
    return DataFormat(
        mime_type=inner.text("mime_type", required=True),
        schema=schema if isinstance(schema, str) or schema is None else _json(schema),
        examples=tuple(
            entry if isinstance(entry, str) else _json(entry) for entry in inner.entries("examples")
        ),
    )


def _examples(fields: PackMapping) -> tuple[Mapping[str, Any], ...]:
    found: list[Mapping[str, Any]] = []
    for entry in fields.each("examples"):
        entry.allow("name", "description", "configurations", "input", "output")
        entry.text("name", required=True)
        entry.mapping("configurations")
        found.append({key: entry.any(key) for key in entry.names()})
    return tuple(found)


def _check_examples(node: NodeSpec, path: KeyPath, findings: Findings) -> None:
    """Reports settings in examples that the node does not take. Examples may leave settings out."""
    for index, example in enumerate(node.examples):
        # Only what an example has is judged, as it may leave out settings that are required.
        settings = example.get("configurations")
        if not isinstance(settings, dict):
            continue
        settings = cast("dict[str, Any]", settings)
        for problem in check_configuration(node, settings).problems:
            if problem.setting in settings:
                place = (*path, "examples", index, "configurations", problem.setting)
                findings.error(f"{problem.problem}. {problem.fix}", place)


def _refuse_duplicates(fields: PackMapping, key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            fields.wrong(key, f"has two entries named '{name}'")
        seen.add(name)


def _shown_name(identifier: str) -> str:
    words = identifier.split("_")
    return " ".join(word if word in _WORDS_IN_CAPITALS else word.capitalize() for word in words)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        (
            *("string", "text", "enum", "url", "email", "file", "cron", "date", "datetime", "password"),
            *("credential", "expression", "template"),
        ),
        lambda value: isinstance(value, str),
    ),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    **dict.fromkeys(
        ("float", "number"), lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    ),
    "boolean": lambda value: isinstance(value, bool),
    **dict.fromkeys(("array", "list"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("object", "dict", "map"), lambda value: isinstance(value, dict)),
    **dict.fromkeys(("json", "any"), lambda _: True),
}
"""The types of parameters, with functions that tell whether a value has the type."""


def read_parameter(fields: PackMapping, *, name: str | None = None) -> NodeParameter:
    """Reads a parameter of a legacy spec, or with its key, `name`, a field of a modern one."""
    fields.allow(*(LEGACY_KEYS if name is None else MODERN_KEYS))
    default = "default_value" if name is None else "default"
    kind = fields.text("type", required=True)
    if kind and kind not in TYPES:
        near = difflib.get_close_matches(kind.lower(), TYPES, n=1)
        meant = f" did you mean '{near[0]}'?" if near else ""
        fields.wrong("type", f"'{kind}' is not a type;{meant} types: {', '.join(TYPES)}")
    options = _options(fields, "options") or _options(fields, "enum_values")
    parameter = NodeParameter(
        name=fields.text("name", required=True) if name is None else name,
        type=kind or None,
        required=fields.flag("required"),
        default_value=fields.any(default),
        has_default=default in fields,
        description=fields.text("description", required=True),
        options=options,
        min=fields.number("min"),
        max=fields.number("max"),
        validation_pattern=fields.text("validation_pattern") or None,
        label=fields.text("label"),
        advanced=fields.flag("advanced"),
        secret=fields.flag("secret") or kind == "password",
        tab=fields.text("tab"),
    )
    _check(parameter, fields, default)
    return parameter


def _options(fields: PackMapping, key: str) -> tuple[Option, ...]:
    found: list[Option] = []
    for index, value in enumerate(fields.entries(key)):
        if isinstance(value, dict):
            inner = fields.each(key)[index]
            inner.allow("value", "label", "description")
            if "value" not in inner:
                inner.wrong("", "the key 'value' is missing")
            found.append(
                Option(
                    value=inner.any("value"), label=inner.text("label"), description=inner.text("description")
                )
            )
        else:
            found.append(Option(value=value))
    if key in fields and not found:
        fields.wrong(key, "must name at least one value")
    return tuple(found)


def _check(parameter: NodeParameter, fields: PackMapping, default: str) -> None:
    """Reports contradictions, such as a default that is not allowed, or a range for texts."""
    for key in ("options", "enum_values"):
        for value in parameter.enum_values if key in fields else ():
            if not _fits(parameter, value):
                fields.wrong(key, f"has {kind_of(value)}, but the type is {parameter.type}")
    if parameter.type == "enum" and not parameter.options:
        fields.wrong("", "an enum needs 'options'")
    low, high = parameter.min, parameter.max
    for key, bound in (("min", low), ("max", high)):
        if bound is not None and parameter.type not in _NUMERIC:
            fields.wrong(key, f"only numbers have a range, and this is a {parameter.type}")
    if low is not None and high is not None and low > high:
        fields.wrong("min", f"{low} is more than max, {high}")
    pattern = _pattern(parameter, fields)
    if parameter.default_value is not None and (wrong := _default_mistake(parameter, pattern)):
        fields.wrong(default, wrong)


def _default_mistake(parameter: NodeParameter, pattern: re.Pattern[str] | None) -> str | None:
    value = parameter.default_value
    if not _fits(parameter, value):
        return f"is {kind_of(value)}, but the type is {parameter.type}"
    if parameter.enum_values and value not in parameter.enum_values:
        return f"{_shown(value)} is none of the options"
    low, high = parameter.min, parameter.max
    if isinstance(value, (int, float)) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        return f"{value} is outside of the range"
    if pattern is not None and isinstance(value, str) and value and not pattern.search(value):
        return f"{_shown(value)} does not match the validation_pattern"
    return None


def _fits(parameter: NodeParameter, value: Any) -> bool:
    return TYPES.get(parameter.type or "any", TYPES["any"])(value)


def _pattern(parameter: NodeParameter, fields: PackMapping) -> re.Pattern[str] | None:
    if parameter.validation_pattern is None:
        return None
    try:
        return re.compile(parameter.validation_pattern)
    except re.error as error:
        fields.wrong("validation_pattern", f"is no regular expression: {error}")
        return None


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
