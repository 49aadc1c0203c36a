"""What KNIME makes of an extension's nodes and categories, and where it would complain or drop them all."""

import functools
import json
import subprocess
import xml.etree.ElementTree as ET

from .java_side import RigError
from .settings_xml import from_settings_xml, to_settings_xml
from .sources import KNIME_CORE_GIT

_NODE_TYPES = {"Source", "Sink", "Learner", "Predictor", "Manipulator", "Visualizer", "Other"}
_XSD = "master:org.knime.core/src/eclipse/org/knime/core/node/Node_v4.1.xsd"
_XSD_NAMESPACE = 'xmlns="http://knime.org/node/v4.1"'


def describe_extension(host):
    """``nodes``, ``categories`` and ``problems`` (severity, where, what); one error loses the extension."""
    before = len(host.logs)
    try:
        nodes = json.loads(host.backend.retrieveNodesAsJson())
    except ImportError as error:
        raise RigError(f"KNIME's Markdown parser needs markdown<3.11: {error}") from error
    categories = json.loads(host.backend.retrieveCategoriesAsJson())
    logged = host.logs[before:]
    problems = [("warning", name, text) for level, name, text in logged if level in ("WARNING", "ERROR")]
    for category in categories:
        problems += _category_problems(host, category)
    known = {f"{category['path'].rstrip('/')}/{category['level_id']}" for category in categories}
    for node in nodes:
        problems += _node_problems(host, node, known)
    for node_id in host.nodes:
        problems += _parameter_problems(host, node_id)
    return {
        "id": host.id,
        "version": host.version,
        "nodes": nodes,
        "categories": categories,
        "problems": problems,
    }


def _category_problems(host, category):
    where = f"category {category['level_id']}"
    for key in ("path", "level_id", "name", "description", "icon", "after"):
        if not isinstance(category[key], str):
            yield "error", where, f"{key} must be a text (NullPointerException in Java otherwise)"
    if isinstance(category["icon"], str) and not (host.root / category["icon"]).is_file():
        yield "warning", where, f"icon {category['icon']!r} not found next to knime.yml"


def _node_problems(host, node, known_categories):
    where = f"node {node['id']}"
    if node["icon_path"] is None:
        yield "error", where, "icon_path None: NullPointerException, the whole extension is lost"
        return
    if not (host.root / node["icon_path"]).is_file():
        yield "warning", where, f"icon {node['icon_path']!r} not found (default icon is shown)"
    if node["node_type"] not in _NODE_TYPES:
        yield "warning", where, f"node type {node['node_type']!r} unknown"
    if node["category"] not in known_categories and not node["category"].startswith("/"):
        yield "warning", where, f"category {node['category']!r} is not an absolute path"
    try:
        xml = _description(node, host)
    except ET.ParseError as error:
        yield "error", where, f"description is no XML ({error}): KNIME drops the whole extension"
        return
    for complaint in _xsd_complaints(xml):
        yield "warning", where, f"Node XSD (logged by KNIME with assertions on): {complaint}"
    names = [p["name"] for p in node["input_port_specifier"] if p["group"] or p["optional"]]
    if len(names) != len(set(names)):
        yield "error", where, f"duplicate names of optional input ports or groups: {names}"


def _description(node, host):
    """The node's description, with its elements in KNIME's order."""
    icon, is_deprecated = str(host.root / node["icon_path"]), str(node["is_deprecated"]).lower()
    root = ET.Element("knimeNode", {"icon": icon, "type": node["node_type"], "deprecated": is_deprecated})
    ET.SubElement(root, "name").text = node["name"]
    _put(root, "shortDescription", node["short_description"] or node["name"])
    full = ET.SubElement(root, "fullDescription")
    _put(full, "intro", node["full_description"] or node["name"])
    for tab in node["tabs"]:
        element = ET.SubElement(full, "tab", {"name": tab["name"]})
        if (tab["description"] or "").strip():
            _put(element, "description", tab["description"])
        _put_options(element, tab["options"])
    _put_options(full, node["options"])
    ports = ET.SubElement(root, "ports")
    for tag, key in (("in", "input_port_specifier"), ("out", "output_port_specifier")):
        _put_ports(ports, tag, node[key])
    if node["views"]:
        views = ET.SubElement(root, "views")
        for index, view in enumerate(node["views"]):
            _put(views, "view", view["description"], name=view["name"], index=str(index))
    if node["keywords"]:
        keywords = ET.SubElement(root, "keywords")
        for keyword in node["keywords"]:
            ET.SubElement(keywords, "keyword").text = keyword
    return ET.tostring(root, encoding="unicode")


def _put(parent, tag, text, **attributes):
    """An element of parsed text; None becomes the text 'null', as in KNIME."""
    element = ET.SubElement(parent, tag, attributes)
    fragment = ET.fromstring(f"<fragment>{'null' if text is None else text}</fragment>")
    element.text = fragment.text
    element.extend(list(fragment))
    return element


def _put_options(parent, options):
    for option in options:
        _put(parent, "option", option["description"], name=option["name"])


def _put_ports(parent, tag, ports):
    dynamic = [port for port in ports if port["group"] or (tag == "in" and port["optional"])]
    for port in ports:
        if port not in dynamic:
            index = str(port["description_index"])
            _put(parent, f"{tag}Port", port["description"], name=port["name"], index=index)
    for port in dynamic:
        element = _put(parent, f"dyn{tag.capitalize()}Port", port["description"], name=port["name"])
        element.set("group-identifier", port["name"])
        element.set("insert-before", str(port["description_index"]))


@functools.cache
def _node_xsd():
    """KNIME's schema of node descriptions; None where it, or lxml, is not at hand."""
    try:
        from lxml import etree

        command = ["git", "-C", KNIME_CORE_GIT, "show", _XSD]
        source = subprocess.run(command, capture_output=True, check=True).stdout
        return etree.XMLSchema(etree.fromstring(source))
    except (ImportError, OSError, subprocess.CalledProcessError):
        return None


def _xsd_complaints(xml):
    xsd = _node_xsd()
    if xsd is None:
        return []
    from lxml import etree

    document = etree.fromstring(xml.replace("<knimeNode ", f"<knimeNode {_XSD_NAMESPACE} ", 1))
    return [] if xsd.validate(document) else [entry.message for entry in list(xsd.error_log)[:5]]


def _parameter_problems(host, node_id):
    where = f"node {node_id}"
    try:
        proxy = host.proxy(node_id)
        document = json.loads(proxy.getParameters())
        schema = json.loads(proxy.getSchema(host.version))
        error = proxy.validateParameters(json.dumps(document), host.version)
        if error:
            yield "warning", where, f"default parameters do not validate: {error}"
        if from_settings_xml(to_settings_xml(document, schema, host.version))[0] != document:
            yield "warning", where, "default parameters do not survive the way through settings.xml"
    except Exception as error:  # whatever a node's own code raises
        yield "error", where, f"{type(error).__name__}: {error}"


def default_settings(host, node_id):
    """A node's default ``parameters``, their ``schema``, and both as ``settings_xml``."""
    proxy = host.proxy(node_id)
    document, schema = json.loads(proxy.getParameters()), json.loads(proxy.getSchema(host.version))
    return {
        "parameters": document,
        "schema": schema,
        "settings_xml": to_settings_xml(document, schema, host.version),
    }
