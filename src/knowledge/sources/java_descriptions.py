"""Reads from compiled Java code what KNIME's XML does not say: whole descriptions, and types of ports.

Newer node factories hold their description as constants, in two forms: a chain
(``.name("Joiner").icon(…).shortDescription(…)…``), and one call (``createNodeDescription(NAME, ICON, PORTS,
…)``). Types of ports are what the constructor of a node's model passes to KNIME's ``NodeModel``, as lists or
as numbers of tables; a node with ports that a person can add lists its fixed ports in
``createPortsConfigBuilder``. Nothing else is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ..node_model import ViewSpec
from ..port_types import TABLE
from ..query_words import camel_case_parts
from .class_files import Lambda, MethodCall, Static
from .node_descriptions import XmlRefusedError, described, node_type_of, port_of, text_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..node_model import NodeSpec, Port
    from .class_files import ClassFile


_DEEPEST: Final = 2
"""Compiled code nests no deeper, but a class file made by hand may nest without end."""
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")
_GROUP_WORDS: Final = ("Group", "Dynamic", "dynamic", "Extendable", "extendable")

_KNIMES_MODEL: Final = re.compile(r"org\.knime\.core\..*NodeModel")
_ONE_TABLE_EACH: Final = "org.knime.core.node.streamable.simple."
_MOST_ANCESTORS: Final = 8
_MOST_PORTS: Final = 100
Type = tuple[str, str | None]
"""A type of ports: its name and its class. An empty name stands for an unknown type."""

_UNKNOWN: Final = ("", None)


@dataclass(slots=True)
class _Description:
    texts: dict[str, str] = field(default_factory=dict[str, str])
    node_type: str = "UNKNOWN"
    inputs: list[Port] = field(default_factory=list["Port"])
    outputs: list[Port] = field(default_factory=list["Port"])
    views: list[ViewSpec] = field(default_factory=list[ViewSpec])
    keywords: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])


def read_class(code: ClassFile) -> NodeSpec | None:
    """Reads the description (without options) in a node factory's class; None if it has neither form."""
    fields = dict(code.field_values)
    _, first = code.run("<clinit>", fields=fields)
    _, second = code.run("createNodeDescription", ["this"], fields)
    found = _Description()
    # The method first: it is what KNIME asks, and constants may be of something else.
    for call in (*second, *first):
        if call.name == "createNodeDescription" and _read_single_call(call, found):
            break
    else:
        # The chain is in a constant of the class, or in the method itself.
        for calls in (first, second):
            if "name" not in found.texts:
                for call in calls:
                    _read_chained_call(code, call, found)
    name, short = found.texts.get("name"), found.texts.get("shortDescription")
    if not name or short is None:
        return None
    return described(
        name=" ".join(name.split()),
        node_type=found.node_type,
        short_description=" ".join(_text(short).split()),
        description="\n".join([_text(found.texts.get("fullDescription", "")), *found.links]).strip(),
        input_ports=tuple(found.inputs),
        output_ports=tuple(found.outputs),
        views=tuple(found.views),
        keywords=tuple(found.keywords),
    )


def _read_chained_call(code: ClassFile, call: MethodCall, found: _Description, depth: int = 0) -> None:
    texts = [arg for arg in call.args if isinstance(arg, str)]
    match call.name:
        case "name" | "shortDescription" | "fullDescription" if texts:
            found.texts.setdefault(call.name, texts[0])
        case "nodeType" if call.args and isinstance(call.args[0], Static):
            found.node_type = node_type_of(call.args[0].name)
        case "keywords":
            found.keywords += _strings(call.args)
        case "addExternalResource" if texts:
            found.links.append(f"- {texts[-1]} ({texts[0]})" if len(texts) > 1 else f"- {texts[0]}")
        case "ports" | "dynamicPorts" if call.args and isinstance(call.args[0], Lambda) and depth < _DEEPEST:
            for inner in code.run(call.args[0].method, [MethodCall("ports")])[1]:
                _read_chained_call(code, inner, found, depth + 1)
        case "addView" if texts:
            found.views.append(ViewSpec(name="", description=_text(texts[-1])))
        case _ if texts and call.name.startswith(("addInput", "addOptionalInput", "addDynamicInput")):
            found.inputs.append(_port(call, texts, is_input=True))
        case _ if texts and call.name.startswith(("addOutput", "addDynamicOutput")):
            found.outputs.append(_port(call, texts, is_input=False))
        case _:
            pass


def _read_single_call(call: MethodCall, found: _Description) -> bool:
    """Reads the arguments of the call, which has at least a name, an icon and two descriptions."""
    texts = [arg for arg in call.args if isinstance(arg, str)]
    if len(texts) < 4:
        return False
    found.texts.update(zip(("name", "icon", "shortDescription", "fullDescription"), texts, strict=False))
    lists = [_entries(arg) for arg in call.args if _is_list(arg)]
    sides = [found.inputs, found.outputs]
    for side, entries in zip(sides, lists[:2], strict=False):
        side += [
            _port(entry, inner, is_input=side is found.inputs)
            for entry in entries
            if isinstance(entry, MethodCall) and (inner := [a for a in entry.args if isinstance(a, str)])
        ]
    for entry in [entry for entries in lists[2:] for entry in entries]:
        if isinstance(entry, str):
            found.keywords.append(entry)
        elif (
            isinstance(entry, MethodCall)
            and len(entry.args) == 3
            and isinstance(entry.args[0], Static)
            and entry.args[0].owner.endswith("ViewDescription")
        ):
            found.views.append(ViewSpec(name=str(entry.args[1]), description=_text(str(entry.args[2]))))
    for arg in call.args:
        if isinstance(arg, Static) and arg.owner.endswith("NodeType"):
            found.node_type = node_type_of(arg.name)
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (
        isinstance(value, MethodCall) and value.name in ("of", "asList", "emptyList")
    )


def _entries(value: Any) -> list[Any]:
    inside: list[Any] = value.args if isinstance(value, MethodCall) else value
    return [entry for arg in inside for entry in (cast("list[Any]", arg) if isinstance(arg, list) else [arg])]


def _strings(values: list[Any], depth: int = 0) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif _is_list(value) and depth < _DEEPEST:
            yield from _strings(_entries(value), depth + 1)


def _port(call: MethodCall, texts: list[str], *, is_input: bool) -> Port:
    """The port of a call. Its last two texts are name and description; a group's id stands before them."""
    kind = next((arg for arg in call.args if isinstance(arg, Static)), None)
    table = call.name.endswith("Table")
    owner = kind.owner if kind is not None else TABLE if table else ""
    type_name, type_id = type_of(owner)
    return port_of(
        name=texts[-2] if len(texts) > 1 else texts[0],
        type=type_name,
        type_id=type_id,
        description=_text(texts[-1]) if len(texts) > 1 else "",
        is_input=is_input,
        optional="ptional" in call.name,
        group=any(word in call.name for word in _GROUP_WORDS),
    )


def _text(xhtml: str) -> str:
    """The plain text of a description in Java: the content of an element, or text with a stray < or &."""
    try:
        return text_inside(xhtml)
    except XmlRefusedError:
        return " ".join(_TAG.sub("", xhtml).split())


def type_of(owner: str) -> Type:
    """The port type for a class of port objects."""
    simple = owner.rpartition(".")[2]
    is_table = simple == "BufferedDataTable"
    return "Table" if is_table else " ".join(
        camel_case_parts(simple.removesuffix("PortObject"))
    ), owner or None


def typed(ports: tuple[Port, ...], types: Sequence[Type]) -> tuple[Port, ...]:
    """The ports with these types, in order. Ports that have a type keep it, and groups are skipped."""
    # Nobody can say then which type is whose.
    if len(types) != sum(not port.group for port in ports):
        return ports
    left = iter(types)
    found: list[Port] = []
    for port in ports:
        name, type_id = _UNKNOWN if port.group else next(left)
        found.append(port if port.type or not name else replace(port, type=name, type_id=type_id))
    return tuple(found)


def with_types_of_code(node: NodeSpec, read: Callable[[str], ClassFile | None]) -> NodeSpec:
    """The node with the types of its ports from its compiled code; ports that have a type keep it.

    `read` reads a class by its name; it returns None for unknown classes.
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
    if not (isinstance(call, MethodCall) and call.name == "new"):
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
    if isinstance(given, MethodCall) and given.target is None and given.owner == code.name:
        given, _ = code.run(f"{given.name}{given.descriptor}", given.args)
    if isinstance(given, int) and 0 <= given < _MOST_PORTS:
        return [type_of(TABLE)] * given
    return [_type(entry) for entry in cast("list[Any]", given)] if isinstance(given, list) else None


def _type(given: Any) -> Type:
    """The type for ``X.TYPE``, ``new PortType(X.class)`` or ``getPortType(X.class)``."""
    if isinstance(given, Static) and given.name.startswith("TYPE"):
        return type_of(given.owner)
    if isinstance(given, MethodCall) and given.name in ("new", "getPortType"):
        classes = [arg.owner for arg in given.args if isinstance(arg, Static) and arg.name == "class"]
        if classes and not classes[-1].endswith(".PortType"):
            return type_of(classes[-1])
    return _UNKNOWN
