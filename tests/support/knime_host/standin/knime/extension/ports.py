"""Ports of nodes: their types, the objects at ports, and the decorators that declare ports."""

# Signatures are KNIME's, so not every argument is used.

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

from knime.api._absent import not_here
from knime.api.schema import CredentialPortObjectSpec, PortObjectSpec

N = TypeVar("N", bound=Callable[..., Any])


class PortObject(ABC):
    """The base of objects at custom ports, which have a spec, and data that can be serialized."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    @property
    def spec(self) -> Any:
        return self._spec

    @abstractmethod
    def serialize(self) -> bytes: ...

    @classmethod
    @abstractmethod
    def deserialize(cls, spec: Any, storage: bytes) -> "PortObject": ...


class FilestorePortObject(PortObject):
    """The base of port objects whose data is a file or folder; nodes with such ports do not run here."""

    serialize = not_here("FilestorePortObject.serialize")
    deserialize = classmethod(not_here("FilestorePortObject.deserialize"))  # pyright: ignore[reportAssignmentType]

    @abstractmethod
    def write_to(self, file_path: str) -> None: ...

    @classmethod
    @abstractmethod
    def read_from(cls, spec: Any, file_path: str) -> "FilestorePortObject": ...


class ConnectionPortObject(PortObject):
    """The base of port objects whose data stays in the process; nodes with such ports do not run here."""

    serialize = not_here("ConnectionPortObject.serialize")
    deserialize = classmethod(not_here("ConnectionPortObject.deserialize"))  # pyright: ignore[reportAssignmentType]

    @abstractmethod
    def to_connection_data(self) -> Any: ...

    @classmethod
    @abstractmethod
    def from_connection_data(cls, spec: Any, data: Any) -> "ConnectionPortObject": ...


@dataclass
class PortType:
    """A type of custom ports. The class attributes stand for KNIME's own types."""

    id: str
    name: str
    object_class: type
    spec_class: type

    BINARY: ClassVar[Any] = "PortType.BINARY"
    CONNECTION: ClassVar[Any] = "PortType.CONNECTION"
    TABLE: ClassVar[Any] = "PortType.TABLE"
    IMAGE: ClassVar[Any] = "PortType.IMAGE"
    CREDENTIAL: ClassVar[Any] = "PortType.CREDENTIAL"
    WORKFLOW: ClassVar[Any] = "PortType.WORKFLOW"
    HUB_AUTHENTICATION: ClassVar[Any] = "PortType.HUB_AUTHENTICATION"

    def is_super_type_of(self, port_type: "PortType") -> bool:
        """Returns whether objects and specs of the given type are also objects and specs of this type."""
        return issubclass(port_type.spec_class, self.spec_class) and issubclass(
            port_type.object_class, self.object_class
        )


class ImageFormat(Enum):
    PNG = "png"
    SVG = "svg"


@dataclass
class Port:
    type: Any
    name: str
    description: str
    id: str | None = None
    optional: bool | None = False

    def __post_init__(self) -> None:
        if self.type in (PortType.BINARY, PortType.CONNECTION) and self.id is None:
            raise TypeError(f"the port {self.name} needs an id")


@dataclass
class PortGroup:
    """A group of ports of one type, to which users can add ports."""

    type: Any
    name: str
    description: str
    id: str | None = None

    def __post_init__(self) -> None:
        for text in (self.name, self.description):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    f"name and description of a port group must be strings, not {type(text).__name__}"
                )


@dataclass
class ViewDeclaration:
    """The view of a node. With an index page, the view consists of static files."""

    name: str
    description: str
    static_resources: str | None = None
    index_html_path: str | None = None


def _declare(slot: str, port: Port | PortGroup) -> Callable[[N], N]:
    def declare(node: N) -> N:
        marker = f"__knime_added_{slot}"
        ports: list[Port | PortGroup] | None = getattr(node, slot, None)
        if ports is None:
            ports = []
            setattr(node, slot, ports)
            setattr(node, marker, True)
        # A list that the class wrote itself may be its base class's, which would get the port, too.
        elif not hasattr(node, marker):
            raise ValueError(f"the class sets {slot} itself, so the port {port.name} cannot be added to it")
        if isinstance(port, PortGroup) and any(
            isinstance(p, PortGroup) and p.name == port.name for p in ports
        ):
            raise ValueError(f"there are two port groups named {port.name}")
        # Decorators run from the bottom up; the topmost one is the first port.
        ports.insert(0, port)
        return node

    return declare


def input_table(name: str, description: str, optional: bool | None = False) -> Callable[[N], N]:
    return _declare("input_ports", Port(PortType.TABLE, name, description, optional=optional))


def input_binary(name: str, description: str, id: str, optional: bool | None = False) -> Callable[[N], N]:  # noqa: A002
    return _declare("input_ports", Port(PortType.BINARY, name, description, id, optional=optional))


def input_port(
    name: str, description: str, port_type: Any, optional: bool | None = False
) -> Callable[[N], N]:
    return _declare("input_ports", Port(port_type, name, description, optional=optional))


def input_table_group(name: str, description: str) -> Callable[[N], N]:
    """Declares any number of input tables; the node gets a list."""
    return _declare("input_ports", PortGroup(PortType.TABLE, name, description))


def input_binary_group(name: str, description: str, id: str | None = None) -> Callable[[N], N]:  # noqa: A002
    return _declare("input_ports", PortGroup(PortType.BINARY, name, description, id))


def input_port_group(name: str, description: str, port_type: Any) -> Callable[[N], N]:
    return _declare("input_ports", PortGroup(port_type, name, description))


def output_table(name: str, description: str) -> Callable[[N], N]:
    return _declare("output_ports", Port(PortType.TABLE, name, description))


def output_binary(name: str, description: str, id: str) -> Callable[[N], N]:  # noqa: A002
    return _declare("output_ports", Port(PortType.BINARY, name, description, id))


def output_port(name: str, description: str, port_type: Any) -> Callable[[N], N]:
    return _declare("output_ports", Port(port_type, name, description))


def output_image(name: str, description: str) -> Callable[[N], N]:
    return _declare("output_ports", Port(PortType.IMAGE, name, description))


def output_table_group(name: str, description: str) -> Callable[[N], N]:
    """Declares any number of output tables; the node returns a list."""
    return _declare("output_ports", PortGroup(PortType.TABLE, name, description))


def output_binary_group(name: str, description: str, id: str | None = None) -> Callable[[N], N]:  # noqa: A002
    return _declare("output_ports", PortGroup(PortType.BINARY, name, description, id))


def output_port_group(name: str, description: str, port_type: Any) -> Callable[[N], N]:
    return _declare("output_ports", PortGroup(port_type, name, description))


def output_image_group(name: str, description: str) -> Callable[[N], N]:
    return _declare("output_ports", PortGroup(PortType.IMAGE, name, description))


def output_view(
    name: str, description: str, static_resources: str | None = None, index_html_path: str | None = None
) -> Callable[[N], N]:
    """Declares the node's view. Without an index page the view is the last result of execute()."""

    def declare(node: N) -> N:
        setattr(node, "output_view", ViewDeclaration(name, description, static_resources, index_html_path))  # noqa: B010
        return node

    return declare


class CredentialPortObject:
    """The object that a node gets from a credential port."""

    def __init__(self, spec: CredentialPortObjectSpec) -> None:
        self._spec = spec

    @property
    def spec(self) -> Any:
        return self._spec

    def get_auth_schema(self) -> str:
        return self._spec.auth_schema

    def get_auth_parameters(self) -> str:
        return self._spec.auth_parameters

    def get_expires_after(self) -> dt.datetime | None:
        return self._spec.expires_after


#: The only type of KNIME that extensions can also look up by the id of its Java class.
CREDENTIAL_TYPE = PortType(
    "org.knime.credentials.base.CredentialPortObject",
    "Credential",
    CredentialPortObject,
    CredentialPortObjectSpec,
)


class PortTypeRegistry:
    def __init__(self, extension_id: str) -> None:
        self._extension_id = extension_id
        self._types = [CREDENTIAL_TYPE]

    def register(
        self,
        name: str,
        object_class: type,
        spec_class: type[PortObjectSpec],
        id: str | None,  # noqa: A002
    ) -> PortType:
        """Adds a type. The default id consists of the extension's id and the name of the object class."""
        chosen = (
            id
            if id is not None
            else f"{self._extension_id}.{object_class.__module__}.{object_class.__qualname__}"
        )
        for known in self._types:
            for own, other, what in (
                (object_class, known.object_class, "object class"),
                (spec_class, known.spec_class, "spec class"),
                (chosen, known.id, "id"),
            ):
                if own == other:
                    raise ValueError(f"another port type has the {what} {own}")
        port_type = PortType(chosen, name, object_class, spec_class)
        self._types.append(port_type)
        return port_type

    def of_id(self, type_id: str) -> PortType | None:
        """The type with this id, or None."""
        return next((known for known in self._types if known.id == type_id), None)

    def of_spec(self, spec_class: type) -> PortType | None:
        """The type with this class of specs, or None."""
        return next((known for known in self._types if known.spec_class is spec_class), None)


# Converters between ports of KNIME's Java side and Python.
