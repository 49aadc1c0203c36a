"""The steps of an audit workflow: each recorded call as a configured *MCP Tool Caller* or a metanode.

A call of an MCP tool becomes a Caller, a call of a workflow tool its workflow in a metanode with the recorded
arguments, if the file store still holds it.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..audit.record import CallStatus
from ..audit.secrets import HiddenSecrets, with_secrets
from ..client.protocol.messages import as_object, decode
from ..types.errors import MCPError, ToolFormatError
from ..types.routing import ServerRoute
from ..types.texts import compact_json
from ..types.tool import MCPTool, from_json_text
from ..version import EXTENSION_ID, EXTENSION_TITLE, EXTENSION_VENDOR, VERSION
from .node_settings.connection import options_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..audit.record import CallRecord
    from ..client.validation.argument_schemas import Parameter
    from ..knwf import CanvasPosition, NativeNode, OtherNode, VariableControl, Workflow
    from ..types.tool import Tool, WorkflowTool


CALLER_ID: Final = "mcp_tool_caller"
CALLER_DEFAULTS: Final = Path(__file__).parent / "caller" / "caller_defaults.json"
"""Made of the node's dialog, as what writes a workflow may have no KNIME to import the node on."""

PLACEHOLDER: Final = re.compile("⟨fill in ([^⟩]*)⟩")
"""The placeholder of a secret argument that was not filled in, with the JSON pointer to it."""

_NOT_MADE: Final = frozenset({CallStatus.DENIED, CallStatus.CANCELED})
_NOT_IN_FOLDER: Final = re.compile("[^a-zA-Z0-9 ]")
_LONGEST_FOLDER: Final = 60


def step_of(record: CallRecord) -> Tool | str:
    """The tool for the step of a call, or the text of the note that replaces the step."""
    if record.status in _NOT_MADE:
        return f"not made: {record.status.value}\n{record.arguments or ''}"
    try:
        tool = _tool(record)
    except MCPError as error:
        return f"cannot be called: {error.what}"
    return tool or f"{record.status.value}: the tool is not known\n{record.arguments or ''}"


def _tool(record: CallRecord) -> Tool | None:
    if record.tool:
        try:
            return from_json_text(record.tool)
        except ToolFormatError:
            pass  # the record's other fields may be enough to make a tool
    if not record.server or not record.tool_name or record.tool_type == "workflow":
        return None
    route = ServerRoute.parse(record.server)
    return MCPTool(record.tool_name, "", "", route.uri, route.tool or record.tool_name)


def caller_node(
    node_id: int, place: int, record: CallRecord, tool: MCPTool, position: CanvasPosition
) -> tuple[NativeNode, list[str]]:
    """The node of a call, the ``place``-th of all, and pointers to the secrets that a person must fill in."""
    arguments, secrets = _without_secrets(record)
    pairs, rest = _split(arguments, tool)
    settings = {
        "arguments": [{"name": name, "value": value} for name, value in pairs],
        "arguments_json": json.dumps(rest, ensure_ascii=False, indent=2) if rest else "",
    }
    if record.digest:
        route = replace(tool.route, tool=None, digest=record.digest)
        tool = replace(tool, parameter_schema=tool.schema_json, server_uri=route.uri)
    label = _label(place, record, tool, secrets)
    node = caller_of(node_id, tool, settings, position=position, annotation=label)
    return replace(node, description=_description(record)), secrets


def caller_of(
    node_id: int,
    tool: MCPTool,
    settings: Mapping[str, Any],
    *,
    position: CanvasPosition,
    annotation: str,
    variables: Sequence[VariableControl] = (),
) -> NativeNode:
    """A Caller without tables; ``settings`` are beside those of the tool and its server."""
    from ..knwf import DeclaredPort, extension_node

    route = tool.route
    document: dict[str, Any] = {
        **_defaults(),
        "server_url": route.url,
        "credentials": route.credential or _defaults()["credentials"],
        "connection_options": options_text(route),
        "tool_name": tool.tool_name,
        **settings,
    }
    return extension_node(
        node_id,
        "MCP Tool Caller",
        extension_id=EXTENSION_ID,
        extension_node_id=CALLER_ID,
        version=VERSION,
        title=EXTENSION_TITLE,
        vendor=EXTENSION_VENDOR,
        parameters={"model": document},
        inputs=(
            DeclaredPort(name="Tools", optional=True, present=0),
            DeclaredPort(name="Parameters", optional=True, present=0),
            DeclaredPort(name="Credential", type="PortType.CREDENTIAL", optional=True, present=0),
        ),
        outputs=(DeclaredPort(name="Results"), DeclaredPort(name="Records")),
        variables=variables,
        position=position,
        annotation=annotation,
    )


def _split(arguments: dict[str, Any], tool: MCPTool) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Splits arguments into those that can be written as names and values, and the rest, written as JSON."""
    from ..client.validation.argument_schemas import parameters_of
    from ..runs.argument_sources import arguments_from_pairs

    pairs: list[tuple[str, str]] = []
    rest: dict[str, Any] = {}
    parameters: dict[str, Parameter] = {}
    if tool.schema_json:
        with suppress(MCPError):
            parameters = parameters_of(tool)
    for name, value in arguments.items():
        text = value if isinstance(value, str) else compact_json(value)
        try:
            read = arguments_from_pairs([(name, text)], parameters) if name in parameters else {}
        except MCPError:
            read = {}
        # Only what the node would read back as exactly this value; the rest is safe in JSON.
        # And an empty value leaves its argument out.
        if text and name.strip() == name and name in read and compact_json(read[name]) == compact_json(value):
            pairs.append((name, text))
        else:
            rest[name] = value
    return pairs, rest


def _without_secrets(record: CallRecord) -> tuple[dict[str, Any], list[str]]:
    """The arguments with placeholders for marks of secrets, and the pointers to these."""
    try:
        arguments = as_object(decode(record.arguments or "{}"))
    except MCPError:
        arguments = {}
    marks = HiddenSecrets.parse(record.secrets).arguments
    for pointer, digests in marks.items():
        placeholders = dict.fromkeys(digests, f"⟨fill in {pointer}⟩")
        arguments = with_secrets(arguments, {pointer: digests}, placeholders)
    return arguments, list(marks)


def _label(place: int, record: CallRecord, tool: MCPTool, secrets: Sequence[str]) -> str:
    took = "" if record.duration is None else f", {record.duration:.2f} s"
    lines = [f"{record.call or place} · {tool.name}", f"{record.status.value}{took}"]
    if not tool.is_read_only:
        lines.append("not read-only")
    if is_command(tool):
        lines.append("start the server over HTTP first")
    lines += [f"fill in {pointer}" for pointer in secrets]
    return "\n".join(lines)


def _description(record: CallRecord) -> str:
    lines = {
        "Run": record.run,
        "Started at": record.started_at,
        "Input row": record.input_row,
        "Server version": record.server_version,
        "Record": record.hash,
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items() if value)


def is_command(tool: MCPTool) -> bool:
    """Returns whether the tool's server was a local command, which KNIME does not start."""
    return tool.route.url.startswith("stdio:")


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    """The Caller's parameters as a fresh node has them: a workflow has to hold all of them."""
    return cast("dict[str, Any]", json.loads(CALLER_DEFAULTS.read_text(encoding="utf-8")))


def segment_of(tool: WorkflowTool) -> Workflow | None:
    """The workflow of a tool, for the canvas, which gets a note where it is missing or damaged."""
    from ..knwf import KnwfError, read_segment
    from ..types.arrow import store_file

    path = store_file(tool.filestore_keys)
    try:
        return None if path is None else read_segment(path.read_bytes()).workflow
    except (OSError, KnwfError):
        return None


def with_arguments(segment: Workflow, record: CallRecord) -> Workflow:
    """Sets the arguments of a recorded call as defaults of the Configuration nodes.

    Parameters without a recorded value, such as secrets, or with an unfit one keep their defaults.
    """
    from ..knwf import CONFIGURATION_FACTORIES, KnwfError, NativeNode, read_configuration, with_value

    given = _arguments(record.arguments)
    hidden = {pointer.split("/")[1] for pointer in HiddenSecrets.parse(record.secrets).arguments}
    nodes = list(segment.nodes)
    for place, node in enumerate(nodes):
        if not isinstance(node, NativeNode) or node.factory not in CONFIGURATION_FACTORIES:
            continue
        with suppress(KnwfError):
            configuration = read_configuration(node)
            # KNIME gives a parameter this longer name where two nodes of a workflow share the short one.
            names = (f"{configuration.parameter}-{node.id}", configuration.parameter)
            value = next((given[name] for name in names if name in given and name not in hidden), None)
            if isinstance(value, dict):  # KNIME's own form: {"string": "x"}
                value = cast("dict[str, Any]", value).get(configuration.kind)
            if isinstance(value, str | int | float):
                nodes[place] = with_value(node, value)
    return replace(segment, nodes=tuple(nodes))


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    arguments = cast("dict[str, Any]", parsed)
    inner = arguments.get("configuration")
    with_tables = arguments.keys() == {"configuration", "data_inputs"} and isinstance(inner, dict)
    return cast("dict[str, Any]", inner) if with_tables else arguments


def metanode(
    node_id: int, tool: WorkflowTool, segment: Workflow, position: CanvasPosition
) -> tuple[OtherNode, dict[str, bytes]]:
    """A metanode of a tool's workflow, and its files by their path in the folder of the outer workflow."""
    from ..knwf import OtherNode
    from ..knwf.workflow_file import workflow_files

    name = _NOT_IN_FOLDER.sub("_", tool.name)[:_LONGEST_FOLDER].strip() or "Workflow"
    folder = f"{name} (#{node_id})"
    files = {f"{folder}/{path}": data for path, data in workflow_files(segment).items()}
    return OtherNode(node_id, tool.name, "metanode", f"{folder}/workflow.knime", position), files
