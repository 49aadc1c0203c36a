"""Reads XML of unknown origin: without network and entities, and with limits for size and depth."""

from __future__ import annotations

import html.entities
from typing import Final
from xml.etree import ElementTree

LARGEST: Final = 8 * 1024 * 1024
"""The largest document in bytes. KNIME's largest plugin.xml has about 500,000 bytes."""
_DEEPEST: Final = 200


class XmlRefusedError(Exception):
    """The error for XML that is not read. The message says why."""


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parses a document.

    A DOCTYPE is allowed, because node descriptions before KNIME 2.8 have one; the DTD itself is not read.

    Args:
        data: The document.

    Returns:
        The root element. Tags keep their namespace as ``{uri}tag``; see `local_name`.

    Raises:
        XmlRefusedError: The document is not well-formed, too large, too deep, or declares entities.
    """
    if len(data) > LARGEST:
        raise XmlRefusedError(f"has {len(data):,} bytes, more than {LARGEST:,}")
    # In UTF-16 every second byte of ASCII text is zero. In all other encodings of expat, ASCII is unchanged.
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise XmlRefusedError("declares entities, which are not read")
    # S314: expat does not fetch anything, and without declarations there are no entities to expand.
    parser = ElementTree.XMLParser()  # noqa: S314
    # If a DOCTYPE names a DTD, expat looks up unknown entities here; descriptions use those of HTML.
    parser.entity.update(html.entities.entitydefs)
    try:
        parser.feed(data)
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise XmlRefusedError(f"is not well-formed XML: {error}") from None
    _check_depth(root)
    return root


def local_name(element: ElementTree.Element) -> str:
    """The tag without its namespace."""
    tag = element.tag
    # Comments and processing instructions have a function as tag, if the parser keeps them.
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


def _check_depth(root: ElementTree.Element) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise XmlRefusedError(f"is nested more than {_DEEPEST} levels deep")
        level = [child for element in level for child in element]
