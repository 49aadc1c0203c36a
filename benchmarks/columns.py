"""Tool columns, beside a value factory that works cell by cell as KNIME's Python API has it."""

import json

import pyarrow as pa
from timing import Table, Way, repeated

from knime_mcp.types.arrow import decode_tools, encode_tools
from knime_mcp.types.columns import ColumnForm, write_tools
from knime_mcp.types.digest import definition_digest
from knime_mcp.types.portable import from_json_text
from knime_mcp.types.tool import MCPTool

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


class PerCell:
    """A value factory that works cell by cell."""

    @staticmethod
    def encode(tool: MCPTool) -> dict[str, object]:
        """One cell's storage value."""
        schema = json.dumps(tool.parameter_schema)
        values = (1, tool.name, tool.description, schema, None, None, -1, None, tool.server_uri)
        return dict(zip("012345678", values, strict=True))

    @staticmethod
    def decode(cell: dict[str, object]) -> MCPTool:
        """One cell's value."""
        return MCPTool(cell["1"], cell["2"], json.loads(cell["3"]), cell["8"], cell["1"])


def tools_like_real_ones(count: int) -> list[MCPTool]:
    """Tools of one server."""
    return [
        MCPTool(f"tool_{i}", "Searches.", SCHEMA, "http://127.0.0.1/mcp", f"tool_{i}") for i in range(count)
    ]


def digests(tools: list[MCPTool]) -> None:
    """The digest of each."""
    for tool in tools:
        definition_digest(
            name=tool.tool_name,
            title=None,
            description=tool.description,
            input_schema=SCHEMA,
            output_schema=None,
            annotations=None,
        )


def mixed(texts: list[str], cells: pa.Array) -> None:
    """Reads both forms of the same tools, as a workflow has them that was made with and without our cells."""
    for text in texts:
        from_json_text(text)
    decode_tools(cells)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Every operation at every size; the largest fewer times."""
    for count in (100, 1_000) if smoke else (1_000, 100_000, 1_000_000):
        _of_size(table, count, rounds if count <= 100_000 else 1)
    table.notes.append("Ratios are against ours: how many times as long the per-cell way takes.")


def _of_size(table: Table, count: int, rounds: int) -> None:
    tools = tools_like_real_ones(count)
    cells = encode_tools(tools)
    per_cell = Way(
        "per cell", repeated(lambda: pa.array([PerCell.encode(tool) for tool in tools], type=cells.type))
    )
    ours = Way("ours, column-wise", repeated(lambda: encode_tools(tools)))
    table.compare(f"encode {count:,} tools", [ours, per_cell], rounds)
    ours = Way("ours, column-wise", repeated(lambda: decode_tools(cells)))
    per_cell = Way("per cell", repeated(lambda: [PerCell.decode(cell.as_py()) for cell in cells]))
    table.compare(f"decode {count:,} tools", [ours, per_cell], rounds)
    portable = write_tools(tools, ColumnForm.PORTABLE)
    half = portable.slice(count // 2).to_pylist(), cells.slice(0, count // 2)
    ways = [
        Way("cells and JSON texts, half each", repeated(lambda: mixed(*half))),
        Way("per cell", per_cell.work),
    ]
    table.compare(f"read {count:,} tools of mixed forms", ways, rounds)
    table.compare(f"digest {count:,} tools", [Way("ours", repeated(lambda: digests(tools)))], rounds)
