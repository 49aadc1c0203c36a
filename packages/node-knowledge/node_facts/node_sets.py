"""Nodes that plug-ins register as sets: Java code lists them, which is read here and not run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from knime_node_knowledge.sources.node_descriptions import parse_xml
from knime_node_knowledge.sources.plugin_bundles import Registration, joined_path

from .java_reader import JavaReader
from .node_ports import ENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .java_classes import JavaIndex

_SETS: Final = "org.knime.workbench.repository.nodesets"
_OF_SPARK: Final = "org.knime.bigdata.spark.core.SparkNodeFactoryProvider"
_LISTING: Final = {_SETS: "factory-class", _OF_SPARK: "ProviderClass"}
"""The attribute with the class that lists nodes, by extension point."""

_SPARK_PATH: Final = "/toolintegration/spark"
_MEMBER: Final = re.compile(r"\bnew\s+(\w+NodeFactory\d*)\(\)|\b(\w+NodeFactory\d*)\.class\b")
_PATH: Final = re.compile(r'"(/\w[\w/.]*)"')


def members_of_sets(plugin_xml: bytes, index: JavaIndex) -> Iterator[Registration]:
    """The nodes of the sets in a ``plugin.xml`` whose lists name the classes of their factories."""
    for extension in parse_xml(plugin_xml):
        point = extension.get("point", "")
        for element in extension if point in _LISTING else ():
            listing = index.find(element.get(_LISTING[point], "").strip())
            if listing is None or element.get("internal") == "true":  # such as the ends of components
                continue
            source = listing.unit.path.read_text("utf-8", "replace")
            path = next(iter(_PATH.findall(source)), "/")
            for names in dict.fromkeys(_MEMBER.findall(source)):
                factory = index.find(listing.resolve(names[0] or names[1]))
                if factory is not None:
                    yield Registration(
                        factory=factory.name,
                        category_path=_path_of_spark(factory.name, index) if point == _OF_SPARK else path,
                        deprecated=element.get("deprecated", "").strip().lower() == "true",
                    )


def _path_of_spark(factory: str, index: JavaIndex) -> str:
    """The category of a node for Spark, which its factory hands to the constructor above."""
    reader = JavaReader(index, ends=ENDS)
    reader.start()
    path = reader.new(factory).fields.get("m_categoryPath")
    return joined_path(_SPARK_PATH, path.strip("/") if isinstance(path, str) else "")
