"""Records for tests: a run of several calls of two tools, with everything that text can hold."""

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool, to_json_text

SEARCH = MCPTool(
    name="search",
    description="Finds things, 'quoted', \"twice\";\nin two lines ü",
    parameter_schema={"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}},
    server_uri="https://host.example/mcp#digest=sha256:" + "ab" * 32,
    tool_name="search_v2",
    annotations={"readOnlyHint": True},
)
FLOW = WorkflowTool(
    name="Flow",
    description="",
    parameter_schema={"n": {"type": "integer"}},
    input_ports=(ToolPort("in", "rows", "Table"),),
    filestore_keys="k1;k2",
)


def record(number, **more):
    """A finished call; every third one failed, every fourth one is of a workflow."""
    tool = FLOW if number % 4 == 0 else SEARCH
    is_mcp = tool is SEARCH
    failed = number % 3 == 0
    values = {
        "run": "r1",
        "input_row": f"Row{number}",
        "tool": to_json_text(tool),
        "tool_name": tool.name,
        "tool_type": tool.tool_type.name.lower(),
        "server": tool.route.url if is_mcp else None,
        "digest": tool.digest if is_mcp else None,
        "arguments": canonical_json({"z": 'a "b", c;\r\n\t😀', "a": number, "f": 1e-7}),
        "status": CallStatus.TOOL_ERROR if failed else CallStatus.OK,
        "result": None if failed else ["", 'two\nlines, ü; "x"', "5", "007"][number % 4],
        "structured_result": canonical_json({"v": [number, None, 0.1]}) if number % 2 else None,
        "error": "It failed" if failed else None,
        "started_at": f"2026-01-31T12:00:{number % 60:02d}.{'000000' if number % 2 else '000120'}Z",
        "duration": [0.123457, 1e-06, 12345.678901, 0.0][number % 4],
        "attempts": 1,
        "server_version": "1.0" if is_mcp else None,
        "protocol": "2025-11-25" if is_mcp else None,
    }
    return CallRecord(**{**values, **more})


def write_run(path, count=8, run="r1", outcome="complete", **options):
    """Writes a journal and gives the records as written, and the head."""
    journal = Journal(path, run=run, **options)
    written = [journal.append(record(number, run=run)) for number in range(1, count + 1)]
    if outcome is None:
        journal._file.close()  # as if the process had been killed
    else:
        journal.close(outcome)
    return written, journal.head
