"""The torture suite: a small part of it is run, and its table says what its results say."""

import json
import re
import subprocess
import sys
from pathlib import Path

TORTURE = Path(__file__).parents[2] / "torture"


def torture(*options):
    return subprocess.run(
        [sys.executable, "-m", "knime_mcp_torture", *options],
        cwd=TORTURE,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_a_small_part_of_it_with_our_client():
    done = torture(
        "--patience", "100", "--only", "6.1", "6.1?", "2.1", "3.18", "8.2", "10.5", "11.1", "11.17"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok 17" in done.stdout.splitlines()[-1]


def test_a_client_that_takes_anything_for_a_result_fails(tmp_path):
    client = tmp_path / "naive.py"
    answer = {"connect": {"ok": True}, "tools": [], "calls": [{"text": "hi", "is_error": False}] * 2}
    client.write_text(
        f"import sys\nfor line in sys.stdin: print({json.dumps(json.dumps(answer))}, flush=True)\n"
    )
    done = torture("--client", f"{sys.executable} {client}", "--only", "6.1", "4.1", "8.1")
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines() if re.match(r"\d", line)] == [
        "informal",
        "failed",
        "failed",
    ]


def test_a_client_that_ends_or_says_nothing_is_named(tmp_path):
    for verdict, words in {"crash": "raise SystemExit", "hang": "import time; time.sleep(60)"}.items():
        client = tmp_path / f"{verdict}.py"
        client.write_text(words)
        done = torture("--client", f"{sys.executable} {client}", "--only", "6.1", "--patience", "3")
        assert f"{verdict} 1" in done.stdout, done.stderr


def test_the_table_says_what_the_results_say():
    listed = torture("--list").stdout
    numbers = re.findall(r"^(\d+\.\d+) ", listed, re.MULTILINE)
    assert len(numbers) == len(set(numbers)) >= 150
    assert len(re.findall(r"https://", listed)) >= len(numbers)
    table = (TORTURE / "README.md").read_text("utf-8")
    for file in (TORTURE / "results").glob("*.json"):
        result = json.loads(file.read_text("utf-8"))
        verdicts = [row["verdict"] for row in result["scenarios"].values()]
        assert list(result["scenarios"]) == numbers
        assert f"| {result['client']} | {verdicts.count('ok')} of {len(numbers)} |" in table
        assert result["client"] != "knime-mcp" or set(verdicts) == {"ok"}
    assert "| knime-mcp |" in table
