"""What Java hands over for the ports of a node: which are connected, their specs and their objects."""

import json

from .java_side import (
    CREDENTIAL_CLASS,
    CredentialPort,
    JavaBinary,
    JavaExtensionPort,
    JavaSpec,
    RigError,
)
from .java_types import column_metadata
from .tables import java_table, table_from_pyarrow

_PORTS = "org.knime.python3.nodes.ports."
_BLOB_SPEC = f"{_PORTS}PythonBinaryBlobPortObjectSpec"
_BLOB = f"{_PORTS}PythonBinaryBlobFileStorePortObject"


def connected(node, given, *, for_dialog=False):
    """What is connected, as (port, value) in order, and the numbers of the ports by the id of their group.

    A dialog opens with a port that is not connected; its value is None then.
    """
    import knime.extension.nodes as kn

    if given is None:
        given = [None] * len(node.input_ports)
    if len(given) != len(node.input_ports):
        names = [port.name for port in node.input_ports]
        raise RigError(f"{len(given)} inputs given, node declares {len(names)}: {names}")
    inputs, numbers = [], {}
    for index, (port, value) in enumerate(zip(node.input_ports, given, strict=True)):
        group = port.name
        if isinstance(port, kn.PortGroup):
            values = list(value or [])
        elif port.optional:
            values = [] if value is None else [value]
        elif value is None and not for_dialog:
            raise RigError(f"input port {port.name!r} is not optional")
        else:
            values, group = [value], f"Input {port.name} # {index}"
        if group in numbers:
            raise RigError(f"two ports have the same port group id {group!r} in KNIME")
        numbers[group] = list(range(len(inputs), len(inputs) + len(values)))
        inputs += [(port, entry) for entry in values]
    return inputs, numbers


def output_map(node, sizes):
    """The numbers of the output ports by the id of their group, and how many there are."""
    import knime.extension.nodes as kn

    numbers, count = {}, 0
    for index, port in enumerate(node.output_ports):
        is_group = isinstance(port, kn.PortGroup)
        size = sizes.get(port.name, 1) if is_group else 1
        group = port.name if is_group else f"Output {port.name} # {index}"
        numbers[group] = list(range(count, count + size))
        count += size
    return numbers, count


def java_spec(host, port, value):
    """The spec of what is connected to a port."""
    import knime.extension.nodes as kn

    if value is None:
        return None
    if port.type == kn.PortType.TABLE:
        return _table_spec(host, value)
    if port.type == kn.PortType.BINARY:
        return JavaSpec(_BLOB_SPEC, {"id": port.id})
    if port.type == kn.PortType.CREDENTIAL:
        if not isinstance(value, CredentialPort):
            raise RigError(f"give port {port.name!r} a CredentialPort")
        return JavaExtensionPort(f"{CREDENTIAL_CLASS}Spec", json.dumps({"data": value.xml}))
    if not isinstance(port.type, kn.PortType):
        raise RigError(f"input ports of type {port.type} are not modelled")
    spec = value.spec if hasattr(value, "spec") else value
    kind = _registered(host, spec)
    return JavaSpec(_BLOB_SPEC, {"id": kind.id, "data": json.loads(json.dumps(spec.serialize()))})


def _table_spec(host, value):
    import knime.api.schema as ks

    if isinstance(value, ks._ColumnarView):
        value = value.get()
    if not isinstance(value, ks.Schema):
        is_source = hasattr(value, "_host_path")
        value = (value if is_source else table_from_pyarrow(value, host=host)).schema
    document = value.serialize()
    metadata = [column_metadata(traits) for traits in document["schema"]["traits"][1:]]
    return JavaSpec("org.knime.core.data.DataTableSpec", {**document, "columnMetaData": [None, *metadata]})


def java_object(host, port, value):
    """What is connected to a port, for execute()."""
    import knime.extension.nodes as kn

    if port.type == kn.PortType.TABLE:
        return java_table(host, value)
    spec = java_spec(host, port, value)
    if port.type == kn.PortType.CREDENTIAL:
        return JavaExtensionPort(CREDENTIAL_CLASS, None, spec)
    path = host.new_file("")
    if port.type == kn.PortType.BINARY:
        path.write_bytes(value)
    else:
        kn.save_port_object(value, str(path))
    return JavaBinary(_BLOB, str(path), spec)


def _registered(host, spec):
    import knime.extension.nodes as kn

    kind = host.backend._port_type_registry.get_port_type_for_spec_type(type(spec))
    if issubclass(kind.object_class, kn.ConnectionPortObject):
        raise RigError("connection ports are not modelled")
    return kind
