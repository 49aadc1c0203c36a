"""A step of an audit workflow: a recorded call and its configured *MCP Tool Caller*."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from ...audit.record import CallStatus
from ...client.protocol.jsonrpc import decode
from ...types.canonical import compact_json
from ...types.errors import MCPError, ToolFormatError
from ...types.fields import from_json_text
from ...types.routing import ServerRoute
from ...types.tool import MCPTool
from ...version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...audit.record import CallRecord
    from ...knwf import NativeNode, Position
    from ...runs.cell_arguments import Parameter
    from ...types.tool import Tool

EXTENSION_ID: Final = "org.knime_mcp.mcp"
CALLER_ID: Final = "mcp_tool_caller"
PLACEHOLDER: Final = "⟨fill in "
"""How the placeholder of a secret argument begins."""

MARK: Final = re.compile(r"⟨secret [0-9a-f]{12}⟩")
_NOT_MADE: Final = frozenset({CallStatus.DENIED, CallStatus.CANCELED})


def step_of(record: CallRecord) -> Tool | str:
    """Returns the tool for the step of a call, or the text of the note that replaces the step."""
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
    node_id: int, place: int, record: CallRecord, tool: MCPTool, position: Position
) -> tuple[NativeNode, list[str]]:
    """Makes the node of a call, the ``place``-th of all.

    Returns:
        The node, and JSON pointers to the secret arguments that a person has to fill in.
    """
    from ...knwf import Port, extension_node

    arguments, secrets = _without_secrets(record.arguments)
    pairs, rest = _split(arguments, tool)
    route = replace(tool.route, tool=None, digest=None)
    document: dict[str, Any] = _defaults() | {
        "server_url": route.url,
        "credentials": route.credential or _defaults()["credentials"],
        "send_credentials_as": route.send_credentials_as,
        "issuer": route.issuer or "",
        "scope": route.scope or "",
        "extra_headers": "\n".join(f"{name}: {value}" for name, value in route.headers),
        "transport": route.transport,
        "tool_name": tool.tool_name,
        "arguments": [{"name": name, "value": value} for name, value in pairs],
        "arguments_json": json.dumps(rest, ensure_ascii=False, indent=2) if rest else "",
        "pinned_digest": record.digest or tool.digest or "",
    }
    if route.header_name:
        document["header_name"] = route.header_name
    node = extension_node(
        node_id,
        "MCP Tool Caller",
        extension_id=EXTENSION_ID,
        extension_node_id=CALLER_ID,
        version=VERSION,
        parameters={"model": document},
        inputs=(
            Port(name="Tools", optional=True, present=0),
            Port(name="Parameters", optional=True, present=0),
            Port(name="Credential", type="PortType.CREDENTIAL", optional=True, present=0),
        ),
        outputs=(Port(name="Results"),),
        position=position,
        annotation=_label(place, record, tool, secrets),
    )
    return replace(node, description=_description(record)), secrets


def _split(arguments: dict[str, Any], tool: MCPTool) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Splits arguments into those that can be written as names and values, and the rest, written as JSON."""
    from ...runs.cell_arguments import arguments_from_pairs, parameters_of

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
        if name.strip() == name and name in read and compact_json(read[name]) == compact_json(value):
            pairs.append((name, text))
        else:
            rest[name] = value
    return pairs, rest


def _without_secrets(text: str | None) -> tuple[dict[str, Any], list[str]]:
    """The arguments with placeholders for marks of secrets, and the pointers to these."""
    pointers: list[str] = []
    try:
        parsed = decode(text or "{}")
    except MCPError:
        parsed = {}
    arguments = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    return _with_placeholders(arguments, "", pointers), pointers


def _with_placeholders(value: Any, pointer: str, pointers: list[str]) -> Any:
    match value:
        case str() if MARK.search(value):
            pointers.append(pointer)
            return MARK.sub(f"{PLACEHOLDER}{pointer}⟩", value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                _with_placeholders(name, pointer, pointers): _with_placeholders(
                    inner, f"{pointer}/{name}", pointers
                )
                for name, inner in members.items()
            }
        case list():
            items = cast("list[Any]", value)
            return [_with_placeholders(inner, f"{pointer}/{i}", pointers) for i, inner in enumerate(items)]
        case _:
            return value


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
    from knime.extension import parameter

    from ..mcp_caller import MCPToolCaller

    extract = cast("Any", parameter).extract_parameters
    return cast("dict[str, Any]", extract(MCPToolCaller())["model"])


def placeholders_in(texts: Iterable[str]) -> Iterator[str]:
    """Finds the pointers in the placeholders of secret arguments that were not filled in."""
    for text in texts:
        for match in re.finditer(f"{PLACEHOLDER}([^⟩]*)⟩", text):
            yield match[1]
