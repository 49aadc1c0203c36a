"""Tool columns, beside a value factory that is asked cell by cell, as KNIME's Python API does it.

That API (`knime._arrow`, 5.8) encodes by calling the factory for each value and giving Arrow the list of
dicts. It decodes when a cell is asked for: it looks at the validity of the whole column, takes the cell's
fields apart, makes a struct of them again, and gives the factory the dict of that. `PerCell` takes these
steps and none of the API's other ones. Where KNIME's sources are at hand (`KNIME_PYTHON_ROOT`, and the
environment of `make real-knime`), the API itself is measured, too, beside ours in the same process.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from processes import ROOT, child, line_from
from timing import Table, Way, kept, repeated

from knime_mcp.tools.tool_segment import tool_cell
from knime_mcp.types.arrow import decode_tools, encode_tools
from knime_mcp.types.columns import ColumnForm, write_tools
from knime_mcp.types.texts import definition_digest
from knime_mcp.types.tool import MCPTool, from_json_text

KNIME = "KNIME's own API, per cell"
SAMPLE = 1_000
ENOUGH = 20_000
"""Tools in one measurement at least: what a thousand of them take once is the time to get going."""
TURNS = 7
"""Times as many rounds as elsewhere: a column takes milliseconds, in which much else can happen."""
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

    @classmethod
    def at(cls, cells: pa.StructArray, index: int) -> MCPTool | None:
        """A cell's value as the API gets it."""
        if cells.is_null()[index].as_py():
            return None
        parts = [column[index] for column in cells.flatten()]
        kind = pa.struct([pa.field(str(i), part.type) for i, part in enumerate(parts)])
        return cls.decode(pa.scalar(tuple(part.as_py() for part in parts), kind).as_py())


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


def cells_for_agents(tools: list[MCPTool]) -> None:
    """The segment of each, as MCP Tool Provider writes them."""
    settings = {"connect_timeout": 10.0, "idle_timeout": 60.0, "total_timeout": 300.0}
    for tool in tools:
        tool_cell(tool, tool.name, settings)


def mixed(texts: list[str], cells: pa.Array) -> None:
    """Reads both forms of the same tools, as a workflow has them that was made with and without our cells."""
    for text in texts:
        from_json_text(text)
    decode_tools(cells)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:
    """Every operation at every size; the largest fewer times."""
    for count in (100, 1_000) if smoke else (1_000, 100_000, 1_000_000):
        _of_size(table, count, rounds * TURNS if count <= 100_000 else 1)
    few = tools_like_real_ones(50 if smoke else 500)
    made = Way("cells for KNIME's agents", repeated(lambda: cells_for_agents(few)))
    table.compare(f"make {len(few)} cells for KNIME's own agents", [made], rounds * TURNS)
    with _knime() as seconds:
        for count in (1_000, 100_000) if seconds else ():
            for operation in ("encode", "decode"):
                ways = [
                    Way("ours, column-wise", partial(seconds, f"{operation} ours {count}")),
                    Way(KNIME, partial(seconds, f"{operation} knime {count}")),
                ]
                table.compare(f"{operation} {count:,} tools in KNIME's Python", ways, rounds * TURNS)
    table.notes.append(
        "Ratios are against ours: how many times as long the per-cell way takes."
        f" Of its cells, {SAMPLE:,} are done."
    )


@contextmanager
def _knime() -> Iterator[Callable[[str], float] | None]:
    """What times a way in a process with KNIME's sources; None without them."""
    python = ROOT / ".venv-knime" / "bin" / "python"
    if not os.environ.get("KNIME_PYTHON_ROOT") or not python.exists():
        print(f"{KNIME}: left out, needs KNIME_PYTHON_ROOT and the environment of `make real-knime`")
        yield None
        return
    with child([str(python), str(ROOT / "benchmarks" / "knime_columns.py")]) as process:
        assert line_from(process) == "ready"

        def seconds(command: str) -> float:
            assert process.stdin
            process.stdin.write(f"{command}\n")
            process.stdin.flush()
            return float(line_from(process))

        yield seconds


def _of_size(table: Table, count: int, rounds: int) -> None:
    tools = tools_like_real_ones(count)
    cells = encode_tools(tools)
    times = max(1, ENOUGH // count)
    per_cell = Way(
        "per cell",
        repeated(lambda: pa.array([PerCell.encode(tool) for tool in tools], type=cells.type), times),
    )
    ours = Way("ours, column-wise", repeated(lambda: encode_tools(tools), times))
    table.compare(f"encode {count:,} tools", [ours, per_cell], rounds)
    ours = Way("ours, column-wise", kept(lambda: decode_tools(cells), times=times))
    # A sample is enough: a cell takes the same time wherever it is, and all of them would take minutes.
    sample = range(0, count, max(1, count // SAMPLE))
    per_cell = Way("per cell", kept(lambda: [PerCell.at(cells, i) for i in sample], len(sample) / count))
    table.compare(f"decode {count:,} tools", [ours, per_cell], rounds)
    portable = write_tools(tools, ColumnForm.PORTABLE)
    half = portable.slice(count // 2).to_pylist(), cells.slice(0, count // 2)
    both = Way("cells and JSON texts, half each", repeated(lambda: mixed(*half)))
    table.compare(f"read {count:,} tools of mixed forms", [both, per_cell], rounds)
    table.compare(f"digest {count:,} tools", [Way("ours", repeated(lambda: digests(tools)))], rounds)
