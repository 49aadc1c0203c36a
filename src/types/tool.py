"""A tool as a value: either a KNIME workflow or a tool on an MCP server; its nine stored fields, and as JSON.

Tools are frozen, compare by value and can be dict keys. JSON texts (schemas, ports) are kept as text, as
models and servers must see them unchanged, and are parsed when an attribute is first read, once per distinct
text. So a tool from a cell may hold malformed JSON; then reading the attribute raises an error that names the
row.

The *JSON text* of a tool is for CSV files and any version of KNIME: canonical JSON whose keys are
`FIELD_NAMES`. The two numbers are numbers, all other values are text or null. Schema and specs are JSON texts
within the JSON, so that they keep the order of their keys and every character. Fields that do not apply are
null; on reading they may be absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, assert_never, cast

from .errors import MCPError, ToolFormatError
from .routing import ServerRoute, merge_tool, split_tool
from .texts import canonical_json, compact_json, origin_and_path, parse_json, parse_object, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_Value = TypeVar("_Value")


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


def _when_asked(read: Callable[[Any], Any]) -> Any:
    """The default of a field that is parsed from its text when it is first read."""
    return cached_property(read)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class _AnyTool:
    name: str
    description: str
    parameter_schema: dict[str, Any] = field(
        default=_when_asked(lambda tool: tool._parsed("parameter_schema", tool.schema_json, parse_object))
    )
    schema_json: str = field(init=False)
    row: str | int | None = field(init=False, default=None)
    """The row of the cell that the tool was read from, for errors."""
    cell: tuple[Any, ...] | None = field(init=False, default=None)
    """The values of KNIME's workflow tool cell that the MCP tool was read from, to write it as it was."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkflowTool | MCPTool) or type(other) is not type(self):
            return NotImplemented
        tool = cast("Tool", self)
        # Equal texts need no parsing; different ones may still be equal JSON.
        if to_fields(tool) == to_fields(other):
            return True
        try:
            return _values(tool) == _values(other)
        # A cell with malformed JSON equals nothing but its own text.
        except ToolFormatError:
            return False

    def __hash__(self) -> int:
        # Nothing parsed, nothing that may differ between equal tools.
        return hash((type(self), self.name, self.description))

    def __repr__(self) -> str:
        return f"<{describe(cast('Tool', self))}>"

    def _parsed(self, field: str, text: str, parse: Callable[[str], _Value]) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            what = f"The field {field} of the tool cannot be read: {error}"
            raise _unreadable(what, field, self.row, self.name) from None


@dataclass(frozen=True, init=False, eq=False, repr=False)
class WorkflowTool(_AnyTool):
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
        input_spec: `input_ports` as JSON text: a list of objects with name, description, type, spec.
        output_spec: `output_ports` as JSON text.
        filestore_keys: KNIME's keys of the files that hold the workflow, joined with ``;``.
        native: KNIME's own value of the tool, if the tool was read from one; KNIME executes only that.

    Raises:
        ToolFormatError: On reading an attribute whose text in the cell is malformed JSON.
    """

    message_output_port_index: int
    input_ports: tuple[ToolPort, ...] = field(
        default=_when_asked(lambda tool: tool._parsed("input_spec", tool.input_spec, parse_ports))
    )
    output_ports: tuple[ToolPort, ...] = field(
        default=_when_asked(lambda tool: tool._parsed("output_spec", tool.output_spec, parse_ports))
    )
    filestore_keys: str | None
    native: object | None
    input_spec: str = field(init=False)
    output_spec: str = field(init=False)

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
        # The fields of a frozen instance, which cannot be assigned.
        self.__dict__.update(
            name=without_surrogates(name),
            description=without_surrogates(description),
            schema_json=_schema_text(parameter_schema),
            message_output_port_index=message_output_port_index,
            input_spec=ports_text(tuple(input_ports)),
            output_spec=ports_text(tuple(output_ports)),
            filestore_keys=without_surrogates(filestore_keys) if filestore_keys else None,
            native=native,
        )

    @property
    def tool_type(self) -> Literal[ToolType.WORKFLOW]:
        return ToolType.WORKFLOW


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MCPTool(_AnyTool):
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

    server_uri: str
    tool_name: str
    output_schema: dict[str, Any] | None = field(default=_when_asked(lambda tool: tool._declared()[0]))
    annotations: dict[str, Any] | None = field(default=_when_asked(lambda tool: tool._declared()[1]))
    title: str | None = field(default=_when_asked(lambda tool: tool._declared()[2]))
    declared_json: str | None = field(init=False)

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

    @property
    def tool_type(self) -> Literal[ToolType.MCP]:
        return ToolType.MCP

    def _declared(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None, str | None]:
        return self._parsed("output_spec", self.declared_json or "", parse_declared)

    @property
    def route(self) -> ServerRoute:
        """The route to the server; `SettingInvalid` if the cell holds an invalid URI."""
        try:
            return ServerRoute.parse(self.server_uri)
        except MCPError as error:
            raise error.at(tool=self.name, row=None if self.row is None else str(self.row)) from None

    @property
    def digest(self) -> str | None:
        """The pin: digest of the listed definition, None if the cell has no digest."""
        return self.route.digest

    @property
    def is_read_only(self) -> bool:
        """True if the server's hints have ``readOnlyHint`` and not also ``destructiveHint``."""
        hints = self.annotations or {}
        # https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations: hints of
        # strangers; where two contradict each other the careful one counts.
        return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True

    @property
    def may_repeat(self) -> bool:
        """True if a call with an unknown outcome may be repeated: the tool is read-only or idempotent."""
        return self.is_read_only or (self.annotations or {}).get("idempotentHint") is True

    @property
    def cell_uri(self) -> str:
        """`server_uri` as in a cell: with the tool's name if it differs from the shown name."""
        return self.server_uri if self.tool_name == self.name else merge_tool(self.server_uri, self.tool_name)


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


def _spec_text(spec: str | tuple[ToolPort, ...] | None) -> str:
    return spec if spec and isinstance(spec, str) else ports_text(cast("tuple[ToolPort, ...]", spec or ()))


def _values(tool: Tool) -> tuple[object, ...]:
    """What a tool says, however its JSON is laid out."""
    common = (tool.name, tool.description, tool.parameter_schema)
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (tool.message_output_port_index, tool.input_ports, tool.output_ports)
            return (*common, *ports, tool.filestore_keys)
        case MCPTool():
            return (*common, tool.cell_uri, tool.output_schema, tool.annotations, tool.title)
        case _:
            assert_never(tool)


@lru_cache(maxsize=1024)
def _without_tool(server_uri: str) -> str:
    route = ServerRoute.parse(server_uri)
    return (replace(route, tool=None) if route.tool else route).uri


@lru_cache(maxsize=1024)
def parse_declared(text: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None, str | None]:
    """Parses an MCP server's output schema, annotations and title, None where not declared.

    The text is the JSON of an object with ``outputSchema``, ``annotations`` and ``title``; "" for none.
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
    """Parses the JSON text of a workflow tool's ports, "" for none, or raises ValueError; cached by text."""
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


# The nine fields of a tool in every stored form. This module alone assigns them to the kinds of tools, so
# that Arrow structs, bytes, JSON text and KNIME's per-cell factory agree.

FIELD_NAMES: Final = (
    "tool_type",
    "name",
    "description",
    "parameter_schema",
    "input_spec",
    "output_spec",
    "message_output_port_index",
    "workflow_filestore",
    "server_uri",
)
"""Field names in stored order."""

TOOL_TYPE: Final = 0
"""Position of the discriminator, a number."""

MESSAGE_INDEX: Final = 6
"""Position of the index of the message output, a number."""

Fields = tuple[int, str, str, str, str | None, str | None, int, str | None, str | None]
"""The values of the nine fields in stored order."""


def to_fields(tool: Tool) -> Fields:
    """The values of the nine fields; None, or -1 for the message output, if a field does not apply."""
    match tool:  # @ToolTypeDispatch
        case WorkflowTool():
            ports = (tool.input_spec, tool.output_spec, tool.message_output_port_index)
            return (0, tool.name, tool.description, tool.schema_json, *ports, tool.filestore_keys, None)
        case MCPTool():
            declared = (None, tool.declared_json, -1, None)
            return (1, tool.name, tool.description, tool.schema_json, *declared, tool.cell_uri)
        case _:
            assert_never(tool)


def from_fields(
    tool_type: int | None,
    name: str | None,
    description: str | None,
    parameter_schema: str | None,
    input_spec: str | tuple[ToolPort, ...] | None,
    output_spec: str | tuple[ToolPort, ...] | None,
    message_output_port_index: int | None,
    workflow_filestore: str | None,
    server_uri: str | None,
    *,
    row: str | int | None = None,
    native: object | None = None,
) -> Tool:
    """Makes a tool from the values of the nine fields, without parsing JSON text.

    None means the same as "" or, for the index, -1. The specs of a workflow are its ports, or their JSON
    text; the output spec of an MCP tool is the JSON text of its output schema, annotations and title. ``row``
    is that of the fields, for errors; ``native`` is KNIME's own value of a workflow tool. Raises
    `ToolFormatError` if the discriminator is unknown, or the name, or the server of an MCP tool, is missing.
    """
    if not name:
        raise _unreadable("The field name of the tool is missing", "name", row)
    common = {"name": name, "description": description or "", "row": row}
    common["schema_json"] = parameter_schema or ""
    # Plain numbers, as comparing with members of the enum takes a fifth of the time of a cell.
    match tool_type:  # @ToolTypeDispatch
        case 0:
            tool = object.__new__(WorkflowTool)
            tool.__dict__.update(
                common,
                input_spec=_spec_text(input_spec),
                output_spec=_spec_text(output_spec),
                message_output_port_index=-1
                if message_output_port_index is None
                else message_output_port_index,
                filestore_keys=workflow_filestore or None,
                native=native,
            )
            return tool
        case 1:
            if not server_uri:
                raise _unreadable("The field server_uri of the tool is missing", "server_uri", row, name)
            uri, tool_name = split_tool(server_uri)
            tool = object.__new__(MCPTool)
            tool.__dict__.update(
                common, declared_json=output_spec or None, server_uri=uri, tool_name=tool_name or name
            )
            return tool
        case _:
            raise unknown_tool_type(tool_type, row, tool=name)


def unknown_tool_type(value: object, row: str | int | None, *, tool: str | None = None) -> ToolFormatError:
    known = ", ".join(f"{member.value} ({member.name.lower()})" for member in ToolType)
    return ToolFormatError(
        f"The tool type {value} is unknown; known are {known}",
        field=FIELD_NAMES[TOOL_TYPE],
        tool=tool,
        row=None if row is None else str(row),
        fix="Update the extension: a newer version may know it",
    )


def to_json_text(tool: Tool) -> str:
    """A tool as canonical JSON of the nine fields, cached for repeated calls."""
    return _text_of(to_fields(tool))


def from_json_text(text: str, *, row: str | None = None, cell: tuple[Any, ...] | None = None) -> Tool:
    """Reads a tool from the JSON of `to_json_text`, in any layout; ``row`` is that of the text, for errors.

    ``cell`` are the values of the cell in whose file store the text was.

    Raises `ToolFormatError` if the text is no JSON object, or has an unknown key or tool type, a value of the
    wrong type, or a missing field; the message names the field.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _unreadable(f"The tool cannot be read: {error}", FIELD_NAMES[TOOL_TYPE], row) from None
    tool = from_json_value(value, row=row)
    if cell is not None:
        tool.__dict__["cell"] = cell
    return tool


def from_json_value(value: Any, *, row: str | None = None) -> Tool:
    if not isinstance(value, dict):
        raise _unreadable("The tool is JSON, but not an object", FIELD_NAMES[TOOL_TYPE], row)
    members = cast("dict[str, Any]", value)
    unknown = next((key for key in members if key not in FIELD_NAMES), None)
    if unknown is not None:
        shown, known = without_surrogates(unknown), ", ".join(FIELD_NAMES)
        raise _unreadable(f"The tool has an unknown field '{shown}'; known are {known}", unknown, row)
    fields: list[Any] = []
    for i, name in enumerate(FIELD_NAMES):
        field_value = members.get(name)
        if i in {TOOL_TYPE, MESSAGE_INDEX}:
            fits, kind = _is_number(field_value), "a number of 32 bits"
        else:
            fits, kind = isinstance(field_value, str), "text"
        if field_value is not None and not fits:
            raise _unreadable(f"The field {name} of the tool must be {kind}", name, row)
        fields.append(without_surrogates(field_value) if isinstance(field_value, str) else field_value)
    return from_fields(*fields, row=row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 32


# Cached by the texts and not by the tool: tools with schemas in different order are equal.
@lru_cache(maxsize=256)
def _text_of(fields: Fields) -> str:
    return canonical_json(dict(zip(FIELD_NAMES, fields, strict=True)))


def _unreadable(what: str, field: str, row: str | int | None, tool: str | None = None) -> ToolFormatError:
    return ToolFormatError(
        what,
        field=field,
        tool=tool,
        row=None if row is None else str(row),
        fix="Make the tool again with the node that lists it",
    )
