"""Reads node descriptions that KNIME's newer node factories hold as constants in Java code.

There are two forms: a chain (``.name("Joiner").icon(…).shortDescription(…)…``), and one call
(``createNodeDescription(NAME, ICON, PORTS, …)``). Nothing else is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ..model import View
from .class_files import Call, Lambda, Static
from .node_descriptions import described, node_type_of
from .port_types import port_of, type_of
from .safe_xml import XmlRefusedError
from .xhtml import text_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import NodeSpec, Port
    from .class_files import ClassFile

_DEEPEST: Final = 2
"""Compiled code nests no deeper, but a class file made by hand may nest without end."""
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")
_GROUP_WORDS: Final = ("Group", "Dynamic", "dynamic", "Extendable", "extendable")


@dataclass(slots=True)
class _Description:
    texts: dict[str, str] = field(default_factory=dict[str, str])
    node_type: str = "UNKNOWN"
    inputs: list[Port] = field(default_factory=list["Port"])
    outputs: list[Port] = field(default_factory=list["Port"])
    views: list[View] = field(default_factory=list[View])
    keywords: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])


def read_class(code: ClassFile) -> NodeSpec | None:
    """Reads the description in a node factory's class.

    Args:
        code: The class.

    Returns:
        The description without options; None if the class has neither form of description.
    """
    fields = dict(code.field_values)
    _, first = code.run("<clinit>", fields=fields)
    _, second = code.run("createNodeDescription", ["this"], fields)
    found = _Description()
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


def _read_chained_call(code: ClassFile, call: Call, found: _Description, depth: int = 0) -> None:
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
            for inner in code.run(call.args[0].method, [Call("ports")])[1]:
                _read_chained_call(code, inner, found, depth + 1)
        case "addView" if texts:
            found.views.append(View(name="", description=_text(texts[-1])))
        case _ if texts and call.name.startswith(("addInput", "addOptionalInput", "addDynamicInput")):
            found.inputs.append(_port(call, texts, is_input=True))
        case _ if texts and call.name.startswith(("addOutput", "addDynamicOutput")):
            found.outputs.append(_port(call, texts, is_input=False))
        case _:
            pass


def _read_single_call(call: Call, found: _Description) -> bool:
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
            if isinstance(entry, Call) and (inner := [a for a in entry.args if isinstance(a, str)])
        ]
    for entry in [entry for entries in lists[2:] for entry in entries]:
        if isinstance(entry, str):
            found.keywords.append(entry)
        elif isinstance(entry, Call) and len(entry.args) == 3 and _is_view(entry.args[0]):
            found.views.append(View(name=str(entry.args[1]), description=_text(str(entry.args[2]))))
    for arg in call.args:
        if isinstance(arg, Static) and arg.owner.endswith("NodeType"):
            found.node_type = node_type_of(arg.name)
    return True


def _is_view(kind: Any) -> bool:
    return isinstance(kind, Static) and kind.owner.endswith("ViewDescription")


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (
        isinstance(value, Call) and value.name in ("of", "asList", "emptyList")
    )


def _entries(value: Any) -> list[Any]:
    inside: list[Any] = value.args if isinstance(value, Call) else value
    return [entry for arg in inside for entry in (cast("list[Any]", arg) if isinstance(arg, list) else [arg])]


def _strings(values: list[Any], depth: int = 0) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif _is_list(value) and depth < _DEEPEST:
            yield from _strings(_entries(value), depth + 1)


def _port(call: Call, texts: list[str], *, is_input: bool) -> Port:
    """The port of a call. Its last two texts are name and description; a group's id stands before them."""
    kind = next((arg for arg in call.args if isinstance(arg, Static)), None)
    table = call.name.endswith("Table")
    owner = kind.owner if kind is not None else "org.knime.core.node.BufferedDataTable" if table else ""
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
