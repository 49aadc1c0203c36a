"""Checks a workflow archive for what KNIME's loader needs; settings go through the real nodes."""

import json
import xml.etree.ElementTree as ET
import zipfile

from .settings_xml import by_key, entry_value, from_settings_xml, local_name

PYTHON_FACTORY = "org.knime.python3.nodes.extension.ExtensionNodeSetFactory$DynamicExtensionNodeFactory"
_VERSIONS = ("2.8.0", "2.10.0", "3.1.0", "3.7.0", "3.8.0", "4.1.0", "5.1.0")
_WORKFLOW_KEYS = ("version", "name", "state", "workflow_credentials", "nodes", "connections")
_NODE_KEYS = (
    "node_file",
    "flow_stack",
    "internal_node_subsettings",
    "state",
    "factory",
    "node-name",
    "node-bundle-name",
    "node-bundle-symbolic-name",
    "node-bundle-vendor",
    "hasContent",
    "ports",
    "filestores",
)
_ENTRY_TYPES = {
    f"x{name}"
    for name in (
        "string",
        "int",
        "double",
        "float",
        "long",
        "short",
        "byte",
        "char",
        "boolean",
        "password",
        "transientstring",
    )
}


def check_knwf(path, host=None):
    """What is wrong with an archive.

    Args:
        path: The archive.
        host: The extension whose nodes' settings are loaded by the real nodes.

    Returns:
        ``problems``, ``nodes`` by id with what their files say, ``connections`` as (source, port,
        destination, port), and the format's ``version``.
    """
    with zipfile.ZipFile(path) as archive:
        return _Check(archive, host).result()


class _Check:
    def __init__(self, archive, host):
        self.archive, self.host = archive, host
        self.names = set(archive.namelist())
        self.problems, self.nodes, self.connections = [], {}, []
        self.base = ""

    def result(self):
        tops = {name.partition("/")[0] for name in self.names}
        workflows = [n for n in self.names if n.count("/") == 1 and n.endswith("/workflow.knime")]
        if len(tops) != 1 or len(workflows) != 1:
            what = f"archive must have exactly one top folder with workflow.knime; found {sorted(tops)[:5]}"
            return {"problems": [what], "nodes": {}, "connections": []}
        self.base = workflows[0].rpartition("/")[0]
        root = self._load(workflows[0])
        self.problems += [f"workflow.knime: key {key!r} missing" for key in _WORKFLOW_KEYS if key not in root]
        version = entry_value(root["version"]) if "version" in root else None
        if version not in _VERSIONS:
            self.problems.append(f"workflow.knime: version {version!r} is none that KNIME loads like 5.1.0")
        for own in root.get("nodes", []):
            self._node(own)
        for own in root.get("connections", []):
            self._connection(own)
        into = [end[2:] for end in self.connections if end[3] != 0]
        self.problems += [f"second connection into {end}" for end in set(into) if into.count(end) > 1]
        return {
            "problems": self.problems,
            "nodes": self.nodes,
            "connections": self.connections,
            "version": version,
        }

    def _load(self, name):
        root = ET.fromstring(self.archive.read(name))
        if local_name(root) != "config":
            self.problems.append(f"{name}: root is <{local_name(root)}>, not <config>")
        for element in root.iter():
            if local_name(element) not in ("config", "entry"):
                self.problems.append(f"{name}: element <{local_name(element)}> not allowed")
            if local_name(element) == "entry" and element.get("type") not in _ENTRY_TYPES:
                self.problems.append(f"{name}: bad entry type {element.get('type')}")
        return by_key(root)

    def _node(self, own):
        said = by_key(own)
        missing = [key for key in ("id", "node_settings_file", "node_type") if key not in said]
        if missing:
            self.problems.append(f"{own.get('key')}: {missing} missing")
            return
        node_id = entry_value(said["id"])
        if node_id in self.nodes:
            self.problems.append(f"duplicate node id {node_id}")
        file = f"{self.base}/{entry_value(said['node_settings_file'])}"
        if file not in self.names:
            self.problems.append(f"node {node_id}: {file} not in archive")
            return
        settings = self._load(file)
        self.nodes[node_id] = {"file": file, "type": entry_value(said["node_type"])}
        if self.nodes[node_id]["type"] == "NativeNode":
            self.problems += [f"node {node_id}: {what}" for what in self._native(node_id, settings)]

    def _native(self, node_id, settings):
        info = self.nodes[node_id]
        missing = [key for key in _NODE_KEYS if key not in settings]
        yield from (f"key {key!r} missing in settings.xml" for key in missing)
        if "factory" not in settings or "state" not in settings:
            return
        info["factory"], info["state"] = entry_value(settings["factory"]), entry_value(settings["state"])
        if info["state"] not in ("IDLE", "CONFIGURED", "EXECUTED"):
            yield f"unusual state {info['state']}"
        if info["factory"] != PYTHON_FACTORY:
            return
        says = {key: entry_value(e) for key, e in by_key(settings.get("factory_settings", [])).items()}
        info.update(says)
        if set(says) != {"extension_id", "node_id"}:
            yield f"factory_settings must hold extension_id and node_id, has {sorted(says)}"
        if "model" in settings:
            info["parameters"], info["version"] = from_settings_xml(settings["model"])
        if self.host is not None and says.get("extension_id") == self.host.id:
            yield from self._loaded(info)

    def _loaded(self, info):
        """What the real node says of its settings."""
        if info["node_id"] not in self.host.nodes:
            yield f"extension has no node {info['node_id']!r}"
        elif "parameters" in info:
            proxy, text = self.host.proxy(info["node_id"]), json.dumps(info["parameters"])
            try:
                error = proxy.validateParameters(text, info["version"])
                if error:
                    yield f"validateParameters: {error}"
                    return
                proxy.setParameters(text, info["version"])
                known = json.loads(proxy.getParameters())["model"]
            except Exception as error:  # whatever a node's own code raises
                yield f"{type(error).__name__}: {error}"
                return
            unknown = sorted(info["parameters"]["model"].keys() - known.keys())
            if unknown:
                yield f"unknown parameters {unknown} (KNIME ignores them)"

    def _connection(self, own):
        said = {key: entry_value(e) for key, e in by_key(own).items() if local_name(e) == "entry"}
        keys = ("sourceID", "sourcePort", "destID", "destPort")
        self.problems += [f"{own.get('key')}: key {key!r} missing" for key in keys if key not in said]
        self.connections.append(tuple(said.get(key) for key in keys))
        for end in ("sourceID", "destID"):
            if said.get(end) not in self.nodes:
                self.problems.append(f"{own.get('key')}: node {said.get(end)} does not exist")
