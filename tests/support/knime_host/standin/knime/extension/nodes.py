"""Nodes and categories: the decorators that declare them, and the registry from which the host reads them."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, TypeVar

from knime.api.schema import PortObjectSpec

from .parameter import Parameter
from .ports import Port, PortGroup, PortType, PortTypeRegistry, ViewDeclaration

T = TypeVar("T")


class NodeType(Enum):
    """The kind of a node, which decides its colour in KNIME."""

    SOURCE = "Source"
    SINK = "Sink"
    LEARNER = "Learner"
    PREDICTOR = "Predictor"
    MANIPULATOR = "Manipulator"
    VISUALIZER = "Visualizer"
    OTHER = "Other"


class InvalidParametersError(Exception):
    """The settings of a node do not fit together, or not to its inputs."""

    def __init__(self, message: Any) -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Category:
    path: str
    level_id: str
    name: str
    description: str
    icon: str
    after: str
    locked: bool
    module: str

    def to_dict(self) -> dict[str, Any]:
        """The category as a document for KNIME's Java side."""
        document = asdict(self)
        del document["module"]
        return document


@dataclass(slots=True)
class Node:
    """A declared node: the facts that KNIME shows, and the factory that makes nodes."""

    node_factory: Callable[..., Any]
    id: str
    name: str
    node_type: str
    icon_path: str | None
    category: str
    after: str | None
    keywords: list[str] | None
    is_deprecated: bool
    is_hidden: bool
    module: str
    input_ports: list[Port | PortGroup]
    output_ports: list[Port | PortGroup]
    views: list[ViewDeclaration | None]  # always one entry

    def to_dict(self) -> dict[str, Any]:
        """The node as a document for KNIME's Java side."""
        return {
            "id": self.id,
            "name": self.name,
            "node_type": self.node_type,
            "is_deprecated": self.is_deprecated,
            "is_hidden": self.is_hidden,
            "icon_path": self.icon_path,
            "category": self.category,
            "after": self.after,
            "keywords": self.keywords or [],
            "input_port_specifier": _port_specifiers(self.input_ports),
            "output_port_specifier": _port_specifiers(self.output_ports),
            "views": [asdict(view) for view in self.views if view is not None],
        }


def _port_specifiers(ports: list[Port | PortGroup]) -> list[dict[str, Any]]:
    specifiers: list[dict[str, Any]] = []
    fixed = 0
    for port in ports:
        is_group, is_optional = isinstance(port, PortGroup), getattr(port, "optional", False)
        specifiers.append(
            {
                "name": port.name,
                "type_string": _type_string(port.type),
                "description": port.description,
                "description_index": fixed,
                "group": is_group,
                "optional": is_optional,
            }
        )
        fixed += not (is_group or is_optional)
    return specifiers


def _type_string(kind: Any) -> str:
    return kind.id if isinstance(kind, PortType) else str(kind)


# The names are KNIME's: tests of extensions look their nodes and categories up here.
_nodes: dict[str, Node] = {}
_categories: list[Category] = []
port_types: PortTypeRegistry | None = None


def category(
    path: str, level_id: str, name: str, description: str, icon: str, after: str = "", locked: bool = True
) -> str:
    """Declares a category; returns its path, for the `category` of nodes."""
    # KNIME's signature has no module, so it is that of the caller.
    module: str = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
    _categories.append(Category(path, level_id, name, description, icon, after, locked, module))
    return f"{path.removesuffix('/')}/{level_id}"


def port_type(
    name: str,
    object_class: type,
    spec_class: type[PortObjectSpec],
    id: str | None = None,  # noqa: A002  # KNIME's name
) -> PortType:
    """Declares a type of custom ports; the extension's id is part of the type's id."""
    return _loaded_port_types().register(name, object_class, spec_class, id)


def _loaded_port_types() -> PortTypeRegistry:
    if port_types is None:
        raise AttributeError(
            "port types can only be declared by the module of an extension that is being loaded"
        )
    return port_types


def get_port_type_for_id(id: str) -> PortType:  # noqa: A002  # KNIME's name
    found = _loaded_port_types().of_id(id)
    if found is None:
        raise KeyError(f"there is no port type with the id {id}")
    return found


def has_port_type_for_id(id: str) -> bool:  # noqa: A002  # KNIME's name
    return _loaded_port_types().of_id(id) is not None


def node(
    name: str,
    node_type: NodeType,
    icon_path: str,
    category: str,
    after: str | None = None,
    keywords: list[str] | None = None,
    id: str | None = None,  # noqa: A002  # KNIME's name
    is_deprecated: bool = False,
    is_hidden: bool = False,
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Declares a node. It must be the topmost decorator.

    The class is instantiated at once, to read its ports. The decorated name becomes a function that makes
    nodes. A second node with the same id silently replaces the first one.
    """

    def declare(factory: Callable[..., T]) -> Callable[..., T]:
        made: Any = factory()  # as in KNIME, which reads the ports of an object
        declared = Node(
            node_factory=factory,
            id=id if id is not None else factory.__name__,
            name=name,
            node_type=node_type.value if isinstance(node_type, NodeType) else "Unknown",  # pyright: ignore[reportUnnecessaryIsInstance]
            icon_path=icon_path,
            category=category,
            after=after,
            keywords=keywords,
            is_deprecated=is_deprecated,
            is_hidden=is_hidden,
            module=factory.__module__,
            input_ports=getattr(made, "input_ports", None) or [],
            output_ports=getattr(made, "output_ports", None) or [],
            views=[getattr(made, "output_view", None)],
        )

        def make(*args: Any, **kwargs: Any) -> Any:
            made: Any = factory(*args, **kwargs)
            # A parameter on an object is no descriptor: it would be read as itself, not as its value.
            if _has_parameters_of_its_own(made):
                raise AttributeError(
                    "parameters belong on the class of a node or into a group, not into its __init__"
                )
            # The decorators of ports work on the class, the host asks the object.
            made.input_ports = declared.input_ports
            made.output_ports = declared.output_ports
            made.output_view = declared.views[0]
            return made

        declared.node_factory = make
        _nodes[declared.id] = declared
        return make

    return declare


def _has_parameters_of_its_own(made: object) -> bool:
    return any(isinstance(value, Parameter) for value in made.__dict__.values())
