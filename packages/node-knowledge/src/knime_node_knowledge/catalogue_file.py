"""The format of a catalogue's file: a SQLite database that is written once and then only read.

::

    meta      one row: the `CatalogueOrigin` as JSON
    types     the node types in order, each with its subtypes in order, as JSON
    nodes     a row per node: the fields for lists and look-ups, and `body`, the whole `NodeSpec`
    ports     a row per port, to find ports that fit each other
    settings  the keys of settings that are written as programs write names, and the nodes that have them
    old_names the earlier names of nodes in packs
    texts     a row per node: the words of each field, as they are indexed
    search    FTS5 over `texts`, with the node's row number; rank with bm25(search, …) by field
    terms     fts5vocab of `search`: every word with the number of nodes that have it
    phrases   what people ask for when they need a node, a row per phrase; see `asked_phrases`
    asked     the roots of their words, each with the number of nodes and the places as JSON
    spelling  words of names, aliases, categories and phrases, and these words without one of their letters

`body` is compressed with zlib. The last four bytes of the file, after the database, are a checksum.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import without_surrogates

from .node_model import (
    CatalogueOrigin,
    DataFormat,
    NodeParameter,
    NodeSpec,
    Option,
    Origin,
    Port,
    SourceKind,
    SourceSummary,
    ViewSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

APPLICATION_ID: Final = 0x6B6E6D63
"""``knmc``: marks the file as a catalogue in its header (https://www.sqlite.org/fileformat.html)."""

SCHEMA_VERSION: Final = 8
"""The version of the format. It is raised with each change of tables or JSON; other versions are not read."""

WHOLE: Final = 0x2144DF1C
"""The `checksum` of every undamaged file: a CRC-32 over data followed by its CRC-32 has this value."""

FIELDS: Final = ("name", "aliases", "category", "parameters", "description")
"""The columns of ``texts`` and ``search``, those with the largest weight first."""

TABLES: Final = """
CREATE TABLE meta (origin TEXT NOT NULL);
CREATE TABLE types (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, subtypes TEXT NOT NULL);
CREATE TABLE nodes (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    node_type TEXT NOT NULL,
    subtype TEXT NOT NULL,
    name TEXT NOT NULL,
    category TEXT NOT NULL,
    short_description TEXT NOT NULL,
    deprecated INTEGER NOT NULL,
    successor TEXT,
    body BLOB NOT NULL,
    UNIQUE (node_type, subtype)
);
CREATE TABLE ports (
    node INTEGER NOT NULL REFERENCES nodes,
    side TEXT NOT NULL CHECK (side IN ('input', 'output')),
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    type_id TEXT,
    optional INTEGER NOT NULL,
    many INTEGER NOT NULL,
    PRIMARY KEY (node, side, position)
) WITHOUT ROWID;
CREATE TABLE settings (
    key TEXT NOT NULL, node INTEGER NOT NULL REFERENCES nodes, PRIMARY KEY (key, node)
) WITHOUT ROWID;
CREATE TABLE old_names (
    node_type TEXT NOT NULL,
    subtype TEXT,
    instead TEXT NOT NULL,
    exact INTEGER NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE texts (
    row INTEGER PRIMARY KEY, name TEXT, aliases TEXT, category TEXT, parameters TEXT, description TEXT
);
CREATE VIRTUAL TABLE search USING fts5 (
    name, aliases, category, parameters, description,
    content = 'texts', content_rowid = 'row',
    tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3 4'
);
CREATE VIRTUAL TABLE terms USING fts5vocab (search, row);
CREATE TABLE phrases (id INTEGER PRIMARY KEY, row INTEGER NOT NULL REFERENCES nodes, text TEXT NOT NULL);
CREATE TABLE asked (key TEXT PRIMARY KEY, nodes INTEGER NOT NULL, places TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE spelling (key TEXT NOT NULL, term TEXT NOT NULL, PRIMARY KEY (key, term)) WITHOUT ROWID;
"""

T = TypeVar("T")
_PARTS: Final[Mapping[type[Any], Mapping[str, type[Any]]]] = {
    NodeSpec: {
        "parameters": NodeParameter,
        "input_ports": Port,
        "output_ports": Port,
        "views": ViewSpec,
        "input_params": NodeParameter,
        "output_params": NodeParameter,
    },
    NodeParameter: {"options": Option},
    CatalogueOrigin: {"sources": SourceSummary},
}
"""The fields with a tuple of dataclasses, and the class of its elements."""


class CatalogueError(MCPError):
    """The catalogue cannot be read or built, as it is missing, damaged, or has another version's format."""

    CODE = "KMCP-CATALOGUE"


def checksum(file: BinaryIO) -> int:
    """The CRC-32 of a file from its current position to its end."""
    found = 0
    while part := file.read(1 << 20):
        found = zlib.crc32(part, found)
    return found


def packed(spec: NodeSpec) -> bytes:
    """A node as bytes. Equal nodes have equal bytes. Lone surrogates in texts are replaced."""
    text = json.dumps(to_json(spec), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return zlib.compress(without_surrogates(text).encode(), 6)


def unpacked(body: bytes) -> NodeSpec:
    return node_of(json.loads(zlib.decompress(body)))


def node_of(document: Mapping[str, Any]) -> NodeSpec:
    return _value(NodeSpec, document)


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
        # `0 == False`: a default value of a setting must not be taken for the default of the field.
        if default is MISSING or entry != default or (isinstance(entry, bool) != isinstance(default, bool)):
            found[name] = to_json(entry)
    return found


def origin_of(document: Mapping[str, Any]) -> CatalogueOrigin:
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
    **dict.fromkeys(
        (
            "category",
            "aliases",
            "keywords",
            "tags",
            "open_settings",
            "followed_by",
            "preceded_by",
            "attached_nodes",
            "examples",
            "accepts",
        ),
        tuple,
    ),
}
"""Functions that convert the JSON of fields with a type that JSON does not have."""


@cache
def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind)}
