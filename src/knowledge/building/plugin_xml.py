"""Reads the registrations in ``plugin.xml`` or ``fragment.xml``: nodes, sets of nodes, categories."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .safe_xml import local_name, parse_xml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

_NODES: Final = "org.knime.workbench.repository.nodes"
_SETS: Final = "org.knime.workbench.repository.nodesets"
_CATEGORIES: Final = "org.knime.workbench.repository.categories"
_CONTINUED: Final = re.compile(rb"\r?\n ")
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A node in ``plugin.xml``.

    Attributes:
        factory: The factory's class.
        category_path: The category, such as ``/io/read``; ``/`` by default, as in KNIME.
        deprecated: Whether the node exists only for old workflows.
        hidden: Whether the node is hidden in the node repository.
    """

    factory: str
    category_path: str = "/"
    deprecated: bool = False
    hidden: bool = False


@dataclass(slots=True, kw_only=True)
class PluginXml:
    """The registrations of a plug-in.

    Attributes:
        nodes: The registered nodes.
        node_sets: Java classes that list further nodes.
        categories: The names of categories by full path (``/io/read``).
    """

    nodes: list[Registration] = field(default_factory=list[Registration])
    node_sets: list[str] = field(default_factory=list[str])
    categories: dict[str, str] = field(default_factory=dict[str, str])


def read_plugin_xml(data: bytes, texts: Mapping[str, str], into: PluginXml) -> None:
    """Reads a ``plugin.xml`` or ``fragment.xml``.

    Args:
        data: The content of the file.
        texts: The texts of ``plugin.properties``, for names such as ``%category``.
        into: The registrations to add to, as a plug-in may have both files.

    Raises:
        XmlRefusedError: The file cannot be read.
    """
    for extension in parse_xml(data):
        point = extension.get("point", "")
        for element in extension:
            kind = local_name(element)
            if point == _NODES and kind == "node":
                into.nodes.append(_registration(element))
            elif point in (_NODES, _SETS) and kind == "nodeset":
                into.node_sets.append(element.get("factory-class", "").strip())
            elif point == _CATEGORIES and kind == "category":
                path = joined_path(element.get("path", "/"), element.get("level-id", ""))
                into.categories[path] = _translated(element.get("name", ""), texts)


def joined_path(path: str, level: str = "") -> str:
    """A category's path in normal form, such as ``/io/read``; ``/`` for the root."""
    return "/" + "/".join(part for part in f"{path}/{level}".strip().split("/") if part.strip())


def category_names(path: str, categories: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the categories on a path; the identifier of a category without a registered name."""
    parts = [part for part in path.split("/") if part]
    return tuple(
        categories.get("/" + "/".join(parts[: depth + 1])) or part for depth, part in enumerate(parts)
    )


def read_manifest(data: bytes) -> dict[str, str]:
    """The main section of a ``MANIFEST.MF``, as values by header."""
    headers: dict[str, str] = {}
    for line in _CONTINUED.sub(b"", data).decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    return headers


def read_properties(data: bytes) -> dict[str, str]:
    """The texts of a ``plugin.properties``, by key."""
    found: dict[str, str] = {}
    for line in data.decode("latin-1").replace("\\\r\n", "").replace("\\\n", "").splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), value.strip())
            # Characters above U+FFFF are written as two escapes, one per surrogate.
            found[key.strip()] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return found


def _registration(element: Element) -> Registration:
    return Registration(
        factory=element.get("factory-class", "").strip(),
        category_path=joined_path(element.get("category-path", "/")),
        deprecated=element.get("deprecated", "").strip().lower() == "true",
        hidden=element.get("hidden", "").strip().lower() == "true",
    )


def _translated(name: str, texts: Mapping[str, str]) -> str:
    name = " ".join(name.split())
    return texts.get(name[1:], name) if name.startswith("%") else name
