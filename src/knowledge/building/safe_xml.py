"""Reads XML of unknown origin: without network and entities, and with limits for size and depth."""

from __future__ import annotations

import html.entities
from typing import Final
from xml.etree import ElementTree

LARGEST: Final = 8 * 1024 * 1024
"""Bytes. KNIME's largest plugin.xml has some 500,000."""
_DEEPEST: Final = 200


class XmlRefusedError(Exception):
    """The text says why."""


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parses a document.

    A DOCTYPE is allowed, because node descriptions before KNIME 2.8 have one; what it refers to is not read.

    Args:
        data: The document.

    Returns:
        Its root. Tags keep their namespace as ``{uri}tag``; see `local_name`.

    Raises:
        XmlRefusedError: It is not well-formed, too large or deep, or declares entities.
    """
    if len(data) > LARGEST:
        raise XmlRefusedError(f"has {len(data):,} bytes, more than {LARGEST:,}")
    # In UTF-16 every other byte is a zero. Expat reads no further encoding in which ASCII looks different.
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise XmlRefusedError("declares entities, which are not read")
    # S314: expat fetches nothing by itself, and without declarations there is nothing to expand.
    parser = ElementTree.XMLParser()  # noqa: S314
    # Where a DOCTYPE names a DTD, expat leaves unknown entities to us; those of HTML are meant.
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
    # Comments and processing instructions, if anybody kept them, have a function as tag.
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


def _check_depth(root: ElementTree.Element) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise XmlRefusedError(f"is nested more than {_DEEPEST} levels deep")
        level = [child for element in level for child in element]
