"""Ports of nodes: their types, the objects at ports, and the decorators that declare ports."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

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


@dataclass
class PortType:
    """A type of custom ports. The class attributes stand for KNIME's own types."""

    id: str
    name: str
    object_class: type
    spec_class: type

    TABLE: ClassVar[Any] = "PortType.TABLE"
    CREDENTIAL: ClassVar[Any] = "PortType.CREDENTIAL"

    def is_super_type_of(self, port_type: "PortType") -> bool:
        """Returns whether objects and specs of the given type are also objects and specs of this type."""
        return issubclass(port_type.spec_class, self.spec_class) and issubclass(
            port_type.object_class, self.object_class
        )


@dataclass
class Port:
    type: Any
    name: str
    description: str
    optional: bool = False


@dataclass
class PortGroup:
    """A group of ports of one type, to which users can add ports."""

    type: Any
    name: str
    description: str


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


def input_table(name: str, description: str, optional: bool = False) -> Callable[[N], N]:
    return _declare("input_ports", Port(PortType.TABLE, name, description, optional))


def input_port(name: str, description: str, port_type: Any, optional: bool = False) -> Callable[[N], N]:
    return _declare("input_ports", Port(port_type, name, description, optional))


def input_table_group(name: str, description: str) -> Callable[[N], N]:
    """Declares any number of input tables; the node gets a list."""
    return _declare("input_ports", PortGroup(PortType.TABLE, name, description))


def output_table(name: str, description: str) -> Callable[[N], N]:
    return _declare("output_ports", Port(PortType.TABLE, name, description))


def output_port(name: str, description: str, port_type: Any) -> Callable[[N], N]:
    return _declare("output_ports", Port(port_type, name, description))


def output_table_group(name: str, description: str) -> Callable[[N], N]:
    """Declares any number of output tables; the node returns a list."""
    return _declare("output_ports", PortGroup(PortType.TABLE, name, description))


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


class PortTypeRegistry:
    def __init__(self, extension_id: str) -> None:
        self._extension_id = extension_id
        self._types: list[PortType] = []

    def register(
        self,
        name: str,
        object_class: type,
        spec_class: type[PortObjectSpec],
        id: str | None,  # noqa: A002
    ) -> PortType:
        """Adds a type. The default id consists of the extension's id and the name of the object class."""
        own = f"{self._extension_id}.{object_class.__module__}.{object_class.__qualname__}"
        chosen = own if id is None else id
        for known in self._types:
            for what, new, old in (
                ("object class", object_class, known.object_class),
                ("spec class", spec_class, known.spec_class),
                ("id", chosen, known.id),
            ):
                if new == old:
                    raise ValueError(f"another port type has the {what} {new}")
        port_type = PortType(chosen, name, object_class, spec_class)
        self._types.append(port_type)
        return port_type

    def of_id(self, type_id: str) -> PortType | None:
        """The type with this id, or None."""
        return next((known for known in self._types if known.id == type_id), None)

    def of_spec(self, spec_class: type) -> PortType | None:
        """The type with this class of specs, or None."""
        return next((known for known in self._types if known.spec_class is spec_class), None)
