"""A tool as a value: either a KNIME workflow or a tool on an MCP server.

Tools are frozen, compare by value and can be dict keys. JSON texts (schemas, ports) are kept as text, as
models and servers must see them unchanged, and are parsed when an attribute is first read, once per distinct
text. So a tool from a cell may hold malformed JSON; then reading the attribute raises an error that names the
row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast

from .canonical import compact_json, without_surrogates
from .errors import MCPError, ToolFormatError, origin_and_path
from .routing import ServerRoute, merge_tool, split_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ToolType(IntEnum):
    """The discriminator of a tool, as stored in field 0 of the Arrow form."""

    WORKFLOW = 0
    MCP = 1


@dataclass(frozen=True, slots=True)
class ToolPort:
    """An input or output of a workflow tool.

    Attributes:
        name: Name of the port.
        description: The purpose of the port.
        type: Name of the port type, such as ``Table``.
        spec: JSON text of the port's spec, None if not known.
    """

    name: str
    description: str
    type: str
    spec: str | None = None

    def __post_init__(self) -> None:
        for part in ("name", "description", "type", "spec"):
            value = getattr(self, part)
            if value is not None and not value.isascii():
                object.__setattr__(self, part, without_surrogates(value))


class _AnyTool:
    """What both kinds of tools have in common."""

    _row: str | int | None = None
    """The row of the cell that the tool was read from, for errors."""

    if TYPE_CHECKING:
        name: str
        description: str
        schema_json: str
    else:
        # Attributes that are parsed when they are first read stand in base classes: a dataclass would take
        # its own ones for defaults, and `__getattr__` would slow down all attributes.
        parameter_schema = cached_property(
            lambda tool: tool._parsed("parameter_schema", tool.schema_json, parse_object)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _AnyTool) or type(other) is not type(self):
            return NotImplemented
        if self._texts() == other._texts():
            return True
        names = [part.name for part in fields(cast("Any", self)) if part.compare]
        try:
            return all(getattr(self, name) == getattr(other, name) for name in names)
        except ToolFormatError:
            return False

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.description))

    def __repr__(self) -> str:
        return f"<{describe(cast('Tool', self))}>"

    def _texts(self) -> tuple[object, ...]:
        """Everything that a cell holds of the tool, unparsed."""
        raise NotImplementedError

    def _parsed(self, name: str, text: Any, parse: Callable[[Any], Any]) -> Any:
        try:
            return parse(text or "")
        except ValueError as error:
            raise ToolFormatError(
                f"The field {name} of the tool cannot be read: {error}",
                field=name,
                tool=self.name,
                row=None if self._row is None else str(self._row),
                fix="Make the tool again with the node that lists it",
            ) from None


class _WorkflowPorts(_AnyTool):
    if not TYPE_CHECKING:
        input_ports = cached_property(lambda tool: tool._parsed("input_spec", tool._input_spec, _ports_of))
        output_ports = cached_property(lambda tool: tool._parsed("output_spec", tool._output_spec, _ports_of))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class WorkflowTool(_WorkflowPorts):
    """A KNIME workflow as a tool.

    Attributes:
        name: Name of the workflow.
        description: Description of the workflow.
        parameter_schema: KNIME's map from parameter name to property, not a complete JSON Schema. Made from a
            dict or JSON text. The dict is shared by all tools with the same text: do not change it.
        schema_json: `parameter_schema` as JSON text, unchanged.
        message_output_port_index: The output with the message for the model, -1 without one.
        input_ports: Data inputs in port order.
        output_ports: Data outputs in port order.
        filestore_keys: KNIME's keys of the files that hold the workflow, joined with ``;``.
        native: KNIME's own value of the tool, if the tool was read from one; KNIME executes only that.

    Raises:
        ToolFormatError: On reading an attribute whose text in the cell is malformed JSON.
    """

    name: str
    description: str
    parameter_schema: dict[str, Any] = field()
    message_output_port_index: int
    input_ports: tuple[ToolPort, ...] = field()
    output_ports: tuple[ToolPort, ...] = field()
    filestore_keys: str | None
    native: object | None = field(compare=False)
    schema_json: str = field(init=False, compare=False)

    def __init__(
        self,
        name: str,
        description: str,
        parameter_schema: Mapping[str, Any] | str,
        message_output_port_index: int = -1,
        input_ports: Iterable[ToolPort] = (),
        output_ports: Iterable[ToolPort] = (),
        filestore_keys: str | None = None,
        native: object | None = None,
    ) -> None:
        self.__dict__.update(
            name=without_surrogates(name),
            description=without_surrogates(description),
            schema_json=_schema_text(parameter_schema),
            message_output_port_index=message_output_port_index,
            _input_spec=tuple(input_ports),
            _output_spec=tuple(output_ports),
            filestore_keys=without_surrogates(filestore_keys) if filestore_keys else None,
            native=native,
        )

    @classmethod
    def from_cell(
        cls,
        *,
        name: str,
        description: str,
        schema_json: str,
        input_spec: str | tuple[ToolPort, ...] | None,
        output_spec: str | tuple[ToolPort, ...] | None,
        message_output_port_index: int,
        filestore_keys: str | None,
        native: object | None = None,
        row: str | int | None = None,
    ) -> WorkflowTool:
        """Makes a tool from the texts of a cell, without parsing them.

        The two specs are the ports, or their JSON text; None or empty for no ports. ``row`` is the row of the
        cell, for errors. The other arguments are the attributes of the class.
        """
        tool = object.__new__(cls)
        tool.__dict__.update(
            name=name,
            description=description,
            schema_json=schema_json,
            _input_spec=input_spec,
            _output_spec=output_spec,
            message_output_port_index=message_output_port_index,
            filestore_keys=filestore_keys,
            native=native,
            _row=row,
        )
        return tool

    @property
    def tool_type(self) -> Literal[ToolType.WORKFLOW]:
        return ToolType.WORKFLOW

    @property
    def input_spec(self) -> str:
        """The inputs as JSON text: a list of objects with name, description, type, spec."""
        return _spec_text(self.__dict__["_input_spec"])

    @property
    def output_spec(self) -> str:
        """The outputs as JSON text, like `input_spec`."""
        return _spec_text(self.__dict__["_output_spec"])

    def _texts(self) -> tuple[object, ...]:
        specs = (self.input_spec, self.output_spec, self.message_output_port_index)
        return (self.name, self.description, self.schema_json, *specs, self.filestore_keys)


class _CellOfMCPTool:
    """An MCP tool from a cell while it is being made; its class is changed at the end.

    Columns hold very many tools. Filling frozen instances through their dicts takes 1.6 times as long, and
    then decoding a column would no longer be a hundred times as fast as KNIME's way, cell by cell.
    """

    def __init__(
        self,
        name: str,
        description: str | None,
        schema_json: str | None,
        declared_json: str | None,
        server_uri: str,
        row: str | int | None,
    ) -> None:
        self.name = name
        self.description = description or ""
        self.schema_json = schema_json or ""
        self.declared_json = declared_json or None
        if "tool=" in server_uri:
            self.server_uri, tool_name = split_tool(server_uri)
            self.tool_name = tool_name or name
        else:  # most cells
            self.server_uri = server_uri
            self.tool_name = name
        self._row = row


class _MCPDeclaration(_AnyTool):
    if not TYPE_CHECKING:

        def _declared(self):
            return self._parsed("output_spec", self.declared_json, parse_declared)

        output_schema = cached_property(lambda tool: tool._declared()[0])
        annotations = cached_property(lambda tool: tool._declared()[1])
        title = cached_property(lambda tool: tool._declared()[2])


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MCPTool(_MCPDeclaration):
    """A tool on an MCP server.

    Attributes:
        name: The name shown to people and models, unique in its table.
        description: Description as the server gives it.
        parameter_schema: The server's ``inputSchema``. Made from a dict or JSON text. The dict is shared by
            all tools with the same text: do not change it.
        schema_json: `parameter_schema` as JSON text, unchanged.
        server_uri: URL and routing (see `ServerRoute`) without the tool's name.
        tool_name: The server's name for the tool.
        output_schema: The server's ``outputSchema``, None if not declared.
        annotations: The server's hints, None if not declared.
        title: The server's title, None if not declared.
        declared_json: Output schema, annotations and title as JSON text, None if none is declared.

    Raises:
        SettingInvalid: The server URI cannot work or holds a secret.
        ToolFormatError: On reading an attribute whose text in the cell is malformed JSON.
    """

    name: str
    description: str
    parameter_schema: dict[str, Any] = field()
    server_uri: str
    tool_name: str
    output_schema: dict[str, Any] | None = field()
    annotations: dict[str, Any] | None = field()
    title: str | None = field()
    schema_json: str = field(init=False, compare=False)
    declared_json: str | None = field(init=False, compare=False)

    def __init__(
        self,
        name: str,
        description: str,
        parameter_schema: Mapping[str, Any] | str,
        server_uri: str,
        tool_name: str,
        output_schema: dict[str, Any] | None = None,
        annotations: dict[str, Any] | None = None,
        title: str | None = None,
    ) -> None:
        parts = {"outputSchema": output_schema, "annotations": annotations, "title": title}
        declared = {key: value for key, value in parts.items() if value is not None}
        self.__dict__.update(
            name=without_surrogates(name),
            description=without_surrogates(description),
            schema_json=_schema_text(parameter_schema),
            server_uri=_without_tool(server_uri),
            tool_name=without_surrogates(tool_name),
            declared_json=compact_json(declared) if declared else None,
        )

    @classmethod
    def from_cells(
        cls,
        names: Iterable[str],
        descriptions: Iterable[str | None],
        schemas: Iterable[str | None],
        declared: Iterable[str | None],
        server_uris: Iterable[str],
        rows: Iterable[str | int | None],
    ) -> list[MCPTool]:
        """Makes tools from the texts of many cells, without parsing them; None and "" are the same.

        A URI has the tool's name if it differs from the shown name. The rows are for errors.
        """
        cells: list[Any] = list(
            map(_CellOfMCPTool, names, descriptions, schemas, declared, server_uris, rows)
        )
        for cell in cells:
            cell.__class__ = cls
        return cells

    @property
    def tool_type(self) -> Literal[ToolType.MCP]:
        return ToolType.MCP

    @property
    def route(self) -> ServerRoute:
        """The route to the server.

        Raises:
            SettingInvalid: The cell holds an invalid URI.
        """
        try:
            return ServerRoute.parse(self.server_uri)
        except MCPError as error:
            raise error.at(tool=self.name, row=None if self._row is None else str(self._row)) from None

    @property
    def digest(self) -> str | None:
        """The pin: digest of the listed definition, None if the cell has no digest."""
        return self.route.digest

    @property
    def is_read_only(self) -> bool:
        """True if the server's hints have ``readOnlyHint`` and not also ``destructiveHint``."""
        hints = self.annotations or {}
        return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True

    @property
    def may_repeat(self) -> bool:
        """True if a call with an unknown outcome may be repeated: the tool is read-only or idempotent."""
        return self.is_read_only or (self.annotations or {}).get("idempotentHint") is True

    @property
    def cell_uri(self) -> str:
        """`server_uri` as in a cell: with the tool's name if it differs from the shown name."""
        return self.server_uri if self.tool_name == self.name else merge_tool(self.server_uri, self.tool_name)

    def _texts(self) -> tuple[object, ...]:
        return (self.name, self.description, self.schema_json, self.declared_json, self.cell_uri)


Tool = WorkflowTool | MCPTool


def describe(tool: Tool) -> str:
    """A short text for logs and debuggers: the tool's kind, name and server, without secrets.

    An example is ``MCP tool 'search' on https://host/mcp as 'search_v2'``.
    """
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            return f"workflow tool {tool.name!r}"
        case MCPTool():
            remote = f" as {tool.tool_name!r}" if tool.tool_name != tool.name else ""
            return f"MCP tool {tool.name!r} on {origin_and_path(tool.server_uri)}{remote}"
        case _:
            assert_never(tool)


def _schema_text(schema: Mapping[str, Any] | str) -> str:
    return without_surrogates(schema if isinstance(schema, str) else compact_json(dict(schema)))


def _ports_of(spec: str | tuple[ToolPort, ...]) -> tuple[ToolPort, ...]:
    return spec if isinstance(spec, tuple) else parse_ports(spec)


def _spec_text(spec: str | tuple[ToolPort, ...] | None) -> str:
    return spec if spec and isinstance(spec, str) else ports_text(spec or ())


@lru_cache(maxsize=1024)
def _without_tool(server_uri: str) -> str:
    return replace(ServerRoute.parse(server_uri), tool=None).uri


def parse_json(text: str) -> Any:
    """Parses JSON text.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply; the message says so and where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise ValueError("it holds a number with too many digits") from None


@lru_cache(maxsize=1024)
def parse_object(text: str) -> dict[str, Any]:
    """Parses the JSON text of an object, "" for no entries, once per distinct text.

    All callers with the same text share the object: do not change it.

    Raises:
        ValueError: The text is not JSON, or not an object; the message says which.
    """
    value: Any = parse_json(text) if text else {}  # KNIME writes "" for a workflow without parameters
    if not isinstance(value, dict):
        raise ValueError("it is JSON, but not an object")
    return cast("dict[str, Any]", value)


@lru_cache(maxsize=1024)
def parse_declared(text: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None, str | None]:
    """Parses an MCP server's output schema, annotations and title, None where not declared.

    The text is the JSON of an object with ``outputSchema``, ``annotations`` and ``title``; "" for none.

    Raises:
        ValueError: The text has another form; the message says how.
    """
    declared = parse_object(text)
    output_schema, annotations, title = (
        declared.get(key) for key in ("outputSchema", "annotations", "title")
    )
    if not isinstance(output_schema, dict | None) or not isinstance(annotations, dict | None):
        raise ValueError("outputSchema and annotations must be objects")
    if not isinstance(title, str | None):
        raise ValueError("title must be text")
    return cast("Any", (output_schema, annotations, title))


@lru_cache(maxsize=1024)
def parse_ports(text: str) -> tuple[ToolPort, ...]:
    """Parses the JSON text of a workflow tool's ports, "" for none, once per distinct text.

    Raises:
        ValueError: The text is no list of ports.
    """
    value: Any = parse_json(text) if text else []
    if not isinstance(value, list):
        raise ValueError("it is JSON, but not a list of ports")
    try:
        return tuple(ToolPort(**port) for port in cast("list[dict[str, Any]]", value))
    except (TypeError, AttributeError):
        raise ValueError("a port must have name, description, type and, if known, spec, all text") from None


@lru_cache(maxsize=1024)
def ports_text(ports: tuple[ToolPort, ...]) -> str:
    """The JSON text of ports, as `parse_ports` reads it."""
    return compact_json([{part: getattr(port, part) for part in ToolPort.__slots__} for port in ports])
