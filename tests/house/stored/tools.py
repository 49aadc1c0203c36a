"""Tools in every form that they are stored in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pyarrow as pa

from knime_mcp.tools.tool_segment import tool_cell
from knime_mcp.types.arrow import encode_carrier, encode_knime_tools, encode_tools
from knime_mcp.types.columns import NO_TOOL, ColumnForm, column_name
from knime_mcp.types.texts import canonical_json, definition_digest
from knime_mcp.types.tool import FIELD_NAMES, MCPTool, Tool, ToolPort, WorkflowTool, to_json_text
from knime_mcp.types.tool_bytes import to_bytes
from tests.house.stored.archives import zipped
from tests.types.knime_tables import executing

#: In an order of its own, with spaces: as a server wrote it.
SCHEMA = '{"type": "object", "required": ["ü"], "properties": {"ü": {"type": "string"}, "a": {"$ref": "#"}}}'
DEFINITION = {
    "name": "search",
    "title": "Süche",
    "description": "Finds \"things\";\n'ü' 😀",
    "input_schema": json.loads(SCHEMA),
    "output_schema": {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}
        },
    },
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}
DIGEST = definition_digest(**DEFINITION)
FULL = MCPTool(
    "crm_search",
    DEFINITION["description"],
    SCHEMA,
    "https://host.example:8443/mcp?key={credential.password}#credential=prod&send_credentials_as=header"
    f"&header_name=X-Key&header=X-Team:sales&transport=sse&digest={DIGEST}",
    "search",
    output_schema=DEFINITION["output_schema"],
    annotations=DEFINITION["annotations"],
    title=DEFINITION["title"],
)
TOOLS: dict[str, Tool] = {
    "MCP tool with everything": FULL,
    "MCP tool with little": MCPTool("echo", "", {}, "https://host.example/mcp", "echo"),
    "MCP tool of a command": MCPTool("read", "Reads", {"type": "object"}, "stdio:files", "read"),
    "no tool": NO_TOOL,
    "workflow tool with everything": WorkflowTool(
        "Prognose ü",
        "Looks ahead",
        {"n": {"type": "integer", "description": "ü"}},
        1,
        (ToolPort("in", "data", "Table", '{"a": "Integer"}'), ToolPort("ü", "", "Table")),
        (ToolPort("out", "data", "Table", "{}"), ToolPort("message", "", "Table")),
        "store-a;store-b",
    ),
    "workflow tool with little": WorkflowTool("flow", "", {}),
}
SETTINGS = {"connect_timeout": 10.0, "secret_arguments": ""}


def stored(_: Path) -> Iterator[tuple[str, bytes]]:
    assert {type(tool) for tool in TOOLS.values()} == {*get_args(Tool)}
    yield "names of the fields of a tool", " ".join(FIELD_NAMES).encode()
    yield "names of tool columns", " | ".join(map(column_name, ColumnForm)).encode()
    for part in DEFINITION:
        left = dict.fromkeys(DEFINITION) | {"name": "n", "input_schema": {}} | {part: DEFINITION[part]}
        yield f"digest of a definition with {part}", definition_digest(**left).encode()
    yield "digest of a whole definition", DIGEST.encode()
    for name, tool in TOOLS.items():
        yield f"{name}: portable", to_json_text(tool).encode()
        yield f"{name}: bytes", to_bytes(tool)
        yield f"{name}: native", _cells(encode_tools([tool]))
        yield f"{name}: KNIME's own", _cells(encode_knime_tools([tool]))
        yield from _carried(name, tool)
    yield "native, mixed with missing cells", _cells(encode_tools([None, *TOOLS.values()]))


def _cells(cells: pa.Array) -> bytes:
    """Not the buffers, which each version of pyarrow may lay out in its own way."""
    return f"{cells.type}\n{canonical_json(cells.to_pylist())}".encode()


def _carried(name: str, tool: Tool) -> Iterator[tuple[str, bytes]]:
    made = [(f"{name}: carrier", None)]
    if tool is FULL:
        made += [
            (f"{name}: carrier for agents", [tool_cell(tool, "a_name", SETTINGS)]),
            (f"{name}: carrier that refuses", [tool_cell(tool, "a_name", SETTINGS, refusal="Not this one")]),
        ]
    for label, cells in made:
        with executing() as stores:
            carried = encode_carrier([tool], cells)
            key = carried[0]["0"].as_py() or "no key"
            yield label, _cells(carried).replace(key.encode(), b"store-1")
            if isinstance(tool, MCPTool):
                store = zipped(Path(stores.file_store_key_to_absolute_path(key)).read_bytes())
                # A file store with nothing but the definition says on which system it was written.
                yield from ((f"{label}: {part}", data) for part, data in store if cells or part != "entries")
