"""The nine fields of a tool in every stored form: their names, their order and their meaning.

This module alone assigns the fields to the kinds of tools, so that Arrow structs, bytes, JSON text and
KNIME's per-cell factory agree. A new kind of tool is added here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from .errors import ToolFormatError
from .tool import MCPTool, ToolType, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tool import Tool, ToolPort

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
            return (
                0,
                tool.name,
                tool.description,
                tool.schema_json,
                tool.input_spec,
                tool.output_spec,
                tool.message_output_port_index,
                tool.filestore_keys,
                None,
            )
        case MCPTool():
            return (
                1,
                tool.name,
                tool.description,
                tool.schema_json,
                None,
                tool.declared_json,
                -1,
                None,
                tool.cell_uri,
            )
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

    Args:
        tool_type: The discriminator, see `ToolType`.
        name: Name of the tool; required.
        description: Description; None and "" are the same.
        parameter_schema: JSON text; None and "" are the same.
        input_spec: Workflow: the inputs, or their JSON text.
        output_spec: Workflow: the outputs, or their JSON text. MCP: JSON text of the server's output
            schema, annotations and title.
        message_output_port_index: Workflow: the output with the message; None and -1 are the same.
        workflow_filestore: Workflow: file store keys; None and "" are the same.
        server_uri: MCP: URL and routing; required.
        row: The row of the fields, for errors.
        native: Workflow: KNIME's own value.

    Returns:
        The tool.

    Raises:
        ToolFormatError: The discriminator is unknown, or a field is missing.
    """
    if not name:
        raise _missing_field("name", row)
    # Plain numbers, as comparing with members of the enum takes a fifth of the time of a cell.
    match tool_type:  # @ToolTypeDispatch
        case 0:
            return WorkflowTool.from_cell(
                name=name,
                description=description or "",
                schema_json=parameter_schema or "",
                input_spec=input_spec,
                output_spec=output_spec,
                message_output_port_index=-1
                if message_output_port_index is None
                else message_output_port_index,
                filestore_keys=workflow_filestore or None,
                native=native,
                row=row,
            )
        case 1:
            if not server_uri:
                raise _missing_field("server_uri", row, tool=name)
            return MCPTool.from_cell(
                name=name,
                description=description,
                schema_json=parameter_schema,
                declared_json=cast("str | None", output_spec),
                server_uri=server_uri,
                row=row,
            )
        case _:
            raise unknown_tool_type(tool_type, row, tool=name)


def to_columns(tools: Sequence[Tool | None]) -> Sequence[list[Any] | int | None]:
    """The values of the nine fields of many tools, column by column.

    Returns:
        For each of the nine fields the values of all tools, None for a missing tool; or, instead of a list,
        the value that all tools have.
    """
    if {*map(type, tools)} == {MCPTool}:
        # The usual column, in a third of the time that `to_fields` takes for each tool.
        mcp_tools = cast("Sequence[MCPTool]", tools)
        return (
            1,
            [tool.name for tool in mcp_tools],
            [tool.description for tool in mcp_tools],
            [tool.schema_json for tool in mcp_tools],
            None,
            [tool.declared_json for tool in mcp_tools],
            -1,
            None,
            [tool.server_uri if tool.tool_name == tool.name else tool.cell_uri for tool in mcp_tools],
        )
    width = len(FIELD_NAMES)
    # Row after row in one list, as keeping a tuple per tool costs more than its texts.
    values: list[int | str | None] = []
    for tool in tools:
        values += (None,) * width if tool is None else to_fields(tool)
    return [values[i::width] for i in range(width)]


def from_columns(
    columns: Sequence[Sequence[Any]],
    present: Sequence[bool],
    rows: Sequence[str | int],
    native: Callable[[int], object | None] = lambda _: None,
) -> list[Tool | None]:
    """Makes the tools of a column, as `from_fields` makes one.

    Args:
        columns: For each of the nine fields the values of all tools.
        present: For each row whether it has a tool.
        rows: The rows of the tools, for errors.
        native: Returns KNIME's own value of a workflow tool, by position.

    Returns:
        The tools, None for a row without a tool.

    Raises:
        ToolFormatError: The discriminator of a tool is unknown, or a field is missing.
    """
    kinds, names, descriptions, schemas, _, declared, _, _, uris = columns
    if kinds.count(1) == len(kinds) and all(names) and all(uris):
        # The usual column, in a third of the time that `from_fields` takes for each tool.
        return cast(
            "list[Tool | None]", MCPTool.from_cells(names, descriptions, schemas, declared, uris, rows)
        )
    return [
        from_fields(*fields, row=rows[position], native=native(position) if fields[0] == 0 else None)
        if is_present
        else None
        for position, (is_present, *fields) in enumerate(zip(present, *columns, strict=True))
    ]


def unknown_tool_type(value: object, row: str | int | None, *, tool: str | None = None) -> ToolFormatError:
    """Makes the error for an unknown discriminator; its message names the value."""
    known = ", ".join(f"{member.value} ({member.name.lower()})" for member in ToolType)
    return ToolFormatError(
        f"The tool type {value} is unknown; known are {known}",
        field=FIELD_NAMES[TOOL_TYPE],
        tool=tool,
        row=None if row is None else str(row),
        fix="Update the extension: a newer version may know it",
    )


def _missing_field(field: str, row: str | int | None, *, tool: str | None = None) -> ToolFormatError:
    return ToolFormatError(
        f"The field {field} of the tool is missing",
        field=field,
        tool=tool,
        row=None if row is None else str(row),
        fix="Make the tool again with the node that lists it",
    )
