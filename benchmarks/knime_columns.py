"""Tool columns by KNIME's own Python API and by us, in a process that has KNIME's sources.

``KNIME_PYTHON_ROOT=… .venv-knime/bin/python benchmarks/knime_columns.py`` reads lines such as ``decode knime
1000`` and answers each with the seconds that the way took for so many tools.
"""

import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import pyarrow as pa  # noqa: E402
from columns import ENOUGH, SAMPLE, tools_like_real_ones  # noqa: E402
from timing import kept  # noqa: E402

from knime_mcp.types.arrow import decode_tools, encode_tools  # noqa: E402
from knime_mcp.types.tool import MCPTool  # noqa: E402
from tests.support import real_knime as rig  # noqa: E402

SPEC = {
    "type": "struct",
    "inner_types": ["int", "string", "string", "string", "string", "string", "int", "string", "string"],
}


def storage_type() -> pa.DataType:
    """The API's Arrow type of tools, with our value factory, as KNIME would register it."""
    rig.bootstrap()  # finds KNIME's sources
    import knime.api.schema as ks

    rig.register_value_factory(
        "org.knime_mcp.ToolValueFactory",
        SPEC,
        "knime_mcp.types.tool_cells",
        "ToolValueFactory",
        "knime_mcp.types.tool.MCPTool",
    )
    return ks.logical(MCPTool).to_pyarrow()


class Columns:
    """So many tools as values and as cells, of ours and of the API; the ways by the names that lines use."""

    def __init__(self, count: int, kind: pa.DataType) -> None:
        self.tools = tools_like_real_ones(count)
        self.cells = encode_tools(self.tools)
        self.column = pa.ExtensionArray.from_storage(kind, self.cells.cast(kind.storage_type))
        # A sample is enough, and all of many would take minutes.
        self.some = self.tools[:SAMPLE]
        share = len(self.some) / count
        places = range(0, count, count // len(self.some))
        times = max(1, ENOUGH // count)
        self.ways = {
            ("encode", "ours"): kept(lambda: encode_tools(self.tools), times=times),
            ("encode", "knime"): kept(lambda: rig.column_of(self.some, MCPTool), share, times),
            ("decode", "ours"): kept(lambda: decode_tools(self.cells), times=times),
            ("decode", "knime"): kept(lambda: [self.column[place].as_py() for place in places], share),
        }


def main() -> None:
    """Answers until the input ends."""
    kind = storage_type()
    columns = cache(lambda count: Columns(count, kind))
    print("ready", flush=True)
    for line in sys.stdin:
        operation, way, count = line.split()
        print(columns(int(count)).ways[operation, way](), flush=True)


if __name__ == "__main__":
    main()
