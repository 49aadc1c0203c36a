"""The recorded cases: documents in both dialects, and what npm's mcpgraph answered to calls of tools."""

import json
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def recorded(wanted):
    """The cases that are wanted: case, dialect, and what was recorded for it."""
    for file in sorted((_HERE / "cases").glob("*.json")):
        case = json.loads(file.read_text("utf-8"))
        if wanted(case):
            for dialect, said in case["dialects"].items():
                yield case, dialect, said


def filled(text, folder, **more):
    """The text of a case with what differs from machine to machine."""
    values = {"PYTHON": sys.executable, "FIXTURE_SERVER": _HERE / "case_server.py", "WORKDIR": folder, **more}
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", str(value))
    return text


async def compare(client, asked):
    """Makes a call of a case, and compares what comes back."""
    result = await client.call_tool(asked["tool"], asked["arguments"])
    wanted = asked["expect"]
    text = result.content[0].text
    if wanted["kind"] == "result":
        assert not result.is_error, text
        assert result.structured_content == wanted["structuredContent"]
        assert json.loads(text) == wanted["structuredContent"]
    else:
        assert result.is_error
        for part in wanted["must_contain"]:
            assert part in text
