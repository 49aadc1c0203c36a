"""Makes nodes of this extension for workflow files, as KNIME describes them."""

from knime_mcp.knwf import DeclaredPort, KnwfError, extension_node
from knime_mcp.version import EXTENSION_ID, EXTENSION_TITLE, EXTENSION_VENDOR, VERSION


def declared_ports(specifiers, present=None) -> tuple[DeclaredPort, ...]:
    """Makes ports from a node's description by a host of extensions.

    ``specifiers`` is its ``input_port_specifier`` or ``output_port_specifier``; ``present`` has the numbers
    of a node's optional ports and groups, by name, 0 by default.
    """
    counts = dict(present or {})
    ports = tuple(
        DeclaredPort(
            name=port["name"],
            type=port["type_string"],
            optional=bool(port.get("optional")),
            group=bool(port.get("group")),
            present=counts.pop(port["name"], 0 if port.get("optional") or port.get("group") else 1),
        )
        for port in specifiers
    )
    if counts:
        raise KnwfError(f"the node declares no port {', '.join(map(repr, counts))}")
    return ports


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
