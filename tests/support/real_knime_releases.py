"""The tests of nodes under KNIME's own Python sources, of every release at hand, and one table of results.

    python -m tests.support.real_knime_releases FOLDER [pytest's arguments]

FOLDER has a folder for each release, with ``knime-python`` and ``knime-python-llm`` at that release. Without
files among the arguments, those are run that use a host of nodes or import KNIME's API: the others know
nothing of KNIME. The exit code is 1 if a test failed, or KNIME would not load the extension.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
HEADS = ("KNIME", "passed", "failed", "skipped", "extension", "seconds")
TESTS = ("tests", "packages/mcp-graph/tests", "packages/node-knowledge/tests")
OF_NODES = re.compile(r"\bhost\b|\bknime\.(api|extension|types)\b|real_knime")


def files_of_nodes() -> list[str]:
    """The files of tests whose results may depend on KNIME."""
    files = [file for folder in TESTS for file in sorted((ROOT / folder).rglob("test_*.py"))]
    return [str(file.relative_to(ROOT)) for file in files if OF_NODES.search(file.read_text("utf-8"))]


def tried(sources: Path, arguments: list[str]) -> tuple[str, ...]:
    """A line of the table: what became of the tests under a release."""
    own = {"KNIME_PYTHON_ROOT": sources / "knime-python", "KNIME_LLM_ROOT": sources / "knime-python-llm"}
    environment = os.environ | {name: str(folder) for name, folder in own.items()}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        pytest = ["-m", "pytest", "-m", "not peer and not long", f"--junitxml={results}", *arguments]
        subprocess.run([sys.executable, *pytest], cwd=ROOT, env=environment, check=False)
        # Without the file pytest did not come to its end.
        suite = ElementTree.parse(results).getroot().find("testsuite") if results.exists() else None
    check = [sys.executable, "tests/support/real_knime_host.py", "check", "knime.yml"]
    loads = subprocess.run(check, cwd=ROOT, env=environment, check=False).returncode == 0
    numbers = ["?"] * 3
    if suite is not None:
        ran, *bad, skipped = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
        numbers = [str(number) for number in (ran - sum(bad) - skipped, sum(bad), skipped)]
    seconds = f"{time.monotonic() - began:.0f}"
    return sources.name, *numbers, "loads" if loads else "does not load", seconds


def main(folder: str, *arguments: str) -> int:
    releases = sorted(each for each in Path(folder).iterdir() if (each / "knime-python").is_dir())
    if not releases:
        print(f"{folder} has no folder with a folder knime-python", file=sys.stderr)
        return 2
    named = [word for word in arguments if not word.startswith("-") and (ROOT / word).exists()]
    words = [*arguments, *([] if named else files_of_nodes())]
    lines = [tried(each, words) for each in releases]
    for line in (HEADS, *lines):
        print("".join(f"{cell:>14}" for cell in line))
    good = all(line[2] == "0" and line[4] == "loads" and line[1] not in ("0", "?") for line in lines)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
