"""What the documents tell people to type, typed: in their order, in one folder, against the demo's server."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.house.test_documented_commands import commands_in
from tests.support import commands

from .conftest import DEADLINE, ROOT

URL = "http://127.0.0.1:8931/mcp"
DOCUMENTS = ["README.md", "docs/audit.md", "docs/command-line.md"]
NEEDS_MORE = {"demo", "agent", "chat", "login"}  # a terminal of its own, a model, a person
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def demo_url():
    """The demo's server, on a port that is free."""
    process = commands.Popen(
        [sys.executable, "-m", "knime_mcp.cli.app", "demo", "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield re.search(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def typed(document: str):
    """The commands to run: those in blocks, without what needs more than this machine has."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for command in commands_in(re.sub(r"`(?:knime-mcp|mcpgraph|knime-nodes) [^`]*`", "", text)):
        words = shlex.split(command, comments=True)
        if words[0] == "knime-mcp":
            words = words[1:]
        if words[0] not in NEEDS_MORE:
            yield words


@pytest.mark.timeout(1800)  # two dozen commands in a row, each with a deadline of its own
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_do_what_the_documents_say(cli, tmp_path, demo_url, document):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = list(typed(document))
    assert len(commands) >= 4
    for words in commands:
        words = [word.replace(URL, demo_url) for word in words]
        elsewhere = ["--server", f"{URL}={demo_url}"] if words[0] == "replay" else []
        done = cli(*words, *([] if any(demo_url in word for word in words) else elsewhere))
        # The parameter table of the demo has a row that fails.
        fails = words[0] == "batch" and "--dry-run" not in words
        fails = fails and any(word.endswith("parameters.csv") for word in words[:4])
        # Nobody kept the head of the recorded example.
        expected = 4 if words[:2] == ["audit", "verify"] else fails
        assert done.code == expected, f"{shlex.join(words)}\n{done.err}"


@pytest.mark.parametrize(
    ("document", "block"),
    [(name, block) for name in DOCUMENTS for block in PYTHON.findall((ROOT / name).read_text("utf-8"))],
)
def test_python_of_the_documents(demo_url, document, block):
    program = block.replace(URL, demo_url)
    assert program != block or "MockTransport" in block  # which needs no server
    done = commands.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert ("called add" if "MockTransport" in block else "search_text") in done.stdout
