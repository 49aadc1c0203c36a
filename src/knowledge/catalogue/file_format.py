"""The format of a catalogue's file: a SQLite database that is written once and then only read.

::

    meta      one row: the `CatalogueOrigin` as JSON
    types     the node types in order, each with its subtypes in order, as JSON
    nodes     a row per node: the fields for lists and look-ups, and `body`, the whole `NodeSpec`
    ports     a row per port, to find ports that fit each other
    old_names the earlier names of nodes in packs
    texts     a row per node: the words of each field, as they are indexed
    search    FTS5 over `texts`, with the node's row number; rank with bm25(search, …) by field
    terms     fts5vocab of `search`: every word with the number of nodes that have it
    spelling  words of names, aliases and categories, and these words without one of their letters

`body` is compressed with zlib. The last four bytes of the file, after the database, are a checksum.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO, Final

APPLICATION_ID: Final = 0x6B6E6D63
"""``knmc``: marks the file as a catalogue in its header (https://www.sqlite.org/fileformat.html)."""

SCHEMA_VERSION: Final = 3
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
CREATE TABLE spelling (key TEXT NOT NULL, term TEXT NOT NULL, PRIMARY KEY (key, term)) WITHOUT ROWID;
"""


def checksum(file: BinaryIO) -> int:
    """The CRC-32 of a file from its current position to its end."""
    found = 0
    while part := file.read(1 << 20):
        found = zlib.crc32(part, found)
    return found
