"""Converts nodes to JSON and to the bytes in the catalogue's file, and back."""

from __future__ import annotations

import json
import zlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ...types.canonical import without_surrogates
from ..model import (
    CatalogueOrigin,
    DataFormat,
    NodeSpec,
    Option,
    Origin,
    Parameter,
    Port,
    SourceKind,
    SourceSummary,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
_PARTS: Final[Mapping[type[Any], Mapping[str, type[Any]]]] = {
    NodeSpec: {
        "parameters": Parameter,
        "input_ports": Port,
        "output_ports": Port,
        "views": View,
        "input_params": Parameter,
        "output_params": Parameter,
    },
    Parameter: {"options": Option},
    CatalogueOrigin: {"sources": SourceSummary},
}
"""The fields with a tuple of dataclasses, and the class of its elements."""


def packed(spec: NodeSpec) -> bytes:
    """A node as bytes. Equal nodes have equal bytes. Lone surrogates in texts are replaced."""
    text = json.dumps(to_json(spec), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return zlib.compress(without_surrogates(text).encode(), 6)


def unpacked(body: bytes) -> NodeSpec:
    """The node from the bytes of `packed`."""
    return _value(NodeSpec, json.loads(zlib.decompress(body)))


def to_json(value: Any) -> Any:
    """A value of the model as JSON, without fields that have their default."""
    if isinstance(value, tuple):
        return [to_json(entry) for entry in cast("tuple[Any, ...]", value)]
    if not is_dataclass(value):
        return value
    kind = cast("type[Any]", type(value))  # pyright: ignore[reportUnknownArgumentType] - of an Any
    found: dict[str, Any] = {}
    for name, default in _defaults(kind).items():
        entry = getattr(value, name)
        if default is MISSING or entry != default or (isinstance(entry, bool) != isinstance(default, bool)):
            found[name] = to_json(entry)
    return found


def origin_of(document: Mapping[str, Any]) -> CatalogueOrigin:
    """A catalogue's origin from its JSON."""
    return _value(CatalogueOrigin, document)


def _value(kind: type[T], document: Mapping[str, Any]) -> T:
    parts = _PARTS.get(kind, {})
    found: dict[str, Any] = {}
    for name, entry in document.items():
        part = parts.get(name)
        if part is not None:
            found[name] = tuple(_value(part, inner) for inner in entry)
        else:
            convert = _SPECIAL.get(name)
            found[name] = convert(entry) if convert else entry
    return kind(**found)


_SPECIAL: Final[Mapping[str, Callable[[Any], Any]]] = {
    "origin": partial(_value, Origin),
    "kind": SourceKind,
    "data_format": partial(_value, DataFormat),
    **dict.fromkeys(("category", "aliases", "keywords", "tags", "attached_nodes", "examples"), tuple),
}
"""Functions that convert the JSON of fields with a type that JSON does not have."""


@cache
def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind)}
