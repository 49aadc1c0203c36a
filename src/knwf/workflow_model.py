"""The parts of a KNIME workflow as values: nodes, connections, annotations, credentials, variables.

The model holds settings as KNIME stores them (`Config`), with fields for the known ones. Unknown settings and
files are kept (``other``, ``files``) and written back. Pure; `reader` and `writer` convert to and from files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from .json_parameters import from_model
from .settings_xml import Config, EntryType, KnwfError, SettingsEntry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT_VERSION: Final = "5.1.0"
#: The formats since KNIME 2.8, which have the same keys; they differ in how KNIME places nodes on the canvas.
READABLE_VERSIONS: Final = ("2.8.0", "2.10.0", "3.1.0", "3.7.0", "3.8.0", "4.1.0", FORMAT_VERSION)
_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
KNIME_VENDOR: Final = "KNIME AG, Zurich, Switzerland"
_BLOB_CLASS: Final = "org.knime.python3.nodes.ports.PythonBinaryBlobFileStorePortObject"
#: Java class of a port by the prefix of its type's name in Python; the first prefix that fits.
_OBJECT_CLASSES: Final = (
    ("PortType.TABLE", "org.knime.core.node.BufferedDataTable"),
    ("PortType.IMAGE", "org.knime.core.node.port.image.ImagePortObject"),
    ("PortType.CREDENTIAL", "org.knime.credentials.base.CredentialPortObject"),
    (
        "PortType.HUB_AUTHENTICATION",
        "org.knime.workflowservices.connection.AbstractHubAuthenticationPortObject",
    ),
    ("PortType.WORKFLOW", "org.knime.core.node.workflow.capture.WorkflowPortObject"),
    ("ConnectionPortType", "org.knime.python3.nodes.ports.PythonTransientConnectionPortObject"),
)
#: The port for flow variables, which every node has; data ports count from 1.
VARIABLE_PORT: Final = 0


class NodeState(StrEnum):
    """The stored state of a node.

    KNIME configures nodes again when it opens a workflow. It reports settings that a node refuses only if the
    node was stored as configured; a node stored as idle would silently get its defaults.
    """

    IDLE = "IDLE"
    CONFIGURED = "CONFIGURED"
    EXECUTED = "EXECUTED"


@dataclass(frozen=True, slots=True)
class CanvasPosition:
    """The position of a node on the canvas, in pixels."""

    x: int = 0
    y: int = 0
    width: int = 110
    height: int = 76


ORIGIN: Final = CanvasPosition()


@dataclass(frozen=True, slots=True)
class PortGroup:
    """The ports of a node that belong to one declaration."""

    #: The group's name in the file: ``Input <name> # <index>`` and ``Output <name> # <index>`` for the fixed
    #: ports of Python nodes, the bare name for optional ports and groups.
    id: str
    object_classes: tuple[str, ...] = ()  # Java classes of the ports that were added; empty for a fixed port
    fixed: bool = False  # whether the group is a single port that is always present
    #: Whether the group is a single port whose type a user chose; its class is in ``object_classes``.
    exchangeable: bool = False

    @property
    def count(self) -> int:
        return 1 if self.fixed else len(self.object_classes)

    @property
    def name(self) -> str:
        if not self.fixed:
            return self.id
        return self.id.partition(" ")[2].rpartition(" # ")[0]


@dataclass(frozen=True, slots=True)
class VariableControl:
    """A parameter that a flow variable sets, or that becomes a flow variable."""

    path: tuple[str, ...]  # keys from the parameters down to the value, such as ``("server_url",)``
    used: str | None = None  # the variable whose value replaces the stored one
    exposed: str | None = None  # the variable that passes the value to later nodes


@dataclass(frozen=True, slots=True)
class NativeNode:
    """A node that is neither metanode nor component."""

    id: int  # unique in the workflow
    name: str  # name of the kind of node, such as *MCP Tool Caller*
    factory: str  # Java class that makes the node
    #: Further settings that identify the kind of node; for Python nodes ``extension_id`` and ``node_id``.
    factory_settings: Config = field(default_factory=lambda: Config("factory_settings"))
    model: Config | None = None  # the node's settings; None leaves the defaults
    outputs: int = 0  # number of output ports, without the port for flow variables
    inputs: int | None = None  # number of input ports, likewise; None if the file does not tell
    port_groups: tuple[PortGroup, ...] = ()  # the groups of a node whose ports can change, inputs first
    #: Parameters that flow variables set, or that become flow variables.
    variables: tuple[VariableControl, ...] = ()
    position: CanvasPosition = ORIGIN
    state: NodeState = NodeState.CONFIGURED
    annotation: str = ""  # the label below the node
    description: str | None = None  # the user's description of the node, or None
    #: ``name``, ``symbolic-name``, ``vendor`` of the plug-in that brings the node.
    bundle: tuple[str, str, str] = ("", "", "")
    other: tuple[SettingsEntry | Config, ...] = ()  # all other entries of the settings file

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a Python node as their JSON document; ``{"model": {}}`` for the defaults.

        Raises KnwfError: the settings have another form, as those of Java nodes may have.
        """
        return {"model": {}} if self.model is None else from_model(self.model)[0]

    @property
    def parameters_version(self) -> str:
        """The version of the extension that saved the parameters, "0.0.0" if none is stored."""
        return "0.0.0" if self.model is None else from_model(self.model)[1]

    @property
    def extension_id(self) -> str | None:
        """The Python extension that the node comes from; None for a Java node."""
        return self.factory_settings.text("extension_id") or None

    @property
    def node_id(self) -> str | None:
        return self.factory_settings.text("node_id") or None

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The group names of the present input ports, in order; None if the file does not tell."""
        names = self._port_names()
        return None if names is None or self.inputs is None else names[: self.inputs]

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """The group names of the present output ports, in order; None if the file does not tell."""
        names = self._port_names()
        return None if names is None or self.inputs is None else names[self.inputs :]

    def input_port(self, name: str, position: int = 0) -> int:
        """The number of an input port for connections; ``position`` counts the ports of a group from 0."""
        return self._port(self.input_names, "input", name, position)

    def output_port(self, name: str, position: int = 0) -> int:
        """The number of an output port for connections; see `input_port`."""
        return self._port(self.output_names, "output", name, position)

    def _port_names(self) -> tuple[str, ...] | None:
        names = tuple(group.name for group in self.port_groups for _ in range(group.count))
        return names if len(names) == self.outputs + (self.inputs or 0) else None

    def _port(self, names: Sequence[str] | None, kind: str, name: str, position: int) -> int:
        numbers = [number for number, known in enumerate(names or (), 1) if known == name]
        if position >= len(numbers):
            has = ", ".join(names or ()) or "none that the file names"
            raise KnwfError(f"{node_label(self)} has no {kind} {name!r} {position}; it has: {has}")
        return numbers[position]


@dataclass(frozen=True, slots=True)
class OtherNode:
    """A node that is kept but not read: a metanode, a component, or a node with broken settings."""

    id: int  # unique in the workflow
    name: str  # the name of the node or of its folder
    kind: Literal["metanode", "component", "broken"]  # ``metanode``, ``component``, or ``broken``
    settings_file: str  # path of the node's settings in the workflow's folder; `Workflow.files` has its files
    position: CanvasPosition = ORIGIN
    problem: str = ""  # the problem of a broken node


Node = NativeNode | OtherNode


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection from an output port to an input port; port 0 is for flow variables only."""

    source: int
    source_port: int
    destination: int
    destination_port: int
    other: tuple[SettingsEntry | Config, ...] = ()

    def __str__(self) -> str:
        return f"{self.source}:{self.source_port} -> {self.destination}:{self.destination_port}"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on the canvas: its text, place, size (pixels) and look. Colors are RGB numbers."""

    text: str
    x: int = 0
    y: int = 0
    width: int = 300
    height: int = 100
    content_type: Literal["text/plain", "text/html"] = "text/plain"
    background: int = 0xFFFFFF
    border_size: int = 2
    border_color: int = 0xFFD800
    font_size: int = 12
    alignment: str = "LEFT"
    styles: Config = field(default_factory=lambda: Config("styles"))


@dataclass(frozen=True, slots=True)
class WorkflowCredential:
    """A credential that the workflow requires: its name and user name. No file holds the password."""

    name: str
    login: str | None = None


VariableType = Literal[
    "STRING", "INTEGER", "LONG", "DOUBLE", "BOOLEAN",
    "STRINGARRAY", "INTARRAY", "LONGARRAY", "DOUBLEARRAY", "BOOLEANARRAY",
]  # fmt: skip
VARIABLE_ENTRIES: Final[dict[VariableType, EntryType]] = {
    "STRING": "xstring",
    "INTEGER": "xint",
    "LONG": "xlong",
    "DOUBLE": "xdouble",
    "BOOLEAN": "xboolean",
}
#: The type of an array, by the type of its elements.
ARRAYS: Final[dict[VariableType, VariableType]] = {
    "STRING": "STRINGARRAY",
    "INTEGER": "INTARRAY",
    "LONG": "LONGARRAY",
    "DOUBLE": "DOUBLEARRAY",
    "BOOLEAN": "BOOLEANARRAY",
}
VARIABLE_ARRAYS: Final[dict[VariableType, EntryType]] = {
    array: VARIABLE_ENTRIES[element] for element, array in ARRAYS.items()
}
VariableValue = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class WorkflowVariable:
    """A flow variable of the whole workflow. An array type has a tuple as value."""

    name: str
    type: VariableType
    value: VariableValue


@dataclass(frozen=True, slots=True)
class WorkflowProblem:
    """A problem that a reader or a check found."""

    severity: Literal["error", "warning"]  # ``error`` if KNIME would not load or run the workflow as written
    where: str  # ``workflow``, ``node 3 (MCP Tool Caller)``, a connection or a file
    what: str  # one sentence

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Workflow:
    name: str  # the name; any text
    nodes: tuple[Node, ...] = ()  # the nodes, in any order, with unique ids
    connections: tuple[Connection, ...] = ()  # the connections between the nodes
    annotations: tuple[Annotation, ...] = ()  # notes on the canvas
    #: The credentials that KNIME asks for when it opens the workflow.
    credentials: tuple[WorkflowCredential, ...] = ()
    variables: tuple[WorkflowVariable, ...] = ()  # flow variables that every node can use
    description: str | None = None  # the user's description of the workflow, or None
    #: The version of the format; a known version is kept when the workflow is written again.
    version: str = FORMAT_VERSION
    other: tuple[SettingsEntry | Config, ...] = ()  # all other entries of ``workflow.knime``
    #: Files of the folder that do not belong to native nodes, by path: the data area, metanodes and
    #: components.
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    #: The problems that the reader found. They do not count for equality.
    problems: tuple[WorkflowProblem, ...] = field(default=(), compare=False)

    def node(self, node_id: int) -> Node:
        """The node with an id; KnwfError if there is none."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KnwfError(f"workflow {self.name!r} has no node {node_id}")


def object_class(port_type: str) -> str:
    """The Java class of a port's objects.

    ``port_type`` is the type as a Python extension declares it: ``PortType.TABLE``, …, or the id of the
    extension's own port type, for all of which KNIME has one class.
    """
    return next((java for prefix, java in _OBJECT_CLASSES if port_type.startswith(prefix)), _BLOB_CLASS)


def is_too_old(version: str) -> bool:
    """Returns whether a format is older than 2.8, when KNIME wrote less of each node, with other keys."""
    release = _RELEASE.match(version)
    return release is not None and (1, 0) <= (int(release[1]), int(release[2])) < (2, 8)


def node_label(node: Node) -> str:
    return f"node {node.id} ({node.name})"
