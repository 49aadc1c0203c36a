"""Converts inputs and outputs between the host and the ports of a node."""

import datetime as dt
import json
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from knime.api._columnar import _ColumnarView  # pyright: ignore[reportPrivateUsage]
from knime.api.schema import (
    BinaryPortObjectSpec,
    Column,
    CredentialPortObjectSpec,
    ImagePortObjectSpec,
    PortObjectSpec,
    Schema,
)
from knime.api.table import ArrowSourceTable
from knime.extension.nodes import InvalidParametersError
from knime.extension.ports import (
    CREDENTIAL_TYPE,
    ConnectionPortObject,
    CredentialPortObject,
    FilestorePortObject,
    ImageFormat,
    Port,
    PortGroup,
    PortObject,
    PortType,
)

from .errors import HeadlessError
from .results import CredentialPort, OutputTable
from .tables import described, source_table, table_problems, written

if TYPE_CHECKING:
    from .host import ExtensionHost

AnyPort = Port | PortGroup


class CredentialStore:
    """The secrets of credential ports, which the specs of these ports read."""

    def __init__(self) -> None:
        self._known: dict[str | None, CredentialPort] = {}

    def spec(self, port: CredentialPort) -> CredentialPortObjectSpec:
        """The spec of a port. It has only the key; the secrets stay in this store."""
        if port.available:
            self._known[port.key] = port
        return CredentialPortObjectSpec(port.key)

    def get_auth_schema(self, key: str | None) -> str:
        """The schema; LookupError if the upstream node was not executed."""
        return self._known[key].schema

    def get_auth_parameters(self, key: str | None) -> str:
        """The token; LookupError if the upstream node was not executed."""
        return self._known[key].parameters

    def get_expires_after(self, key: str | None) -> dt.datetime | None:
        """The expiry in UTC; LookupError if the upstream node was not executed."""
        seconds = self._known[key].expires_after
        return None if seconds is None else dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)


_CREDENTIAL_TYPES = (PortType.CREDENTIAL, CREDENTIAL_TYPE)
_CREDENTIALS = CredentialStore()
CredentialPortObjectSpec._java_callback = _CREDENTIALS  # pyright: ignore[reportPrivateUsage]


def arranged(
    ports: Sequence[AnyPort], given: Sequence[Any] | None, convert: Callable[[AnyPort, Any], Any]
) -> list[Any]:
    """One argument per declared port: the converted input, None for an unconnected port, a list for a group.

    Raises:
        HeadlessError: the entries do not fit the ports.
    """
    if given is None:
        given = [[] if isinstance(port, PortGroup) else None for port in ports]
    if len(given) != len(ports):
        raise HeadlessError(f"{len(given)} inputs for {len(ports)} ports: {[port.name for port in ports]}")
    arguments: list[Any] = []
    for port, value in zip(ports, given, strict=True):
        if isinstance(port, PortGroup):
            arguments.append([convert(port, entry) for entry in cast("list[Any]", value or [])])
        else:
            arguments.append(None if value is None else convert(port, value))
    return arguments


def require_connected(ports: Sequence[AnyPort], given: Sequence[Any]) -> None:
    """Raises HeadlessError if a port that is not optional has no input."""
    for port, value in zip(ports, given, strict=False):
        if isinstance(port, Port) and not port.optional and value is None:
            raise HeadlessError(f"input port {port.name!r} is not optional")


def input_spec(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """The spec of the input of a port."""
    if value is None:
        return None
    if port.type in _CREDENTIAL_TYPES:
        return _credential_spec(port, value)
    match port.type:
        case PortType.TABLE:
            if isinstance(value, _ColumnarView):
                value = value.get()
            if isinstance(value, Schema):
                return described(value)
            return value.schema if isinstance(value, ArrowSourceTable) else host.table(value).schema
        case PortType.BINARY:
            return BinaryPortObjectSpec(cast("str", port.id))
        case PortType():
            return _custom_spec(host, port, value.spec if isinstance(value, PortObject) else value)
        case _:
            raise NotImplementedError(f"input ports of type {port.type} are not part of the stand-in")


def _credential_spec(port: AnyPort, value: Any) -> CredentialPortObjectSpec:
    if not isinstance(value, CredentialPort):
        raise HeadlessError(f"port {port.name!r} needs a CredentialPort, not {type(value).__name__}")
    return _CREDENTIALS.spec(value)


def _custom_spec(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """A custom spec as it arrives from another node: serialized, and read by the registered class."""
    expected: PortType = port.type
    incoming = host.port_types.of_spec(_class_of(value))
    if incoming is None:
        raise InvalidParametersError(
            f"port {port.name!r} needs {expected.name}; {type(value).__name__} is unknown"
        )
    if not expected.is_super_type_of(incoming):
        raise InvalidParametersError(f"port {port.name!r} needs {expected.name}, not {incoming.name}")
    return _read_spec(incoming, json.loads(json.dumps(value.serialize())))


def _read_spec(kind: PortType, document: Any) -> Any:
    try:
        return kind.spec_class.deserialize(document, None)  # type: ignore[attr-defined]
    except TypeError:  # KNIME also accepts implementations without the second argument
        return kind.spec_class.deserialize(document)  # type: ignore[attr-defined]


def stored_object(kind: PortType, document: Any, data: Any) -> Any:
    """A port object of an extension's own type, read from the document and data that `output` returned."""
    return _read_object(kind.object_class, _read_spec(kind, document), data)


def _read_object(made: Any, spec: Any, data: Any) -> Any:
    if issubclass(made, ConnectionPortObject):
        return made.from_connection_data(spec, data)
    if issubclass(made, FilestorePortObject):
        return made.read_from(spec, str(data))
    return made.deserialize(spec, data)


def _data(host: "ExtensionHost", value: Any) -> Any:
    """The data of a port object, which KNIME stores beside its spec: bytes, or a file or folder."""
    if isinstance(value, ConnectionPortObject):
        return value.to_connection_data()
    if isinstance(value, FilestorePortObject):
        path = host.folder / uuid.uuid4().hex
        value.write_to(str(path))
        return path
    return bytes(memoryview(value.serialize()))


def input_object(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """The argument of execute() for a port. Needs a running backend."""
    if port.type in _CREDENTIAL_TYPES:
        return CredentialPortObject(_credential_spec(port, value))
    match port.type:
        case PortType.TABLE:
            return source_table(value, "auto")
        case PortType.BINARY:
            return bytes(value)
        case PortType():
            spec = _custom_spec(host, port, value.spec)
            made = port.type.object_class if isinstance(value, ConnectionPortObject) else _class_of(value)
            return _read_object(made, spec, _data(host, value))
        case _:
            raise NotImplementedError(f"input ports of type {port.type} are not part of the stand-in")


def _class_of(value: object) -> Any:
    return type(value)


def per_port(results: Any, ports: Sequence[AnyPort]) -> list[list[Any]]:
    """The results of configure() or execute(), as one list per port.

    A list of another length than the ports counts as the content of a single group, as in KNIME.
    """
    if isinstance(results, list) and len(cast("list[Any]", results)) != len(ports):
        results = [results]
    entries = cast("list[Any]", results) if isinstance(results, list) else [results]
    return [cast("list[Any]", entry) if isinstance(entry, list) else [entry] for entry in entries]


def checked_spec(host: "ExtensionHost", port: AnyPort, spec: Any) -> Any:
    """Returns a spec from configure(); raises AssertionError or TypeError if it does not fit the port."""
    if spec is None:
        return None
    wanted: type[PortObjectSpec]
    match port.type:
        case PortType.TABLE:
            spec = Schema.from_columns(spec) if isinstance(spec, Column) else spec
            wanted = Schema
        case PortType.BINARY:
            wanted = BinaryPortObjectSpec
        case PortType.IMAGE:
            wanted = ImagePortObjectSpec
        case PortType():
            wanted = cast("type[PortObjectSpec]", port.type.spec_class)
            if host.port_types.of_id(port.type.id) is None:
                raise AssertionError(
                    f"the port type {port.type.id} of output {port.name!r} is not registered"
                )
        case _:
            raise NotImplementedError(f"output ports of type {port.type} are not part of the stand-in")
    if not issubclass(_class_of(spec), wanted):
        raise AssertionError(
            f"output {port.name!r} needs a spec of {wanted.__name__}, not {type(spec).__name__}"
        )
    if port.type == PortType.BINARY and spec.id != port.id:
        raise AssertionError(f"output {port.name!r} has the id {port.id}, its spec {spec.id}")
    if port.type == PortType.IMAGE and spec.format not in [known.value for known in ImageFormat]:
        raise AssertionError(f"output {port.name!r} cannot have the format {spec.format}")
    return spec


def spec_document(port: AnyPort, spec: Any) -> Any:
    """A spec as the JSON document that KNIME stores."""
    if spec is None:
        return None
    document = spec.serialize()
    if isinstance(port.type, PortType):
        document = {"id": port.type.id, "data": document}
    return json.loads(json.dumps(document))


def output(host: "ExtensionHost", port: AnyPort, value: Any) -> Any:
    """An output of execute() as KNIME stores it; raises an error if it does not fit the port."""
    match port.type:
        case PortType.TABLE:
            data = written(value)
            return OutputTable(data, table_problems(data), host)
        case PortType.BINARY:
            if not isinstance(value, bytes):
                raise TypeError(f"output {port.name!r} needs bytes, not {type(value).__name__}")
            return {"id": port.id}, value
        case PortType.IMAGE:
            return bytes(memoryview(value.encode() if isinstance(value, str) else value))
        case PortType():
            if not isinstance(value, port.type.object_class):
                raise AssertionError(
                    f"output {port.name!r} needs {port.type.name}, not {type(value).__name__}"
                )
            spec = checked_spec(host, port, value.spec)
            if spec is None:
                raise AssertionError(f"the object of output {port.name!r} has no spec")
            return spec_document(port, spec), _data(host, value)
        case _:
            raise NotImplementedError(f"output ports of type {port.type} are not part of the stand-in")
