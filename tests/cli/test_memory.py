"""What commands hold in memory at most, each in a process of its own."""

import json
import re
import subprocess
import sys

import pytest
import xlsxwriter

from tests.support.scripted_server import ScriptedServer, modern, rpc, text, tool

MIB = 2**20
MEASURED = """
import re, sys
from pathlib import Path
from knime_mcp.cli.app import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    print("peak", re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)
"""
TOOLS = 49_000
LARGE = 60 * MIB


def measured(folder, *words):
    """What the command printed, and the most memory that it held, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], cwd=folder, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, int(re.search(r"^peak (\d+)$", done.stderr, re.MULTILINE)[1]) * 1024


@pytest.mark.long
def test_a_list_of_very_many_tools(tmp_path):
    tools = [tool(f"tool_{number}") for number in range(TOOLS)]
    with ScriptedServer(modern(tools__list=rpc({"tools": tools, "resultType": "complete"}))) as server:
        out, peak = measured(tmp_path, "list", server.url, "--json")
    assert len(json.loads(out)["tools"]) == TOOLS
    assert peak < 500 * MIB  # 225 MiB on Linux, Python 3.11


@pytest.mark.long
def test_a_large_result_in_a_journal_and_in_csv(tmp_path):
    (tmp_path / "in.csv").write_text("q\nx\n", encoding="utf-8")
    words = ("echo", "in.csv", "--out", "out.csv", "--audit")
    with ScriptedServer(modern(tools__call=rpc(text("y" * LARGE, resultType="complete")))) as server:
        peak = min(
            measured(tmp_path, "batch", server.url, *words, name)[1] for name in ("1.jsonl", "2.jsonl")
        )
    assert (tmp_path / "out.csv").stat().st_size > LARGE
    assert peak < 450 * MIB  # four copies of the text beside what any command takes


@pytest.mark.long
def test_a_workbook_of_100_000_rows(tmp_path):
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx"), {"constant_memory": True}) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["q", "number", "note"])
        for row in range(1, 100_001):
            sheet.write_row(row, 0, [f"Order {row} of a customer", row, "as long as notes are"])
    with ScriptedServer(modern()) as server:
        peak = measured(tmp_path, "batch", server.url, "echo", "in.xlsx", "--dry-run")[1]
    assert peak < 300 * MIB
