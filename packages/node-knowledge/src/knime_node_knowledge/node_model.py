"""The model of a node, which is the same for all sources.

Nodes from KNIME's node descriptions, from facts and from spec packs (in both formats) are values
of the same classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ENGINE_TYPES: Final = (
    *("TRIGGER", "AI_AGENT", "ACTION", "EXTERNAL_ACTION", "FLOW", "TOOL", "MEMORY", "HUMAN_IN_THE_LOOP"),
)
"""The node types of the workflow engine, in the order of the enum in the design documents."""


class SourceKind(StrEnum):
    KNIME = "knime"
    """Node descriptions and registrations of KNIME plug-ins."""
    PYTHON_EXTENSION = "python extension"
    """This extension, as `packs/own-nodes.jsonl` describes it."""
    FACTS = "facts about"
    """Facts that come along with this program, read from KNIME's public sources."""
    SPEC_PACK = "spec pack"
    """A YAML file of node specifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    kind: SourceKind
    name: str  # of the plug-in or pack, or the id of the extension
    version: str | None = None

    @property
    def text(self) -> str:
        return " ".join(filter(None, (self.kind.value, self.name, self.version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Source):
    """Where a node's description comes from."""

    # as it was given: a jar with the entry after ``!/``, or a YAML file with the line
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    value: Any
    label: str = ""  # the text in the dialog; empty if the value itself is shown
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParameter:
    """A setting of a node, or a field of its input or output at run time."""

    # The key in the settings, after the keys of its groups (``errors.error_column``). KNIME's XML
    # descriptions have only the label in the dialog: see `NodeSpec.settings_known`.
    name: str
    # ``string``, ``integer``, ``float``, ``boolean``, ``array``, ``object``, ``enum`` or a pack's own name
    type: str | None = None
    required: bool = False
    default_value: Any = None  # as JSON; meaningless unless `has_default`
    has_default: bool = False
    description: str = ""
    options: tuple[Option, ...] = ()  # empty if every value is allowed
    min: float | int | None = None
    max: float | int | None = None
    min_exclusive: bool = False
    max_exclusive: bool = False
    validation_pattern: str | None = None
    label: str = ""  # the text in the dialog; empty if `name` is shown
    advanced: bool = False
    secret: bool = False  # or the name of a secret
    tab: str = ""  # the tab or section of the dialog

    @property
    def enum_values(self) -> tuple[Any, ...]:
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
    name: str
    type: str = ""  # such as ``Table``, ``Database Connection`` or ``main``; empty if the source has no type
    type_id: str | None = None  # the technical id of the type, such as a Java class
    accepts: tuple[str, ...] = ()  # the technical ids of further types that a person can choose for it
    description: str = ""
    optional: bool = False  # whether the node runs without a connection
    required: bool = True  # the opposite of `optional`, as specs have this field
    group: bool = False  # whether a person can add any number of ports of this kind
    max_connections: int = 1  # -1: any number
    data_format: DataFormat | None = None
    validation_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSpec:
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    # Unique in a catalogue, and stable: ``TRIGGER.MANUAL`` in spec packs, the factory class in KNIME,
    # ``<extension>.<node>`` in Python extensions.
    id: str
    # ``TRIGGER`` in spec packs; otherwise KNIME's kind of node in capitals: ``SOURCE``, ``LOOP_START``
    node_type: str
    subtype: str  # unique within `node_type`; the same as `id` except in spec packs
    name: str
    version: str = ""  # of the spec, plug-in or extension; empty if there is none
    # the names of the categories in the node repository, beginning at the root
    category: tuple[str, ...] = ()
    short_description: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    parameters: tuple[NodeParameter, ...] = ()
    # Whether `parameters` are complete and have the keys of the settings as names. Otherwise a configuration
    # cannot be checked.
    settings_known: bool = False
    # Groups of settings, with a dot at the end, in which other keys may be right, too; "" is the whole node.
    open_settings: tuple[str, ...] = ()
    input_ports: tuple[Port, ...] = ()
    output_ports: tuple[Port, ...] = ()
    views: tuple[ViewSpec, ...] = ()
    input_params: tuple[NodeParameter, ...] = ()
    output_params: tuple[NodeParameter, ...] = ()
    tags: tuple[str, ...] = ()
    # ids of the nodes that stand after and before this one in public workflows, the most frequent first
    followed_by: tuple[str, ...] = ()
    preceded_by: tuple[str, ...] = ()
    # ids or types of nodes that can be attached; None unless the spec has this field
    attached_nodes: tuple[str, ...] | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    deprecated: bool = False
    successor: str | None = None  # the id, or else the name, of the node to use instead
    hidden: bool = False
    origin: Origin

    @property
    def configurations(self) -> tuple[NodeParameter, ...]:
        """The settings, if their keys are known (specs call these ``configurations``); otherwise empty."""
        return self.parameters if self.settings_known else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """The fields of a `NodeSpec` for lists, which are read without the other fields."""

    row: int  # in this catalogue file and its search index; changes with each build
    id: str
    node_type: str
    subtype: str
    name: str
    category: str  # the names, beginning at the root, joined by `` / ``
    short_description: str
    deprecated: bool
    successor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary(Source):
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueOrigin:
    """The version and the sources of a catalogue; part of every answer."""

    version: str  # the first 12 digits of a SHA-256 of the content, so it changes with the content
    built_at: str  # in UTC, as ISO 8601 with seconds
    built_by: str
    nodes: int
    sources: tuple[SourceSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldName:
    """An old name from a pack, and the names to use now."""

    node_type: str  # such as ``HUMAN_LOOP_NODE``
    subtype: str | None  # such as ``HUMAN_SLACK``; None if only the type is meant
    # Ids of nodes, or a type if `subtype` is None. If `exact`, this is one entry: the new name of the same
    # node. Otherwise the node is gone, and these are the most similar ones, if any.
    instead: tuple[str, ...]
    exact: bool = True  # `instead` is the new name of the same node
    note: str = ""
