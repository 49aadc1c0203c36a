"""Makes nodes of this extension for workflow files, as KNIME describes them."""

from knime_mcp.knwf import declared_ports, extension_node
from knime_mcp.version import EXTENSION_ID, EXTENSION_TITLE, EXTENSION_VENDOR, VERSION


def new_node(host, node_id, extension_node_id, parameters=None, *, inputs=None, outputs=None, **more):
    """A node with all of its settings.

    ``parameters`` differ from the defaults, those of a group as an object. ``inputs`` and ``outputs`` have
    the numbers of ports of optional ports and groups, by name; 0 by default.
    """
    (own,) = [node for node in host.describe()["nodes"] if node["id"] == extension_node_id]
    dialog = host.dialog(extension_node_id)
    return extension_node(
        node_id,
        own["name"],
        extension_id=EXTENSION_ID,
        extension_node_id=extension_node_id,
        version=VERSION,
        title=EXTENSION_TITLE,
        vendor=EXTENSION_VENDOR,
        parameters={"model": _merged(dialog["data"]["model"], parameters or {})},
        schema=dialog["schema"],
        inputs=declared_ports(own["input_port_specifier"], inputs),
        outputs=declared_ports(own["output_port_specifier"], outputs),
        **more,
    )


def _merged(base, changes):
    merged = dict(base)
    for name, value in changes.items():
        # A group is completed setting by setting, as KNIME refuses a document in which one is missing.
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged
