"""The knowledge about a node, the same for all sources.

A node is the same value whether it comes from KNIME's node descriptions, from a Python extension or from a
spec pack, in either format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class SourceKind(StrEnum):
    """The source of a node."""

    KNIME = "knime"
    """Node descriptions and registrations of KNIME plug-ins."""
    PYTHON_EXTENSION = "python extension"
    """An extension in Python that was imported."""
    SPEC_PACK = "spec pack"
    """A YAML file of node specifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of nodes.

    Attributes:
        kind: What it is.
        name: The plug-in, the extension's id or the pack's name.
        version: Its version; None where the source does not say.
    """

    kind: SourceKind
    name: str
    version: str | None = None

    @property
    def text(self) -> str:
        """The source, for a person."""
        return " ".join(filter(None, (self.kind.value, self.name, self.version)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Source):
    """Where a node's description comes from.

    Attributes:
        file: The file, as it was given: a jar with the entry behind ``!/``, a YAML file with its line.
    """

    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A value that a parameter may have.

    Attributes:
        value: As it is written into the settings.
        label: As it is shown; empty where it is shown as it is written.
        description: What it means.
    """

    value: Any
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A setting of a node, or a field of what goes in or comes out at run time.

    Attributes:
        name: The key in the settings, with those of its groups in front (``errors.error_column``). KNIME's
            XML descriptions only know the label in the dialog: see `NodeSpec.settings_known`.
        type: ``string``, ``integer``, ``float``, ``boolean``, ``array``, ``object``, ``enum`` or what a pack
            calls it; None where the source does not say.
        required: Whether there is no configuration without it.
        default_value: JSON; meaningless unless `has_default`.
        has_default: Whether a default is declared, which may be null.
        description: Plain text.
        options: The values allowed; none: any.
        min: Smallest number.
        max: Largest number.
        min_exclusive: `min` itself is not allowed.
        max_exclusive: `max` itself is not allowed.
        validation_pattern: A regular expression for texts.
        label: As it is shown in the dialog; empty where it is shown as `name`.
        advanced: Not shown at first.
        secret: Holds a secret, or names one.
        tab: The dialog's tab or section; empty for none.
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
    secret: bool = False
    tab: str = ""

    @property
    def enum_values(self) -> tuple[Any, ...]:
        """The values allowed; empty: any."""
        return tuple(option.value for option in self.options)

    @property
    def range(self) -> tuple[str, ...]:
        """The smallest and the largest number in words, as far as there are."""
        low = f"{'more than' if self.min_exclusive else 'at least'} {self.min}"
        high = f"{'less than' if self.max_exclusive else 'at most'} {self.max}"
        ends = ((low, self.min), (high, self.max))
        return tuple(text for text, bound in ends if bound is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFormat:
    """The data of a port: media type, JSON schema and examples, the latter two as text."""

    mime_type: str
    schema: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A place where nodes are connected.

    Attributes:
        name: As it is shown.
        type: What may be connected, as people call it: ``Table``, ``Database Connection``, ``main``; empty
            where the source does not say.
        type_id: The same as the system calls it, such as a Java class; None where there is none.
        description: Plain text.
        optional: The node runs with nothing connected.
        required: The opposite of `optional`, kept because specs name it so.
        group: A person adds as many of this kind as wanted.
        max_connections: -1: any number.
        data_format: What travels through it, if that is said.
        validation_schema: A JSON schema for what travels through it.
    """

    name: str
    type: str = ""
    type_id: str | None = None
    description: str = ""
    optional: bool = False
    required: bool = True
    group: bool = False
    max_connections: int = 1
    data_format: DataFormat | None = None
    validation_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view of a node."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node.

    Attributes:
        id: Unique in a catalogue, and stable: ``TRIGGER.MANUAL`` in spec packs, the factory class in KNIME
            (with ``#`` and what tells nodes of one factory apart), ``<extension>.<node>`` in Python.
        node_type: ``TRIGGER`` and the like in spec packs; KNIME's kind of node in capitals otherwise:
            ``SOURCE``, ``MANIPULATOR``, ``LOOP_START``.
        subtype: Unique within `node_type`; for KNIME's and Python nodes the same as `id`.
        name: As it is shown.
        version: Of the spec; for others of the plug-in or extension; empty where nobody says.
        category: Where it stands in the node repository, from the root on, as names that are shown.
        short_description: One or two sentences.
        description: Plain text; paragraphs apart by an empty line.
        aliases: Other ids or names it had or is known under.
        keywords: Words that people look for.
        parameters: The settings.
        settings_known: Whether `parameters` are named by their keys in the settings, and complete. If not, a
            configuration cannot be checked.
        input_ports: In order.
        output_ports: In order.
        views: Its views.
        input_params: Fields of its input at run time.
        output_params: Fields of its output at run time.
        tags: From the spec.
        attached_nodes: Ids or types of nodes that may be attached to it; None unless the spec says.
        examples: JSON objects, as the spec has them.
        deprecated: Kept for old workflows only.
        successor: The id, or else the name, of the node to use instead.
        hidden: Not shown in the node repository.
        origin: What it was read from.
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
        """The settings by their keys, as modern specs name them; empty where the keys are not known."""
        return self.parameters if self.settings_known else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """A node as lists show it, read without the rest.

    Attributes:
        row: Its number in this catalogue file, as in the search index; not stable across builds.
        category: From the root on, joined by `` / ``.

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
    """A source of a catalogue.

    Attributes:
        nodes: How many nodes it brought.
    """

    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueOrigin:
    """The sources of a catalogue; part of every answer.

    Attributes:
        version: Changes exactly when the content does: the first 12 hexadecimal digits of a SHA-256 over it.
        built_at: When, in UTC, as ISO 8601 with seconds.
        built_by: The version of this program that built it.
        nodes: How many nodes there are.
        sources: Where they come from, sorted.
    """

    version: str
    built_at: str
    built_by: str
    nodes: int
    sources: tuple[SourceSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldName:
    """A name that a pack once used, and what to use now.

    Attributes:
        node_type: The old type, such as ``HUMAN_LOOP_NODE``.
        subtype: The old subtype, such as ``HUMAN_SLACK``; None if only the type is meant.
        instead: Ids of nodes, or a type if `subtype` is None. If `exact`, one: the same thing under its new
            name. Otherwise nothing is the same, and these, if any, are the nearest.
        exact: Whether `instead` is what the old name stood for.
        note: Why, for a person.
    """

    node_type: str
    subtype: str | None
    instead: tuple[str, ...]
    exact: bool = True
    note: str = ""
