"""Describes an extension as KNIME shows it, and finds problems for which KNIME drops or shortens it."""

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from knime.extension import parameter as kp
from knime.extension.nodes import Category, Node
from knime.extension.ports import PortGroup

if TYPE_CHECKING:
    from .host import ExtensionHost

Problem = tuple[str, str, str]
_MISSING = "Missing description."


def describe_extension(host: "ExtensionHost") -> dict[str, Any]:
    """See `ExtensionHost.describe`."""
    return {
        "extension": {"id": host.id, "version": host.version},
        "nodes": [_described(host, node) for node in host.nodes.values()],
        "categories": [category.to_dict() for category in host.categories],
        "problems": problems(host),
    }


def problems(host: "ExtensionHost") -> list[Problem]:
    """The problems of an extension, as (severity, place, problem). KNIME drops extensions with errors."""
    found: list[Problem] = []
    for category in host.categories:
        found += _category_problems(host, category)
    for node in host.nodes.values():
        found += _node_problems(host, node)
    return found


def _descriptions(docstring: str | None) -> tuple[str, str]:
    """The short and the full description: the docstring's first line, and its other lines."""
    if docstring is None:
        return _MISSING, _MISSING
    lines = docstring.removeprefix("\n").splitlines()
    return lines[0], "\n".join(lines[1:]) if len(lines) > 1 else _MISSING


def _described(host: "ExtensionHost", node: Node) -> dict[str, Any]:
    made = host.new_node(node.id)
    short, full = _descriptions(made.__doc__)
    settings, are_tabs = kp.extract_parameter_descriptions(made)
    return {
        **node.to_dict(),
        "short_description": short,
        "full_description": full,
        "options": [] if are_tabs else settings,
        "tabs": settings if are_tabs else [],
    }


def _category_problems(host: "ExtensionHost", category: Category) -> list[Problem]:
    where = f"category {category.level_id}"
    found: list[Problem] = [
        ("error", where, f"{key} must be a string")
        for key, value in category.to_dict().items()
        if key != "locked" and not isinstance(value, str)
    ]
    if not (host.root / str(category.icon)).is_file():
        found.append(("warning", where, f"icon {category.icon!r} is not there, seen from knime.yml"))
    return found


def _node_problems(host: "ExtensionHost", node: Node) -> list[Problem]:
    where = f"node {node.id}"
    found: list[Problem] = []
    if not isinstance(node.icon_path, str):
        found.append(("error", where, "icon_path must be a string"))
    elif not (host.root / node.icon_path).is_file():
        found.append(("warning", where, f"icon {node.icon_path!r} is not there, seen from knime.yml"))
    docstring = host.new_node(node.id).__doc__
    if docstring in ("", "\n"):
        return [*found, ("error", where, "the docstring is empty; write a first line and more below it")]
    short, full = _descriptions(docstring)
    if _MISSING in (short, full):
        found.append(("warning", where, "the docstring needs a first line and more below it"))
    # KNIME puts these two texts into XML unescaped; all other texts pass through Markdown, which escapes.
    raw = {"first line of the docstring": short}
    if node.views[0] is not None:
        raw["description of the view"] = node.views[0].description
    for what, text in raw.items():
        if not _is_xml(text):
            found.append(("error", where, f"{what}: write & and < as &amp; and &lt;: {text!r}"))
    return found + _port_problems(where, node)


def _is_xml(text: str) -> bool:
    try:
        ElementTree.fromstring(f"<text>{text}</text>")  # noqa: S314  # the extension's own text
    except ElementTree.ParseError:
        return False
    return True


def _port_problems(where: str, node: Node) -> list[Problem]:
    found: list[Problem] = []
    for side, ports in (("input", node.input_ports), ("output", node.output_ports)):
        for port in ports:
            if not isinstance(port.name, str) or not isinstance(port.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                found.append(
                    ("error", where, f"{side} port {port.name}: name and description must be strings")
                )
        # KNIME uses the names of groups and optional ports as ids.
        names = [p.name for p in ports if isinstance(p, PortGroup) or p.optional]
        for name in {name for name in names if names.count(name) > 1}:
            found.append(("error", where, f"two {side} port groups or optional ports are named {name!r}"))
    return found
