"""An MCP tool as a cell that KNIME's own agents can run: Configuration nodes, and one node that calls it.

KNIME's nodes take the cell for a workflow tool and run its segment; our nodes read the definition that stands
behind the segment, which KNIME does not read. The same definition makes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..client.protocol.messages import as_object
from ..client.validation.argument_schemas import items, kinds, properties_in, resolve
from ..types.arrow import MARKER
from ..types.errors import MCPError
from ..types.texts import compact_json
from ..types.tool import to_json_text
from ..version import EXTENSION_ID, EXTENSION_TITLE, EXTENSION_VENDOR, VERSION
from .agent_parameters import agent_parameters, renamed_parameters, variable

if TYPE_CHECKING:
    from ..knwf import Node
    from ..types.tool import MCPTool
    from .agent_parameters import AgentParameter

NODE_ID: Final = "mcp_tool_in_segment"
NODE_NAME: Final = "MCP Tool (in a segment)"
_WIDTH: Final = 150  # pixels between nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCell:
    """What KNIME reads of a tool's cell, and the content of its file store."""

    name: str
    description: str
    parameter_schema: str
    has_records: bool
    store: bytes


def tool_cell(tool: MCPTool, name: str, settings: dict[str, Any], *, refusal: str = "") -> ToolCell:
    """The cell of a tool, under the name by which KNIME's agents call it.

    ``settings`` are those of the node in the segment, beside the tool. With a ``refusal`` the segment calls
    nothing and answers with that text.
    """
    from ..knwf import Connection, PortOf, Segment, Workflow, extension_node, write_segment
    from ..knwf.node_file import DeclaredPort
    from ..knwf.workflow_model import CanvasPosition

    parameters = () if refusal else agent_parameters(tool)
    has_records = not refusal and gives_records(tool)
    document = to_json_text(tool)
    last = len(parameters) + 1
    call = extension_node(
        last,
        NODE_NAME,
        extension_id=EXTENSION_ID,
        extension_node_id=NODE_ID,
        version=VERSION,
        title=EXTENSION_TITLE,
        vendor=EXTENSION_VENDOR,
        parameters={"model": {"tool": document, "refusal": refusal, **settings}},
        outputs=(DeclaredPort(name="Message"), DeclaredPort(name="Records")),
        position=CanvasPosition(len(parameters) * _WIDTH, 0),
        annotation=f"Needs the extension {EXTENSION_TITLE}",
    )
    nodes: list[Node] = [_configuration(number, own) for number, own in enumerate(parameters)]
    workflow = Workflow(
        name,
        (*nodes, call),
        # Port 0 takes flow variables: through the chain the call has those of all Configuration nodes.
        tuple(Connection(number, 1, number + 1, 0) for number in range(1, last)),
    )
    segment = Segment(
        workflow=workflow,
        outputs=(PortOf(last, 1), *([PortOf(last, 2)] if has_records else [])),
        behind={MARKER: document.encode()},
    )
    renamed = renamed_parameters(parameters)
    description = (
        f"{tool.description}\n\nNames of parameters here: {renamed}" if renamed else tool.description
    )
    schema = {own.knime_name: own.shown for own in parameters}
    return ToolCell(
        name=name,
        description=refusal or description.strip(),
        parameter_schema=compact_json(schema) if schema else "",
        has_records=has_records,
        store=write_segment(segment),
    )


def _configuration(number: int, parameter: AgentParameter) -> Node:
    from ..knwf import Configuration, configuration_node
    from ..knwf.workflow_model import CanvasPosition

    is_boolean = parameter.shown.get("type") == "boolean"
    return configuration_node(
        number + 1,
        Configuration(
            kind="boolean" if is_boolean else "string",
            variable=variable(number),
            parameter=parameter.knime_name,
            value=False if is_boolean else "",
            label=parameter.name or parameter.knime_name,
        ),
        position=CanvasPosition(number * _WIDTH, 0),
    )


def gives_records(tool: MCPTool) -> bool:
    """Whether a tool says that its result has one list of objects, which the segment gives as a table."""
    try:
        schema = tool.output_schema
    except MCPError:
        return False
    if schema is None:
        return False
    lists = [part for part in properties_in(schema, schema).values() if set(kinds(part, schema)) == {"array"}]
    return sum(bool(as_object(_item(part, schema))) for part in lists) == 1


def _item(part: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The properties of a list's items, if these are objects."""
    entries = items(resolve(root, part), root)
    return properties_in(entries, root) if set(kinds(entries, root)) == {"object"} else {}
