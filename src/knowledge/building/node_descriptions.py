"""Reads ``*NodeFactory.xml``: KNIME's node descriptions, from those of 1.x with a DTD to schema 5.3.

Descriptions have the labels of settings, not their keys, and since 2.0 no types of ports. Missing facts are
not guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..model import NodeSpec, Origin, Parameter, SourceKind, View
from ..words import camel_case_parts
from .port_types import port_of
from .safe_xml import XmlRefusedError, local_name, parse_xml
from .xhtml import line_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from ..model import Port

_OPTION_KINDS: Final = frozenset({"option", "tab", "link"})
_KIND_OF_PORT: Final = {
    "inPort": (True, "", False),
    "outPort": (False, "", False),
    "dynInPort": (True, "", True),
    "dynOutPort": (False, "", True),
    # Until 1.x the name of the element says the type of the port.
    "dataIn": (True, "Table", False),
    "dataOut": (False, "Table", False),
    "modelIn": (True, "Model", False),
    "modelOut": (False, "Model", False),
    "predParamIn": (True, "Model", False),
    "predParamOut": (False, "Model", False),
}


def described(**facts: Any) -> NodeSpec:
    """A node with the facts of its description. The id comes from its registration in ``plugin.xml``."""
    return NodeSpec(id="", subtype="", origin=Origin(kind=SourceKind.KNIME, name=""), **facts)


def is_node_description(data: bytes) -> bool:
    """Returns whether a file looks like a node description, without parsing it."""
    return b"knimeNode" in data[:4096].replace(b"\0", b"")


def read_node_description(data: bytes) -> NodeSpec:
    """Reads a description.

    Args:
        data: The content of the file.

    Raises:
        XmlRefusedError: The file cannot be read, or does not describe a node.
    """
    root = parse_xml(data)
    if local_name(root) != "knimeNode":
        raise XmlRefusedError(f"is no node description: its root is <{local_name(root)}>")
    full = _child(root, "fullDescription")
    name = _line(root, "name")
    if not name:
        raise XmlRefusedError("names no node: <name> is missing or empty")
    inputs, outputs = _ports(root)
    return described(
        name=name,
        node_type=node_type_of(root.get("type", "Unknown")),
        deprecated=_is_true(root.get("deprecated")),
        short_description=_line(root, "shortDescription"),
        description="" if full is None else _full_text(full),
        parameters=() if full is None else tuple(_options(full)),
        input_ports=inputs,
        output_ports=outputs,
        views=tuple(_views(root)),
        keywords=tuple(line_of(word) for word in root.iter() if local_name(word) == "keyword"),
    )


def node_type_of(kind: str) -> str:
    """The node type (``LOOP_START``) for KNIME's kind of a node (``LoopStart``)."""
    return "_".join(camel_case_parts(kind) or ["Unknown"]).upper()


def _full_text(full: Element) -> str:
    text = text_of(full, leave_out=_OPTION_KINDS)
    links = [
        f"- {line_of(link)} ({link.get('href')})" if line_of(link) else f"- {link.get('href')}"
        for link in full.iter()
        if local_name(link) == "link" and link.get("href")
    ]
    return "\n".join([text, "", "See also:", *links]).strip() if links else text


def _options(full: Element) -> Iterator[Parameter]:
    for child in full:
        match local_name(child):
            case "option":
                yield _option(child, "")
            case "tab":
                for inner in child:
                    if local_name(inner) == "option":
                        yield _option(inner, _attribute(child, "name"))
            case _:
                pass


def _option(option: Element, tab: str) -> Parameter:
    # `optional` only means that the control can be switched off, so other options are not "required".
    return Parameter(name=_attribute(option, "name"), description=text_of(option), tab=tab)


def _ports(root: Element) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    inputs: list[Port] = []
    outputs: list[Port] = []
    groups: list[tuple[list[Port], int, Port]] = []
    ports = _child(root, "ports")
    for element in () if ports is None else ports:
        known = _KIND_OF_PORT.get(local_name(element))
        if known is None:
            continue
        is_input, kind, group = known
        side = inputs if is_input else outputs
        port = port_of(
            name=_attribute(element, "name") or _attribute(element, "group-identifier"),
            type=kind,
            description=text_of(element),
            is_input=is_input,
            optional=_is_true(element.get("optional")),
            group=group,
        )
        if group:
            groups.append((side, _number(element.get("insert-before")), port))
        else:
            side.append(port)
    # The last position first, as positions count only the fixed ports.
    for side, before, port in sorted(groups, key=lambda entry: entry[1], reverse=True):
        side.insert(before, port)
    return tuple(inputs), tuple(outputs)


def _views(root: Element) -> Iterator[View]:
    for name in ("interactiveView", "view"):
        for element in root.iter():
            if local_name(element) == name:
                yield View(name=_attribute(element, "name"), description=text_of(element))


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if local_name(child) == name), None)


def _line(element: Element, name: str) -> str:
    child = _child(element, name)
    return "" if child is None else line_of(child)


def _attribute(element: Element, name: str) -> str:
    return " ".join(element.get(name, "").split())


def _number(text: str | None) -> int:
    return int(text[:9]) if text is not None and text.isdecimal() else 0


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in ("true", "1", "yes")
