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

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import counted
from knime_mcp.yaml_text import (
    LIST,
    MAPPING,
    NUMBER,
    TRUTH,
    WHOLE,
    Findings,
    Hints,
    Rules,
    Severity,
    YamlError,
    kind_of,
    one_of,
    read,
    sorted_problems,
)

from ..configuration_check import check_configuration
from ..node_model import DataFormat, NodeParameter, NodeSpec, OldName, Option, Origin, Port, SourceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from knime_mcp.yaml_text import Fields, Problem
    from knime_mcp.yaml_text import Path as KeyPath


_LARGEST: Final = 16 * 1024 * 1024
_RULES: Final = Rules(merge_keys=False, most_values=200_000, deepest=60)

_LEGACY: Final = ("node_type", "parameters")
_MODERN: Final = ("type", "configurations", "input_params", "output_params", "attached_nodes")
_IDENTIFIER: Final = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_WORDS_IN_CAPITALS: Final = frozenset({"AI", "HTTP", "MCP", "URL", "API", "JSON", "CSV", "SQL"})
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
    findings = Findings(source, file, Hints(unknown=Severity.ERROR))
    root = findings.fields(source.data, ())
    if root is None:
        raise _refused(file, findings.problems)
    head = root.inside("pack")
    name, version = _required(head, "name"), _required(head, "version")
    head.optional_text("description")
    head.end()
    nodes = tuple(read_node(entry, findings, pack=name, version=version) for entry in _each(root, "nodes"))
    if not nodes and not findings.problems:
        findings.error("the pack has no 'nodes'", ())
    types, type_names = _types(root, nodes)
    old_names = (*type_names, *_old_names(root, nodes))
    root.end()
    _check_duplicates(nodes, findings)
    _check_references(nodes, findings)
    # Only now, so that a person sees all problems of a pack at once.
    if findings.problems:
        raise _refused(file, findings.problems)
    return Pack(name=name, version=version, types=types, nodes=nodes, old_names=old_names)


def _text(fields: Fields, key: str, default: str = "") -> str:
    return (fields.optional_text(key) or default).strip()


def _required(fields: Fields, key: str) -> str:
    text = fields.text(key).strip()
    if not text and isinstance(fields.values.get(key), str):
        _wrong(fields, key, "must not be empty")
    return text


def _texts(fields: Fields, key: str) -> tuple[str, ...]:
    found = [text.strip() for text in fields.texts(key, default=None)]
    if "" in found:
        _wrong(fields, key, "has an empty text")
    return tuple(found)


def _each(fields: Fields, key: str) -> list[Fields]:
    return fields.mappings(key, default=None)


def _wrong(fields: Fields, key: str, what: str) -> None:
    fields.misfit(what, (*fields.path, key))


def _refused(file: str, problems: Iterable[Problem]) -> PackError:
    lines = [_line(file, problem) for problem in sorted_problems(problems)]
    what = "\n".join([f"{file} has {counted(len(lines), 'problem')}:", *lines])
    return PackError(what, fix="The format is described in docs/node-packs.md.")


def _line(file: str, problem: Problem) -> str:
    position = problem.position
    place = file if position is None else f"{file}:{position.line}:{position.column}"
    key = f"{position.key_path}: " if position is not None and position.path else ""
    return f"{place}: {key}{problem.message}{f'. {problem.fix}' if problem.fix else ''}"


def _types(root: Fields, nodes: Iterable[NodeSpec]) -> tuple[tuple[str, ...], tuple[OldName, ...]]:
    names: list[str] = []
    old: list[OldName] = []
    for entry in _each(root, "types"):
        name = _required(entry, "name")
        _text(entry, "description")
        names.append(name)
        old += [OldName(node_type=was, subtype=None, instead=(name,)) for was in _texts(entry, "old_names")]
        entry.end()
    # Declared types come first; then undeclared types, in the order of the nodes.
    return tuple(dict.fromkeys((*names, *(node.node_type for node in nodes)))), tuple(old)


def _old_names(root: Fields, nodes: tuple[NodeSpec, ...]) -> tuple[OldName, ...]:
    known = {node.id for node in nodes}
    found: list[OldName] = []
    for entry in _each(root, "old_names"):
        exact = "instead" in entry
        if exact and "nearest" in entry:
            what = "stands beside 'instead': either it is the same thing or it is not"
            _wrong(entry, "nearest", what)
        nearest = _texts(entry, "nearest")
        instead = (_required(entry, "instead"),) if exact else nearest
        for node_id in instead:
            if node_id and node_id not in known:
                what = f"there is no node {node_id} in this pack"
                _wrong(entry, "instead" if exact else "nearest", what)
        found.append(
            OldName(
                node_type=_required(entry, "node_type"),
                subtype=_required(entry, "subtype"),
                instead=instead,
                exact=exact,
                note=_text(entry, "note"),
            )
        )
        entry.end()
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


def read_node(fields: Fields, findings: Findings, *, pack: str, version: str) -> NodeSpec:
    """Reads a node in either format, and adds its problems to `findings`."""
    legacy = _is_legacy(fields)
    node_type = _identifier(fields, "node_type" if legacy else "type")
    subtype = _identifier(fields, "subtype")
    input_params, output_params = (), ()
    attached: tuple[str, ...] | None = None
    if legacy:
        settings = tuple(read_parameter(entry) for entry in _each(fields, "parameters"))
        _refuse_duplicates(fields, "parameters", (parameter.name for parameter in settings))
    else:
        settings = _modern(fields, "configurations")
        input_params, output_params = _modern(fields, "input_params"), _modern(fields, "output_params")
        attached = _texts(fields, "attached_nodes") if "attached_nodes" in fields else None
    node = NodeSpec(
        id=f"{node_type}.{subtype}",
        node_type=node_type,
        subtype=subtype,
        name=_text(fields, "name") or _shown_name(subtype),
        version=_text(fields, "version", version),
        category=_texts(fields, "category") or (_shown_name(node_type),),
        short_description=_required(fields, "description"),
        description=_text(fields, "details"),
        aliases=_texts(fields, "aliases"),
        keywords=_texts(fields, "keywords"),
        parameters=settings,
        settings_known=True,
        input_ports=_ports(fields, "input_ports", many=False),
        output_ports=_ports(fields, "output_ports", many=True),
        input_params=input_params,
        output_params=output_params,
        tags=_texts(fields, "tags"),
        attached_nodes=attached,
        examples=_examples(fields),
        deprecated=fields.get("deprecated", TRUTH, default=False),
        successor=_text(fields, "successor") or None,
        origin=Origin(
            kind=SourceKind.SPEC_PACK,
            name=pack,
            version=version,
            file=f"{findings.file}:{findings.source.at(fields.path).line}",
        ),
    )
    fields.end()
    _check_examples(node, fields.path, findings)
    return node


def _is_legacy(fields: Fields) -> bool:
    legacy, modern = ([key for key in keys if key in fields] for keys in (_LEGACY, _MODERN))
    if legacy and modern:
        what = f"belongs to the modern format, but '{legacy[0]}' to the legacy one; use one of them"
        _wrong(fields, modern[0], what)
        for key in legacy:
            fields.get(key, default=None)
    return bool(legacy) and not modern


def _identifier(fields: Fields, key: str) -> str:
    found = _required(fields, key)
    if found and not _IDENTIFIER.match(found):
        _wrong(fields, key, f"'{found}' must be written in capitals, like HTTP_REQUEST")
    elif key != "subtype" and found.endswith("_NODE"):
        _wrong(fields, key, f"'{found}' must not end in _NODE, which is how types were written before")
    return found


def _modern(fields: Fields, key: str) -> tuple[NodeParameter, ...]:
    if fields.get(key, MAPPING, default=None) is None:
        return ()
    inner = fields.inside(key)
    return tuple(read_parameter(inner.inside(name), name=name) for name in inner.values)


def _ports(fields: Fields, key: str, *, many: bool) -> tuple[Port, ...]:
    found = tuple(_port(entry, many=many) for entry in _each(fields, key))
    _refuse_duplicates(fields, key, (port.name for port in found))
    return found


def _port(fields: Fields, *, many: bool) -> Port:
    most = int(fields.get("max_connections", WHOLE, default=-1 if many else 1))
    if most < 1 and most != -1:
        _wrong(fields, "max_connections", f"{most} must be 1 or more, or -1 for any number")
    required = fields.get("required", TRUTH, default=not many)
    port = Port(
        name=_required(fields, "name"),
        type=_required(fields, "type"),
        description=_required(fields, "description"),
        optional=not required and not many,
        required=required,
        group=fields.get("group", TRUTH, default=False),
        max_connections=most,
        data_format=_data_format(fields),
        validation_schema=fields.get("validation_schema", MAPPING, default=None),
    )
    fields.end()
    return port


def _data_format(fields: Fields) -> DataFormat | None:
    if "data_format" not in fields:
        return None
    inner = fields.inside("data_format")
    schema = inner.get("schema", default=None)
    if isinstance(schema, str):
        try:
            json.loads(schema)
        except ValueError as error:
            _wrong(inner, "schema", f"is no JSON: {error}")
    elif schema is not None and not isinstance(schema, dict):
        _wrong(inner, "schema", "must be a JSON schema, as a mapping or as text")
    examples: list[Any] = inner.get("examples", LIST, default=None) or []
    found = DataFormat(
        mime_type=_required(inner, "mime_type"),
        schema=schema if isinstance(schema, str) or schema is None else _json(schema),
        examples=tuple(entry if isinstance(entry, str) else _json(entry) for entry in examples),
    )
    inner.end()
    return found


def _examples(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    found: list[Mapping[str, Any]] = []
    for entry in _each(fields, "examples"):
        _required(entry, "name")
        entry.get("configurations", MAPPING, default=None)
        for key in ("description", "input", "output"):
            entry.get(key, default=None)
        entry.end()
        found.append(entry.values)
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


def _refuse_duplicates(fields: Fields, key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _wrong(fields, key, f"has two entries named '{name}'")
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


def read_parameter(fields: Fields, *, name: str | None = None) -> NodeParameter:
    """Reads a parameter of a legacy spec, or with its key, `name`, a field of a modern one."""
    default = "default_value" if name is None else "default"
    kind = _required(fields, "type")
    if kind and kind not in TYPES:
        _wrong(fields, "type", f"'{kind}' is not a type. {one_of(kind.lower(), TYPES)}")
    options = _options(fields, "options") or _options(fields, "enum_values")
    if name is None:
        name = _required(fields, "name")
    parameter = NodeParameter(
        name=name,
        type=kind or None,
        required=fields.get("required", TRUTH, default=False),
        default_value=fields.get(default, default=None),
        has_default=default in fields,
        description=_required(fields, "description"),
        options=options,
        min=fields.get("min", NUMBER, default=None),
        max=fields.get("max", NUMBER, default=None),
        validation_pattern=_text(fields, "validation_pattern") or None,
        label=_text(fields, "label"),
        advanced=fields.get("advanced", TRUTH, default=False),
        secret=fields.get("secret", TRUTH, default=False) or kind == "password",
        tab=_text(fields, "tab"),
    )
    fields.get("enum_values", default=None)
    fields.end()
    _check(parameter, fields, default)
    return parameter


def _options(fields: Fields, key: str) -> tuple[Option, ...]:
    found: list[Option] = []
    for index, value in enumerate(fields.get(key, LIST, default=None) or []):
        if not isinstance(value, dict):
            found.append(Option(value=value))
            continue
        inner = fields.findings.fields(value, (*fields.path, key, index))
        assert inner is not None
        option = inner.get("value")
        found.append(
            Option(value=option, label=_text(inner, "label"), description=_text(inner, "description"))
        )
        inner.end()
    if key in fields and not found:
        _wrong(fields, key, "must name at least one value")
    return tuple(found)


def _check(parameter: NodeParameter, fields: Fields, default: str) -> None:
    """Reports contradictions, such as a default that is not allowed, or a range for texts."""
    for key in ("options", "enum_values"):
        for value in parameter.enum_values if key in fields else ():
            if not _fits(parameter, value):
                _wrong(fields, key, f"has {kind_of(value)}, but the type is {parameter.type}")
    if parameter.type == "enum" and not parameter.options:
        fields.misfit("an enum needs 'options'", fields.path)
    low, high = parameter.min, parameter.max
    for key, bound in (("min", low), ("max", high)):
        if bound is not None and parameter.type not in _NUMERIC:
            _wrong(fields, key, f"only numbers have a range, and this is a {parameter.type}")
    if low is not None and high is not None and low > high:
        _wrong(fields, "min", f"{low} is more than max, {high}")
    pattern = _pattern(parameter, fields)
    if parameter.default_value is not None and (wrong := _default_mistake(parameter, pattern)):
        _wrong(fields, default, wrong)


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


def _pattern(parameter: NodeParameter, fields: Fields) -> re.Pattern[str] | None:
    if parameter.validation_pattern is None:
        return None
    try:
        return re.compile(parameter.validation_pattern)
    except re.error as error:
        _wrong(fields, "validation_pattern", f"is no regular expression: {error}")
        return None


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
