"""A tool as a value: either a KNIME workflow or a tool on an MCP server.

Tools are frozen, compare by value and can be dict keys. JSON texts (schemas, ports) are kept as text, as
models and servers must see them unchanged, and are parsed when an attribute is first read, once per distinct
text. So a tool from a cell may hold malformed JSON; then reading the attribute raises an error that names the
row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast, overload

from .canonical import compact_json, without_surrogates
from .errors import MCPError, ToolFormatError, origin_and_path
from .routing import ServerRoute, merge_tool, split_tool
from .tool_texts import ToolPort, parse_declared, parse_object, parse_ports, ports_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ToolType(IntEnum):
    """The discriminator of a tool, as stored in field 0 of the Arrow form."""

    WORKFLOW = 0
    MCP = 1


class ParameterSchema:
    """The field ``parameter_schema``: accepts a dict or JSON text, keeps the text, returns the dict."""

    @overload
    def __get__(self, tool: None, owner: type) -> ParameterSchema: ...
    @overload
    def __get__(self, tool: _AnyTool, owner: type) -> dict[str, Any]: ...
    def __get__(self, tool: _AnyTool | None, owner: type) -> ParameterSchema | dict[str, Any]:
        if tool is None:
            raise AttributeError("parameter_schema")  # tells dataclass that the field has no default
        return _parsed(tool, "parameter_schema", tool.schema_json, parse_object)

    def __set__(self, tool: _AnyTool, value: Mapping[str, Any] | str) -> None:
        text = value if isinstance(value, str) else compact_json(dict(value))
        object.__setattr__(tool, "schema_json", without_surrogates(text))


@dataclass(frozen=True, eq=False, repr=False)
class _AnyTool:
    name: str
    description: str
    parameter_schema: ParameterSchema = ParameterSchema()
    schema_json: str = field(init=False, compare=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _AnyTool) or type(other) is not type(self):
            return NotImplemented
        names = (name for name, entry in self.__dataclass_fields__.items() if entry.compare)
        try:
            return all(
                (name == "parameter_schema" and self.schema_json == other.schema_json)
                or getattr(self, name) == getattr(other, name)
                for name in names
            )
        except ToolFormatError:  # malformed texts are compared as texts
            from .fields import to_fields

            return to_fields(cast("Tool", self)) == to_fields(cast("Tool", other))

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.description))

    def __repr__(self) -> str:
        return f"<{describe(cast('Tool', self))}>"

    def _clean(self, *parts: str) -> None:
        for part in parts:
            value = getattr(self, part)
            if value is not None:
                object.__setattr__(self, part, without_surrogates(value))


# Attributes that are parsed from a cell's text when they are first read. They are in base classes, because a
# dataclass would take its own `cached_property` for a default; `__getattr__` would slow down all attributes.
class _PortTexts:
    if not TYPE_CHECKING:
        input_ports = cached_property(lambda tool: _ports(tool, "input_spec"))
        output_ports = cached_property(lambda tool: _ports(tool, "output_spec"))


class _DeclaredText:
    if not TYPE_CHECKING:
        output_schema = cached_property(lambda tool: _declared(tool, "output_schema"))
        annotations = cached_property(lambda tool: _declared(tool, "annotations"))
        title = cached_property(lambda tool: _declared(tool, "title"))


@dataclass(frozen=True, eq=False, repr=False)
class WorkflowTool(_AnyTool, _PortTexts):
    """A KNIME workflow as a tool.

    Attributes:
        name: Name of the workflow.
        description: Description of the workflow.
        parameter_schema: KNIME's map from parameter name to property, not a complete JSON Schema. Takes a
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

    message_output_port_index: int = -1
    input_ports: tuple[ToolPort, ...] = field(default_factory=tuple)
    output_ports: tuple[ToolPort, ...] = field(default_factory=tuple)
    filestore_keys: str | None = None
    native: object | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._clean("name", "description", "filestore_keys")
        object.__setattr__(self, "input_ports", tuple(self.input_ports))
        object.__setattr__(self, "output_ports", tuple(self.output_ports))
        object.__setattr__(self, "filestore_keys", self.filestore_keys or None)
        self.__dict__["_input_spec"] = ports_text(self.input_ports)
        self.__dict__["_output_spec"] = ports_text(self.output_ports)

    __hash__ = _AnyTool.__hash__

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
        values: dict[str, Any] = {
            "name": name,
            "description": description,
            "schema_json": schema_json,
            "_input_spec": input_spec,
            "_output_spec": output_spec,
            "message_output_port_index": message_output_port_index,
            "filestore_keys": filestore_keys,
            "native": native,
            "_row": row,
        }
        object.__setattr__(tool, "__dict__", values)
        return tool

    @property
    def tool_type(self) -> Literal[ToolType.WORKFLOW]:
        """Always `ToolType.WORKFLOW`."""
        return ToolType.WORKFLOW

    @property
    def input_spec(self) -> str:
        """The inputs as JSON text: a list of objects with name, description, type, spec."""
        spec = self.__dict__["_input_spec"]
        return spec if spec and isinstance(spec, str) else ports_text(self.input_ports)

    @property
    def output_spec(self) -> str:
        """The outputs as JSON text, like `input_spec`."""
        spec = self.__dict__["_output_spec"]
        return spec if spec and isinstance(spec, str) else ports_text(self.output_ports)


class _Draft:
    """An MCP tool from a cell while it is being made; its class is changed at the end.

    Columns hold very many tools, and filling a frozen instance through its dict takes twice as long.
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


@dataclass(frozen=True, eq=False, repr=False)
class MCPTool(_AnyTool, _DeclaredText):
    """A tool on an MCP server.

    Attributes:
        name: The name shown to people and models, unique in its table.
        description: Description as the server gives it.
        parameter_schema: The server's ``inputSchema``. Takes a dict or JSON text. The dict is shared by all
            tools with the same text: do not change it.
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

    # pyright takes the descriptor above for a default value; a dataclass does not.
    server_uri: str  # pyright: ignore[reportGeneralTypeIssues]
    tool_name: str  # pyright: ignore[reportGeneralTypeIssues]
    output_schema: dict[str, Any] | None = field(default_factory=lambda: None)
    annotations: dict[str, Any] | None = field(default_factory=lambda: None)
    title: str | None = field(default_factory=lambda: None)
    declared_json: str | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self._clean("name", "description", "tool_name", "title")
        object.__setattr__(self, "server_uri", _without_tool(self.server_uri))
        parts = {"outputSchema": self.output_schema, "annotations": self.annotations, "title": self.title}
        declared = {key: value for key, value in parts.items() if value is not None}
        object.__setattr__(self, "declared_json", compact_json(declared) if declared else None)

    __hash__ = _AnyTool.__hash__

    @classmethod
    def from_cell(
        cls,
        *,
        name: str,
        description: str | None,
        schema_json: str | None,
        declared_json: str | None,
        server_uri: str,
        row: str | int | None = None,
    ) -> MCPTool:
        """Makes a tool from the texts of a cell, without parsing them; None and "" are the same.

        ``server_uri`` has the tool's name if it differs from ``name``. ``row`` is the row of the cell, for
        errors. The other arguments are the attributes of the class.
        """
        draft: Any = _Draft(name, description, schema_json, declared_json, server_uri, row)
        draft.__class__ = cls
        return draft

    @classmethod
    def from_cells(cls, *columns: Iterable[Any]) -> list[MCPTool]:
        """Makes the tools of many cells; the columns are the arguments of `from_cell`, in their order."""
        drafts: list[Any] = list(map(_Draft, *columns))
        for draft in drafts:
            draft.__class__ = cls
        return drafts

    @property
    def tool_type(self) -> Literal[ToolType.MCP]:
        """Always `ToolType.MCP`."""
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
            row = self.__dict__.get("_row")
            raise error.at(tool=self.name, row=None if row is None else str(row)) from None

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


def _ports(tool: WorkflowTool, spec: str) -> tuple[ToolPort, ...]:
    value: str | tuple[ToolPort, ...] | None = tool.__dict__[f"_{spec}"]
    return value if isinstance(value, tuple) else _parsed(tool, spec, value, parse_ports)


def _declared(tool: MCPTool, name: str) -> Any:
    return _parsed(tool, "output_spec", tool.declared_json, parse_declared)[name]


def _parsed(tool: _AnyTool, name: str, text: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text or "")
    except ValueError as error:
        row = tool.__dict__.get("_row")
        raise ToolFormatError(
            f"The field {name} of the tool cannot be read: {error}",
            field=name,
            tool=tool.name,
            row=None if row is None else str(row),
            fix="Make the tool again with the node that lists it",
        ) from None


@lru_cache(maxsize=1024)
def _without_tool(server_uri: str) -> str:
    return replace(ServerRoute.parse(server_uri), tool=None).uri
