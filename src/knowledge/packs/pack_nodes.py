"""The nodes in a spec pack, in both formats; see docs/node-packs.md.

The legacy format (``NodeSpec``) has ``node_type``, ``parameters`` and ports; the modern one
(``BaseNodeSpec``) ``type``, ``configurations``, ``input_params``, ``output_params``, ``attached_nodes``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from ..answers.configuration_check import check_configuration
from ..model import DataFormat, NodeSpec, Origin, Parameter, Port, SourceKind
from .pack_parameters import read_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...yaml_text import Path
    from .pack_checks import Fields, Problems

_COMMON: Final = (
    *("subtype", "name", "version", "description", "details", "category", "aliases", "keywords", "tags"),
    *("examples", "deprecated", "successor", "input_ports", "output_ports"),
)
_LEGACY: Final = ("node_type", "parameters", *_COMMON)
_MODERN: Final = ("type", "configurations", "input_params", "output_params", "attached_nodes", *_COMMON)
_IDENTIFIER: Final = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_WORDS_IN_CAPITALS: Final = frozenset({"AI", "HTTP", "MCP", "URL", "API", "JSON", "CSV", "SQL"})


def read_node(fields: Fields, problems: Problems, *, pack: str, version: str) -> NodeSpec:
    """Reads a node in either format, and adds its problems to `problems`.

    Args:
        fields: The node's mapping in the file.
        problems: The problems of the file.
        pack: The pack's name.
        version: The pack's version, which is the default for its nodes.
    """
    legacy = _is_legacy(fields)
    fields.allow(*(_LEGACY if legacy else _MODERN))
    node_type = _identifier(fields, "node_type" if legacy else "type")
    subtype = _identifier(fields, "subtype")
    settings = _legacy_parameters(fields) if legacy else _modern(fields, "configurations")
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
            file=f"{problems.file}:{problems.line_of(fields.path)}",
        ),
    )
    _check_examples(node, fields.path, problems)
    return node


def _is_legacy(fields: Fields) -> bool:
    legacy, modern = (
        [key for key in keys if key in fields and key not in _COMMON] for keys in (_LEGACY, _MODERN)
    )
    if legacy and modern:
        fields.wrong(
            modern[0], f"belongs to the modern format, but '{legacy[0]}' to the legacy one; use one of them"
        )
    return bool(legacy) and not modern


def _identifier(fields: Fields, key: str) -> str:
    found = fields.text(key, required=True)
    if found and not _IDENTIFIER.match(found):
        fields.wrong(key, f"'{found}' must be written in capitals, like HTTP_REQUEST")
    elif key != "subtype" and found.endswith("_NODE"):
        fields.wrong(key, f"'{found}' must not end in _NODE, which is how types were written before")
    return found


def _legacy_parameters(fields: Fields) -> tuple[Parameter, ...]:
    found = tuple(read_parameter(entry) for entry in fields.each("parameters"))
    _refuse_duplicates(fields, "parameters", (parameter.name for parameter in found))
    return found


def _modern(fields: Fields, key: str) -> tuple[Parameter, ...]:
    return tuple(read_parameter(entry, name=name) for name, entry in fields.named(key))


def _ports(fields: Fields, key: str, *, many: bool) -> tuple[Port, ...]:
    found = tuple(_port(entry, many=many) for entry in fields.each(key))
    _refuse_duplicates(fields, key, (port.name for port in found))
    return found


def _port(fields: Fields, *, many: bool) -> Port:
    fields.allow(
        "name",
        "type",
        "description",
        "required",
        "max_connections",
        "group",
        "data_format",
        "validation_schema",
    )
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


def _data_format(fields: Fields) -> DataFormat | None:
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


def _examples(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    found: list[Mapping[str, Any]] = []
    for entry in fields.each("examples"):
        entry.allow("name", "description", "configurations", "input", "output")
        entry.text("name", required=True)
        entry.mapping("configurations")
        found.append({key: entry.any(key) for key in entry.names()})
    return tuple(found)


def _check_examples(node: NodeSpec, path: Path, problems: Problems) -> None:
    """Reports settings in examples that the node does not take. Examples may leave settings out."""
    for index, example in enumerate(node.examples):
        settings = example.get("configurations")
        if not isinstance(settings, dict):
            continue
        settings = cast("dict[str, Any]", settings)
        for problem in check_configuration(node, settings).problems:
            if problem.setting in settings:
                place = (*path, "examples", index, "configurations", problem.setting)
                problems.add(place, f"{problem.problem}. {problem.fix}")


def _refuse_duplicates(fields: Fields, key: str, names: Iterable[str]) -> None:
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
