"""The tests under KNIME's own Python sources, of every release at hand, and one table of what came of them.

    python -m tests.support.real_knime_releases FOLDER [pytest's arguments]

FOLDER has a folder for each release, with ``knime-python`` and ``knime-python-llm`` at that release. The exit
code is 1 if a test failed, or KNIME would not load the extension.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
HEADS = ("KNIME", "tests", "failed", "errors", "extension", "s")


def tried(sources: Path, arguments: list[str]) -> tuple[str, ...]:
    """A line of the table: how many tests ran under a release, and what became of them."""
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
    counts = ("tests", "failures", "errors")
    numbers = ["?"] * 3 if suite is None else [suite.get(name, "?") for name in counts]
    return sources.name, *numbers, "loads" if loads else "does not load", f"{time.monotonic() - began:.0f}"


def main(folder: str, *arguments: str) -> int:
    releases = sorted(each for each in Path(folder).iterdir() if (each / "knime-python").is_dir())
    if not releases:
        print(f"{folder} has no folder with a folder knime-python", file=sys.stderr)
        return 2
    lines = [tried(each, list(arguments)) for each in releases]
    for line in (HEADS, *lines):
        print("".join(f"{cell:>14}" for cell in line))
    good = all(line[2:5] == ("0", "0", "loads") and line[1] not in ("0", "?") for line in lines)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
