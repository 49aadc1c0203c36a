"""Finds the types of a node's ports in its compiled code, as node descriptions leave them out.

The constructor of a node's model passes the types to KNIME's ``NodeModel``, as lists or as numbers of tables.
A node with ports that a person can add lists its fixed ports in ``createPortsConfigBuilder``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from ..model import Port
from ..words import camel_case_parts
from .class_files import Call, ClassFile, Static

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..model import NodeSpec

_TABLE: Final = "org.knime.core.node.BufferedDataTable"
_KNIMES_MODEL: Final = re.compile(r"org\.knime\.core\..*NodeModel")
_ONE_TABLE_EACH: Final = "org.knime.core.node.streamable.simple."
_MOST_ANCESTORS: Final = 8
_MOST_PORTS: Final = 100

Type = tuple[str, str | None]
"""A type of ports: its name and its class. An empty name stands for an unknown type."""

_UNKNOWN: Final = ("", None)


def type_of(owner: str) -> Type:
    """The port type for a class of port objects."""
    simple = owner.rpartition(".")[2]
    is_table = simple == "BufferedDataTable"
    return "Table" if is_table else " ".join(
        camel_case_parts(simple.removesuffix("PortObject"))
    ), owner or None


def port_of(*, is_input: bool, optional: bool, group: bool = False, **fields: Any) -> Port:
    """A port of a KNIME node. Inputs take one connection, and ports of groups are optional."""
    optional = optional or group
    most = 1 if is_input else -1
    return Port(optional=optional, required=not optional, group=group, max_connections=most, **fields)


def typed(ports: tuple[Port, ...], types: Sequence[Type]) -> tuple[Port, ...]:
    """The ports with these types, in order. Ports that have a type keep it, and groups are skipped."""
    if len(types) != sum(not port.group for port in ports):
        return ports
    left = iter(types)
    return tuple(port if port.group else _with_type(port, *next(left)) for port in ports)


def _with_type(port: Port, name: str, type_id: str | None) -> Port:
    return port if port.type or not name else replace(port, type=name, type_id=type_id)


def with_types_of_code(node: NodeSpec, read: Callable[[str], ClassFile | None]) -> NodeSpec:
    """The node with the types of its ports from its compiled code; ports that have a type keep it.

    Args:
        node: The node.
        read: A function that reads a class by its name; it returns None for unknown classes.
    """
    if all(port.type for port in (*node.input_ports, *node.output_ports)):
        return node
    code = read(node.id)
    sides = None if code is None else _configured(code) or _of_model(code, read)
    if sides is None:
        return node
    inputs, outputs = sides
    return replace(
        node, input_ports=typed(node.input_ports, inputs), output_ports=typed(node.output_ports, outputs)
    )


def _configured(code: ClassFile) -> tuple[list[Type], list[Type]] | None:
    """The types of the fixed ports of a node with ports that a person can add."""
    inputs: list[Type] = []
    outputs: list[Type] = []
    sides = {"addFixedInputPortGroup": inputs, "addFixedOutputPortGroup": outputs}
    for call in code.run("createPortsConfigBuilder", ["this"])[1]:
        if call.name in sides and len(call.args) == 2:
            sides[call.name] += _types(code, call.args[1]) or ()
    return (inputs, outputs) if inputs or outputs else None


def _of_model(code: ClassFile, read: Callable[[str], ClassFile | None]) -> Sequence[list[Type]] | None:
    """The types that the node's model passes to the constructor of KNIME's own model class."""
    call = code.run("createNodeModel", ["this"])[0]
    if not (isinstance(call, Call) and call.name == "new"):
        return None
    owner, args = call.args[0].owner, call.args[1:]
    for _ in range(_MOST_ANCESTORS):
        model = read(owner)
        if model is None:
            return None
        _, calls = model.run(f"<init>{call.descriptor}", ["this", *args])
        call = next((inner for inner in calls if inner.name == "<init>" and inner.target == "this"), None)
        if call is None:
            return None
        owner, args = call.owner, call.args
        if _KNIMES_MODEL.fullmatch(owner):
            if not args and owner.startswith(_ONE_TABLE_EACH):
                args = [1, 1]
            sides = [found for given in args[:2] if (found := _types(model, given)) is not None]
            return sides if len(sides) == 2 else None
    return None


def _types(code: ClassFile, given: Any) -> list[Type] | None:
    """The types for a number of tables or a list of types; None for other values."""
    if isinstance(given, Call) and given.target is None and given.owner == code.name:
        given, _ = code.run(f"{given.name}{given.descriptor}", given.args)
    if isinstance(given, int) and 0 <= given < _MOST_PORTS:
        return [type_of(_TABLE)] * given
    return [_type(entry) for entry in cast("list[Any]", given)] if isinstance(given, list) else None


def _type(given: Any) -> Type:
    """The type for ``X.TYPE``, ``new PortType(X.class)`` or ``getPortType(X.class)``."""
    if isinstance(given, Static) and given.name.startswith("TYPE"):
        return type_of(given.owner)
    if isinstance(given, Call) and given.name in ("new", "getPortType"):
        classes = [arg.owner for arg in given.args if isinstance(arg, Static) and arg.name == "class"]
        if classes and not classes[-1].endswith(".PortType"):
            return type_of(classes[-1])
    return _UNKNOWN
