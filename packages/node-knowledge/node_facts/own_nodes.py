"""Writes this extension's nodes as facts, from its description and its dialogs' documents.

    python -m node_facts.own_nodes

The tests' host or KNIME's own Python has imported the extension. Both give the same documents, but the
texts of docstrings are Markdown from the host, and XHTML from KNIME.
"""

from __future__ import annotations

import json
import re
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from knime_node_knowledge.catalogue_file import to_json
from knime_node_knowledge.node_model import NodeParameter, NodeSpec, Option, Origin, SourceKind, ViewSpec
from knime_node_knowledge.packs import OWN_NODES
from knime_node_knowledge.port_types import ANYTHING, TABLE
from knime_node_knowledge.query_words import camel_case_parts
from knime_node_knowledge.sources.node_descriptions import (
    XmlRefusedError,
    node_type_of,
    port_of,
    text_inside,
)
from knime_node_knowledge.sources.plugin_bundles import category_names, joined_path
from tests.support.knime_host import HostError, load_extension

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from knime_node_knowledge.node_model import Port
    from tests.support.knime_host.host import ExtensionHost

_BUILT_IN: Final = {"PortType.TABLE": TABLE, "PortType.ANY": ANYTHING}
"""KNIME's classes for the types that every extension shares; the others have ids of their own."""
_STRANGER: Final = "<no such choice>"
KNIME_YML: Final = Path(__file__).parents[3] / "knime.yml"
_COMMUNITY: Final = ("/community", "Community Nodes")
"""The category that KNIME defines for extensions of the community, and its name."""
_TYPES: Final = {"number": "float"}
_MARK: Final = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|(\*\*|__)(?=\S)(?P<strong>.+?)(?<=\S)\2"
    r"|(?<![\w*])\*(?=\S)(?P<weak>[^*\n]+?)(?<=\S)\*(?![\w*])"
)
_ELEMENT: Final = re.compile(r"\s*<[a-z]")
_WRAPPED: Final = re.compile(r"(?<!\n)\n(?!\n|\s*[-*] |\s*\d+\. )[ \t]*")


def as_facts(nodes: Sequence[NodeSpec]) -> str:
    """The text of the file: a line for each node, without the version, which the reader of the file knows."""
    lines = (to_json(replace(node, version="", origin=replace(node.origin, version=None))) for node in nodes)
    return "".join(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n" for line in lines)


def described() -> list[NodeSpec]:
    """This extension's nodes, as the tests' host describes them."""
    return nodes_of(load_extension(KNIME_YML), "knime.yml")


def nodes_of(host: ExtensionHost, file: str) -> list[NodeSpec]:
    """The nodes of a loaded extension, in their order. `file` is its ``knime.yml`` as given."""
    description = host.describe()
    dialogs: dict[str, Mapping[str, Any]] = {}
    for node_id in host.nodes:
        # Some dialogs open only with connected inputs; such nodes are described without settings.
        with suppress(HostError):
            dialogs[node_id] = host.get_dialog(node_id)
    closed = {node_id: _closed(host, node_id, dialog) for node_id, dialog in dialogs.items()}
    return read_extension(description, dialogs, closed=closed, file=file)


def _closed(host: ExtensionHost, node_id: str, dialog: Mapping[str, Any]) -> set[str]:
    """The parameters with a fixed set of choices, which refuse any other value.

    Documents do not distinguish them from choices that depend on inputs, so a value is tried on the node.
    """
    data = dialog["data"]
    # A check that refuses the defaults says nothing by refusing another value.
    if not _accepts(host, node_id, data):
        return set()
    choices = _with_choices(dialog["schema"]["properties"]["model"], ())
    return {
        ".".join(keys) for keys in choices if not _accepts(host, node_id, _replaced(data, ("model", *keys)))
    }


def _accepts(host: ExtensionHost, node_id: str, document: Mapping[str, Any]) -> bool:
    try:
        host.load_parameters(node_id, document, host.version)
    except Exception:  # an extension's own check may raise anything
        return False
    return True


def _with_choices(schema: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, inner in schema.get("properties", {}).items():
        if "oneOf" in inner:
            yield (*keys, key)
        elif inner.get("type") == "object":
            yield from _with_choices(inner, (*keys, key))


def _replaced(data: Any, keys: tuple[str, ...]) -> Any:
    if not keys:
        return _STRANGER
    # A copy, as the document stays that of the dialog.
    return {**data, keys[0]: _replaced(data[keys[0]], keys[1:])}


def read_extension(
    description: Mapping[str, Any],
    dialogs: Mapping[str, Mapping[str, Any]],
    *,
    closed: Mapping[str, Collection[str]],
    file: str,
) -> list[NodeSpec]:
    """Converts an extension into nodes. Names of parameters in groups are dotted, as in ``group.key``.

    `description` is the result of `ExtensionHost.describe`; `dialogs` are the documents of each dialog
    (``data``, ``schema``, ``ui_schema``) by node id, made without connections; `closed` has, by node id, the
    parameters that accept only the choices in the dialog, as those of others depend on connections; `file` is
    the ``knime.yml``.
    """
    extension = description["extension"]
    origin = Origin(
        kind=SourceKind.PYTHON_EXTENSION, name=extension["id"], version=extension["version"], file=file
    )
    categories = {
        joined_path(entry["path"], entry["level_id"]): entry["name"] for entry in description["categories"]
    }
    categories.setdefault(*_COMMUNITY)
    return [
        _node(node, dialogs.get(node["id"]), closed.get(node["id"], ()), origin, categories)
        for node in description["nodes"]
    ]


def _node(
    node: Mapping[str, Any],
    dialog: Mapping[str, Any] | None,
    closed: Collection[str],
    origin: Origin,
    categories: Mapping[str, str],
) -> NodeSpec:
    path = joined_path(node["category"])
    node_id = f"{origin.name}.{node['id']}"
    parameters = () if dialog is None else tuple(_parameters(dialog, closed))
    return NodeSpec(
        id=node_id,
        node_type=node_type_of(node["node_type"]),
        subtype=node_id,
        name=node["name"],
        version=origin.version or "",
        category=category_names(path, categories),
        short_description=plain_text(node["short_description"]),
        description=plain_text(node["full_description"]),
        aliases=(node["id"],),
        keywords=tuple(node["keywords"]),
        parameters=parameters,
        settings_known=dialog is not None,
        input_ports=tuple(_port(port, is_input=True) for port in node["input_port_specifier"]),
        output_ports=tuple(_port(port, is_input=False) for port in node["output_port_specifier"]),
        views=tuple(
            ViewSpec(name=view["name"], description=plain_text(view["description"])) for view in node["views"]
        ),
        deprecated=node["is_deprecated"],
        hidden=node["is_hidden"],
        origin=origin,
    )


def _port(port: Mapping[str, Any], *, is_input: bool) -> Port:
    kind: str = port["type_string"]
    last = kind.rpartition(".")[2]
    shown = last.replace("_", " ").capitalize() if last.isupper() else " ".join(camel_case_parts(last))
    return port_of(
        name=port["name"],
        type=shown,
        type_id=_BUILT_IN.get(kind, kind),
        description=plain_text(port["description"]),
        is_input=is_input,
        optional=bool(port["optional"]),
        group=port["group"],
    )


def _parameters(dialog: Mapping[str, Any], closed: Collection[str]) -> Iterator[NodeParameter]:
    controls = dict(_controls(dialog["ui_schema"], "", False))
    model = dialog["schema"].get("properties", {}).get("model", {})
    yield from _inside(model, dialog["data"].get("model", {}), (), controls, closed)


def _inside(
    schema: Mapping[str, Any],
    data: Mapping[str, Any],
    keys: tuple[str, ...],
    controls: Mapping[str, _Control],
    closed: Collection[str],
) -> Iterator[NodeParameter]:
    for key, inner in schema.get("properties", {}).items():
        here = (*keys, key)
        if "properties" in inner and inner.get("type") == "object":
            yield from _inside(inner, data.get(key, {}), here, controls, closed)
        else:
            name = ".".join(here)
            parameter = _parameter(inner, name, controls.get(name, _NO_CONTROL), closed)
            yield replace(parameter, default_value=data.get(key), has_default=key in data)


class _Control:
    def __init__(self, element: Mapping[str, Any], tab: str, advanced: bool) -> None:
        self.tab = tab
        self.options: Mapping[str, Any] = element.get("options") or {}
        self.advanced = advanced or bool(self.options.get("isAdvanced"))

    def bound(self, key: str) -> tuple[float | int | None, bool]:
        """The limit ``min`` or ``max`` of a number, and whether the limit itself is excluded."""
        limit = self.options.get("validation", {}).get(key, {}).get("parameters", {})
        return limit.get(key), bool(limit.get("isExclusive", False))


_NO_CONTROL: Final = _Control({}, "", False)


def _controls(element: Mapping[str, Any], tab: str, advanced: bool) -> Iterator[tuple[str, _Control]]:
    """The controls below an element of the UI schema, with the dotted keys of their parameters."""
    options: Mapping[str, Any] = element.get("options") or {}
    if element.get("type") in ("Section", "Category", "Group") and element.get("label"):
        tab = str(element["label"])
    advanced = advanced or bool(options.get("isAdvanced"))
    scope = element.get("scope")
    if isinstance(scope, str):
        # The first key is `model`, below which KNIME has all parameters.
        keys = [part for part in scope.split("/") if part not in ("#", "properties")]
        yield ".".join(keys[1:]), _Control(element, tab, advanced)
    for inner in cast("Sequence[Mapping[str, Any]]", element.get("elements") or ()):
        yield from _controls(inner, tab, advanced)


def _parameter(
    schema: Mapping[str, Any], name: str, control: _Control, closed: Collection[str]
) -> NodeParameter:
    choices = _choices(schema) if name in closed else ()
    (low, above), (high, below) = control.bound("min"), control.bound("max")
    return NodeParameter(
        name=name,
        type=_type(schema, bool(choices)),
        description=plain_text(str(schema.get("description") or "")),
        options=choices,
        min=low,
        max=high,
        min_exclusive=above,
        max_exclusive=below,
        label=str(schema.get("title") or ""),
        advanced=control.advanced,
        tab=control.tab,
    )


def _type(schema: Mapping[str, Any], is_enum: bool) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, str):
        return _TYPES.get(kind, kind)
    if "oneOf" in schema:
        return "enum" if is_enum else "string"
    return "array" if "anyOf" in schema else None


def _choices(schema: Mapping[str, Any]) -> tuple[Option, ...]:
    entries = schema.get("oneOf") or schema.get("items", {}).get("oneOf") or ()
    return tuple(
        Option(
            value=entry["const"],
            label=str(entry.get("title", "")) if entry.get("title") != entry["const"] else "",
        )
        for entry in entries
    )


def plain_text(shown: str) -> str:
    """The plain text of a docstring in Markdown, or in the XHTML that KNIME's own Python makes of it."""
    if _ELEMENT.match(shown):
        try:
            return text_inside(shown)
        except XmlRefusedError:
            pass  # this is Markdown that begins like an element
    first, _, rest = shown.partition("\n")
    text = f"{first.strip()}\n{textwrap.dedent(rest)}".strip()
    text = "\n".join(line.rstrip() for line in text.splitlines())
    text = _WRAPPED.sub(" ", text)
    return _without_marks(text)


def _without_marks(text: str) -> str:
    # One pass from left to right, because asterisks inside of code do not mark emphasis.
    return _MARK.sub(lambda found: found["code"] or _without_marks(found["strong"] or found["weak"]), text)


if __name__ == "__main__":
    facts = as_facts(described())
    if not facts:
        raise SystemExit(f"There are no nodes to describe: {OWN_NODES} stays as it is")
    OWN_NODES.write_text(facts, encoding="utf-8")
