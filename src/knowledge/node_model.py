"""The model of a node, which is the same for all sources.

Nodes from KNIME's node descriptions, from Python extensions and from spec packs (in both formats) are values
of the same classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class SourceKind(StrEnum):
    """The kind of source that a node comes from."""

    KNIME = "knime"
    """Node descriptions and registrations of KNIME plug-ins."""
    PYTHON_EXTENSION = "python extension"
    """A Python extension, which was imported."""
    SPEC_PACK = "spec pack"
    """A YAML file of node specifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of nodes.

    Attributes:
        name: The name of the plug-in or pack, or the id of the extension.
        version: The version; None if the source has none.
    """

    kind: SourceKind
    name: str
    version: str | None = None

    @property
    def text(self) -> str:
        return " ".join(filter(None, (self.kind.value, self.name, self.version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Source):
    """The origin of a node's description.

    Attributes:
        file: The file as it was given: a jar with the entry after ``!/``, or a YAML file with the line.
    """

    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A value that a parameter may have.

    Attributes:
        label: The text in the dialog; empty if the value itself is shown.
    """

    value: Any
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A setting of a node, or a field of its input or output at run time.

    Attributes:
        name: The key in the settings, after the keys of its groups (``errors.error_column``). KNIME's XML
            descriptions have only the label in the dialog: see `NodeSpec.settings_known`.
        type: ``string``, ``integer``, ``float``, ``boolean``, ``array``, ``object``, ``enum`` or a pack's own
            name; None if the source has no type.
        default_value: The default as JSON; meaningless unless `has_default`.
        options: The allowed values; empty if every value is allowed.
        label: The text in the dialog; empty if `name` is shown.
        tab: The tab or section of the dialog; empty for none.
    """

    name: str
    type: str | None = None
    required: bool = False
    default_value: Any = None
    has_default: bool = False
    description: str = ""
    options: tuple[Option, ...] = ()
    min: float | int | None = None
    max: float | int | None = None
    min_exclusive: bool = False
    max_exclusive: bool = False
    validation_pattern: str | None = None
    label: str = ""
    advanced: bool = False
    secret: bool = False  # or the name of a secret
    tab: str = ""

    @property
    def enum_values(self) -> tuple[Any, ...]:
        """The allowed values; empty if every value is allowed."""
        return tuple(option.value for option in self.options)

    @property
    def range(self) -> tuple[str, ...]:
        """The limits `min` and `max` in words; without those that are not set."""
        low = f"{'more than' if self.min_exclusive else 'at least'} {self.min}"
        high = f"{'less than' if self.max_exclusive else 'at most'} {self.max}"
        ends = ((low, self.min), (high, self.max))
        return tuple(text for text, bound in ends if bound is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFormat:
    """The data of a port: its media type, and a JSON schema and examples as text."""

    mime_type: str
    schema: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output port of a node.

    Attributes:
        type: The name of the type, such as ``Table``, ``Database Connection`` or ``main``; empty if the
            source has no type.
        type_id: The technical id of the type, such as a Java class; None if there is none.
        optional: Whether the node runs without a connection.
        group: Whether a person can add any number of ports of this kind.
        max_connections: The largest number of connections; -1 for any number.
    """

    name: str
    type: str = ""
    type_id: str | None = None
    description: str = ""
    optional: bool = False
    required: bool = True  # the opposite of `optional`, as specs have this field
    group: bool = False
    max_connections: int = 1
    data_format: DataFormat | None = None
    validation_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node.

    Attributes:
        id: An id that is unique in a catalogue, and stable: ``TRIGGER.MANUAL`` in spec packs, the factory
            class in KNIME, ``<extension>.<node>`` in Python extensions.
        node_type: A type such as ``TRIGGER`` in spec packs; otherwise KNIME's kind of node in capitals:
            ``SOURCE``, ``MANIPULATOR``, ``LOOP_START``.
        subtype: A name that is unique within `node_type`; the same as `id` except in spec packs.
        version: The version of the spec, plug-in or extension; empty if there is none.
        category: The names of the categories in the node repository, beginning at the root.
        settings_known: Whether `parameters` are complete and have the keys of the settings as names.
            Otherwise a configuration cannot be checked.
        attached_nodes: Ids or types of nodes that can be attached; None unless the spec has this field.
        successor: The id, or else the name, of the node to use instead.
    """

    id: str
    node_type: str
    subtype: str
    name: str
    version: str = ""
    category: tuple[str, ...] = ()
    short_description: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    settings_known: bool = False
    input_ports: tuple[Port, ...] = ()
    output_ports: tuple[Port, ...] = ()
    views: tuple[View, ...] = ()
    input_params: tuple[Parameter, ...] = ()
    output_params: tuple[Parameter, ...] = ()
    tags: tuple[str, ...] = ()
    attached_nodes: tuple[str, ...] | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    deprecated: bool = False
    successor: str | None = None
    hidden: bool = False
    origin: Origin

    @property
    def configurations(self) -> tuple[Parameter, ...]:
        """The settings, if their keys are known (specs call these ``configurations``); otherwise empty."""
        return self.parameters if self.settings_known else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """The fields of a node for lists, which are read without the other fields.

    Attributes:
        row: The row number in this catalogue file and its search index; changes with each build.
        category: The category names, beginning at the root, joined by `` / ``.

    The other attributes are those of `NodeSpec`.
    """

    row: int
    id: str
    node_type: str
    subtype: str
    name: str
    category: str
    short_description: str
    deprecated: bool
    successor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary(Source):
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueOrigin:
    """The version and the sources of a catalogue; part of every answer.

    Attributes:
        version: The first 12 hexadecimal digits of a SHA-256 of the content, so it changes with the content.
        built_at: The time of the build in UTC, as ISO 8601 with seconds.
    """

    version: str
    built_at: str
    built_by: str
    nodes: int
    sources: tuple[SourceSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldName:
    """An old name from a pack, and the names to use now.

    Attributes:
        node_type: The old type, such as ``HUMAN_LOOP_NODE``.
        subtype: The old subtype, such as ``HUMAN_SLACK``; None if only the type is meant.
        instead: Ids of nodes, or a type if `subtype` is None. If `exact`, this is one entry: the new name of
            the same node. Otherwise the node is gone, and these are the most similar ones, if any.
    """

    node_type: str
    subtype: str | None
    instead: tuple[str, ...]
    exact: bool = True  # `instead` is the new name of the same node
    note: str = ""
