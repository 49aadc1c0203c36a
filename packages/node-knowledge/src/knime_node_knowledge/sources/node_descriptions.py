"""Reads ``*NodeFactory.xml``: KNIME's node descriptions, from those of 1.x with a DTD to schema 5.3.

Descriptions have the labels of settings, not their keys, and since 2.0 no types of ports. Missing facts are
not guessed. XML of unknown origin is read with limits, and its XHTML becomes plain text.
"""

from __future__ import annotations

import html.entities
import re
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from knime_mcp.types.texts import without_surrogates

from ..node_model import NodeParameter, NodeSpec, Origin, Port, SourceKind, ViewSpec
from ..query_words import camel_case_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element


LARGEST: Final = 8 * 1024 * 1024
"""The largest document in bytes. KNIME's largest plugin.xml has about 500,000 bytes."""
_DEEPEST: Final = 200

_BLOCKS: Final = frozenset({"p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "table", "intro", "blockquote"})
_LISTS: Final = frozenset({"ul", "ol", "dl"})
_SPACE: Final = re.compile(r"[ \t\r\f\v\xa0]*\n[ \t\r\f\v\xa0]*|[ \t\r\f\v\xa0]+")
_GAPS: Final = re.compile(r"\n{3,}")
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


class XmlRefusedError(Exception):
    """XML that is not read. The message says why."""


def parse_xml(data: bytes) -> ElementTree.Element:
    """The root element of a document. Tags keep their namespace as ``{uri}tag``; see `local_name`.

    A DOCTYPE is allowed, because node descriptions before KNIME 2.8 have one; the DTD itself is not read.
    What is not well-formed, too large, too deep, or declares entities raises `XmlRefusedError`.
    """
    if len(data) > LARGEST:
        raise XmlRefusedError(f"has {len(data):,} bytes, more than {LARGEST:,}")
    # In UTF-16 every second byte of ASCII text is zero. In all other encodings of expat, ASCII is unchanged.
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise XmlRefusedError("declares entities, which are not read")
    # S314: expat does not fetch anything, and without declarations there are no entities to expand.
    parser = ElementTree.XMLParser()  # noqa: S314
    # If a DOCTYPE names a DTD, expat looks up unknown entities here; descriptions use those of HTML.
    parser.entity.update(html.entities.entitydefs)
    try:
        parser.feed(data)
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise XmlRefusedError(f"is not well-formed XML: {error}") from None
    _check_depth(root)
    return root


def local_name(element: ElementTree.Element) -> str:
    tag = element.tag
    # Comments and processing instructions have a function as tag, if the parser keeps them.
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


def _check_depth(root: ElementTree.Element) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise XmlRefusedError(f"is nested more than {_DEEPEST} levels deep")
        level = [child for element in level for child in element]


def text_of(element: Element, *, leave_out: frozenset[str] = frozenset()) -> str:
    """The text of an element, with empty lines between paragraphs and dashes before list entries.

    Direct children whose name is in `leave_out` are skipped.
    """
    writer = _Writer()
    writer.inside(element, leave_out)
    return writer.text()


def text_inside(xhtml: str) -> str:
    """The plain text of an XHTML fragment, that is, of an element's content."""
    return text_of(parse_xml(without_surrogates(f"<text>{xhtml}</text>").encode()))


def line_of(element: Element) -> str:
    return " ".join(text_of(element).split())


class _Writer:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._indent = 0

    def text(self) -> str:
        lines = [line.rstrip() for line in "".join(self._parts).split("\n")]
        return _GAPS.sub("\n\n", "\n".join(lines)).strip()

    def inside(self, element: Element, leave_out: frozenset[str] = frozenset()) -> None:
        self._words(element.text)
        for child in element:
            name = local_name(child)
            if name not in leave_out:
                self._element(name, child)
            self._words(child.tail)

    def _element(self, name: str, element: Element) -> None:
        if name in _BLOCKS:
            self._break("\n\n")
            self.inside(element)
            self._break("\n\n")
        elif name in _LISTS:
            self._break("\n")
            self._indent += 1
            self.inside(element)
            self._indent -= 1
            self._break("\n" if self._indent else "\n\n")
        elif name in ("li", "dt"):
            self._break("\n")
            self._parts.append("  " * max(self._indent - 1, 0) + "- ")
            self.inside(element)
        elif name == "dd":
            self._words(": ")
            self.inside(element)
        elif name in ("br", "tr"):
            self._break("\n")
            self.inside(element)
        elif name in ("td", "th"):
            self.inside(element)
            self._words(" | ")
        elif name == "pre":
            self._break("\n")
            self._parts.append("".join(element.itertext()))
            self._break("\n")
        elif name == "a":
            self._link(element)
        else:
            self.inside(element)

    def _link(self, element: Element) -> None:
        self.inside(element)
        target = element.get("href", "").strip()
        shown = "".join(element.itertext()).strip()
        if target.startswith(("http://", "https://")) and target != shown:
            self._words(f" ({target})")

    def _words(self, text: str | None) -> None:
        if not text:
            return
        clean = _SPACE.sub(" ", text)
        if not self._parts or self._parts[-1].endswith(("\n", " ")):
            clean = clean.lstrip(" ")
        if clean:
            self._parts.append(clean)

    def _break(self, gap: str) -> None:
        """Adds a gap, unless the text ends with it already; `text` shortens longer gaps."""
        if self._parts and not "".join(self._parts[-2:]).endswith(gap):
            self._parts.append(gap)


def port_of(*, is_input: bool, optional: bool, group: bool = False, **fields: Any) -> Port:
    """A port of a KNIME node. Inputs take one connection, and ports of groups are optional."""
    optional = optional or group
    most = 1 if is_input else -1
    return Port(optional=optional, required=not optional, group=group, max_connections=most, **fields)


def described(**facts: Any) -> NodeSpec:
    """A node with the facts of its description. The id comes from its registration in ``plugin.xml``."""
    return NodeSpec(id="", subtype="", origin=Origin(kind=SourceKind.KNIME, name=""), **facts)


def is_node_description(data: bytes) -> bool:
    """Returns whether a file looks like a node description, without parsing it."""
    return b"knimeNode" in data[:4096].replace(b"\0", b"")


def read_node_description(data: bytes) -> NodeSpec:
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
    """The node type (``LOOP_START``) for KNIME's kind of a node (``LoopStart``).

    Where a node says none, KNIME calls it unknown; it is one of the others.
    """
    return "_".join(camel_case_parts("Other" if kind in ("", "Unknown") else kind)).upper()


def _full_text(full: Element) -> str:
    text = text_of(full, leave_out=_OPTION_KINDS)
    links = [
        f"- {line_of(link)} ({link.get('href')})" if line_of(link) else f"- {link.get('href')}"
        for link in full.iter()
        if local_name(link) == "link" and link.get("href")
    ]
    return "\n".join([text, "", "See also:", *links]).strip() if links else text


def _options(full: Element) -> Iterator[NodeParameter]:
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


def _option(option: Element, tab: str) -> NodeParameter:
    # `optional` only means that the control can be switched off, so other options are not "required".
    return NodeParameter(name=_attribute(option, "name"), description=text_of(option), tab=tab)


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


def _views(root: Element) -> Iterator[ViewSpec]:
    for name in ("interactiveView", "view"):
        for element in root.iter():
            if local_name(element) == name:
                yield ViewSpec(name=_attribute(element, "name"), description=text_of(element))


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
